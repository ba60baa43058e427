//! A reload: the rights of all clients are asked for again, and what they do not cover any more is taken away.
//!
//! ```text
//!   reload ─▶ walk ─ a slice each step ─▶ a connection: renew ─▶ its filters, some at a time ─▶ forbidden? removed
//!   packet of a client that the walk has not reached ─▶ renew ─▶ decided by the new rights
//! ```
//!
//! Promise: from the reload on, whatever a client asks for is decided by its new rights. Its subscriptions follow
//! within the walk, which holds nobody up.
//!
//! Why in slices: eight thousand clients with twenty filters each took a third of a second, in which nobody was served.

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Principal};
use tidegate_wire::mqtt::{ReasonCode, check_filter};

use super::Broker;
use crate::connection::{ConnectionState, Flags};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::RELOAD_WORK_PER_STEP;
use crate::rights::{Renew, RightsOf, address};
use crate::session::SessionFlags;
use crate::shards::Wait;
use crate::{Access, ConnectionKey, Rights};

/// Which reload is under way, and how far it is.
#[derive(Default)]
pub(super) struct Reloads {
    /// Connections whose rights are those of the last reload are marked so ([`Flags::RENEWED`]).
    mark: bool,
    walk: Option<Walk>,
    /// Another one was asked for meanwhile: it begins when this one has ended.
    next: Option<Renew>,
    /// Who knows the rights of a principal that is not connected, perhaps.
    rights_of: Option<RightsOf>,
}

/// One reload.
struct Walk {
    renew: Renew,
    /// By the address of the rights as they were.
    renewed: HashMap<usize, Renewed>,
    /// The connection that is looked at, and those that there were when it began.
    at: u32,
    until: u32,
    /// Whose filters are looked at, and how many of them were.
    filters: Option<(ConnectionKey, usize)>,
}

/// Rights as they were, held so that no others get their address, and as they are; `None` for a user who is gone.
type Renewed = (Arc<dyn Rights>, Option<Arc<dyn Rights>>);

impl Reloads {
    /// The mark of a connection whose rights are those of now.
    pub fn mark(&self) -> bool {
        self.mark
    }

    /// Whether clients may have rights from before.
    pub fn is_under_way(&self) -> bool {
        self.walk.is_some()
    }

    fn begin(&mut self, renew: Renew, until: u32) {
        self.mark = !self.mark;
        self.walk = Some(Walk { renew, renewed: HashMap::new(), at: 0, until, filters: None });
    }
}

impl<L: LogStore> Broker<L> {
    /// Whom to ask for the rights of who has left something behind. Without it, what was allowed once leaves.
    pub fn ask_rights_by(&mut self, rights_of: RightsOf) {
        self.reloads.rights_of = Some(rights_of);
    }

    /// Whether what a principal has left behind may still be published; a will by this client, a delayed message by
    /// whichever it was. Of what nobody is known to own, nobody can be asked.
    pub(super) fn may_still_publish(
        &mut self,
        owner: Option<&Principal>,
        client_id: Option<&str>,
        topic: &str,
    ) -> bool {
        let (Some(RightsOf(rights_of)), Some(owner)) = (&self.reloads.rights_of, owner) else { return true };
        let may = rights_of(owner).is_some_and(|rights| match client_id {
            Some(client_id) => rights.may_publish(client_id, topic) == Access::Allowed,
            None => rights.may_any_publish(topic),
        });
        self.clients.facts.dropped_unauthorized += u64::from(!may);
        may
    }

    /// Whether a filter may be granted of which a part is denied. Not for a share group: what is picked for a member
    /// that may not have it, would be lost to all. Nor where a source keeps the messages, which knows no rights.
    pub(super) fn may_be_in_part(&self, filter: &str) -> bool {
        check_filter(filter).is_ok_and(|filter| filter.share_group.is_none()) && !self.is_feed(filter)
    }

    /// Asks for the rights of every connected user again by `renew`, which says `None` for a user who is gone: its
    /// clients are disconnected. Their rights are the new ones from here on; the rest happens in the next steps.
    pub fn reload(&mut self, renew: Renew) {
        match self.reloads.walk {
            Some(_) => self.reloads.next = Some(renew),
            None => self.reloads.begin(renew, self.clients.connections.reached()),
        }
    }

    /// What a client has shown when it connected is good no longer, for this reason: its connection ends.
    pub fn revoked(&mut self, key: ConnectionKey, reason: ReasonCode, now: TimeMs) {
        if let Some(index) = self.clients.index(key) {
            self.clients.facts.revoked_closed += 1;
            self.disconnect(index, reason, now);
        }
    }

    /// Whether a reload is still under way.
    pub fn is_reloading(&self) -> bool {
        self.reloads.is_under_way()
    }

