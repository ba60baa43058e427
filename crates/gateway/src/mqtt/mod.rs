//! MQTT clients: the shell of sockets, TLS, WebSocket frames and bounds around one [`tidegate_broker::Broker`] per worker.

pub mod settings;

pub use settings::{
    AdmissionLimits, Credentials, MakeAuthenticator, MqttAuthenticator, MqttListener, MqttSettings, Origins, Verdict,
    VerdictReply, WebSocketSettings,
};
