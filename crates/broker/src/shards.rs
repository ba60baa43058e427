//! The topic shards of one worker: commands to them, and which session stands at which slot.
//!
//! ```text
//!   call(command, Wait) ─▶ a shard of topics ─decide, sync─▶ released: Wait, Durable<decision> ─▶ continue
//!   slot of a shard ─▶ session of this worker
//! ```
//!
//! Invariant: nothing here knows connections. What goes on when a command is durable, its [`Wait`] says; the broker
//! does it.

use std::sync::Arc;

use tidegate_journal::LogStore;
use tidegate_machines::topic::{Command, Message, Origin, Slot, Topics};
use tidegate_machines::{ShardIndex, TimeMs};

use crate::OperatorTicket;
use crate::acknowledgements::AckTo;
use crate::broker::{DueThing, Reserved};
use crate::holdings::{Paid, PaidDelayed};
use crate::index::{SessionIndex, ShardPlace};
use crate::limits::PART_SLOTS;
use crate::peer::Source;
use crate::session::SessionRef;
use crate::subscriptions::EntryOptions;
use crate::topics::{Released, TopicShard};

/// What a command to a shard is known by: what goes on when it is durable. Opaque outside.
#[derive(Debug)]
pub struct Waiting(pub(crate) Wait);

/// See [`Waiting`].
#[derive(Debug)]
pub(crate) enum Wait {
    /// Nobody waits.
    Nothing,
    /// It was noted that something which was due is over. What it was known by may be forgotten then, and not before:
    /// after a crash it would be due again, and be taken for another one. Nor is it paid for any longer.
    Noted { thing: DueThing, origin: Option<Origin>, paid: Option<PaidDelayed> },
    /// A session was opened.
    Opened { session: SessionRef },
    /// A session got a connection again, and `forget` is not its will any more. `place`: what was paid for that among
    /// the retained messages.
    Attached { session: SessionRef, forget: Option<Origin>, place: Option<Paid> },
    /// A subscription was added.
    Subscribed {
        session: SessionRef,
        filter: Box<str>,
        options: EntryOptions,
        subscription_id: u32,
        nth: u32,
        reserved: Reserved,
    },
    /// A subscription was removed.
    Unsubscribed { session: SessionRef, filter: Box<str>, nth: u32 },
    /// The place where a feed begins was noted.
    FirstPlace { session: SessionRef, nth: u32 },
    /// The place up to which a feed was acknowledged was noted.
    PlaceKept { feed: u64, session: SessionRef },
    /// A message was put into inboxes, or retained. `asked`: whose, if they are told when they lose one. `unheeded`:
    /// which of them refuse nothing, because their clients take nothing.
    Published { ack_to: Option<AckTo>, asked: Box<[Slot]>, unheeded: Box<[Slot]> },
    /// A message was put into the inbox of a session instead of another's.
    PassedOn { ack_to: AckTo },
    /// A session has ended. What came from it may be forgotten then, and not before: after a crash its will would be
    /// due again. An operator who asked for it is told.
    Ended { origins: Option<u64>, will: Option<Origin>, operator: Option<OperatorTicket> },
    /// A client's PUBREC was noted.
    Received { session: SessionRef, number: u64 },
    /// A message was retained.
    Retained { message: Arc<Message>, source: Source, paid: Option<Paid> },
    /// A message was delayed.
    Delayed { ack_to: Option<AckTo>, paid: PaidDelayed },
    /// A command whose only effect is an acknowledgement.
    Ack { ack_to: AckTo },
}

/// See the [module](self).
pub(crate) struct Shards<L: LogStore> {
    all: Vec<TopicShard<L>>,
    /// Sessions by shard and slot. One that has ended may still stand here: its slot is another's then, or nobody's.
    sessions: Vec<Vec<Option<SessionIndex>>>,
    /// What all of them had lost when that was last asked for.
    lost_before: Lost,
}

/// Messages that left inboxes in the journal, or did not come in, without having been delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// They made room for others.
    pub evicted: u64,
    /// There was no room for them.
    pub full: u64,
    /// They had expired.
    pub expired: u64,
    /// They had waited for as long as an inbox allows.
    pub aged: u64,
}

