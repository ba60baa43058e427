//! What one user may do over MQTT. One object for all connections of a user, on all workers; a connection keeps a
//! pointer.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use tidegate_broker::{Access, Principal};
use tidegate_wire::mqtt::{filter_covers, filter_matches};

use super::pattern::{Names, TopicPattern};
use super::rule::{Acl, AnonymousSessions, Effect, OnSubscribe, OrdinaryTopics, PartlyDenied, Role, Rule};
use crate::auth::grant::{Grant, Pattern, QueueAction};
use crate::auth::identity::{self, Identity, Rights};
use crate::auth::provider::Warrant;
use crate::topic_names::{
    ACCOUNTS, ALL_ACCOUNTS, CAMPAIGN_REQUESTS, CHANGES, PACER_PREFIX, PREFIX, QUEUE_IN, QUEUE_OUT, REQUESTS,
};

/// Where the server says how it is doing.
const SYS: &str = "$SYS/#";

/// Whom rights belong to: what to look for when they are to be had again after a reload.
#[derive(Clone, Debug)]
pub enum Holder {
    /// A user of the configuration, known by what was shown.
    User(Identity, Shown),
    /// A service, known by the hash of its token.
    Service(Identity, [u8; 32]),
    /// A user of an identity provider, by what a token gave.
    Provided(Identity, Warrant),
    /// A user of the log-in hook, by the stamp of its settings.
    Hooked(Identity, Box<str>),
    /// Somebody of whom only a certificate is known, by its common name.
    Certificate(Box<str>),
    /// Nobody.
    Anonymous,
}

/// What a user has shown. When that is good no more, neither are the rights that it gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The password with this stamp, or a token that it gave.
    Password(Box<str>),
    /// A certificate with the user's name.
    Certificate,
}

/// What the clients of one holder may do.
#[derive(Debug)]
pub struct ClientRights {
    holder: Holder,
    acl: Arc<Acl>,
    /// Indices of the rules that can concern the holder, so that the others are not checked for each message.
    rules: Box<[u32]>,
}

impl Holder {
    /// How they came in.
    fn role(&self) -> Role {
        match self {
            Holder::User(identity, _) if matches!(identity.rights(), Rights::Viewer { .. }) => Role::Viewer,
            Holder::Provided(identity, _) | Holder::Hooked(identity, _)
                if matches!(identity.rights(), Rights::Viewer { .. }) =>
            {
                Role::Viewer
            }
            Holder::User(..) | Holder::Service(..) | Holder::Provided(..) | Holder::Hooked(..) => Role::Service,
            Holder::Certificate(_) => Role::Certificate,
            Holder::Anonymous => Role::Anonymous,
        }
    }

    fn name(&self) -> Option<&str> {
        match self {
            Holder::User(identity, _)
            | Holder::Service(identity, _)
            | Holder::Provided(identity, _)
            | Holder::Hooked(identity, _) => Some(identity.name()),
            Holder::Certificate(name) => Some(name),
            Holder::Anonymous => None,
        }
    }
}

impl ClientRights {
    /// The rights that `acl` gives `holder`.
    pub fn new(holder: Holder, acl: Arc<Acl>) -> ClientRights {
        let concerning = acl.rules.iter().enumerate();
        let concerning = concerning.filter(|(_, rule)| rule.who.may_concern(holder.name(), holder.role()));
        let rules = concerning.map(|(place, _)| place as u32).collect();
        ClientRights { holder, acl, rules }
    }

    /// Whose they are.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Whom the ledger knows behind them.
    pub fn identity(&self) -> Option<&Identity> {
        match &self.holder {
            Holder::User(identity, _)
            | Holder::Service(identity, _)
            | Holder::Provided(identity, _)
            | Holder::Hooked(identity, _) => Some(identity),
            Holder::Certificate(_) | Holder::Anonymous => None,
        }
    }

    /// Whose is what a client makes that comes from `address`.
    pub fn principal(&self, address: IpAddr) -> Principal {
        match &self.holder {
            Holder::User(identity, _) => Principal::user(identity.name()),
            Holder::Service(identity, _) => Principal::service(identity.name()),
            Holder::Provided(identity, _) | Holder::Hooked(identity, _) => Principal::provided(identity.name()),
            Holder::Certificate(name) => Principal::certificate(name),
            Holder::Anonymous => match self.acl.anonymous_sessions {
                AnonymousSessions::Address => Principal::address(&address_class(address)),
                AnonymousSessions::Shared => Principal::address("*"),
            },
        }
    }

    fn names<'a>(&'a self, client_id: &'a str) -> Names<'a> {
        Names { client_id, user: self.holder.name() }
    }

