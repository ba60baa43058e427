//! rumqttc, a widely used Rust client, in both versions: every quality of service, retained messages, a session that is
//! away.

#[path = "../support/mod.rs"]
mod support;

use std::sync::mpsc::{Receiver, channel};

use support::PATIENCE;
use support::server::Server;
use support::settings::Settings;

/// What a client's connection tells, as far as these tests care.
#[derive(Debug, PartialEq, Eq)]
enum Received {
    Connected { session_present: bool },
    Subscribed,
    Acknowledged,
    Message { qos: u8, retain: bool, text: String },
}

/// A client of one version, with a thread that drives its connection. rumqttc has the same names for both versions, in
/// two modules.
macro_rules! client {
    ($version:ident, $($module:ident)::+, $qos:path, |$options:ident, $durable:ident| $configure:block) => {
        mod $version {
            use super::*;
            use $($module)::+::{Client, Event, Incoming, MqttOptions};
            use $qos as QoS;

            pub struct TestClient {
                client: Client,
                received: Receiver<Received>,
            }

            impl TestClient {
                pub fn join(server: &Server, name: &str, $durable: bool) -> (TestClient, bool) {
                    let mut $options = MqttOptions::new(name, "127.0.0.1", server.mqtt().port());
                    $configure
                    let (client, mut connection) = Client::new($options, 100);
                    let (tell, received) = channel();
                    std::thread::spawn(move || {
                        for event in connection.iter() {
                            let received = match event {
                                Ok(Event::Incoming(Incoming::ConnAck(connack))) => {
                                    Received::Connected { session_present: connack.session_present }
                                }
                                Ok(Event::Incoming(Incoming::SubAck(_))) => Received::Subscribed,
                                Ok(Event::Incoming(Incoming::PubAck(_) | Incoming::PubComp(_))) => {
                                    Received::Acknowledged
                                }
                                Ok(Event::Incoming(Incoming::Publish(publish))) => Received::Message {
                                    qos: publish.qos as u8,
                                    retain: publish.retain,
                                    text: String::from_utf8_lossy(&publish.payload).into_owned(),
                                },
                                Ok(_) => continue,
                                Err(_) => return,
                            };
                            if tell.send(received).is_err() {
                                return;
                            }
                        }
                    });
                    let joined = TestClient { client, received };
                    match joined.next() {
                        Received::Connected { session_present } => (joined, session_present),
                        other => panic!("{name}: {other:?} before CONNACK"),
                    }
                }

                fn next(&self) -> Received {
                    self.received.recv_timeout(PATIENCE).expect("the connection tells something")
                }

                fn subscribe(&self, filter: &str) {
                    self.client.subscribe(filter, QoS::ExactlyOnce).expect("the client lives");
                    assert_eq!(self.next(), Received::Subscribed);
                }

                fn publish(&self, topic: &str, qos: QoS, retain: bool, text: &str) {
                    let sure = qos != QoS::AtMostOnce;
                    self.client.publish(topic, qos, retain, text.as_bytes().to_vec()).expect("the client lives");
                    if sure {
                        assert_eq!(self.next(), Received::Acknowledged);
                    }
                }
            }

            fn message(qos: u8, retain: bool, text: &str) -> Received {
                Received::Message { qos, retain, text: text.into() }
            }

            #[test]
            fn every_quality_of_service() {
                let folder = support::folder();
                let server = Server::start(&Settings { mqtt: true, ..Settings::new(folder.path()) });
                let (listener, _) = TestClient::join(&server, "listener", false);
                let (speaker, _) = TestClient::join(&server, "speaker", false);
                listener.subscribe("home/#");
                for (number, qos) in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce].into_iter().enumerate() {
                    speaker.publish("home/hall", qos, false, "good evening");
                    assert_eq!(listener.next(), message(number as u8, false, "good evening"));
                }
                assert!(server.terminate().status.success());
            }

            #[test]
            fn a_session_sleeps_through_a_kill_and_a_retained_message_stays() {
                let folder = support::folder();
                let settings = Settings { mqtt: true, workers: 2, ..Settings::new(folder.path()) };
                let server = Server::start(&settings);
                let (sleeper, present) = TestClient::join(&server, "sleeper", true);
                assert!(!present);
                sleeper.subscribe("home/#");
                sleeper.client.disconnect().expect("the client lives");
                let (speaker, _) = TestClient::join(&server, "speaker", false);
                speaker.publish("home/hall", QoS::AtLeastOnce, false, "while you slept");
                speaker.publish("home/door", QoS::ExactlyOnce, true, "locked");
                server.kill();

                let server = Server::start(&settings);
                let (sleeper, present) = TestClient::join(&server, "sleeper", true);
                assert!(present, "the session survives");
                let mut received = [sleeper.next(), sleeper.next()];
                received.sort_by_key(|received| format!("{received:?}"));
                assert_eq!(received, [message(1, false, "while you slept"), message(2, false, "locked")]);
                let (late, _) = TestClient::join(&server, "late", false);
                late.subscribe("home/door");
                assert_eq!(late.next(), message(2, true, "locked"));
                assert!(server.terminate().status.success());
            }
        }
    };
}

client!(v3, rumqttc, rumqttc::QoS, |options, durable| {
    options.set_clean_session(!durable);
});
client!(v5, rumqttc::v5, rumqttc::v5::mqttbytes::QoS, |options, durable| {
    options.set_clean_start(!durable);
    options.set_session_expiry_interval(durable.then_some(3_600));
});
