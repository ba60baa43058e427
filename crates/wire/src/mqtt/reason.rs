//! Reason codes of MQTT 5. The few codes of MQTT 3.1.1 are mapped to and from them in the codec, so that nothing else
//! knows both sets.

/// An MQTT 5 reason code. Codes from 0x80 on mean failure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReasonCode(pub u8);

macro_rules! reasons {
    ($($constant:ident = $code:literal, $name:literal;)*) => {
        impl ReasonCode {
            $(
                #[doc = concat!("`", stringify!($code), "`: ", $name, ".")]
                pub const $constant: ReasonCode = ReasonCode($code);
            )*

            /// The stable name for logs and metrics; `unknown` for a byte that is no reason code.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($code => $name,)*
                    _ => "unknown",
                }
            }
        }
    };
}

reasons! {
    SUCCESS = 0x00, "success";
    GRANTED_QOS_1 = 0x01, "granted_qos_1";
    GRANTED_QOS_2 = 0x02, "granted_qos_2";
    DISCONNECT_WITH_WILL = 0x04, "disconnect_with_will";
    NO_MATCHING_SUBSCRIBERS = 0x10, "no_matching_subscribers";
    NO_SUBSCRIPTION_EXISTED = 0x11, "no_subscription_existed";
    CONTINUE_AUTHENTICATION = 0x18, "continue_authentication";
    REAUTHENTICATE = 0x19, "reauthenticate";
    UNSPECIFIED_ERROR = 0x80, "unspecified_error";
    MALFORMED_PACKET = 0x81, "malformed_packet";
    PROTOCOL_ERROR = 0x82, "protocol_error";
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83, "implementation_specific_error";
    UNSUPPORTED_PROTOCOL_VERSION = 0x84, "unsupported_protocol_version";
    CLIENT_IDENTIFIER_NOT_VALID = 0x85, "client_identifier_not_valid";
    BAD_USER_NAME_OR_PASSWORD = 0x86, "bad_user_name_or_password";
    NOT_AUTHORIZED = 0x87, "not_authorized";
    SERVER_UNAVAILABLE = 0x88, "server_unavailable";
    SERVER_BUSY = 0x89, "server_busy";
    BANNED = 0x8a, "banned";
    SERVER_SHUTTING_DOWN = 0x8b, "server_shutting_down";
    BAD_AUTHENTICATION_METHOD = 0x8c, "bad_authentication_method";
    KEEP_ALIVE_TIMEOUT = 0x8d, "keep_alive_timeout";
    SESSION_TAKEN_OVER = 0x8e, "session_taken_over";
    TOPIC_FILTER_INVALID = 0x8f, "topic_filter_invalid";
    TOPIC_NAME_INVALID = 0x90, "topic_name_invalid";
    PACKET_IDENTIFIER_IN_USE = 0x91, "packet_identifier_in_use";
    PACKET_IDENTIFIER_NOT_FOUND = 0x92, "packet_identifier_not_found";
    RECEIVE_MAXIMUM_EXCEEDED = 0x93, "receive_maximum_exceeded";
    TOPIC_ALIAS_INVALID = 0x94, "topic_alias_invalid";
    PACKET_TOO_LARGE = 0x95, "packet_too_large";
    MESSAGE_RATE_TOO_HIGH = 0x96, "message_rate_too_high";
    QUOTA_EXCEEDED = 0x97, "quota_exceeded";
    ADMINISTRATIVE_ACTION = 0x98, "administrative_action";
    PAYLOAD_FORMAT_INVALID = 0x99, "payload_format_invalid";
    RETAIN_NOT_SUPPORTED = 0x9a, "retain_not_supported";
    QOS_NOT_SUPPORTED = 0x9b, "qos_not_supported";
    USE_ANOTHER_SERVER = 0x9c, "use_another_server";
    SERVER_MOVED = 0x9d, "server_moved";
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9e, "shared_subscriptions_not_supported";
    CONNECTION_RATE_EXCEEDED = 0x9f, "connection_rate_exceeded";
    MAXIMUM_CONNECT_TIME = 0xa0, "maximum_connect_time";
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xa1, "subscription_identifiers_not_supported";
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xa2, "wildcard_subscriptions_not_supported";
}

impl ReasonCode {
    /// DISCONNECT calls 0x00 so.
    pub const NORMAL_DISCONNECTION: ReasonCode = ReasonCode::SUCCESS;
    /// SUBACK calls 0x00 so.
    pub const GRANTED_QOS_0: ReasonCode = ReasonCode::SUCCESS;

    /// Whether it says that something failed.
    #[inline]
    pub const fn is_error(self) -> bool {
        self.0 >= 0x80
    }

    /// The return code of an MQTT 3.1.1 CONNACK that comes nearest, as MQTT 3.1.1 table 3.1 has them.
    pub const fn connect_return_code(self) -> u8 {
        match self {
            ReasonCode(0..0x80) => 0,
            ReasonCode::UNSUPPORTED_PROTOCOL_VERSION => 1,
            ReasonCode::CLIENT_IDENTIFIER_NOT_VALID => 2,
            ReasonCode::BAD_USER_NAME_OR_PASSWORD => 4,
            ReasonCode::NOT_AUTHORIZED | ReasonCode::BANNED | ReasonCode::BAD_AUTHENTICATION_METHOD => 5,
            _ => 3,
        }
    }

    /// The reason that an MQTT 3.1.1 return code stands for; `None` for a code that text reserves.
    pub const fn of_connect_return_code(code: u8) -> Option<ReasonCode> {
        Some(match code {
            0 => ReasonCode::SUCCESS,
            1 => ReasonCode::UNSUPPORTED_PROTOCOL_VERSION,
            2 => ReasonCode::CLIENT_IDENTIFIER_NOT_VALID,
            3 => ReasonCode::SERVER_UNAVAILABLE,
            4 => ReasonCode::BAD_USER_NAME_OR_PASSWORD,
            5 => ReasonCode::NOT_AUTHORIZED,
            _ => return None,
        })
    }
}

impl std::fmt::Debug for ReasonCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:#04x} {}", self.0, self.name())
    }
}

impl std::fmt::Display for ReasonCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}
