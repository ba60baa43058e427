//! Who is kept: services and users, within bounds.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits::{GRANTS_BYTES_MAX, GRANTS_MAX, PASSWORD_HASH_BYTES_MAX};

/// One of a kind that the roster keeps.
pub(crate) trait Member: Clone + PartialEq {
    /// Whether it is no larger than one may be.
    fn is_within_bounds(&self) -> bool;
}

/// The SHA-256 of a token; in a record it is 64 hex digits, as the configuration writes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash(pub [u8; 32]);

/// A service as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The hash of its token.
    pub token_sha256: TokenHash,
    /// What it may do, as the configuration writes it.
    pub grants: Vec<Box<str>>,
}

/// A user as it is kept.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The hash of the password, as the configuration writes it.
    pub password_hash: Box<str>,
    /// What the user may do.
    pub rights: UserRights,
}

/// What a user may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserRights {
    /// A viewer with these wallets.
    Viewer(Vec<Box<str>>),
    /// What these grants name, as the configuration writes them.
    Service(Vec<Box<str>>),
}

impl UserRights {
    /// Its wallets, or its grants.
    pub fn texts(&self) -> &[Box<str>] {
        let (UserRights::Viewer(texts) | UserRights::Service(texts)) = self;
        texts
    }
}

impl Member for Service {
    fn is_within_bounds(&self) -> bool {
        are_within_bounds(&self.grants)
    }
}

impl Member for User {
    fn is_within_bounds(&self) -> bool {
        (1..=PASSWORD_HASH_BYTES_MAX).contains(&self.password_hash.len()) && are_within_bounds(self.rights.texts())
    }
}

fn are_within_bounds(texts: &[Box<str>]) -> bool {
    texts.len() <= GRANTS_MAX && texts.iter().map(|text| text.len()).sum::<usize>() <= GRANTS_BYTES_MAX
}

/// Without the hash, which belongs in no log.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("rights", &self.rights).finish_non_exhaustive()
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(..)")
    }
}

impl Serialize for TokenHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TokenHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TokenHash, D::Error> {
        let digits = <Box<str>>::deserialize(deserializer)?;
        let wrong = || de::Error::custom("expected 64 hex digits");
        let mut bytes = [0; 32];
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong());
        }
        for (byte, digits) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(TokenHash(bytes))
    }
}
