//! Why a token of a provider is not good.

use std::fmt;

use super::PROVIDED_TOKEN_BYTES_MAX;

/// Why a token of an identity provider is refused. The text says what to change, and shows nothing of the token but
/// names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is longer than any token may be here.
    TooLong,
    /// No provider of the configuration has this issuer.
    Issuer,
    /// It is for others.
    Audience,
    /// The token's algorithm is not one that the provider may use.
    Algorithm,
    /// The header asks for something that is not done here.
    Header,
    /// It has no `exp`, or times that are no numbers.
    Times,
    /// It is not good yet.
    NotYet,
    /// It was good once.
    Expired,
    /// No key of the provider has the token's `kid`.
    KeyUnknown,
    /// It names no key, and the provider has not just one.
    KeyUnnamed,
    /// There are no keys of the provider here.
    NoKeys,
    /// The signature is none of the key.
    Signature,
    /// A claim that the configuration asks for is missing.
    ClaimMissing(Box<str>),
    /// A claim is of another type than the configuration asks for.
    ClaimType(Box<str>),
    /// A claim has characters, or a length, that no name or account id can have.
    ClaimForm(Box<str>),
    /// The claim of roles names no role.
    Role(Box<str>),
    /// The claim of grants has one that is none.
    Grant(Box<str>),
    /// A wallet would have an id that no account can have.
    Wallet,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = match self {
            Refused::TooLong => {
                return write!(
                    f,
                    "{START}it has more than {PROVIDED_TOKEN_BYTES_MAX} bytes; let the provider put fewer claims, such \
                     as groups, into it"
                );
            }
            Refused::Issuer => "its issuer (iss) is no identity provider of this server",
            Refused::Audience => "its audience (aud) is not this server; the provider must issue it for this one",
            Refused::Algorithm => "its algorithm (alg) is none that this provider may use here",
            Refused::Header => "its header has a type (typ) or an extension (crit) that is not taken here",
            Refused::Times => "it must say in numbers when it expires (exp) and from when it is good (nbf)",
            Refused::NotYet => "it is not good yet (nbf); compare the clocks",
            Refused::Expired => "it has expired; get a new one of the provider",
            Refused::KeyUnknown => "no key of the provider has its kid; the keys are fetched again, try in a minute",
            Refused::KeyUnnamed => "it names no key (kid), and the provider does not have just one",
            Refused::NoKeys => {
                "the provider's keys are not known: none were fetched yet, or its list has none; try again in a minute"
            }
            Refused::Signature => "its signature is not that of the provider's key",
            Refused::Wallet => "its claims make a wallet's id that is too long or no account id",
            Refused::ClaimMissing(claim) => return write!(f, "{START}the claim {claim:?} is missing"),
            Refused::ClaimType(claim) => return write!(f, "{START}the claim {claim:?} is no text or whole number"),
            Refused::ClaimForm(claim) => {
                return write!(
                    f,
                    "{START}the claim {claim:?} is too long, or has characters that no part of a name has here"
                );
            }
            Refused::Role(claim) => {
                return write!(f, "{START}the claim {claim:?} names neither \"viewer\" nor \"service\"");
            }
            Refused::Grant(claim) => return write!(f, "{START}the claim {claim:?} is no list of grants"),
        };
        write!(f, "{START}{said}")
    }
}

const START: &str = "the identity provider's token is refused: ";
