//! Stands here until `wire::mqtt` is there.

/// A reason code of MQTT 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonCode(pub u8);
