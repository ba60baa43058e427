//! Decides on what an MQTT client shows with its CONNECT: a password, a token, a certificate, or nothing.
//!
//! ```text
//!   password of CONNECT ─▶ a token of ours? ─yes─▶ its user or service            (whatever the user name says)
//!                       ─▶ of a provider?   ─yes─▶ its user                       (no user name, or the user's)
//!                                           ─no──▶ user name + argon2, on a login thread; or the hook is asked
//!   no password, certificate ─▶ its common name is the user                       (a user name must be the same)
//!   nothing ─▶ anonymous, where the listener allows it
//! ```
//!
//! Promise: a worker never waits here. Only argon2 takes long, and its verdict comes by callback. The queue to it is
//! short, and a client that finds its share of it full is told 0x89 (server busy), one from whose address too many
//! wrong passwords came 0x9F (connection rate exceeded), one on whom a hook decides that does not answer 0x88 (server
//! unavailable). So a flood of password guesses does not delay connected
//! clients.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use tidegate_broker::{Admitted, Denied, Principal, ReasonCode};
use tidegate_wire::mqtt::ReasonCode as Reason;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::acl::{ClientRights, Holder};
use super::authenticator::{AuthError, Authenticator, now_s};
use super::clients::{Credentials, MqttAuthenticator, Verdict, VerdictReply};
use super::hook::{Asking, Hook, Hooked};
use super::identity::Identity;
use super::login::{Begun, LoginError};
use super::principals::{Known, Principals};
use crate::security::{self, SecurityEvent};

/// Bytes of a certificate's common name. X.509 allows 64 characters.
const NAME_BYTES_MAX: usize = 1 << 10;

impl MqttAuthenticator for Authenticator {
    fn begin(&self, shown: Credentials, reply: VerdictReply) -> Option<Verdict> {
        let mut claimed = Claimed::of(&shown);
        let is_gone = reply.is_gone();
        let later = claimed.clone();
        let told = VerdictReply::new(
            move |verdict| {
                later.tell(&verdict);
                reply.give(verdict);
            },
            is_gone,
        );
        let verdict = self.judge(shown, told, &mut claimed)?;
        claimed.tell(&verdict);
        Some(verdict)
    }

    fn identity(&self, rights: &dyn tidegate_broker::Rights) -> Option<Identity> {
        own(rights).identity().cloned()
    }

    fn renew(&self, rights: &dyn tidegate_broker::Rights) -> Option<Arc<dyn tidegate_broker::Rights>> {
        let renewed = self.principals().load().renewed(own(rights).holder())?;
        Some(renewed)
    }

    fn rights_of(&self, principal: &Principal) -> Option<Arc<dyn tidegate_broker::Rights>> {
        let rights = self.principals().load().of(principal)?;
        Some(rights)
    }

    fn generation(&self) -> u64 {
        Authenticator::generation(self)
    }
}

/// Who a client claims to be, for the security log.
#[derive(Clone)]
struct Claimed {
    address: IpAddr,
    user_name: Option<Box<str>>,
    /// Why a token is no good.
    detail: Option<Box<str>>,
}

impl Claimed {
    fn of(shown: &Credentials) -> Claimed {
        Claimed { address: shown.address, user_name: shown.user_name.clone(), detail: None }
    }

    fn tell(&self, verdict: &Verdict) {
        let claimed = self.user_name.as_deref().unwrap_or_default();
        let (event, principal, detail) = match verdict {
            Ok(admitted) => match admitted.rights.user() {
                Some(user) => (SecurityEvent::LoggedIn, user, ""),
                // Who shows nothing does not log in.
                None => return,
            },
            Err(_) if self.detail.is_some() => {
                (SecurityEvent::TokenRefused, claimed, self.detail.as_deref().unwrap_or_default())
            }
            Err(Denied { reason: ReasonCode::CONNECTION_RATE_EXCEEDED }) => {
                (SecurityEvent::LoginRefused, claimed, "too many wrong passwords")
            }
            Err(Denied { reason: ReasonCode::BAD_USER_NAME_OR_PASSWORD }) => {
                (SecurityEvent::LoginRefused, claimed, "wrong user or password")
            }
            Err(Denied { reason: ReasonCode::SERVER_UNAVAILABLE }) => {
                (SecurityEvent::LoginRefused, claimed, "the log-in hook does not answer")
            }
            Err(Denied { reason: ReasonCode::SERVER_BUSY }) => (SecurityEvent::LoginRefused, claimed, "busy"),
            Err(_) => (SecurityEvent::LoginRefused, claimed, "no good credentials"),
        };
        security::tell(event, "mqtt", self.address, principal, detail);
    }
}

