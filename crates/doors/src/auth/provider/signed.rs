//! A token in the form of RFC 7515, 3.1: `HEADER.PAYLOAD.SIGNATURE`, each part in base64url without padding.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

/// Longest signature in bytes: that of RSA with 4,096 bits.
const SIGNATURE_BYTES_MAX: usize = 512;

/// What the header says, as far as it is looked at.
#[derive(Clone, Debug, Deserialize)]
pub struct TokenHeader {
    /// The algorithm.
    pub alg: Box<str>,
    /// The key.
    pub kid: Option<Box<str>>,
    /// What the token is.
    pub typ: Option<Box<str>>,
    /// What must be understood.
    pub crit: Option<Value>,
}

/// A token whose parts are known, and whose signature is not checked.
pub struct Signed<'t> {
    header: TokenHeader,
    payload: &'t str,
    message: &'t [u8],
    signature: Vec<u8>,
}

impl<'t> Signed<'t> {
    /// Reads the parts; `None` if they are none.
    pub fn split(token: &'t str) -> Option<Signed<'t>> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        if payload.contains('.') || signature.len() > SIGNATURE_BYTES_MAX * 4 / 3 + 2 {
            return None;
        }
        let header = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        Some(Signed { header, payload, message: message.as_bytes(), signature })
    }

    /// The header.
    pub fn header(&self) -> &TokenHeader {
        &self.header
    }

    /// The bytes of the payload.
    pub fn payload(&self) -> Option<Vec<u8>> {
        URL_SAFE_NO_PAD.decode(self.payload).ok()
    }

    /// What is signed.
    pub fn message(&self) -> &[u8] {
        self.message
    }

    /// The signature.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }
}
