//! A reload: the rights of all clients are asked for again, and what they do not cover any more is denied.
//!
//! ```text
//!   reload ─▶ walk ─ a slice each step ─▶ a connection: renew ─▶ its filters, some at a time ─▶ forbidden? denied
//!   packet of a client that the walk has not reached ─▶ renew ─▶ decided by the new rights
//! ```
//!
//! Promise: from the reload on, whatever a client asks for is decided by its new rights. Its subscriptions follow
//! within the walk, which holds nobody up.
//!
//! A subscription that is denied stays, and counts; nothing of it is delivered, because each message of its session is
//! asked about ([`SessionFlags::PARTLY_DENIED`]). Why: a slip in a rule may take rights away that the next reload gives
//! back, and no packet of MQTT asks a client to subscribe anew (`docs/decisions/0032-denied-subscriptions.md`). Those
//! that cannot be so ([`Broker::may_be_in_part`]) are removed, and the client is disconnected, so that it learns of it.
//!
//! Why in slices: eight thousand clients with twenty filters each took a third of a second, in which nobody was served.

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Principal};
use tidegate_wire::mqtt::{ReasonCode, split_filter};

use super::Broker;
use super::notices::{Noticed, SubscriptionsDenied};
use crate::connection::{ConnectionState, Flags};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::RELOAD_WORK_PER_STEP;
use crate::rights::{Renew, RightsOf, address};
use crate::session::SessionFlags;
use crate::shards::Wait;
use crate::topic_tree::NodeId;
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
    /// How many subscriptions of a session are denied, of those that have any.
    denied: HashMap<SessionIndex, usize>,
    /// What the last reload has done, until it is taken.
    done: Option<Reloaded>,
}

/// What a reload has done to the subscriptions of connected clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Clients that lost any, or were given any back.
    pub clients: usize,
    /// Subscriptions that stand, and of which nothing is delivered any more.
    pub denied: usize,
    /// Those that were denied before and are not now.
    pub given_back: usize,
    /// Those that were removed; their clients were disconnected.
    pub removed: usize,
    /// Clients that were disconnected because whoever they are is gone, or has other credentials.
    pub ended: usize,
}

