//! The token that a log-in gives: a JWT signed with HS256. It names the user and the time when it expires. Rights are
//! looked up in the configuration at each use, so that the tokens of a user who is removed or gets a new password are
//! no longer valid.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::hook::Granted;
use super::password::PasswordHash;
use super::secret::Secret;

/// Longest token of a user of the configuration that is looked at, in bytes; they take some 250.
pub const TOKEN_BYTES_MAX: usize = 2_048;

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// User name.
    pub sub: String,
    /// When it was given, in seconds since the epoch.
    pub iat: u64,
    /// When it ends, in seconds since the epoch.
    pub exp: u64,
    /// Stamp of the password hash it was given for, or of the hook that gave it.
    pub pwd: String,
    /// What the hook gave; `None` for a user of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<Granted>,
}

/// Signs and reads tokens.
pub struct Signer {
    encoding: EncodingKey,
    decoding: DecodingKey,
    validation: Validation,
}

impl Signer {
    /// A signer with this key.
    pub fn new(secret: &Secret) -> Signer {
        let mut validation = Validation::new(Algorithm::HS256);
        // The caller compares `exp` with a clock of its own, also when the token comes out of a cache.
        validation.validate_exp = false;
        validation.set_required_spec_claims(&["exp", "sub"]);
        Signer {
            encoding: EncodingKey::from_secret(secret.bytes()),
            decoding: DecodingKey::from_secret(secret.bytes()),
            validation,
        }
    }

    /// The token for these claims.
    pub fn sign(&self, claims: &Claims) -> String {
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &self.encoding).expect("claims are plain JSON")
    }

    /// The claims of a token with a good signature; `exp` is not yet compared. The caller bounds its length.
    pub fn read(&self, token: &str) -> Option<Claims> {
        jsonwebtoken::decode::<Claims>(token, &self.decoding, &self.validation).ok().map(|data| data.claims)
    }
}

/// A short mark of a password hash: a token carries it, so that a new password ends the old one's tokens.
pub fn password_stamp(hash: &PasswordHash) -> String {
    Sha256::digest(hash.as_str().as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
