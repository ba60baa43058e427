//! What an operator wants to read of who came and what was denied. The broker notices it, and the shell knows the
//! addresses.
//!
//! Invariant: what nobody takes does not grow, and what is left out is counted.

use tidegate_journal::LogStore;

use super::Broker;
use crate::ConnectionKey;
use crate::index::ConnectionIndex;

/// Notices that wait to be taken; more are only counted. A turn that denies more is a flood.
const NOTICES_MAX: usize = 64;

/// Something that happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The connection that did it. It is open until the end of the turn.
    pub key: ConnectionKey,
    /// What it was.
    pub what: Noticed,
    /// The user behind the connection; `None` for anonymous.
    pub user: Option<Box<str>>,
    /// The client id, topic or filter that it is about.
    pub about: Box<str>,
}

/// What can be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// It took over the session of a connection with the same client id.
    TookOver,
    /// It wanted a client id, or the session of one, that is not for it.
    ClientIdDenied,
    /// It published, or left a will, where it may not.
    PublishDenied,
    /// It subscribed where it may not.
    SubscribeDenied,
    /// It came back to a session of which subscriptions are denied now.
    CameBackDenied(SubscriptionsDenied),
}

/// How many subscriptions of a session its client may not have any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionsDenied {
    /// So many stand, and nothing of them is delivered.
    pub denied: usize,
    /// So many were removed.
    pub removed: usize,
}

/// What was noticed and not taken yet.
#[derive(Debug, Default)]
pub(super) struct Notices {
    waiting: Vec<Notice>,
    left_out: u64,
}

impl<L: LogStore> Broker<L> {
    /// Takes what was noticed since the last call, and how much of it was left out.
    pub fn take_notices(&mut self) -> (Vec<Notice>, u64) {
        let Notices { waiting, left_out } = std::mem::take(&mut self.asked.notices);
        (waiting, left_out)
    }

    /// A connection did something.
    pub(super) fn notice(&mut self, index: ConnectionIndex, what: Noticed, about: &str) {
        let notices = &mut self.asked.notices;
        if notices.waiting.len() >= NOTICES_MAX {
            notices.left_out += 1;
            return;
        }
        let rights = self.clients.connections[index].rights.map(|rights| self.clients.rights.get(rights));
        let user = rights.and_then(|rights| rights.user()).map(Into::into);
        let notice = Notice { key: self.clients.key(index), what, user, about: about.into() };
        self.asked.notices.waiting.push(notice);
    }
}
