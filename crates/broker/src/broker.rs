//! One worker's broker: the door through which everything comes in and goes out.

use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use crate::ReasonCode;

use crate::{Action, Admitted, BrokerFacts, BrokerMessage, BrokerOptions, ConnectionKey, Denied, LedgerTicket, Rights};

/// What the shell knows of a connection and the broker needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTraits {
    /// A smaller bound on packets for this listener; 0 for the broker's own.
    pub packet_bytes_max: u32,
}

/// How clients are sent away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainPlan {
    /// Connections of this worker to close per second.
    pub per_second: u32,
    /// Where MQTT 5 clients should go instead.
    pub server_reference: Option<Box<str>>,
}

/// One worker's broker.
#[derive(Debug)]
pub struct Broker<L: LogStore> {
    #[allow(dead_code)]
    options: BrokerOptions,
    facts: BrokerFacts,
    log: PhantomData<L>,
}

impl<L: LogStore> Broker<L> {
    /// A broker over the topic shards that belong to its worker (shard n with n % workers == worker, ascending). It serves when
    /// [`Broker::is_serving`] says so.
    // `shards: Vec<TopicShard<L, Waiting>>` joins the arguments as soon as `shard::topics` is there.
    pub fn new(options: BrokerOptions) -> Broker<L> {
        Broker { options, facts: BrokerFacts::default(), log: PhantomData }
    }

    /// A connection was accepted, or handed off by another worker. `None` when there are too many: close it.
    pub fn open(&mut self, _traits: ConnectionTraits, _now: TimeMs) -> Option<ConnectionKey> {
        None
    }

    /// Bytes from a client. A key that is gone is ignored here and everywhere.
    pub fn receive(&mut self, _key: ConnectionKey, _bytes: &[u8], _now: TimeMs) {}

    /// The socket is closed: by the client, by an error, or because the broker asked for it. The key is forgotten.
    pub fn closed(&mut self, _key: ConnectionKey, _now: TimeMs) {}

    /// The answer to [`Action::Authenticate`].
    pub fn verdict(&mut self, _key: ConnectionKey, _verdict: Result<Admitted, Denied>, _now: TimeMs) {}

    /// The answer to [`Action::AskCollector`].
    pub fn collector(&mut self, _key: ConnectionKey, _account: &str, _is_collector: bool, _now: TimeMs) {}

    /// The answer to [`Action::AskLedger`]: the JSON body, or why there is none.
    pub fn answer(&mut self, _ticket: LedgerTicket, _answer: Result<&[u8], ReasonCode>, _now: TimeMs) {}

    /// What another worker's broker had to say. In the order in which it said it.
    pub fn deliver(&mut self, _from: u16, _message: BrokerMessage, _now: TimeMs) {}

    /// What this broker has to say to `worker` since the last call; to be asked only when the ring there has room.
    pub fn take_batch(&mut self, _worker: u16) -> Option<BrokerMessage> {
        None
    }

    /// Everything that does not come from a socket: shards, timers, what waited. Returns whether there is more to do at once.
    pub fn step(&mut self, _now: TimeMs) -> bool {
        false
    }

    /// Takes what the shell has to do.
    pub fn actions(&mut self) -> impl Iterator<Item = Action> + '_ {
        std::iter::empty()
    }

    /// Adds the connections that have bytes to send since the last call. Nothing while a batch waits for a full ring.
    pub fn take_flushable(&mut self, _keys: &mut Vec<ConnectionKey>) {}

    /// The bytes to send to this client, in one piece.
    pub fn unsent(&self, _key: ConnectionKey) -> &[u8] {
        &[]
    }

    /// The socket took so many of them. The shell calls it again when the socket has become writable and took more.
    pub fn sent(&mut self, _key: ConnectionKey, _count: usize, _now: TimeMs) {}

    /// Whether the shell should read from this connection now. A `no` may become a `yes` with any call of [`Broker::step`].
    pub fn may_read(&self, _key: ConnectionKey) -> bool {
        true
    }

    /// Publishes a message of the server's own (`$SYS`, `$ledger`), QoS 0, not journaled; an empty retained payload clears.
    pub fn announce(&mut self, _topic: &str, _payload: &[u8], _retained: bool, _now: TimeMs) {}

    /// Begins to send all clients away, and refuses new ones.
    pub fn drain(&mut self, _plan: DrainPlan, _now: TimeMs) {}

    /// Whether a drain has come to its end: no client is connected.
    pub fn is_drained(&self) -> bool {
        false
    }

    /// Asks for the rights of every connected user again; `None`: the user is gone, and its clients are disconnected.
    pub fn reload(&mut self, _again: &mut dyn FnMut(&dyn Rights) -> Option<Arc<dyn Rights>>, _now: TimeMs) {}

    /// Whether all peers' subscriptions are known here, so that connections may be opened.
    pub fn is_serving(&self) -> bool {
        false
    }

    /// Whether a sleeping thread should look: a shard's journal has news. As for [`LogStore::has_news`].
    pub fn has_news(&self) -> bool {
        false
    }

    /// This worker's counts.
    pub fn facts(&self) -> BrokerFacts {
        self.facts
    }
}
