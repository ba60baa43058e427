//! The public keys of a provider, as a JWKS (RFC 7517) has them.
//!
//! A key is for one algorithm, which follows from its type: so a token that names another algorithm finds no key, and a
//! public key is never taken for a secret. Keys for other uses, of other types or sizes are left out, because providers
//! list them beside those that sign tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::refused::Refused;
use super::settings::TokenAlgorithm;
use super::signed::{Signed, TokenHeader};

/// Longest JWKS that is read, in bytes.
pub const JWKS_BYTES_MAX: usize = 256 << 10;
/// Keys of a JWKS, those that are left out included.
const KEYS_MAX: usize = 64;
/// Bytes of the modulus of an RSA key. A longer one would make each check cost more.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=512;
/// Bytes of its exponent, which is 65537 in practice. A long one would make each check cost more.
const EXPONENT_BYTES_MAX: usize = 4;
/// Bytes of a coordinate of P-256, and of a key of Ed25519.
const COORDINATE_BYTES: usize = 32;

/// What is wrong with a JWKS.
#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    /// It is too long.
    #[error("it is longer than {JWKS_BYTES_MAX} bytes")]
    TooLong,
    /// It has too many keys.
    #[error("it has {0} keys, more than {KEYS_MAX}")]
    TooMany(usize),
    /// It is none.
    #[error("it is no JWKS, {{\"keys\": [ … ]}}: {0}")]
    Malformed(serde_json::Error),
    /// None of its keys can be used.
    #[error("none of its {0} keys is for signatures with an algorithm of identity_provider.algorithms")]
    NoneUsable(usize),
}

/// Which key it is, whatever its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyMark([u8; 32]);

/// The usable keys of a provider.
#[derive(Debug, Default)]
pub struct Jwks {
    keys: Vec<Key>,
}

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    id: Option<Box<str>>,
    public: PublicKey,
    mark: KeyMark,
}

#[derive(Debug)]
enum PublicKey {
    Rsa { modulus: Box<[u8]>, exponent: Box<[u8]> },
    P256([u8; 1 + 2 * COORDINATE_BYTES]),
    Ed25519([u8; COORDINATE_BYTES]),
}

#[derive(Deserialize)]
struct WrittenSet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct WrittenKey {
    kty: Box<str>,
    kid: Option<Box<str>>,
    alg: Option<Box<str>>,
    #[serde(rename = "use")]
    purpose: Option<Box<str>>,
    key_ops: Option<Vec<Box<str>>>,
    crv: Option<Box<str>>,
    n: Option<Box<str>>,
    e: Option<Box<str>>,
    x: Option<Box<str>>,
    y: Option<Box<str>>,
}

impl Jwks {
    /// The keys of a JWKS that sign with one of `algorithms`.
    pub fn parse(text: &[u8], algorithms: &[TokenAlgorithm]) -> Result<Jwks, JwksError> {
        if text.len() > JWKS_BYTES_MAX {
            return Err(JwksError::TooLong);
        }
        let set: WrittenSet = serde_json::from_slice(text).map_err(JwksError::Malformed)?;
        let count = set.keys.len();
        if count > KEYS_MAX {
            return Err(JwksError::TooMany(count));
        }
        let keys = set.keys.into_iter().filter_map(|key| Key::of(serde_json::from_value(key).ok()?));
        let keys: Vec<Key> = keys.filter(|key| algorithms.contains(&key.algorithm())).collect();
        if keys.is_empty() { Err(JwksError::NoneUsable(count)) } else { Ok(Jwks { keys }) }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn has(&self, mark: &KeyMark) -> bool {
        self.keys.iter().any(|key| key.mark == *mark)
    }

    pub(super) fn marks(&self) -> impl Iterator<Item = &KeyMark> {
        self.keys.iter().map(|key| &key.mark)
    }

    /// The key that a token with this header must be signed with. One that names none is signed with the only key of
    /// its algorithm.
    pub(super) fn find(&self, header: &TokenHeader) -> Result<&Key, Refused> {
        let algorithm = TokenAlgorithm::of_name(&header.alg).ok_or(Refused::Algorithm)?;
        let mut keys = self.keys.iter().filter(|key| key.algorithm() == algorithm);
        match &header.kid {
            _ if self.keys.is_empty() => Err(Refused::NoKeys),
            Some(id) => keys.find(|key| key.id.as_ref() == Some(id)).ok_or(Refused::KeyUnknown),
            None => keys.next().filter(|_| keys.next().is_none()).ok_or(Refused::KeyUnnamed),
        }
    }
}

impl Key {
    fn of(written: WrittenKey) -> Option<Key> {
        let is_for_signatures = written.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
            && written.key_ops.as_ref().is_none_or(|all| all.iter().any(|operation| **operation == *"verify"));
        let public = PublicKey::of(&written).filter(|_| is_for_signatures)?;
        let is_of_type = |name: &str| TokenAlgorithm::of_name(name) == Some(public.algorithm());
        if !written.alg.as_deref().is_none_or(is_of_type) {
            return None;
        }
        let mark = public.mark();
        Some(Key { id: written.kid, public, mark })
    }