    /// Goes on with a reload. Whether there is one.
    pub(super) fn step_reload(&mut self, now: TimeMs) -> bool {
        let mut left = RELOAD_WORK_PER_STEP;
        while left > 0 {
            let Some(walk) = &mut self.reloads.walk else { return left < RELOAD_WORK_PER_STEP };
            if walk.at >= walk.until.min(self.clients.connections.reached()) {
                self.reloads.walk = None;
                if let Some(renew) = self.reloads.next.take() {
                    self.reloads.begin(renew, self.clients.connections.reached());
                }
                return true;
            }
            let index = ConnectionIndex::new(walk.at);
            left -= 1;
            let looked = self.reload_connection(index, left, now);
            left -= looked.filters;
            if looked.is_done {
                let walk = self.reloads.walk.as_mut().expect("it goes on");
                walk.at += 1;
                walk.filters = None;
            }
        }
        true
    }

    /// One connection: its rights, and up to so many filters of its session.
    fn reload_connection(&mut self, index: ConnectionIndex, filters_max: usize, now: TimeMs) -> Looked {
        let nothing = Looked { filters: 0, is_done: true };
        if !self.renew_rights(index, now) {
            return nothing;
        }
        let connection = &self.clients.connections[index];
        let Some(place) = connection.session.filter(|_| connection.state == ConnectionState::Connected) else {
            return nothing;
        };
        let key = self.clients.key(index);
        let walk = self.reloads.walk.as_mut().expect("it goes on");
        let from = walk.filters.filter(|(of, _)| *of == key).map_or(0, |(_, from)| from);
        let (filters, removed) = self.remove_forbidden_among(place, from, filters_max);
        let until = from + filters - removed;
        let is_done = until >= self.clients.sessions[place].subscriptions.as_slice().len();
        if is_done {
            // What was read of them was read with the rights before.
            self.open_feeds(place);
        }
        self.reloads.walk.as_mut().expect("it goes on").filters = Some((key, until));
        Looked { filters, is_done }
    }

    /// Gives a connection the rights that its user has now. Whether it has any; if its user is gone, it is
    /// disconnected.
    pub(super) fn renew_rights(&mut self, index: ConnectionIndex, now: TimeMs) -> bool {
        let connection = &self.clients.connections[index];
        let Some(before) = connection.rights else { return false };
        assert!(connection.state != ConnectionState::Vacant, "nobody has no rights");
        if connection.flags.has(Flags::RENEWED) == self.reloads.mark {
            return true;
        }
        let Some(walk) = &mut self.reloads.walk else { unreachable!("a walk ends when all have their rights") };
        let old = self.clients.rights.get(before);
        let known = walk.renewed.entry(address(old));
        let (_, new) = known.or_insert_with(|| (Arc::clone(old), (walk.renew)(&**old)));
        let new = new.clone();
        let connection = &mut self.clients.connections[index];
        connection.flags.mark(Flags::RENEWED, self.reloads.mark);
        match new {
            Some(rights) => {
                connection.rights = Some(self.clients.rights.hold(rights));
                if let Some(place) = connection.session {
                    self.clients.sessions[place].flags.set(SessionFlags::CHECKED);
                }
                self.clients.rights.release(before);
                true
            }
            None => {
                self.disconnect(index, ReasonCode::NOT_AUTHORIZED, now);
                false
            }
        }
    }

    /// Removes the subscriptions of a session that its client's rights do not cover (any more).
    pub(super) fn remove_forbidden(&mut self, place: SessionIndex) {
        self.remove_forbidden_among(place, 0, usize::MAX);
    }

    /// The same for so many of them, from the `from`-th on. How many were looked at and how many of them removed.
    fn remove_forbidden_among(&mut self, place: SessionIndex, from: usize, count: usize) -> (usize, usize) {
        let Some(index) = self.clients.sessions[place].connection else { return (0, 0) };
        let nodes = self.clients.sessions[place].subscriptions.as_slice();
        let nodes = &nodes[from.min(nodes.len())..];
        let nodes = &nodes[..count.min(nodes.len())];
        let mut is_in_part = false;
        let forbidden: Vec<Box<str>> = nodes
            .iter()
            .map(|node| self.subscriptions.filter(*node))
            .filter(|filter| {
                let parts = check_filter(filter).expect("it was subscribed to");
                // A condition is checked when subscribing; if it held once, it holds from then on.
                let access = self.access(index, place, parts.filter);
                is_in_part |= access == Access::AllowedInPart;
                access == Access::Denied || access == Access::AllowedInPart && !self.may_be_in_part(filter)
            })
            .map(Into::into)
            .collect();
        let counts = (nodes.len(), forbidden.len());
        if is_in_part {
            self.clients.sessions[place].flags.set(SessionFlags::PARTLY_DENIED);
        }
        for filter in forbidden {
            let session = &self.clients.sessions[place];
            if let Some(slot) = session.slot {
                let shard = session.shard;
                self.shards.call(shard, Command::Unsubscribe { slot, filter: filter.clone() }, Wait::Nothing);
            }
            self.remove(place, &filter);
        }
        counts
    }
}

/// What was done about one connection.
struct Looked {
    /// Filters that were looked at.
    filters: usize,
    /// Whether that were all.
    is_done: bool,
}
