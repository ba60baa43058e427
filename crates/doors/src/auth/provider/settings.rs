//! What the configuration says of a provider.

use std::path::PathBuf;
use std::time::Duration;

use super::refused::Refused;
use super::signed::TokenHeader;
use super::template::Template;
use crate::auth::grant::Grant;

/// An algorithm of signatures with public keys. There are no others: a token without a signature, or with one that
/// anybody can make who has the public key, is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenAlgorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256, keys of 2,048 to 4,096 bits.
    Rs256,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

/// Where the keys of a provider are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// An address that answers with a JWKS.
    Url(Box<str>),
    /// A file with one.
    File(PathBuf),
}

/// How a user acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvidedRole {
    /// Own wallets.
    Viewer,
    /// Grants.
    Service,
}

/// A provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSettings {
    /// What the names of its users begin with, before a colon.
    pub name: Box<str>,
    /// `iss` of its tokens.
    pub issuer: Box<str>,
    /// One of these is in `aud` of its tokens.
    pub audience: Vec<Box<str>>,
    /// Where its keys are.
    pub keys: KeySource,
    /// What its tokens may be signed with.
    pub algorithms: Vec<TokenAlgorithm>,
    /// The claim that names the user.
    pub user_claim: Box<str>,
    /// The role of a token that `role_claim` says nothing of; `None`: it is refused.
    pub role: Option<ProvidedRole>,
    /// The claim that names roles.
    pub role_claim: Option<Box<str>>,
    /// The wallets of a viewer.
    pub wallets: Vec<Template>,
    /// What a service may do.
    pub grants: Vec<Grant>,
    /// The claim that lists more of it.
    pub grants_claim: Option<Box<str>>,
    /// In which asset wallets are opened; `None`: they are not.
    pub open_wallets_in: Option<Box<str>>,
    /// By how much clocks may differ, seconds.
    pub leeway_s: u64,
    /// Between two looks at the keys.
    pub refresh: Duration,
    /// At least between two of them, whatever tokens say.
    pub refresh_least: Duration,
    /// How long keys are good when no look succeeds.
    pub kept: Duration,
    /// How long one look may take.
    pub timeout: Duration,
}

impl TokenAlgorithm {
    /// By the name that a header or a key has: RFC 7518, RFC 8037, RFC 9864.
    pub fn of_name(name: &str) -> Option<TokenAlgorithm> {
        match name {
            "RS256" => Some(TokenAlgorithm::Rs256),
            "ES256" => Some(TokenAlgorithm::Es256),
            "EdDSA" | "Ed25519" => Some(TokenAlgorithm::EdDsa),
            _ => None,
        }
    }
}

impl ProviderSettings {
    /// Whether the keys of `other` come from the same place, for the same use.
    pub(super) fn takes_keys_as(&self, other: &ProviderSettings) -> bool {
        (&self.issuer, &self.keys, &self.algorithms) == (&other.issuer, &other.keys, &other.algorithms)
    }

    /// Whether a token may have this header. RFC 8725, 3.1: the algorithm is one that the receiver has chosen; RFC
    /// 7515, 4.1.11: what is critical and not understood refuses it.
    pub(super) fn check_header(&self, header: &TokenHeader) -> Result<(), Refused> {
        let algorithm = TokenAlgorithm::of_name(&header.alg);
        if algorithm.is_none_or(|algorithm| !self.algorithms.contains(&algorithm)) {
            return Err(Refused::Algorithm);
        }
        // Not a logout token or the like, which the same key signs for the same audience: RFC 8725, 3.11.
        let is_for_access = header.typ.as_deref().is_none_or(|typ| {
            ["jwt", "at+jwt", "application/at+jwt"].iter().any(|taken| typ.eq_ignore_ascii_case(taken))
        });
        if is_for_access && header.crit.is_none() { Ok(()) } else { Err(Refused::Header) }
    }
}
