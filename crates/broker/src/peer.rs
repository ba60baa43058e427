//! What workers' brokers send each other, and which peers have sent all their recovered subscriptions.

use std::sync::Arc;

use tidegate_machines::topic::{Message, Origin};
use tidegate_machines::{ShardIndex, TimeMs};

use crate::BrokerMessage;
use crate::acknowledgements::{AckTo, Ticket, Word};
use crate::broker::PassedMessage;
use crate::holdings::{Holder, PaidDelayed};
use crate::index::SessionIndex;
use crate::session::SessionRef;
use crate::share::Picked;
use crate::subscriptions::{Entry, Owner, Presence};

/// A session of some worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Publisher {
    pub worker: u16,
    pub session: SessionRef,
}

/// The source of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    /// For no-local subscriptions.
    /// `[MQTT-3.8.3-3]`: No Local: a message is not sent to the client id that published it.
    pub publisher: Option<Publisher>,
    /// So that shards take it once.
    pub origin: Option<Origin>,
    /// Where to acknowledge that it is durable.
    pub ack_to: Option<AckTo>,
    /// It was sent before, and somebody could not keep it then: whoever is sent it without keeping it has it.
    pub is_again: bool,
    /// The [hash](crate::share::hash) of the publisher's client id, if share groups go by it.
    pub client: u64,
    /// Another member of a share group has left it, and it is offered since then.
    pub left_at: Option<TimeMs>,
}

/// One item of a message between brokers.
#[derive(Debug)]
pub(crate) enum Item {
    /// All subscriptions that this worker recovered have been sent.
    ReplicaComplete,
    /// A session of mine subscribes. The filter is as the client wrote it.
    Subscribed { filter: Box<str>, entry: Entry },
    /// A session of mine does no more. If `is_asked`, I wait to hear that you know it.
    Unsubscribed { filter: Box<str>, owner: Owner, is_asked: bool },
    /// I know that a session of yours has unsubscribed: what I have matched before that, you have.
    HeardUnsubscribed { session: SessionIndex },
    /// A session of mine, a member of this share group, is there so far.
    Presence { filter: Box<str>, owner: Owner, presence: Presence },
    /// A message for sessions of yours: so many of the receivers that come with the batch, among whom a session may
    /// stand several times, and so many of those that stand for a share group.
    Publish { message: Arc<Message>, receivers: u32, picked: u32, may_repeat: bool, source: Source },
    /// A message that waits for a session of mine, for one of yours.
    PassOn { passed: Box<PassedMessage> },
    /// The acknowledgement of a message: it is durable here, or was refused.
    Ack { ticket: Ticket, word: Word },
    /// A message to be retained, on a topic of a shard of yours.
    Retain { message: Arc<Message>, source: Source, payer: Option<Holder>, has_place: bool },
    /// A message of a session of yours could not be retained.
    NotRetained { message: Arc<Message>, source: Source },
    /// A message is retained now; bring it to your sessions, too.
    Retained { message: Arc<Message>, picked: Box<[Picked]>, source: Source },
    /// A retained message that was found at the start.
    Recovered { message: Arc<Message> },
    /// A message to be published later, on a topic of a shard of yours.
    Delay { message: Arc<Message>, at: TimeMs, source: Source, paid: PaidDelayed },
    /// The publication is over: its packet id may name another.
    ForgetOrigin { origin: Origin, ack_to: Option<AckTo> },
    /// Wills and delayed messages that shards of mine know, found at the start: forget those that are over.
    Names { names: Arc<[Origin]> },
    /// The session is over.
    ForgetOrigins { shard: ShardIndex, incarnation: u64 },
}

/// The items to be sent to each peer, and which peers have sent all that they recovered at the start.
#[derive(Debug)]
pub(crate) struct Peers {
    own: u16,
    batches: Vec<BrokerMessage>,
    complete: Vec<bool>,
}

impl Peers {
    pub fn new(own: u16, workers: u16) -> Peers {
        assert!(own < workers, "a worker is one of all");
        let batches = (0..workers).map(|_| BrokerMessage::default()).collect();
        let complete = (0..workers).map(|worker| worker == own).collect();
        Peers { own, batches, complete }
    }

    /// All other workers.
    pub fn others(&self) -> impl Iterator<Item = u16> + use<> {
        let own = self.own;
        (0..self.batches.len() as u16).filter(move |worker| *worker != own)
    }

    /// What will be sent to one peer.
    pub fn batch(&mut self, worker: u16) -> &mut BrokerMessage {
        assert!(worker != self.own, "nobody talks to itself");
        &mut self.batches[worker as usize]
    }

    pub fn send_to(&mut self, worker: u16, item: Item) {
        self.batch(worker).items.push(item);
    }

    pub fn broadcast(&mut self, item: impl Fn() -> Item) {
        for worker in self.others() {
            self.send_to(worker, item());
        }
    }

    pub fn take(&mut self, worker: u16) -> Option<BrokerMessage> {
        let batch = &mut self.batches[worker as usize];
        let are_none = batch.receivers.is_empty() && batch.picked.is_empty();
        assert!(!batch.items.is_empty() || are_none, "receivers come with a message");
        (!batch.items.is_empty()).then(|| std::mem::take(batch))
    }

    /// Whether something waits to be taken.
    pub fn have_waiting(&self) -> bool {
        self.batches.iter().any(|batch| !batch.items.is_empty())
    }

    /// The most that waits for one peer.
    pub fn waiting_max(&self) -> usize {
        self.batches
            .iter()
            .map(|batch| batch.items.len() + (batch.receivers.len() + batch.picked.len()) / 8)
            .max()
            .unwrap_or(0)
    }

    pub fn complete(&mut self, worker: u16) {
        let was_complete = std::mem::replace(&mut self.complete[worker as usize], true);
        assert!(!was_complete, "a worker has told all once, and is another");
    }

    pub fn are_complete(&self) -> bool {
        self.complete.iter().all(|complete| *complete)
    }

    /// Panics if something disagrees. Visits everything: for tests and simulation.
    pub fn assert_sound(&self) {
        assert_eq!(self.batches.len(), self.complete.len(), "one batch a worker");
        let own = &self.batches[self.own as usize];
        let are_none = own.receivers.is_empty() && own.picked.is_empty();
        assert!(own.items.is_empty() && are_none, "nobody talks to itself");
        for batch in &self.batches {
            let (mut of_all, mut picked_of_all) = (0, 0);
            for item in &batch.items {
                if let Item::Publish { receivers, picked, .. } = item {
                    (of_all, picked_of_all) = (of_all + *receivers as usize, picked_of_all + *picked as usize);
                }
            }
            let found = (batch.receivers.len(), batch.picked.len());
            assert_eq!((of_all, picked_of_all), found, "each receiver belongs to a message");
        }
    }
}
