//! What MQTT clients follow, read on another thread: the broker's feeds, and who reads them.
//!
//! ```text
//!   worker: Action::FindPlace, Feed ─▶ FeedSource ─▶ the thread that reads journals
//!   worker: Broker::placed, feed ◀─ mail ◀─ replies ─┘
//! ```

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_broker::{ConnectionKey, FeedKey, FeedNews, ReasonCode};
use tidegate_runtime::{Address, Parker};

use super::mail::Mail;
use crate::auth::Identity;

/// What somebody wants to follow.
#[derive(Clone, Debug)]
pub struct FeedQuery {
    /// On whose behalf: they get what they may read.
    pub identity: Identity,
    /// For which of their connections: a connection follows a filter once.
    pub client: (Address, ConnectionKey),
    /// The filter.
    pub filter: Box<str>,
    /// Where to begin, as [`tidegate_broker::FeedMessage::place`] said it; `None` for what comes from now on.
    pub after: Option<Box<[u8]>>,
}

/// Takes the place where a feed begins, or what its filter is refused with.
pub type PlaceReply = Box<dyn FnOnce(Result<Box<[u8]>, ReasonCode>) + Send>;
/// Takes the topic of a feed's messages, and what comes of it.
pub type NewsReply = Box<dyn Fn(&str, FeedNews) + Send>;
/// Asks for one more part. Dropping it ends the feed.
pub type FeedDemand = Box<dyn Fn() + Send>;

/// Reads feeds. Its calls come from workers and do not wait.
pub trait FeedSource: Send + Sync {
    /// What the filters of feeds begin with.
    fn prefix(&self) -> &str;
    /// Finds out where a feed begins.
    fn place(&self, query: FeedQuery, reply: PlaceReply);
    /// Begins to read. The first part is wanted at once.
    fn read(&self, query: FeedQuery, reply: NewsReply) -> FeedDemand;
}

/// What has come from another thread. Bounded: a connection waits for one place, and a feed for one part.
pub enum FeedMail {
    /// Where the feed of a SUBSCRIBE begins.
    Place(ConnectionKey, Box<str>, Result<Box<[u8]>, ReasonCode>),
    /// What came of a feed, and the topic of its messages.
    News(FeedKey, Box<str>, FeedNews),
}

/// The feeds of one worker's clients.
pub struct Feeds {
    me: Address,
    source: Option<Arc<dyn FeedSource>>,
    mail: Mail<FeedMail>,
    demands: HashMap<u64, FeedDemand>,
}

impl Feeds {
    /// For the port at `me`, on the worker that is woken by `parker`.
    pub fn new(me: Address, source: Option<Arc<dyn FeedSource>>, parker: Arc<Parker>) -> Feeds {
        Feeds { me, source, mail: Mail::new(parker), demands: HashMap::new() }
    }

    /// Finds out where the feed of a SUBSCRIBE begins. `identity` is `None` for somebody whom the ledger does not know.
    pub fn find_place(
        &self,
        key: ConnectionKey,
        identity: Option<Identity>,
        filter: Box<str>,
        after: Option<Box<[u8]>>,
    ) {
        let sender = self.mail.sender();
        let of = filter.clone();
        let reply = move |found| sender.send(FeedMail::Place(key, of, found));
        match (&self.source, identity) {
            (Some(source), Some(identity)) => {
                source.place(FeedQuery { identity, client: (self.me, key), filter, after }, Box::new(reply));
            }
            _ => reply(Err(ReasonCode::NOT_AUTHORIZED)),
        }
    }

    /// Begins to read a feed of this connection.
    pub fn read(
        &mut self,
        feed: FeedKey,
        key: ConnectionKey,
        identity: Option<Identity>,
        filter: Box<str>,
        after: Box<[u8]>,
    ) {
        let (Some(source), Some(identity)) = (&self.source, identity) else { return };
        let sender = self.mail.sender();
        let reply = move |topic: &str, news| sender.send(FeedMail::News(feed, topic.into(), news));
        let after = (!after.is_empty()).then_some(after);
        let demand = source.read(FeedQuery { identity, client: (self.me, key), filter, after }, Box::new(reply));
        self.demands.insert(feed.0, demand);
    }

    /// One more part is wanted.
    pub fn more(&self, feed: FeedKey) {
        if let Some(demand) = self.demands.get(&feed.0) {
            demand();
        }
    }

    /// Nothing more is wanted.
    pub fn end(&mut self, feed: FeedKey) {
        self.demands.remove(&feed.0);
    }

    /// What has come next.
    pub fn take(&mut self) -> Option<FeedMail> {
        self.mail.take()
    }

    /// Whether something has come.
    pub fn has_news(&self) -> bool {
        self.mail.has_news()
    }
}
