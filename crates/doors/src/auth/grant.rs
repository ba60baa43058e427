//! What a service may do, as its configuration writes it: one word per right, with an account pattern where it makes
//! sense.
//!
//! | grant | allows |
//! |---|---|
//! | `*` | everything |
//! | `accounts:open`, `accounts:open:PATTERN` | opening accounts |
//! | `transfers:PATTERN` | debiting and crediting; `transfers:*` settles holds too |
//! | `debit:PATTERN`, `credit:PATTERN` | one side of a transfer or hold |
//! | `read:PATTERN` | balances and histories |
//! | `holds:settle` | posting and voiding any hold |
//! | `audit`, `metrics` | the operator's pages |
//! | `audit:run` | asking for a reconciliation at once |
//! | `drain` | sending the MQTT clients away |
//! | `operate:read` | seeing MQTT clients, sessions and retained messages |
//! | `operate:write` | disconnecting MQTT clients, ending sessions, clearing retained messages |
//! | `publish:FILTER`, `subscribe:FILTER` | topics; `%c` is the client id, `%u` the service's name |
//! | `sys` | subscribing to `$SYS/#` |
//! | `send:PATTERN` | sending to these queues |
//! | `relay:PATTERN` | the same, under the keys that messages have on other nodes: for links and walks |
//! | `receive:PATTERN` | receiving from these queues, and acknowledging |
//! | `admin:PATTERN` | making, changing, looking through, purging and deleting these queues |
//! | `room:ROOM:read:PATTERN`, `room:ROOM:write:PATTERN` | reading and changing in another room than the ledger |
//!
//! PATTERN is `*` (any account), `wallet:*` (ids that begin so) or one whole id. In a room it is about the names that
//! the room gives to what it holds. Which rooms a server has is not known here: a grant for a room that is not there
//! allows nothing.

use std::str::FromStr;

use super::acl::TopicPattern;

/// Which account ids a grant is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every account.
    Any,
    /// Ids that begin so.
    Prefix(Box<str>),
    /// One id.
    Exactly(Box<str>),
}

impl Pattern {
    /// Whether `account` is one of them.
    pub fn matches(&self, account: &str) -> bool {
        match self {
            Pattern::Any => true,
            Pattern::Prefix(prefix) => account.starts_with(&**prefix),
            Pattern::Exactly(id) => **id == *account,
        }
    }

    /// Reads one as it is written.
    pub fn parse(text: &str) -> Option<Pattern> {
        match text.strip_suffix('*') {
            _ if text.is_empty() => None,
            Some("") => Some(Pattern::Any),
            Some(prefix) if !prefix.contains('*') => Some(Pattern::Prefix(prefix.into())),
            None if !text.contains('*') => Some(Pattern::Exactly(text.into())),
            _ => None,
        }
    }
}

impl Pattern {
    /// Whether all that `other` matches, this one matches.
    fn covers(&self, other: &Pattern) -> bool {
        match (self, other) {
            (Pattern::Any, _) => true,
            (Pattern::Prefix(prefix), Pattern::Prefix(text) | Pattern::Exactly(text)) => text.starts_with(&**prefix),
            (Pattern::Exactly(id), Pattern::Exactly(other)) => id == other,
            (_, Pattern::Any) | (Pattern::Exactly(_), Pattern::Prefix(_)) => false,
        }
    }

    /// The accounts that a filter below the topic of changes names, which is given without it. A whole level may be a
    /// wildcard of MQTT.
    pub fn of_topic_level(level: &str) -> Option<Pattern> {
        match level {
            "#" | "+" => Some(Pattern::Any),
            _ if level.contains(['/', '+', '#']) => None,
            _ => Pattern::parse(level),
        }
    }

    /// Whether some account may be one of these and of those.
    pub fn overlaps(&self, other: &Pattern) -> bool {
        match (self, other) {
            (Pattern::Any, _) | (_, Pattern::Any) => true,
            (Pattern::Exactly(id), pattern) | (pattern, Pattern::Exactly(id)) => pattern.matches(id),
            (Pattern::Prefix(one), Pattern::Prefix(two)) => one.starts_with(&**two) || two.starts_with(&**one),
        }
    }
}

