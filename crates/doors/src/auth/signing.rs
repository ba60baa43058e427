//! Keys with which programs sign their requests instead of showing a token.
//!
//! Why they stand apart from tokens: of a token its hash is enough, and nothing else is kept. Whoever checks a
//! signature must have the secret itself, so a service has one only where the operator has written it.

use std::fmt;
use std::sync::Arc;

use super::identity::Identity;

/// A secret that signs. Its `Debug` does not show it. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Arc<str>);

impl SigningSecret {
    /// This text.
    pub fn new(text: &str) -> SigningSecret {
        SigningSecret(text.into())
    }

    /// The text, for whoever computes a signature.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(..)")
    }
}

/// A key as the configuration has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKeySettings {
    /// What requests name it by.
    pub access_key: Box<str>,
    /// What signs.
    pub secret: SigningSecret,
    /// The name of the service whose rights it has; of the configuration or of the roster.
    pub service: Box<str>,
}

/// A key whose service may come in.
#[derive(Clone, Debug)]
pub struct SigningKey {
    /// What signs.
    pub secret: SigningSecret,
    /// Whose request it is if the signature is right.
    pub identity: Identity,
}
