//! Who may use which topics: `[[acl]]`, and the policies of `[mqtt]` behind it.

use tidegate_gateway::auth::acl::{Acl, Effect, OrdinaryTopics, Role, Rule, TopicPattern, Verbs, Who};
use tidegate_gateway::auth::{CertificateUsers, Pattern, TopicAccess};

use super::error::ConfigError;
use super::raw::{RawAcl, RawConfig};
use super::source::Source;

/// Checks the rules and policies.
pub fn topics(raw: &RawConfig, source: &Source) -> Result<TopicAccess, ConfigError> {
    let ordinary = [
        ("anyone", OrdinaryTopics::Anyone),
        ("authenticated", OrdinaryTopics::Authenticated),
        ("nobody", OrdinaryTopics::Nobody),
    ];
    let certificates = [("listed", CertificateUsers::Listed), ("any", CertificateUsers::Any)];
    let rules = raw.acl.iter().enumerate().map(|(index, acl)| rule(index, acl, source));
    Ok(TopicAccess {
        acl: Acl {
            rules: rules.collect::<Result<_, _>>()?,
            ordinary_topics: one_of(source, "mqtt.ordinary_topics", raw.mqtt.ordinary_topics.as_deref(), &ordinary)?
                .unwrap_or_default(),
        },
        certificate_users: one_of(
            source,
            "mqtt.certificate_users",
            raw.mqtt.certificate_users.as_deref(),
            &certificates,
        )?
        .unwrap_or_default(),
    })
}

fn rule(index: usize, raw: &RawAcl, source: &Source) -> Result<Rule, ConfigError> {
    let at = |key: &str| format!("acl[{index}].{key}");
    let effects = [("permit", Effect::Permit), ("deny", Effect::Deny)];
    let verbs = [("publish", Verbs::Publish), ("subscribe", Verbs::Subscribe), ("both", Verbs::Both)];
    let roles = [
        ("viewer", Role::Viewer),
        ("service", Role::Service),
        ("certificate", Role::Certificate),
        ("anonymous", Role::Anonymous),
    ];
    let Some(effect) = one_of(source, &at("effect"), raw.effect.as_deref(), &effects)? else {
        return Err(source.error_at(&at("effect"), "acl.effect is missing: \"permit\" or \"deny\""));
    };
    let topics = raw.topics.as_deref().unwrap_or_default();
    if topics.is_empty() {
        return Err(source.error_at(&at("topics"), "acl.topics is missing: a list of topic filters"));
    }
    let topic = |text: &String| {
        text.parse::<TopicPattern>().map_err(|error| source.error_at(&at("topics"), format!("acl.topics: {error}")))
    };
    let client_id = |text: &String| {
        Pattern::parse(text).ok_or_else(|| {
            let message =
                format!("acl.client_id = {text:?}: expected a client id, or the beginning of one, as \"sensor-*\"");
            source.error_at(&at("client_id"), message)
        })
    };
    Ok(Rule {
        who: Who {
            user: raw.user.as_deref().map(Box::from),
            role: one_of(source, &at("role"), raw.role.as_deref(), &roles)?,
            client_id: raw.client_id.as_ref().map(client_id).transpose()?,
        },
        verbs: one_of(source, &at("action"), raw.action.as_deref(), &verbs)?.unwrap_or(Verbs::Both),
        topics: topics.iter().map(topic).collect::<Result<_, _>>()?,
        effect,
    })
}

/// What the word written at `path` means; `None` if nothing is written there.
pub fn one_of<T: Copy>(
    source: &Source,
    path: &str,
    written: Option<&str>,
    known: &[(&str, T)],
) -> Result<Option<T>, ConfigError> {
    let Some(written) = written else { return Ok(None) };
    match known.iter().find(|(word, _)| *word == written) {
        Some((_, meaning)) => Ok(Some(*meaning)),
        None => {
            let words: Vec<String> = known.iter().map(|(word, _)| format!("{word:?}")).collect();
            let message = format!("{path} = {written:?}: expected {}", words.join(" or "));
            Err(source.error_at(path, message))
        }
    }
}
