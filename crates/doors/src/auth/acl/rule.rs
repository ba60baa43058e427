//! One rule, and the ordered list of all rules.

use tidegate_wire::mqtt::{filter_covers, filter_matches};

use super::client_id::ClientIdPattern;
use super::overlap::filter_overlaps;
use super::pattern::{Names, TopicPattern};
use crate::auth::grant::Pattern;

/// What a rule does to whom it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// They may.
    Permit,
    /// They may not.
    Deny,
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbs {
    /// Publishing.
    Publish,
    /// Subscribing.
    Subscribe,
    /// Both.
    Both,
}

/// What a rule says about a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnSubscribe {
    /// All of its topics are permitted.
    Permits,
    /// All of its topics are denied.
    Denies,
    /// Some of its topics are denied.
    DeniesPart,
}

/// How a client came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// As a user of role viewer.
    Viewer,
    /// As a service, or a user of role service.
    Service,
    /// With a certificate whose name the configuration does not list.
    Certificate,
    /// With nothing.
    Anonymous,
}

/// Which clients a rule concerns: those that fulfil all its conditions. A rule without conditions concerns all clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// The user of this name.
    pub user: Option<Box<str>>,
    /// Those of this role.
    pub role: Option<Role>,
    /// Clients whose id is one of these.
    pub client_id: Option<Pattern>,
}

/// One rule of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whom it concerns.
    pub who: Who,
    /// What it is about.
    pub verbs: Verbs,
    /// Where.
    pub topics: Vec<TopicPattern>,
    /// What it says.
    pub effect: Effect,
}

/// Who may use ordinary topics (those without `$`) if no rule fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrdinaryTopics {
    /// Every client that was accepted; a service only as its grants say.
    #[default]
    Anyone,
    /// The same, but for anonymous clients.
    Authenticated,
    /// Only whom a rule or a grant permits it.
    Nobody,
}

/// What becomes of a subscription of whose topics a rule denies some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartlyDenied {
    /// It is granted, and what is published on those topics is kept back.
    #[default]
    Filter,
    /// It is refused.
    Refuse,
}

/// Whose the sessions and messages of anonymous clients are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnonymousSessions {
    /// Of all that come from one address (IPv6: of one /64).
    #[default]
    Address,
    /// Of all anonymous clients together.
    Shared,
}

/// All rules in their order, and the policy if none fits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// The rules; the first that fits decides.
    pub rules: Vec<Rule>,
    /// The policy for ordinary topics.
    pub ordinary_topics: OrdinaryTopics,
    /// The client ids that clients may choose; none: any.
    pub client_ids: Vec<ClientIdPattern>,
    /// Whose the sessions of anonymous clients are.
    pub anonymous_sessions: AnonymousSessions,
    /// What becomes of subscriptions of which a part is denied.
    pub partly_denied: PartlyDenied,
}

impl Who {
    /// Whether a client of this name and role can be one of them, whatever its client id.
    pub(super) fn may_concern(&self, user: Option<&str>, role: Role) -> bool {
        self.user.as_deref().is_none_or(|name| user == Some(name)) && self.role.is_none_or(|wanted| wanted == role)
    }
}

impl Rule {
    /// What the rule says about publishing to `topic`; `None` if it does not concern the client, whose name and role
    /// fit.
    pub(super) fn on_publish(&self, names: Names<'_>, topic: &str) -> Option<Effect> {
        if self.verbs == Verbs::Subscribe || !self.concerns(names) {
            return None;
        }
        let fits = |pattern: &TopicPattern| match self.effect {
            Effect::Permit => pattern.narrow(names).is_some_and(|filter| filter_matches(&filter, topic)),
            Effect::Deny => filter_matches(&pattern.wide(names), topic),
        };
        self.topics.iter().any(fits).then_some(self.effect)
    }

    /// The same about what somebody published earlier, whose client id is not known any more: what one of their clients
    /// may do is permitted, and denied what none of them may.
    pub(super) fn on_publish_by_any(&self, user: Option<&str>, topic: &str) -> Option<Effect> {
        let is_of_some = self.who.client_id.is_some();
        if self.verbs == Verbs::Subscribe || is_of_some && self.effect == Effect::Deny {
            return None;
        }
        let fits = |pattern: &TopicPattern| match self.effect {
            Effect::Permit => pattern.of_any_client(user).is_some_and(|filter| filter_matches(&filter, topic)),
            Effect::Deny => {
                !pattern.names_client() && filter_matches(&pattern.wide(Names { client_id: "", user }), topic)
            }
        };
        self.topics.iter().any(fits).then_some(self.effect)
    }

    /// What the rule says about subscribing to `filter`.
    pub(super) fn on_subscribe(&self, names: Names<'_>, filter: &str) -> Option<OnSubscribe> {
        if self.verbs == Verbs::Publish || !self.concerns(names) {
            return None;
        }
        let covers = |pattern: &str| filter_covers(pattern, filter);
        if self.effect == Effect::Permit {
            let is_permitted =
                |pattern: &TopicPattern| pattern.narrow(names).is_some_and(|permitted| covers(&permitted));
            return self.topics.iter().any(is_permitted).then_some(OnSubscribe::Permits);
        }
        let denied = || self.topics.iter().map(|pattern| pattern.wide(names));
        let overlaps = denied().any(|denied| filter_overlaps(&denied, filter));
        // A topic has no parts.
        let is_whole = || !filter.contains(['+', '#']) || denied().any(|denied| covers(&denied));
        overlaps.then(|| if is_whole() { OnSubscribe::Denies } else { OnSubscribe::DeniesPart })
    }

    fn concerns(&self, names: Names<'_>) -> bool {
        self.who.client_id.as_ref().is_none_or(|pattern| pattern.matches(names.client_id))
    }
}
