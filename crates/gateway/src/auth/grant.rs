//! What a service may do, as its configuration writes it: one word per right, with an account pattern where it makes sense.
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
//! | `drain` | sending the MQTT clients away |
//! | `publish:FILTER`, `subscribe:FILTER` | MQTT topics; `%c` is the client id, `%u` the service's name |
//! | `sys` | subscribing to `$SYS/#` |
//!
//! PATTERN is `*` (any account), `wallet:*` (ids that begin so) or one whole id.

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
    /// Sending the MQTT clients away.
    Drain,
    /// Publishing to these topics.
    Publish(TopicPattern),
    /// Subscribing to these topics.
    Subscribe(TopicPattern),
    /// Subscribing to what the server says about itself.
    Sys,
}

/// A grant that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "grant {0:?} is unknown; write \"*\", \"accounts:open\", \"transfers:*\", \"debit:PATTERN\", \"credit:PATTERN\", \
     \"read:PATTERN\", \"holds:settle\", \"audit\", \"metrics\", \"drain\", \"publish:FILTER\", \"subscribe:FILTER\" or \"sys\", with \
     PATTERN as \"*\", \"wallet:*\" or one account id and FILTER as an MQTT topic filter"
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
            "metrics" => return Ok(Grant::Metrics),
            "drain" => return Ok(Grant::Drain),
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
            _ => {}
        }
        let pattern = Pattern::parse(pattern).ok_or_else(unknown)?;
        match verb {
            "accounts:open" => Ok(Grant::OpenAccounts(pattern)),
            "transfers" => Ok(Grant::Transfers(pattern)),
            "debit" => Ok(Grant::Debit(pattern)),
            "credit" => Ok(Grant::Credit(pattern)),
            "read" => Ok(Grant::Read(pattern)),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("drain", Grant::Drain),
            ("sys", Grant::Sys),
            ("publish:chat/%c/#", Grant::Publish("chat/%c/#".parse().unwrap())),
            ("subscribe:#", Grant::Subscribe("#".parse().unwrap())),
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
            "publish:",
            "subscribe:a/#/b",
            "publish:$share/g/a",
            "sys:*",
        ] {
            assert_eq!(text.parse::<Grant>(), Err(GrantError(text.to_owned())));
        }
    }
}