impl<L: LogStore> Shards<L> {
    /// These shards, ascending, with nobody at their slots yet.
    pub fn new(all: Vec<TopicShard<L>>) -> Shards<L> {
        let sessions = all.iter().map(|_| Vec::new()).collect();
        let mut shards = Shards { sessions, all, lost_before: Lost::default() };
        // What was lost before the start was counted before it.
        shards.take_lost();
        shards
    }

    /// What was lost since this was last asked.
    pub fn take_lost(&mut self) -> Lost {
        let mut now = Lost::default();
        for shard in &self.all {
            let facts = shard.state_ahead().facts();
            now.evicted += facts.evicted;
            now.full += facts.dropped_full;
            now.expired += facts.dropped_expired;
            now.aged += facts.dropped_aged;
        }
        let before = std::mem::replace(&mut self.lost_before, now);
        Lost {
            evicted: now.evicted - before.evicted,
            full: now.full - before.full,
            expired: now.expired - before.expired,
            aged: now.aged - before.aged,
        }
    }

    pub fn len(&self) -> usize {
        assert!(self.all.len() == self.sessions.len(), "each shard has its slots");
        self.all.len()
    }

    /// The places of all of them.
    pub fn places(&self) -> impl Iterator<Item = ShardPlace> + use<L> {
        (0..self.all.len() as u16).map(ShardPlace)
    }

    pub fn as_slice(&self) -> &[TopicShard<L>] {
        &self.all
    }

    pub fn as_mut_slice(&mut self) -> &mut [TopicShard<L>] {
        &mut self.all
    }

    pub fn into_vec(self) -> Vec<TopicShard<L>> {
        self.all
    }

    /// Asks a shard.
    pub fn call(&mut self, shard: ShardPlace, command: Command, wait: Wait) {
        self.all[usize::from(shard.0)].call(Waiting(wait), command);
    }

    /// Asks all of them. Returns how many that are.
    pub fn call_all(&mut self, command: impl Fn() -> Command, wait: impl Fn() -> Wait) -> u16 {
        for shard in &mut self.all {
            shard.call(Waiting(wait()), command());
        }
        self.all.len() as u16
    }

    /// The number of a shard in the directory.
    pub fn number(&self, shard: ShardPlace) -> ShardIndex {
        self[shard].index()
    }

    /// The state of a shard, ahead of the disk.
    pub fn state(&self, shard: ShardPlace) -> &Topics {
        self[shard].state_ahead()
    }

    /// What shards know a publication by that has come from this one.
    pub fn origin(&self, shard: ShardPlace, incarnation: u64, packet_id: u16) -> Origin {
        Origin::new(self.number(shard).0, incarnation, packet_id)
    }

    /// Lets a shard decide and write, if it can. Whether it did anything.
    pub fn step(&mut self, shard: ShardPlace, now: TimeMs) -> bool {
        self.all[usize::from(shard.0)].step(now)
    }

    /// The next command of a shard that is durable, or will never be.
    pub fn released(&mut self, shard: ShardPlace) -> Option<(Wait, Released)> {
        let (Waiting(wait), released) = self.all[usize::from(shard.0)].released()?;
        Some((wait, released))
    }

    /// Whether a shard takes no more commands for now.
    pub fn are_full(&self) -> bool {
        self.all.iter().any(|shard| !shard.has_room())
    }

    /// Whether a message for one worker may be written in several records: by several shards, or for several parts of
    /// one shard's receivers.
    pub fn may_split(&self) -> bool {
        self.all.len() > 1 || self.sessions.iter().any(|slots| slots.len() > PART_SLOTS)
    }

    /// Remembers which session stands at a slot.
    pub fn set_session_at(&mut self, shard: ShardPlace, slot: Slot, session: SessionIndex) {
        let slots = &mut self.sessions[usize::from(shard.0)];
        let nth = slot.0 as usize;
        if slots.len() <= nth {
            slots.resize(nth + 1, None);
        }
        slots[nth] = Some(session);
    }

    /// The session that stood at a slot last, if any did. Whether it still does, the session says.
    pub fn session_at(&self, shard: ShardPlace, slot: Slot) -> Option<SessionIndex> {
        *self.sessions[usize::from(shard.0)].get(slot.0 as usize)?
    }
}

impl<L: LogStore> std::ops::Index<ShardPlace> for Shards<L> {
    type Output = TopicShard<L>;

    fn index(&self, shard: ShardPlace) -> &TopicShard<L> {
        &self.all[usize::from(shard.0)]
    }
}
