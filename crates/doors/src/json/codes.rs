//! The codes of problems that a door answers with by itself. Each is defined once; a room lists its own.

use axum::http::StatusCode;

use super::problem::ProblemCode;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:ident $code:literal;)*) => {
        $($(#[$doc])* pub const $name: ProblemCode = ProblemCode::new(StatusCode::$status, $code);)*

        /// All of them.
        pub const ALL: &[ProblemCode] = &[$($name),*];
    };
}

codes! {
    /// The connection broke within the body.
    BODY_BROKEN = BAD_REQUEST "body_broken";
    /// The body is not JSON.
    JSON_INVALID = BAD_REQUEST "json_invalid";
    /// `Host` is missing, or stands more than once.
    HOST_INVALID = BAD_REQUEST "host_invalid";
    /// A name in the path is not percent-encoded UTF-8.
    PATH_INVALID = BAD_REQUEST "path_invalid";
    /// The client of a WebSocket must offer a subprotocol that is served.
    SUBPROTOCOL_MISSING = BAD_REQUEST "subprotocol_missing";
    /// `Sec-WebSocket-Key` is not what RFC 6455 asks for.
    WEBSOCKET_KEY_INVALID = BAD_REQUEST "websocket_key_invalid";
    /// User or password is wrong.
    LOGIN_WRONG = UNAUTHORIZED "login_wrong";
    /// The token was good once.
    TOKEN_EXPIRED = UNAUTHORIZED "token_expired";
    /// The token is not one of ours.
    TOKEN_INVALID = UNAUTHORIZED "token_invalid";
    /// No token.
    TOKEN_MISSING = UNAUTHORIZED "token_missing";
    /// The token does not allow this.
    FORBIDDEN = FORBIDDEN "forbidden";
    /// Pages of this origin may not connect.
    ORIGIN_FORBIDDEN = FORBIDDEN "origin_forbidden";
    /// The path is not served.
    PATH_UNKNOWN = NOT_FOUND "path_unknown";
    /// The path is served, the method is not.
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED "method_not_allowed";
    /// The body did not arrive in time.
    BODY_TIMEOUT = REQUEST_TIMEOUT "body_timeout";
    /// The body is longer than a body may be.
    BODY_TOO_LARGE = PAYLOAD_TOO_LARGE "body_too_large";
    /// The body is not JSON by its content type.
    CONTENT_TYPE_UNSUPPORTED = UNSUPPORTED_MEDIA_TYPE "content_type_unsupported";
    /// The body is compressed or otherwise coded.
    CONTENT_ENCODING_UNSUPPORTED = UNSUPPORTED_MEDIA_TYPE "content_encoding_unsupported";
    /// A field is missing, unknown, or not what it must be.
    FIELD_INVALID = UNPROCESSABLE_ENTITY "field_invalid";
    /// A query parameter is unknown or not what it must be.
    QUERY_INVALID = UNPROCESSABLE_ENTITY "query_invalid";
    /// A rate is out of its bounds.
    RATE_INVALID = UNPROCESSABLE_ENTITY "rate_invalid";
    /// The caller has used up what it may.
    TOO_MANY_REQUESTS = TOO_MANY_REQUESTS "too_many_requests";
    /// Only WebSockets are served here.
    UPGRADE_REQUIRED = UPGRADE_REQUIRED "upgrade_required";
    /// An answer does not fit its request: a bug of the server.
    UNEXPECTED_REPLY = INTERNAL_SERVER_ERROR "unexpected_reply";
    /// A bounded queue is full.
    BUSY = SERVICE_UNAVAILABLE "busy";
    /// What decides on the user who logs in does not answer.
    LOGIN_UNAVAILABLE = SERVICE_UNAVAILABLE "login_unavailable";
    /// The disk is full.
    DISK_FULL = SERVICE_UNAVAILABLE "disk_full";
    /// What a shard holds in memory is not what its journal says.
    STATE_DIFFERS = SERVICE_UNAVAILABLE "state_differs";
    /// The server replays its journals.
    RECOVERING = SERVICE_UNAVAILABLE "recovering";
    /// A journal failed.
    SHARD_FAILED = SERVICE_UNAVAILABLE "shard_failed";
    /// The server takes no writes, or no new clients.
    NOT_READY = SERVICE_UNAVAILABLE "not_ready";
    /// The server stops.
    STOPPING = SERVICE_UNAVAILABLE "stopping";
    /// No answer came in time; the outcome is unknown.
    TIMED_OUT = SERVICE_UNAVAILABLE "timed_out";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_stands_once() {
        for (place, code) in ALL.iter().enumerate() {
            assert!(ALL[..place].iter().all(|before| before.name() != code.name()), "{code:?}");
        }
    }
}
