//! What a token claims, and what the configuration makes of it.

use serde_json::{Map, Value};
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::is_account_id;

use super::refused::Refused;
use super::settings::{ProvidedRole, ProviderSettings};
use super::template::{Template, is_name_part, is_part};
use crate::auth::grant::Grant;
use crate::auth::identity::{Opening, Rights};

/// Grants that a token may list.
const GRANTS_MAX: usize = 64;

/// The claims of one token.
pub struct Claims {
    all: Map<String, Value>,
}

/// Who a token's claims make its sender.
pub struct Mapped {
    /// The user's name, that of the provider before it.
    pub name: Box<str>,
    /// What the user may do.
    pub rights: Rights,
    /// The wallets that are opened on the first use.
    pub opening: Option<Opening>,
}

impl Claims {
    /// Reads a payload; `None` if it is none.
    pub fn read(payload: &[u8]) -> Option<Claims> {
        serde_json::from_slice(payload).ok().map(|all| Claims { all })
    }

    /// What is known of a user who has shown no token lately.
    pub fn of_subject(settings: &ProviderSettings, subject: &str) -> Claims {
        let all = Map::from_iter([(settings.user_claim.to_string(), Value::from(subject))]);
        Claims { all }
    }

    /// Who has made the token, as it says; empty if it does not.
    pub fn issuer(&self) -> &str {
        self.all.get("iss").and_then(Value::as_str).unwrap_or_default()
    }

    /// First second at which it is no longer good.
    pub fn expires_at_s(&self) -> u64 {
        self.time("exp").ok().flatten().unwrap_or_default()
    }

    /// Whether it is for this server, and good at `now_s`.
    pub fn check(&self, settings: &ProviderSettings, now_s: u64) -> Result<(), Refused> {
        let is_ours = |audience: &Value| settings.audience.iter().any(|ours| audience.as_str() == Some(ours));
        let is_for_us = match self.all.get("aud") {
            Some(Value::Array(all)) => all.iter().any(is_ours),
            Some(one) => is_ours(one),
            None => false,
        };
        if !is_for_us {
            return Err(Refused::Audience);
        }
        let expires_at_s = self.time("exp")?.ok_or(Refused::Times)?;
        if now_s >= expires_at_s.saturating_add(settings.leeway_s) {
            return Err(Refused::Expired);
        }
        match self.time("nbf")? {
            Some(from_s) if now_s.saturating_add(settings.leeway_s) < from_s => Err(Refused::NotYet),
            _ => Ok(()),
        }
    }

    /// A time in seconds since the epoch. RFC 7519, 2: it may have a fraction.
    fn time(&self, name: &str) -> Result<Option<u64>, Refused> {
        let Some(value) = self.all.get(name) else { return Ok(None) };
        let seconds = value.as_u64().or_else(|| value.as_f64().filter(|time| *time >= 0.0).map(|time| time as u64));
        seconds.map(Some).ok_or(Refused::Times)
    }

    /// Who they make their sender.
    pub fn map(&self, settings: &ProviderSettings) -> Result<Mapped, Refused> {
        let subject = self.text(&settings.user_claim)?;
        let name = name(settings, &subject)?;
        let rights = match self.role(settings)? {
            ProvidedRole::Viewer => {
                let wallets = settings.wallets.iter().map(|template| self.wallet(template));
                Rights::Viewer { wallets: wallets.collect::<Result<_, _>>()? }
            }
            ProvidedRole::Service => Rights::Service { grants: self.grants(settings)? },
        };
        let opening = super::opening(settings, &rights);
        Ok(Mapped { name, rights, opening })
    }

    fn role(&self, settings: &ProviderSettings) -> Result<ProvidedRole, Refused> {
        let Some(claim) = &settings.role_claim else { return Ok(settings.role.unwrap_or(ProvidedRole::Viewer)) };
        let named = |name: &str| match self.find(claim) {
            Some(Value::Array(all)) => all.iter().any(|role| role.as_str() == Some(name)),
            Some(one) => one.as_str() == Some(name),
            None => false,
        };
        let named = [("service", ProvidedRole::Service), ("viewer", ProvidedRole::Viewer)]
            .into_iter()
            .find_map(|(name, role)| named(name).then_some(role));
        named.or(settings.role).ok_or_else(|| Refused::Role(claim.clone()))
    }

    fn wallet(&self, template: &Template) -> Result<Box<str>, Refused> {
        for claim in template.claims() {
            if !is_part(&self.text(claim)?) {
                return Err(Refused::ClaimForm(claim.into()));
            }
        }
        template.fill(|claim| self.text(claim).ok()).filter(|id| is_account_id(id)).ok_or(Refused::Wallet)
    }

    fn grants(&self, settings: &ProviderSettings) -> Result<Vec<Grant>, Refused> {
        let mut grants = settings.grants.clone();
        let Some((claim, listed)) = settings.grants_claim.as_ref().and_then(|claim| Some((claim, self.find(claim)?)))
        else {
            return Ok(grants);
        };
        let wrong = || Refused::Grant(claim.clone());
        let listed = listed.as_array().filter(|listed| listed.len() <= GRANTS_MAX).ok_or_else(wrong)?;
        for grant in listed {
            grants.push(grant.as_str().and_then(|grant| grant.parse().ok()).ok_or_else(wrong)?);
        }
        Ok(grants)
    }

    /// A claim that is a text, or a whole number, which is written in digits.
    fn text(&self, claim: &str) -> Result<Box<str>, Refused> {
        match self.find(claim) {
            None | Some(Value::Null) => Err(Refused::ClaimMissing(claim.into())),
            Some(Value::String(text)) => Ok(text.as_str().into()),
            Some(Value::Number(number)) if number.is_u64() => Ok(number.to_string().into()),
            Some(_) => Err(Refused::ClaimType(claim.into())),
        }
    }

    /// The claim of this name; if there is none, what stands in objects by the names between its dots.
    fn find(&self, claim: &str) -> Option<&Value> {
        if let Some(value) = self.all.get(claim) {
            return Some(value);
        }
        let mut names = claim.split('.');
        let first = self.all.get(names.next()?)?;
        names.try_fold(first, |value, name| value.as_object()?.get(name))
    }
}

impl Mapped {
    /// The user of `subject`, without rights of its own.
    pub fn nothing(settings: &ProviderSettings, subject: &str) -> Result<Mapped, Refused> {
        let rights = match settings.role {
            Some(ProvidedRole::Service) => Rights::Service { grants: Vec::new() },
            Some(ProvidedRole::Viewer) | None => Rights::Viewer { wallets: Vec::new() },
        };
        Ok(Mapped { name: name(settings, subject)?, rights, opening: None })
    }
}

/// The name of the user of `subject`.
fn name(settings: &ProviderSettings, subject: &str) -> Result<Box<str>, Refused> {
    let name = format!("{}:{subject}", settings.name);
    let is_name = is_name_part(subject) && IdSpace::new(&name).is_some();
    if is_name { Ok(name.into()) } else { Err(Refused::ClaimForm(settings.user_claim.clone())) }
}
