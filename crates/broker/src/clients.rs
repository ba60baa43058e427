//! The connections and sessions of one worker, and what is sent to them.
//!
//! ```text
//!   session ─▶ connection ─▶ outbox        indices into slabs: no pointers, and an idle client has no outbox
//! ```

mod deliver;
mod inputs;
mod left;
mod outboxes;
mod send;
mod sound;
mod waiting;

use hashbrown::{HashMap, HashTable};

use self::inputs::Inputs;
pub(crate) use self::left::LeftMessage;
use self::left::LeftMessages;
use self::outboxes::Outboxes;
use self::waiting::Backlogs;
use crate::connection::{Connection, ConnectionState};
use crate::holdings::Thing;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::UNREAD_FREE_BYTES;
use crate::rights::RightsTable;
use crate::session::{Session, SessionRef, Stage};
use crate::share::OfGroup;
use crate::slab::Slab;
use crate::template::Templates;
use crate::{BrokerFacts, BrokerLimits, ConnectionKey};

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Clients {
    /// Whose they are.
    worker: u8,
    pub connections: Slab<ConnectionIndex, Connection>,
    pub sessions: Slab<SessionIndex, Session>,
    /// Sessions by client id.
    by_client_id: HashTable<SessionIndex>,
    /// Messages and bytes that wait for sessions in their shards, where any do.
    queued: HashMap<SessionIndex, (u64, u64)>,
    pub outboxes: Outboxes,
    backlogs: Backlogs,
    left: LeftMessages,
    inputs: Inputs,
    /// The rights of all connections.
    pub rights: RightsTable,
    flushable: Vec<ConnectionKey>,
    templates: Templates,
    pub facts: BrokerFacts,
    pub limits: BrokerLimits,
    hasher: foldhash::fast::RandomState,
}

/// The result of sending one packet to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    Sent,
    /// The client does not take packets of this size.
    /// `[MQTT-3.1.2-24]`: the server sends nothing larger than the client's Maximum Packet Size.
    TooLarge,
}

/// What one receiver is to get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy<'a> {
    pub qos: u8,
    pub retain: bool,
    pub subscription_ids: &'a [u32],
    /// By which share group it comes, if by one.
    pub of_group: Option<OfGroup>,
}

/// The result of delivering a copy to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Sent, kept, or dropped and counted.
    Done,
    /// Its inbox is over its bound and the policy is to disconnect.
    Refused,
}

impl Clients {
    pub fn new(worker: u8, limits: BrokerLimits) -> Clients {
        Clients {
            worker,
            connections: Slab::default(),
            sessions: Slab::default(),
            by_client_id: HashTable::new(),
            queued: HashMap::new(),
            outboxes: Outboxes::default(),
            backlogs: Backlogs::default(),
            left: LeftMessages::default(),
            inputs: Inputs::default(),
            rights: RightsTable::default(),
            flushable: Vec::new(),
            templates: Templates::default(),
            facts: BrokerFacts::default(),
            limits,
            hasher: foldhash::fast::RandomState::default(),
        }
    }

    /// The place of a connection, if it is still the one that is meant.
    #[inline]
    pub fn index(&self, key: ConnectionKey) -> Option<ConnectionIndex> {
        let index = ConnectionIndex::new(key.index);
        let connection = self.connections.get(index)?;
        (connection.generation == key.generation && connection.state != ConnectionState::Vacant).then_some(index)
    }

    pub fn key(&self, index: ConnectionIndex) -> ConnectionKey {
        assert!(self.connections[index].state != ConnectionState::Vacant, "who has a key is there");
        ConnectionKey { index: index.number(), generation: self.connections[index].generation }
    }

    /// The place of a session, if it is still the one that is meant.
    #[inline]
    pub fn session(&self, session: SessionRef) -> Option<SessionIndex> {
        let found = self.sessions.get(session.index)?;
        (found.generation == session.generation && found.stage != Stage::Vacant).then_some(session.index)
    }

    /// The session of a connected client. Both point to each other.
    #[inline]
    pub fn session_of(&self, index: ConnectionIndex) -> SessionIndex {
        let connection = &self.connections[index];
        assert!(connection.state == ConnectionState::Connected, "only who is connected is served");
        let session = connection.session.expect("who is connected has a session");
        assert!(self.sessions[session].connection == Some(index), "connection and session point to each other");
        session
    }

    /// The connection of a session whose client is connected. Both point to each other.
    #[inline]
    pub fn connected(&self, session: SessionIndex) -> Option<ConnectionIndex> {
        let index = self.sessions[session].connection?;
        let connection = &self.connections[index];
        assert!(connection.session == Some(session), "connection and session point to each other");
        (connection.state == ConnectionState::Connected).then_some(index)
    }

    pub fn session_ref(&self, index: SessionIndex) -> SessionRef {
        assert!(self.sessions[index].stage != Stage::Vacant, "who is remembered is there");
        SessionRef { index, generation: self.sessions[index].generation }
    }

