//! Decides on what an MQTT client shows with its CONNECT: a password, a token, a certificate, or nothing.
//!
//! ```text
//!   password of CONNECT ─▶ a token of ours? ─yes─▶ its user or service            (whatever the user name says)
//!                                           ─no──▶ user name + argon2, on a login thread
//!   no password, certificate ─▶ its common name is the user                       (a user name must be the same)
//!   nothing ─▶ anonymous, where the listener allows it
//! ```
//!
//! Promise: a worker never waits here. Only argon2 takes long, and its verdict comes by callback. The queue to it is
//! short, and a client that finds it full is told 0x89 (server busy). So a flood of password guesses does not delay
//! connected clients.

use std::any::Any;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use tidegate_broker::{Admitted, Denied, ReasonCode};
use tidegate_wire::mqtt::ReasonCode as Reason;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::acl::ClientRights;
use super::authenticator::{AuthError, Authenticator, now_s};
use super::clients::{Credentials, MqttAuthenticator, Verdict, VerdictReply};
use super::identity::Identity;
use super::principals::Principals;

impl MqttAuthenticator for Authenticator {
    fn begin(&self, shown: Credentials, reply: VerdictReply) -> Option<Verdict> {
        let principals = self.principals().load();
        let user_name = shown.user_name.as_deref();
        match (shown.password, shown.certificate) {
            (Some(password), _) => match std::str::from_utf8(&password) {
                Ok(password) => self.by_password(&principals, user_name, password, reply),
                Err(_) => Some(denied(Reason::BAD_USER_NAME_OR_PASSWORD)),
            },
            (None, Some(certificate)) => Some(by_certificate(&principals, user_name, &certificate)),
            // A user name alone proves nothing. It is refused also where anonymous clients are allowed.
            (None, None) if user_name.is_some() => Some(denied(Reason::BAD_USER_NAME_OR_PASSWORD)),
            (None, None) if shown.anonymous_allowed => Some(admitted(&principals.anonymous)),
            (None, None) => Some(denied(Reason::NOT_AUTHORIZED)),
        }
    }

    fn identity(&self, rights: &dyn tidegate_broker::Rights) -> Option<Identity> {
        own(rights).identity().cloned()
    }

    fn renew(&self, rights: &dyn tidegate_broker::Rights) -> Option<Arc<dyn tidegate_broker::Rights>> {
        let renewed = self.principals().load().renewed(own(rights).holder())?;
        Some(renewed)
    }

    fn generation(&self) -> u64 {
        Authenticator::generation(self)
    }
}

impl Authenticator {
    fn by_password(
        &self,
        principals: &Principals,
        user_name: Option<&str>,
        password: &str,
        reply: VerdictReply,
    ) -> Option<Verdict> {
        match principals.bearer(self.signer(), password, now_s()) {
            Ok((known, _)) => return Some(admitted(&known.rights)),
            Err(AuthError::Expired) => return Some(denied(Reason::NOT_AUTHORIZED)),
            Err(AuthError::Missing | AuthError::Invalid) => {}
        }
        let Some(name) = user_name else { return Some(denied(Reason::BAD_USER_NAME_OR_PASSWORD)) };
        let user = principals.user(name);
        let (hash, stamp) = match user {
            Some(user) => (&user.password_hash, Some(user.stamp.clone())),
            None => (&principals.decoy, None),
        };
        let (current, name) = (self.principals().clone(), Box::<str>::from(name));
        let answer = move |correct: bool| {
            let principals = current.load();
            // Looked up again: the password may have been changed by a reload while it was checked.
            let user = principals.user(&name).filter(|user| correct && stamp.as_ref() == Some(&user.stamp));
            reply(user.map_or_else(|| denied(Reason::BAD_USER_NAME_OR_PASSWORD), |user| admitted(&user.known.rights)));
        };
        let waits = self.password_checker().verify_then(hash.clone(), password.to_owned(), answer);
        waits.err().map(|_| denied(Reason::SERVER_BUSY))
    }
}

fn by_certificate(principals: &Principals, user_name: Option<&str>, certificate: &CertificateDer<'_>) -> Verdict {
    let name = common_name(certificate).filter(|name| user_name.is_none_or(|written| written == name));
    match name.and_then(|name| principals.certified(&name)) {
        Some(rights) => admitted(&rights),
        None => denied(Reason::NOT_AUTHORIZED),
    }
}

/// The common name of the certificate's subject; `None` if there is none, or more than one to choose from.
fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    (names.next().is_none() && !name.is_empty() && !name.contains(char::is_control)).then(|| name.to_owned())
}

fn admitted(rights: &Arc<ClientRights>) -> Verdict {
    Ok(Admitted { rights: rights.clone() })
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
