//! Who may use which topics: `[[acl]]`, and the policies of `[mqtt]` behind it.

use tidegate_config::{ConfigError, Document, NoDefault, Optional, Required, Text, Texts, config, words};
use tidegate_doors::auth::acl::{
    Acl, AnonymousSessions, ClientIdPattern, Effect, OrdinaryTopics, PartlyDenied, Role, Rule, TopicPattern, Verbs, Who,
};
use tidegate_doors::auth::{CertificateUsers, Pattern, TopicAccess};

words! {
    /// Who may use ordinary topics.
    pub struct OrdinaryTopicsWord(OrdinaryTopics) {
        "anyone" => OrdinaryTopics::Anyone,
        "authenticated" => OrdinaryTopics::Authenticated,
        "nobody" => OrdinaryTopics::Nobody,
    }
}

words! {
    /// Whose the sessions of anonymous clients are.
    pub struct AnonymousSessionsWord(AnonymousSessions) {
        "address" => AnonymousSessions::Address,
        "shared" => AnonymousSessions::Shared,
    }
}

words! {
    /// What becomes of a subscription of which a part is denied.
    pub struct PartlyDeniedWord(PartlyDenied) { "filter" => PartlyDenied::Filter, "refuse" => PartlyDenied::Refuse }
}

words! {
    /// Whose certificates are good.
    pub struct CertificateUsersWord(CertificateUsers) {
        "listed" => CertificateUsers::Listed,
        "any" => CertificateUsers::Any,
    }
}

words! {
    /// What a rule does.
    pub struct EffectWord(Effect) { "permit" => Effect::Permit, "deny" => Effect::Deny }
}

words! {
    /// What a rule is about.
    pub struct VerbsWord(Verbs) { "publish" => Verbs::Publish, "subscribe" => Verbs::Subscribe, "both" => Verbs::Both }
}

words! {
    /// How a client came in.
    pub struct RoleWord(Role) {
        "viewer" => Role::Viewer,
        "service" => Role::Service,
        "certificate" => Role::Certificate,
        "anonymous" => Role::Anonymous,
    }
}

config! {
    /// `[mqtt]`, as far as rights go.
    pub struct TopicAccessKeys in "mqtt" {
        ordinary_topics: OrdinaryTopicsWord = "anyone", .., live,
            "who may use topics without $ where no [[acl]] rule fits";
        client_ids: Texts = &[], .., live,
            "client ids that clients may choose, such as [\"%u-*\"]: %u is the user name, and who has none fits no \
             pattern with it; others are told 0x85. Empty for any";
        anonymous_sessions: AnonymousSessionsWord = "address", .., live,
            "whose the sessions of anonymous clients are: of those of one \"address\" (IPv6: one /64), or \"shared\" \
             by all of them";
        partly_denied: PartlyDeniedWord = "filter", .., live,
            "when an [[acl]] rule denies some of the topics of a subscription: \"filter\" grants it and keeps back \
             what is published there, \"refuse\" refuses it. One of a share group is always refused";
        certificate_users: CertificateUsersWord = "listed", .., live,
            "whose client certificates are good: \"listed\" are those that name a [[user]], \"any\" also others";
    }
}

config! {
    /// `[[acl]]`
    pub struct AclKeys in [["acl"]] {
        effect: Required<EffectWord> = NoDefault, .., live, "whether the rule permits or denies";
        action: VerbsWord = "both", .., live, "what the rule is about";
        topics: Required<Texts> = NoDefault, .., live,
            "a list of topic filters; %c is the client id, %u the user name: \"chat/%u/#\"";
        user: Optional<Text> = NoDefault, .., live, "only the user of this name";
        role: Optional<RoleWord> = NoDefault, .., live,
            "only clients of this role; \"certificate\" is a client with the certificate of somebody not in this file";
        client_id: Optional<Text> = NoDefault, .., live, "only clients of this id, or whose id begins so: \"sensor-*\"";
    }
}

/// Checks the rules and policies.
pub fn topics(document: &Document) -> Result<TopicAccess, ConfigError> {
    let keys: TopicAccessKeys = document.section()?;
    let rules: Vec<AclKeys> = document.list()?;
    let rules = rules.into_iter().enumerate().map(|(index, acl)| rule(index, acl, document));
    Ok(TopicAccess {
        acl: Acl {
            rules: rules.collect::<Result<_, _>>()?,
            ordinary_topics: keys.ordinary_topics,
            client_ids: keys.client_ids.iter().map(|text| client_id(text, document)).collect::<Result<_, _>>()?,
            anonymous_sessions: keys.anonymous_sessions,
            partly_denied: keys.partly_denied,
        },
        certificate_users: keys.certificate_users,
    })
}

fn client_id(text: &str, document: &Document) -> Result<ClientIdPattern, ConfigError> {
    text.parse().map_err(|error| document.error_at("mqtt.client_ids", format!("mqtt.client_ids: {error}")))
}

fn rule(index: usize, keys: AclKeys, document: &Document) -> Result<Rule, ConfigError> {
    let error_at = |key: &str, message| document.error_at(&format!("acl[{index}].{key}"), message);
    let topic =
        |text: &str| text.parse::<TopicPattern>().map_err(|error| error_at("topics", format!("acl.topics: {error}")));
    let client_id = |text: Box<str>| {
        Pattern::parse(&text).ok_or_else(|| {
            let message =
                format!("acl.client_id = {text:?}: expected a client id, or the beginning of one, as \"sensor-*\"");
            error_at("client_id", message)
        })
    };
    Ok(Rule {
        who: Who { user: keys.user, role: keys.role, client_id: keys.client_id.map(client_id).transpose()? },
        verbs: keys.action,
        topics: keys.topics.iter().map(|text| topic(text)).collect::<Result<_, _>>()?,
        effect: keys.effect,
    })
}