    fn algorithm(&self) -> TokenAlgorithm {
        self.public.algorithm()
    }

    /// Which key it is.
    pub fn mark(&self) -> &KeyMark {
        &self.mark
    }

    /// Whether the signature of `token` is this key's.
    pub fn has_signed(&self, token: &Signed<'_>) -> bool {
        let (message, signature) = (token.message(), token.signature());
        let verified = match &self.public {
            PublicKey::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
            PublicKey::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            PublicKey::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }
}

impl PublicKey {
    fn of(written: &WrittenKey) -> Option<PublicKey> {
        match (&*written.kty, written.crv.as_deref()) {
            ("RSA", _) => {
                let (modulus, exponent) = (number(&written.n)?, number(&written.e)?);
                let is_usable = MODULUS_BYTES.contains(&modulus.len()) && exponent.len() <= EXPONENT_BYTES_MAX;
                is_usable.then_some(PublicKey::Rsa { modulus, exponent })
            }
            ("EC", Some("P-256")) => {
                // SEC 1, 2.3.3: an uncompressed point.
                let mut point = [4; 1 + 2 * COORDINATE_BYTES];
                point[1..=COORDINATE_BYTES].copy_from_slice(&coordinate(&written.x)?);
                point[1 + COORDINATE_BYTES..].copy_from_slice(&coordinate(&written.y)?);
                Some(PublicKey::P256(point))
            }
            ("OKP", Some("Ed25519")) => coordinate(&written.x).map(PublicKey::Ed25519),
            _ => None,
        }
    }

    fn algorithm(&self) -> TokenAlgorithm {
        match self {
            PublicKey::Rsa { .. } => TokenAlgorithm::Rs256,
            PublicKey::P256(_) => TokenAlgorithm::Es256,
            PublicKey::Ed25519(_) => TokenAlgorithm::EdDsa,
        }
    }

    fn mark(&self) -> KeyMark {
        let hash = Sha256::new().chain_update([self.algorithm() as u8]);
        let hash = match self {
            // The length separates them: no two keys have the same bytes.
            PublicKey::Rsa { modulus, exponent } => {
                hash.chain_update((modulus.len() as u64).to_le_bytes()).chain_update(modulus).chain_update(exponent)
            }
            PublicKey::P256(point) => hash.chain_update(point),
            PublicKey::Ed25519(key) => hash.chain_update(key),
        };
        KeyMark(hash.finalize().into())
    }
}

/// A number without zeros before it: RFC 7518, 2, which not everybody follows.
fn number(written: &Option<Box<str>>) -> Option<Box<[u8]>> {
    let bytes = decoded(written)?;
    let first = bytes.iter().position(|byte| *byte != 0)?;
    Some(bytes[first..].into())
}

fn coordinate(written: &Option<Box<str>>) -> Option<[u8; COORDINATE_BYTES]> {
    decoded(written)?.try_into().ok()
}

fn decoded(written: &Option<Box<str>>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(written.as_deref()?).ok()
}