    pub fn find_session(&self, client_id: &str) -> Option<SessionIndex> {
        let hash = self.hash(client_id);
        self.by_client_id.find(hash, |index| &*self.sessions[*index].client_id == client_id).copied()
    }

    /// Registers a session by its client id, which no other session may have.
    pub fn add_session(&mut self, session: Session) -> SessionIndex {
        assert!(session.stage != Stage::Vacant, "a session that is added is somebody's");
        assert!(self.find_session(&session.client_id).is_none(), "a client id names one session");
        let index = self.sessions.take();
        let hash = self.hash(&session.client_id);
        assert!(self.sessions[index].stage == Stage::Vacant, "a place that is taken was nobody's");
        let generation = self.sessions[index].generation;
        self.sessions[index] = Session { generation, ..session };
        let (sessions, hasher) = (&self.sessions, &self.hasher);
        self.by_client_id.insert_unique(hash, index, |other| hash_of(hasher, &sessions[*other].client_id));
        self.facts.sessions += 1;
        self.facts.sessions_durable += u64::from(self.sessions[index].is_durable());
        index
    }

    /// Forgets a session. Its place may be another's at once, with another generation.
    pub fn remove_session(&mut self, index: SessionIndex) -> Session {
        assert!(self.sessions[index].stage != Stage::Vacant, "a session is removed once");
        let hash = self.hash(&self.sessions[index].client_id);
        let entry = self.by_client_id.find_entry(hash, |other| *other == index).expect("a session stands under its id");
        entry.remove();
        let generation = self.sessions[index].generation.wrapping_add(1);
        self.settle_queue(index, (0, 0));
        self.drop_backlog(index);
        let session = std::mem::replace(&mut self.sessions[index], Session { generation, ..Session::default() });
        self.sessions.give(index);
        if let Some(owner) = session.owner.as_ref().filter(|_| session.paid_bytes > 0) {
            owner.release(Thing::Session, 1, session.paid_bytes.into());
        }
        assert!(self.facts.sessions > 0, "what is removed was counted");
        self.facts.sessions -= 1;
        assert!(self.facts.sessions_durable >= u64::from(session.is_durable()), "what is removed was counted");
        self.facts.sessions_durable -= u64::from(session.is_durable());
        assert!(self.sessions.len() as u64 == self.facts.sessions, "sessions are counted where they are kept");
        session
    }

    /// Takes what waits in a connection's input out of it.
    pub fn take_input(&mut self, index: ConnectionIndex) -> Vec<u8> {
        self.connections[index].input.take().map_or_else(Vec::new, |input| self.inputs.take(input))
    }

    pub fn input(&self, index: ConnectionIndex) -> &[u8] {
        self.connections[index].input.map_or(&[], |input| self.inputs.get(input))
    }

    /// Puts back what is left of an input; nothing is kept for nothing.
    pub fn put_input(&mut self, index: ConnectionIndex, input: Vec<u8>) {
        let connection = &mut self.connections[index];
        assert!(connection.input.is_none(), "an input is put back once");
        assert!(connection.state != ConnectionState::Vacant, "nobody has no input");
        if !input.is_empty() {
            connection.input = Some(self.inputs.put(input));
        }
    }

    /// So many messages wait for a session in its shard now, with so many bytes: its owner pays for them.
    pub fn settle_queue(&mut self, index: SessionIndex, now: (u64, u64)) {
        let Some(owner) = &self.sessions[index].owner else { return };
        let before = if now == (0, 0) { self.queued.remove(&index) } else { self.queued.insert(index, now) };
        owner.settle(Thing::Queued, before.unwrap_or_default(), now);
    }

    /// What the owner of a session pays for, of messages that wait for it: how many, and their bytes.
    pub fn queued(&self, index: SessionIndex) -> (u64, u64) {
        self.queued.get(&index).copied().unwrap_or_default()
    }

    /// Lets the owner of a session pay for what is there of a packet without the rest. Whether it may be kept.
    pub fn pay_for_input(&mut self, index: ConnectionIndex) -> bool {
        let (connection, bytes) = (&self.connections[index], self.input(index).len());
        let owner = connection.session.and_then(|session| self.sessions[session].owner.as_ref());
        let (Some(owner), Some(input)) = (owner.filter(|_| bytes > UNREAD_FREE_BYTES), connection.input) else {
            return true;
        };
        match owner.hold(Thing::Unread, 1, bytes as u64) {
            Ok(paid) => self.inputs.pay(input, paid),
            Err(_) => self.facts.unread_refused += 1,
        }
        self.inputs.is_paid(input)
    }

    fn hash(&self, client_id: &str) -> u64 {
        hash_of(&self.hasher, client_id)
    }
}

fn hash_of(hasher: &foldhash::fast::RandomState, client_id: &str) -> u64 {
    use std::hash::BuildHasher;
    hasher.hash_one(client_id)
}
