//! Errors of decoding. A [`FrameError`] ends a connection, since the start of the next frame is unknown; a
//! [`DecodeError`] concerns one frame, and the connection can continue.

/// The stream cannot be cut into frames any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length prefix announces more than the bound.
    #[error("frame of {bytes} bytes, but at most {bytes_max} are read here")]
    TooLarge {
        /// Announced length.
        bytes: u64,
        /// The bound that was given to [`crate::split`].
        bytes_max: usize,
    },
    /// The length prefix is longer than five bytes.
    #[error("the length before a frame is a varint of at most five bytes")]
    LengthMalformed,
}

impl FrameError {
    /// The stable name that the binary port shows.
    pub const fn code(self) -> &'static str {
        match self {
            FrameError::TooLarge { .. } => "frame_too_large",
            FrameError::LengthMalformed => "frame_malformed",
        }
    }
}

/// What is wrong inside a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A field ends beyond its message.
    #[error("a field ends beyond its message")]
    Truncated,
    /// A varint of more than ten bytes or 64 bits.
    #[error("a varint has more than 64 bits")]
    VarintTooLong,
    /// A number of 32 bits came with more. Decoders of protobuf cut it to its lower bits, which is another number.
    #[error("a number is above 4294967295, the largest that its field holds")]
    NumberTooLarge,
    /// Field number zero or above 2^29 - 1, or a group, which this schema does not use.
    #[error("a field has an invalid tag")]
    TagInvalid,
    /// A known field came as another wire type than the schema says.
    #[error("a field has another wire type than its schema says")]
    WireTypeMismatch,
    /// A string is not UTF-8.
    #[error("a text is not valid UTF-8")]
    NotUtf8,
    /// The frame has no body that this version knows.
    #[error("the frame has no body, or one that this version does not know")]
    BodyMissing,
    /// The frame has two bodies.
    #[error("the frame has more than one body")]
    BodyRepeated,
    /// More than [`crate::limits::TRANSFERS_MAX`] items.
    #[error("a request carries at most 8,190 items")]
    TooManyItems,
    /// No item, or more than [`crate::limits::PACER_ITEMS_MAX`].
    #[error("a request to the pacer carries 1 to 256 items")]
    PacketSizeInvalid,
    /// The frame is longer than a span can point into.
    #[error("the frame is longer than any frame may be")]
    FrameTooLong,
}

impl DecodeError {
    /// The stable name that the binary port shows.
    pub const fn code(self) -> &'static str {
        match self {
            DecodeError::TooManyItems | DecodeError::PacketSizeInvalid => "batch_size_invalid",
            DecodeError::FrameTooLong => "frame_too_large",
            _ => "frame_malformed",
        }
    }
}

/// A frame that could not be decoded, with what is known for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct BadFrame {
    /// The frame's correlation if it was read before the fault, otherwise zero.
    pub correlation: u64,
    /// What is wrong.
    #[source]
    pub error: DecodeError,
}