/// One right of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Everything.
    Everything,
    /// Opening these accounts.
    OpenAccounts(Pattern),
    /// Debiting and crediting these accounts.
    Transfers(Pattern),
    /// Debiting these accounts.
    Debit(Pattern),
    /// Crediting these accounts.
    Credit(Pattern),
    /// Reading these accounts.
    Read(Pattern),
    /// Posting and voiding holds.
    SettleHolds,
    /// Reading the last reconciliation.
    Audit,
    /// Reading metrics.
    Metrics,
    /// Asking for a reconciliation at once.
    RunAudit,
    /// Sending the MQTT clients away.
    Drain,
    /// Seeing clients, sessions and retained messages, or disconnecting, ending and clearing them.
    Operate(Action),
    /// Publishing to these topics.
    Publish(TopicPattern),
    /// Subscribing to these topics.
    Subscribe(TopicPattern),
    /// Subscribing to what the server says about itself.
    Sys,
    /// Doing this with the queues of these names.
    Queue(QueueAction, Pattern),
    /// An action of one kind in a room, on what has these names.
    Room {
        /// The room's name.
        room: Box<str>,
        /// What may be done there.
        action: Action,
        /// On what.
        names: Pattern,
    },
}

impl Grant {
    /// Whether all that `other` allows, this one allows. May say no where it is so, never yes where it is not.
    pub fn covers(&self, other: &Grant) -> bool {
        match (self, other) {
            (Grant::Everything, _) | (Grant::Transfers(Pattern::Any), Grant::SettleHolds) => true,
            (Grant::Transfers(wide), Grant::Transfers(narrow) | Grant::Debit(narrow) | Grant::Credit(narrow))
            | (Grant::OpenAccounts(wide), Grant::OpenAccounts(narrow))
            | (Grant::Debit(wide), Grant::Debit(narrow))
            | (Grant::Credit(wide), Grant::Credit(narrow))
            | (Grant::Read(wide), Grant::Read(narrow)) => wide.covers(narrow),
            (Grant::Publish(wide), Grant::Publish(narrow)) | (Grant::Subscribe(wide), Grant::Subscribe(narrow)) => {
                filter_covers(&wide.to_string(), &narrow.to_string())
            }
            (Grant::Queue(action, names), Grant::Queue(what, narrow)) => action.includes(*what) && names.covers(narrow),
            (Grant::Room { room, action, names }, Grant::Room { room: of, action: what, names: narrow }) => {
                room == of && action == what && names.covers(narrow)
            }
            _ => self == other,
        }
    }
}

/// Whether all topics of the filter `narrow` are topics of `wide`, as their texts show it.
fn filter_covers(wide: &str, narrow: &str) -> bool {
    match wide.strip_suffix('#') {
        _ if wide == narrow => true,
        // [MQTT-4.7.2-1]: it matches no topic that begins with `$`.
        Some("") => !narrow.starts_with('$'),
        Some(above) => narrow.starts_with(above) || above.strip_suffix('/') == Some(narrow),
        None => false,
    }
}

/// What a caller wants to do in a room. A right to write does not include the right to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look at something.
    Read,
    /// Change, make or delete something.
    Write,
}

/// What a caller wants to do with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAction {
    /// Send to it.
    Send,
    /// Send to it, also messages of other nodes under the keys that they have there.
    Relay,
    /// Receive from it, and acknowledge.
    Receive,
    /// Make, change, look through, purge or delete it.
    Admin,
}

impl QueueAction {
    /// Whether who may do this may do `other`.
    pub fn includes(self, other: QueueAction) -> bool {
        self == other || matches!((self, other), (QueueAction::Relay, QueueAction::Send))
    }
}