impl Authenticator {
    /// Decides on what was shown, as [`MqttAuthenticator::begin`] says. Why a token is no good stands in `claimed`.
    fn judge(&self, shown: Credentials, reply: VerdictReply, claimed: &mut Claimed) -> Option<Verdict> {
        let principals = self.principals().load();
        let user_name = shown.user_name.as_deref();
        match (shown.password, shown.certificate) {
            (Some(password), _) => match std::str::from_utf8(&password) {
                Ok(password) => {
                    let user = user_name.unwrap_or_default();
                    let (client_id, address, door) = (&*shown.client_id, shown.address, &*shown.listener);
                    let asking = Asking { user, password, client_id, address, door };
                    self.by_password(&principals, user_name, asking, claimed, reply)
                }
                Err(_) => Some(denied(Reason::BAD_USER_NAME_OR_PASSWORD)),
            },
            (None, Some(certificate)) => Some(by_certificate(&principals, user_name, &certificate, shown.address)),
            // A user name alone proves nothing. It is refused also where anonymous clients are allowed.
            (None, None) if user_name.is_some() => Some(denied(Reason::BAD_USER_NAME_OR_PASSWORD)),
            (None, None) if shown.anonymous_allowed => {
                Some(admitted(&principals, &principals.anonymous, shown.address))
            }
            (None, None) => Some(denied(Reason::NOT_AUTHORIZED)),
        }
    }

    fn by_password(
        &self,
        principals: &Principals,
        user_name: Option<&str>,
        asking: Asking<'_>,
        claimed: &mut Claimed,
        reply: VerdictReply,
    ) -> Option<Verdict> {
        let Asking { password, address, .. } = asking;
        match principals.bearer(self.signer(), password, Some(address), now_s()) {
            Ok((known, _)) if !is_name_of(&known, user_name) => {
                claimed.detail = Some("the user name is not that of the token".into());
                return Some(denied(Reason::BAD_USER_NAME_OR_PASSWORD));
            }
            Ok((known, expires_at_s)) => {
                let ends_at = principals.connection_ends(expires_at_s);
                let verdict = admitted(principals, &known.rights, address);
                return Some(verdict.map(|admitted| Admitted { ends_at, ..admitted }));
            }
            Err(error @ AuthError::Expired) => {
                claimed.detail = Some(error.to_string().into());
                return Some(denied(Reason::NOT_AUTHORIZED));
            }
            Err(AuthError::Refused(refused)) => {
                claimed.detail = Some(refused.to_string().into());
                return Some(denied(Reason::NOT_AUTHORIZED));
            }
            Err(AuthError::TooMany(_)) => {
                claimed.detail = Some("too many tokens that were no good".into());
                return Some(denied(Reason::CONNECTION_RATE_EXCEEDED));
            }
            Err(AuthError::Missing | AuthError::Invalid) => {}
        }
        let Some(name) = user_name else { return Some(denied(Reason::BAD_USER_NAME_OR_PASSWORD)) };
        if let Some(hook) = principals.hook_for(name) {
            return self.by_hook(principals, hook, asking, reply);
        }
        let stamp = principals.user(name).map(|user| user.stamp.clone());
        let (current, checked) = (self.principals().clone(), Box::<str>::from(name));
        let is_gone = reply.is_gone();
        let answer = move |correct: bool| {
            let principals = current.load();
            // Looked up again: the password may have been changed by a reload while it was checked.
            let user = principals.user(&checked).filter(|user| correct && stamp.as_ref() == Some(&user.stamp));
            let wrong = || denied(Reason::BAD_USER_NAME_OR_PASSWORD);
            reply.give(user.map_or_else(wrong, |user| admitted(&principals, &user.known.rights, address)));
        };
        match self.check_password(principals, name, password, address, is_gone, answer) {
            Ok(Begun::Asked) => None,
            Ok(Begun::Right) => principals.user(name).map(|user| admitted(principals, &user.known.rights, address)),
            Err(error) => Some(refused(error)),
        }
    }