    /// The rules that can concern the holder, in their order.
    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|place| &self.acl.rules[*place as usize])
    }

    /// What the first rule says that says something.
    fn rule(&self, says: impl FnMut(&Rule) -> Option<Effect>) -> Option<bool> {
        Some(self.rules().find_map(says)? == Effect::Permit)
    }

    /// Publishing, where no rule speaks. `names_fit` fills names into the pattern of a grant.
    fn publishes<'p>(&'p self, names_fit: impl Fn(&'p TopicPattern) -> Option<Cow<'p, str>>, topic: &str) -> bool {
        // The doors check each request itself.
        if REQUESTS.contains(&topic) || CAMPAIGN_REQUESTS.contains(&topic) {
            return self.identity().is_some();
        }
        // A grant of topics is none of queues: who may send decides, as over HTTP.
        if let Some(queue) = topic.strip_prefix(QUEUE_IN) {
            return self.may_with_queue(QueueAction::Send, queue);
        }
        let granted = self.granted(|grant| match grant {
            // Only the server publishes there: even a client with a grant of everything must not announce false
            // balances.
            Grant::Everything => !["$SYS/", PREFIX, PACER_PREFIX].iter().any(|prefix| topic.starts_with(prefix)),
            Grant::Publish(pattern) => names_fit(pattern).is_some_and(|filter| filter_matches(&filter, topic)),
            _ => false,
        });
        granted || !topic.starts_with('$') && self.uses_ordinary_topics()
    }

    /// Subscribing, where no rule speaks.
    fn subscribes(&self, names: Names<'_>, filter: &str) -> Access {
        let granted = self.granted(|grant| match grant {
            Grant::Everything => true,
            Grant::Subscribe(pattern) => {
                pattern.narrow(names).is_some_and(|permitted| filter_covers(&permitted, filter))
            }
            Grant::Sys => filter_covers(SYS, filter),
            // Balances of more than one account at once.
            Grant::Read(Pattern::Any) => filter_covers(ALL_ACCOUNTS, filter),
            _ => false,
        });
        if let Some(queue) = filter.strip_prefix(QUEUE_OUT) {
            return allowed_if(self.may_with_queue(QueueAction::Receive, queue));
        }
        if let Some(level) = filter.strip_prefix(CHANGES) {
            // A grant of topics opens no journal: what may be read decides, as it does over HTTP.
            return allowed_if(self.follows(level));
        }
        match filter.strip_prefix(ACCOUNTS) {
            _ if granted => Access::Allowed,
            Some(account) if !account.contains(['+', '#', '/']) => self.reads(account),
            _ => allowed_if(!filter.starts_with('$') && self.uses_ordinary_topics()),
        }
    }

    fn reads(&self, account: &str) -> Access {
        let Some(identity) = self.identity() else { return Access::Denied };
        match identity.rights().may_read(account, None) {
            identity::Access::Allowed => Access::Allowed,
            identity::Access::Forbidden => Access::Denied,
            identity::Access::IfCollector => Access::IfConfirmed(account.into()),
        }
    }

    fn follows(&self, level: &str) -> bool {
        let pattern = Pattern::of_topic_level(level);
        let rights = self.identity().map(Identity::rights);
        rights.zip(pattern).is_some_and(|(rights, pattern)| rights.may_read_some_of(&pattern))
    }

    fn may_with_queue(&self, action: QueueAction, queue: &str) -> bool {
        self.identity().is_some_and(|identity| identity.rights().may_with_queue(action, queue))
    }

    fn uses_ordinary_topics(&self) -> bool {
        match (self.acl.ordinary_topics, self.holder.role()) {
            (OrdinaryTopics::Nobody, _) | (_, Role::Service) => false,
            (OrdinaryTopics::Authenticated, role) => role != Role::Anonymous,
            (OrdinaryTopics::Anyone, _) => true,
        }
    }

    fn granted<'g>(&'g self, allows: impl Fn(&'g Grant) -> bool) -> bool {
        match self.identity().map(Identity::rights) {
            Some(Rights::Service { grants }) => grants.iter().any(allows),
            _ => false,
        }
    }
}

impl tidegate_broker::Rights for ClientRights {
    fn user(&self) -> Option<&str> {
        self.holder.name()
    }

    fn may_be_called(&self, client_id: &str) -> bool {
        let patterns = &self.acl.client_ids;
        patterns.is_empty() || patterns.iter().any(|pattern| pattern.allows(self.holder.name(), client_id))
    }

    fn may_publish(&self, client_id: &str, topic: &str) -> Access {
        // Only queues speak there, whatever a rule says.
        if topic.starts_with(QUEUE_OUT) {
            return Access::Denied;
        }
        let names = self.names(client_id);
        let says = self.rule(|rule| rule.on_publish(names, topic));
        allowed_if(says.unwrap_or_else(|| self.publishes(|pattern| pattern.narrow(names), topic)))
    }

    fn may_any_publish(&self, topic: &str) -> bool {
        let user = self.holder.name();
        let says = self.rule(|rule| rule.on_publish_by_any(user, topic));
        !topic.starts_with(QUEUE_OUT)
            && says.unwrap_or_else(|| self.publishes(|pattern| pattern.of_any_client(user), topic))
    }

    fn may_subscribe(&self, client_id: &str, filter: &str) -> Access {
        let (names, mut is_in_part) = (self.names(client_id), false);
        let mut said = None;
        for says in self.rules().filter_map(|rule| rule.on_subscribe(names, filter)) {
            match says {
                OnSubscribe::DeniesPart => is_in_part = true,
                OnSubscribe::Permits => said = Some(Access::Allowed),
                OnSubscribe::Denies => said = Some(Access::Denied),
            }
            if said.is_some() {
                break;
            }
        }
        match (said.unwrap_or_else(|| self.subscribes(names, filter)), self.acl.partly_denied) {
            (Access::Denied, _) => Access::Denied,
            (_, PartlyDenied::Refuse) if is_in_part => Access::Denied,
            (_, PartlyDenied::Filter) if is_in_part => Access::AllowedInPart,
            (access, _) => access,
        }
    }
}

/// Addresses that are one: of IPv6 those of a /64, which one subscriber has.
fn address_class(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            format!("{}/64", Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

fn allowed_if(allowed: bool) -> Access {
    if allowed { Access::Allowed } else { Access::Denied }
}