/// A grant that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "grant {0:?} is unknown; write \"*\", \"accounts:open\", \"transfers:*\", \"debit:PATTERN\", \"credit:PATTERN\", \
     \"read:PATTERN\", \"holds:settle\", \"audit\", \"audit:run\", \"metrics\", \"drain\", \"operate:read\", \
     \"operate:write\", \"publish:FILTER\", \"subscribe:FILTER\", \"sys\", \"send:PATTERN\", \"relay:PATTERN\", \
     \"receive:PATTERN\", \"admin:PATTERN\", \"room:ROOM:read:PATTERN\" or \"room:ROOM:write:PATTERN\", with PATTERN \
     as \"*\", \"wallet:*\" or one name and FILTER as an MQTT topic filter"
)]
pub struct GrantError(pub String);

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Grant, GrantError> {
        let unknown = || GrantError(text.to_owned());
        match text {
            "*" => return Ok(Grant::Everything),
            "accounts:open" => return Ok(Grant::OpenAccounts(Pattern::Any)),
            "holds:settle" => return Ok(Grant::SettleHolds),
            "audit" => return Ok(Grant::Audit),
            "audit:run" => return Ok(Grant::RunAudit),
            "metrics" => return Ok(Grant::Metrics),
            "drain" => return Ok(Grant::Drain),
            "operate:read" => return Ok(Grant::Operate(Action::Read)),
            "operate:write" => return Ok(Grant::Operate(Action::Write)),
            "sys" => return Ok(Grant::Sys),
            _ => {}
        }
        let (verb, pattern) = match text.strip_prefix("accounts:open:") {
            Some(pattern) => ("accounts:open", pattern),
            None => text.split_once(':').ok_or_else(unknown)?,
        };
        match verb {
            "publish" => return pattern.parse().map(Grant::Publish).map_err(|_| unknown()),
            "subscribe" => return pattern.parse().map(Grant::Subscribe).map_err(|_| unknown()),
            "room" => return in_room(pattern).ok_or_else(unknown),
            _ => {}
        }
        let pattern = Pattern::parse(pattern).ok_or_else(unknown)?;
        match verb {
            "accounts:open" => Ok(Grant::OpenAccounts(pattern)),
            "transfers" => Ok(Grant::Transfers(pattern)),
            "debit" => Ok(Grant::Debit(pattern)),
            "credit" => Ok(Grant::Credit(pattern)),
            "read" => Ok(Grant::Read(pattern)),
            "send" => Ok(Grant::Queue(QueueAction::Send, pattern)),
            "relay" => Ok(Grant::Queue(QueueAction::Relay, pattern)),
            "receive" => Ok(Grant::Queue(QueueAction::Receive, pattern)),
            "admin" => Ok(Grant::Queue(QueueAction::Admin, pattern)),
            _ => Err(unknown()),
        }
    }
}

