//! Why a WebSocket was closed.

/// A close code (RFC 6455 7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// Done.
    pub const NORMAL: CloseCode = CloseCode(1000);
    /// The server goes, or the page was left.
    pub const GOING_AWAY: CloseCode = CloseCode(1001);
    /// A frame broke RFC 6455.
    pub const PROTOCOL_ERROR: CloseCode = CloseCode(1002);
    /// A kind of data that is not taken: text.
    pub const UNSUPPORTED_DATA: CloseCode = CloseCode(1003);
    /// Never sent: the peer gave no code.
    pub const NONE_GIVEN: CloseCode = CloseCode(1005);
    /// A text that is not UTF-8.
    pub const INVALID_PAYLOAD: CloseCode = CloseCode(1007);
    /// Something is not allowed.
    pub const POLICY_VIOLATION: CloseCode = CloseCode(1008);
    /// More bytes than are taken.
    pub const TOO_BIG: CloseCode = CloseCode(1009);
    /// The server failed.
    pub const INTERNAL_ERROR: CloseCode = CloseCode(1011);
    /// The server restarts.
    pub const SERVICE_RESTART: CloseCode = CloseCode(1012);
    /// Too busy now.
    pub const TRY_AGAIN_LATER: CloseCode = CloseCode(1013);

    /// Whether a close frame may carry it: those of RFC 6455 and its registry, and 3000..4999 for libraries and
    /// applications.
    pub const fn may_be_sent(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}