/// One reload.
struct Walk {
    renew: Renew,
    /// By the address of the rights as they were.
    renewed: HashMap<usize, Renewed>,
    /// The connection that is looked at, and those that there were when it began.
    at: u32,
    until: u32,
    /// Whose filters are looked at, how many of them were, and what was found.
    filters: Option<(ConnectionKey, usize, SubscriptionsDenied)>,
    done: Reloaded,
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
        self.walk =
            Some(Walk { renew, renewed: HashMap::new(), at: 0, until, filters: None, done: Reloaded::default() });
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
        split_filter(filter).share_group.is_none() && !self.is_feed(filter) && !self.is_receiver(filter)
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
                self.reloads.done = self.reloads.walk.take().map(|walk| walk.done);
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
        let (from, before) = walk
            .filters
            .filter(|(of, ..)| *of == key)
            .map_or((0, SubscriptionsDenied::default()), |(_, from, found)| (from, found));
        let (filters, found) = self.deny_forbidden_among(place, from, filters_max);
        let until = from + filters - found.removed;
        let found =
            SubscriptionsDenied { denied: before.denied + found.denied, removed: before.removed + found.removed };
        let is_done = until >= self.clients.sessions[place].subscriptions.as_slice().len();
        if is_done {
            // What was read of them was read with the rights before.
            self.open_feeds(place);
            self.count_denied(place, found);
            if found.removed > 0 {
                self.disconnect(index, ReasonCode::NOT_AUTHORIZED, now);
            }
        }
        self.reloads.walk.as_mut().expect("it goes on").filters = Some((key, until, found));
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
                walk.done.ended += 1;
                self.disconnect(index, ReasonCode::NOT_AUTHORIZED, now);
                false
            }
        }
    }

    /// A subscription of a session is about to be removed. A walk that has passed it goes on with the one that it would
    /// have gone on with.
    pub(super) fn keep_walk_in_place(&mut self, place: SessionIndex, node: NodeId) {
        let Some(Walk { filters: Some((key, from, _)), .. }) = &mut self.reloads.walk else { return };
        let session = &self.clients.sessions[place];
        if session.connection.is_some_and(|index| self.clients.key(index) == *key)
            && session.subscriptions.as_slice().iter().take(*from).any(|other| *other == node)
        {
            *from -= 1;
        }
    }

    /// Counts what a reload has found among the subscriptions of a session.
    fn count_denied(&mut self, place: SessionIndex, SubscriptionsDenied { denied, removed }: SubscriptionsDenied) {
        let before = self.note_denied(place, denied);
        let done = &mut self.reloads.walk.as_mut().expect("it goes on").done;
        done.clients += usize::from(denied != before || removed > 0);
        done.denied += denied.saturating_sub(before);
        done.given_back += before.saturating_sub(denied);
        done.removed += removed;
        self.clients.facts.subscriptions_denied += denied.saturating_sub(before) as u64;
        self.clients.facts.subscriptions_given_back += before.saturating_sub(denied) as u64;
        self.clients.facts.subscriptions_removed += removed as u64;
    }

    /// So many subscriptions of a session are denied. How many were before.
    fn note_denied(&mut self, place: SessionIndex, denied: usize) -> usize {
        let before = match denied {
            0 => self.reloads.denied.remove(&place),
            _ => self.reloads.denied.insert(place, denied),
        };
        before.unwrap_or(0)
    }

    /// A session has ended.
    pub(super) fn forget_denied(&mut self, place: SessionIndex) {
        self.reloads.denied.remove(&place);
    }

    /// What the last reload has done, once.
    pub fn take_reloaded(&mut self) -> Option<Reloaded> {
        self.reloads.done.take()
    }

    /// Denies the subscriptions of a session that its client, which comes back, may not have any more. Whether any were
    /// removed.
    pub(super) fn deny_forbidden(&mut self, index: ConnectionIndex, place: SessionIndex) -> bool {
        let (_, found) = self.deny_forbidden_among(place, 0, usize::MAX);
        self.note_denied(place, found.denied);
        self.clients.facts.subscriptions_removed += found.removed as u64;
        if found != SubscriptionsDenied::default() {
            let client_id = self.clients.sessions[place].client_id.clone();
            self.notice(index, Noticed::CameBackDenied(found), &client_id);
        }
        found.removed > 0
    }

    /// The same for so many of them, from the `from`-th on. How many were looked at, and what was found.
    fn deny_forbidden_among(&mut self, place: SessionIndex, from: usize, count: usize) -> (usize, SubscriptionsDenied) {
        let Some(index) = self.clients.sessions[place].connection else { return (0, SubscriptionsDenied::default()) };
        let nodes = self.clients.sessions[place].subscriptions.as_slice();
        let nodes = &nodes[from.min(nodes.len())..];
        let nodes = &nodes[..count.min(nodes.len())];
        let (mut denied, mut is_in_part) = (0, false);
        let mut removed: Vec<Box<str>> = Vec::new();
        for node in nodes {
            let filter = self.subscriptions.filter(*node);
            let parts = split_filter(&filter);
            // A condition is checked when subscribing; if it held once, it holds from then on.
            let access = self.access(index, place, parts.filter);
            match access {
                Access::Allowed | Access::IfConfirmed(_) => {}
                Access::Denied | Access::AllowedInPart if !self.may_be_in_part(&filter) => removed.push(filter.into()),
                Access::AllowedInPart => is_in_part = true,
                Access::Denied => denied += 1,
            }
        }
        let looked = nodes.len();
        if is_in_part || denied > 0 {
            self.clients.sessions[place].flags.set(SessionFlags::PARTLY_DENIED);
        }
        let found = SubscriptionsDenied { denied, removed: removed.len() };
        for filter in removed {
            let session = &self.clients.sessions[place];
            if let Some(slot) = session.slot {
                let shard = session.shard;
                self.shards.call(shard, Command::Unsubscribe { slot, filter: filter.clone() }, Wait::Nothing);
            }
            self.remove(place, &filter);
        }
        (looked, found)
    }
}

/// What was done about one connection.
struct Looked {
    /// Filters that were looked at.
    filters: usize,
    /// Whether that were all.
    is_done: bool,
}