/// Reads `ROOM:ACTION:PATTERN`.
fn in_room(text: &str) -> Option<Grant> {
    let (room, rest) = text.split_once(':')?;
    let (action, names) = rest.split_once(':')?;
    let action = match action {
        "read" => Action::Read,
        "write" => Action::Write,
        _ => return None,
    };
    let is_name =
        !room.is_empty() && room.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    Some(Grant::Room { room: room.into(), action, names: Pattern::parse(names)? }).filter(|_| is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(action: Action, names: Pattern) -> Grant {
        Grant::Room { room: "counters".into(), action, names }
    }

    #[test]
    fn a_grant_covers_what_it_allows_and_no_more() {
        let covers = |wide: &str, narrow: &str| {
            wide.parse::<Grant>().expect("a grant").covers(&narrow.parse::<Grant>().expect("a grant"))
        };
        for (wide, narrow) in [
            ("*", "transfers:*"),
            ("transfers:wallet:*", "debit:wallet:dave"),
            ("transfers:*", "holds:settle"),
            ("read:*", "read:wallet:*"),
            ("read:wallet:*", "read:wallet:d*"),
            ("publish:#", "publish:cam/%c/#"),
            ("publish:cam/#", "publish:cam"),
            ("publish:cam/#", "publish:cam/+/up"),
            ("room:counters:write:hits*", "room:counters:write:hits-1"),
            ("send:sms-*", "send:sms-out"),
            ("relay:sms-*", "relay:sms-out"),
            ("relay:sms-*", "send:sms-out"),
            ("audit", "audit"),
        ] {
            assert!(covers(wide, narrow), "{wide} {narrow}");
        }
        for (wide, narrow) in [
            ("transfers:*", "*"),
            ("debit:*", "transfers:*"),
            ("transfers:wallet:*", "holds:settle"),
            ("read:wallet:dave", "read:wallet:*"),
            ("read:wallet:*", "read:*"),
            ("read:*", "credit:*"),
            ("publish:cam/#", "publish:#"),
            ("publish:cam/#", "publish:camera"),
            ("publish:cam/+", "publish:cam/1/up"),
            ("publish:#", "publish:$SYS/x"),
            ("publish:#", "subscribe:a"),
            ("room:counters:write:*", "room:counters:read:*"),
            ("admin:*", "send:sms"),
            ("send:*", "relay:sms"),
            ("receive:sms", "receive:*"),
            ("audit", "audit:run"),
        ] {
            assert!(!covers(wide, narrow), "{wide} {narrow}");
        }
    }

    #[test]
    fn reads_what_configurations_write() {
        for (text, grant) in [
            ("*", Grant::Everything),
            ("accounts:open", Grant::OpenAccounts(Pattern::Any)),
            ("accounts:open:wallet:*", Grant::OpenAccounts(Pattern::Prefix("wallet:".into()))),
            ("transfers:*", Grant::Transfers(Pattern::Any)),
            ("debit:source:shop", Grant::Debit(Pattern::Exactly("source:shop".into()))),
            ("credit:wallet:*", Grant::Credit(Pattern::Prefix("wallet:".into()))),
            ("read:*", Grant::Read(Pattern::Any)),
            ("holds:settle", Grant::SettleHolds),
            ("audit", Grant::Audit),
            ("metrics", Grant::Metrics),
            ("audit:run", Grant::RunAudit),
            ("drain", Grant::Drain),
            ("operate:read", Grant::Operate(Action::Read)),
            ("operate:write", Grant::Operate(Action::Write)),
            ("sys", Grant::Sys),
            ("send:*", Grant::Queue(QueueAction::Send, Pattern::Any)),
            ("relay:sms-in", Grant::Queue(QueueAction::Relay, Pattern::Exactly("sms-in".into()))),
            ("receive:sms-*", Grant::Queue(QueueAction::Receive, Pattern::Prefix("sms-".into()))),
            ("admin:sms", Grant::Queue(QueueAction::Admin, Pattern::Exactly("sms".into()))),
            ("publish:chat/%c/#", Grant::Publish("chat/%c/#".parse().unwrap())),
            ("subscribe:#", Grant::Subscribe("#".parse().unwrap())),
            ("room:counters:read:*", room(Action::Read, Pattern::Any)),
            ("room:counters:write:hits:*", room(Action::Write, Pattern::Prefix("hits:".into()))),
            ("room:counters:write:hits", room(Action::Write, Pattern::Exactly("hits".into()))),
        ] {
            assert_eq!(text.parse(), Ok(grant), "{text}");
        }
        for text in [
            "",
            "read",
            "read:",
            "transfer:*",
            "read:a*b",
            "debit:**",
            "audit:*",
            "operate",
            "operate:*",
            "publish:",
            "subscribe:a/#/b",
            "publish:$share/g/a",
            "sys:*",
            "send",
            "receive:",
            "room:counters",
            "room:counters:write",
            "room:counters:write:",
            "room:counters:add:*",
            "room:*:write:*",
            "room::write:*",
        ] {
            assert_eq!(text.parse::<Grant>(), Err(GrantError(text.to_owned())));
        }
    }
}
