//! A client id, stored in place: ids of up to 22 bytes, which nearly all are, cost no allocation of their own.

use std::fmt;
use std::ops::Deref;

const SHORT_BYTES_MAX: usize = 22;

/// Text of a client id.
#[derive(Clone)]
pub(crate) enum ClientId {
    Short { length: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Box<str>),
}

const _: () = assert!(size_of::<ClientId>() == 24);

impl Default for ClientId {
    fn default() -> ClientId {
        ClientId::Short { length: 0, bytes: [0; SHORT_BYTES_MAX] }
    }
}

impl From<&str> for ClientId {
    fn from(text: &str) -> ClientId {
        let mut bytes = [0; SHORT_BYTES_MAX];
        match bytes.get_mut(..text.len()) {
            Some(short) => {
                short.copy_from_slice(text.as_bytes());
                ClientId::Short { length: text.len() as u8, bytes }
            }
            None => ClientId::Long(text.into()),
        }
    }
}

impl Deref for ClientId {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            ClientId::Short { length, bytes } => {
                std::str::from_utf8(&bytes[..*length as usize]).expect("made from a str")
            }
            ClientId::Long(text) => text,
        }
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