    fn by_hook(
        &self,
        principals: &Principals,
        hook: &Arc<Hook>,
        asking: Asking<'_>,
        reply: VerdictReply,
    ) -> Option<Verdict> {
        let (current, address, is_gone) = (self.principals().clone(), asking.address, reply.is_gone());
        let answer = move |hooked: Result<Hooked, LoginError>| {
            reply.give(hooked.map_or_else(refused, |hooked| hooked_in(&current.load(), &hooked, address)));
        };
        match self.ask_hook(hook, asking, is_gone, answer) {
            Ok(None) => None,
            Ok(Some(hooked)) => Some(hooked_in(principals, &hooked, address)),
            Err(error) => Some(refused(error)),
        }
    }
}

fn hooked_in(principals: &Principals, hooked: &Hooked, address: IpAddr) -> Verdict {
    let ends_at = principals.connection_ends(hooked.expires_at_s);
    admitted(principals, &hooked.known.rights, address).map(|admitted| Admitted { ends_at, ..admitted })
}

/// What a client is told of a log-in that gave nothing.
fn refused(error: LoginError) -> Verdict {
    denied(match error {
        LoginError::Wrong => Reason::BAD_USER_NAME_OR_PASSWORD,
        LoginError::Busy | LoginError::Changed => Reason::SERVER_BUSY,
        LoginError::Later { .. } => Reason::CONNECTION_RATE_EXCEEDED,
        LoginError::Unavailable { .. } => Reason::SERVER_UNAVAILABLE,
    })
}

/// Whether a client that has shown the token of `known` may have this user name. Whoever has a token of an identity
/// provider leaves the user name out, or it is the user's here or at the provider: a client that says that it is
/// somebody else is configured wrong. A token of this server may have any.
fn is_name_of(known: &Known, user_name: Option<&str>) -> bool {
    let (Holder::Provided(identity, _) | Holder::Hooked(identity, _)) = known.rights.holder() else { return true };
    let subject = identity.name().split_once(':').map(|(_, subject)| subject);
    user_name.is_none_or(|name| name.is_empty() || name == identity.name() || Some(name) == subject)
}

fn by_certificate(
    principals: &Principals,
    user_name: Option<&str>,
    certificate: &CertificateDer<'_>,
    address: IpAddr,
) -> Verdict {
    let name = common_name(certificate).filter(|name| user_name.is_none_or(|written| written == name));
    match name.and_then(|name| principals.certified(&name)) {
        Some(rights) => admitted(principals, &rights, address),
        None => denied(Reason::NOT_AUTHORIZED),
    }
}

/// The common name of the certificate's subject; `None` if there is none, or more than one to choose from.
fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(char::is_control);
    (names.next().is_none() && is_name).then(|| name.to_owned())
}

/// A session that was made before owners were written down is for who has shown who it is. Where nobody can, all have
/// always been strangers to each other, and whoever knows its id goes on with it.
fn admitted(principals: &Principals, rights: &Arc<ClientRights>, address: IpAddr) -> Verdict {
    let may_claim = !matches!(rights.holder(), Holder::Anonymous) || principals.knows_nobody();
    Ok(Admitted { principal: rights.principal(address), rights: rights.clone(), may_claim, ends_at: None })
}

fn denied(reason: Reason) -> Verdict {
    Err(Denied { reason: ReasonCode(reason.0) })
}

fn own(rights: &dyn tidegate_broker::Rights) -> &ClientRights {
    let any: &dyn Any = rights;
    any.downcast_ref().expect("brokers give back the rights that they got here")
}

#[cfg(test)]
mod tests;
