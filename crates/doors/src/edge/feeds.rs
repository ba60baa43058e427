//! Changes of the ledger for MQTT clients, on a thread of their own.
//!
//! ```text
//!   worker ─ask─▶ channel ─▶ thread: a task for each feed ─▶ EdgeChanges ─▶ part ─▶ JSON ─▶ mail ─▶ worker's broker
//!          ─one more─────────▶ the task reads on ◀────────────┘
//! ```
//!
//! Promise: the messages are those of `/v1/changes`, and their places its cursors, because the same code reads and
//! writes them. A feed has one part in memory here and one at its broker; a client that is away has none, and one that
//! does not acknowledge stops its own feed only.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tidegate_broker::{FeedMessage, FeedNews, ReasonCode};
use tidegate_ledger::LEDGER;
use tidegate_ledger::changes::{After, Change, ChangeFilter, ChangeKind, ChangeLogs, ChangesError};
use tidegate_ledger::operation::Message;
use tidegate_ledger::room::OperationClient;
use tidegate_runtime::pump::Pump;
use tidegate_runtime::recovery::NodeReader;
use tidegate_runtime::{Carries, Room, Site};
use tidegate_wire::mqtt::push_user_property;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::caller_streams::{CallerStreams, StreamName};
use super::{ChangeParts, ChangeReaderMetrics, EdgeChanges};
use crate::auth::{Identity, Pattern};
use crate::json::Problem;
use crate::ledger_http::limits::{CHANGE_HEARTBEAT, CHANGE_STREAMS_MAX};
use crate::ledger_http::{ChangePart, Changes, ChangesEnded, change_json, changes_of};
use crate::mqtt::feeds::{FeedDemand, FeedQuery, FeedSource, NewsReply, PlaceReply};
use crate::reading;
use crate::topic_names::CHANGES;
use crate::turns::CallerName;

/// What workers ask that the thread has not taken yet.
const ASKS_WAITING_MAX: usize = 1_024;
/// The user property of a message that is its cursor.
const CURSOR: &str = "cursor";
/// How long a stopping thread waits for what it has asked of shards.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// What a worker asks.
enum Ask {
    Place(FeedQuery, PlaceReply),
    Read(FeedQuery, NewsReply, mpsc::Receiver<()>),
}

/// The thread, for the workers.
#[derive(Clone)]
pub struct ChangeFeeds {
    asks: mpsc::Sender<Ask>,
}

/// The thread, as a room of a node.
pub struct ChangeFeedsRoom {
    logs: Arc<ChangeLogs<NodeReader>>,
    asks: Option<mpsc::Receiver<Ask>>,
    stop: watch::Sender<bool>,
}

impl ChangeFeedsRoom {
    /// A room that reads `logs`, and the way to it.
    pub fn new(logs: Arc<ChangeLogs<NodeReader>>) -> (ChangeFeedsRoom, ChangeFeeds) {
        let (sender, asks) = mpsc::channel(ASKS_WAITING_MAX);
        let room = ChangeFeedsRoom { logs, asks: Some(asks), stop: watch::channel(false).0 };
        (room, ChangeFeeds { asks: sender })
    }
}

impl FeedSource for ChangeFeeds {
    fn prefix(&self) -> &str {
        CHANGES
    }

    fn place(&self, query: FeedQuery, reply: PlaceReply) {
        if let Err(unsent) = self.asks.try_send(Ask::Place(query, reply)) {
            let Ask::Place(_, reply) = unsent.into_inner() else { unreachable!("it was one just now") };
            reply(Err(ReasonCode::QUOTA_EXCEEDED));
        }
    }

    fn read(&self, query: FeedQuery, reply: NewsReply) -> FeedDemand {
        let (demand, wanted) = mpsc::channel(1);
        let _ = demand.try_send(());
        let topic = topic(&query.filter);
        if let Err(unsent) = self.asks.try_send(Ask::Read(query, reply, wanted)) {
            let Ask::Read(_, reply, _) = unsent.into_inner() else { unreachable!("it was one just now") };
            reply(&topic, FeedNews::Later);
        }
        // Full: one is wanted already. Closed: the feed has said why.
        Box::new(move || {
            let _ = demand.try_send(());
        })
    }
}

impl<P: Carries<Message>> Room<P> for ChangeFeedsRoom {
    fn endpoints(&self) -> u16 {
        1
    }

    fn open(&mut self, site: &mut Site<P>) -> Result<()> {
        let mut pump = Pump::new(site.take_endpoint(), site.status().clone());
        let shards = site.placement().shards(LEDGER);
        let names = pump.client(|me| OperationClient::new(me, shards));
        let metrics = ChangeReaderMetrics::register(site.registry(), "mqtt");
        let changes = EdgeChanges::new(self.logs.clone(), names, site.status().clone(), CHANGE_STREAMS_MAX, metrics);
        let asks = self.asks.take().expect("a room is opened once");
        let stop = self.stop.subscribe();
        site.spawn("changes".to_owned(), move || {
            let runtime = reading::runtime().build();
            runtime.context("a runtime for streams of changes")?.block_on(async {
                let pump = tokio::spawn(pump.run());
                serve(changes, asks, stop).await;
                if tokio::time::timeout(STOP_WITHIN, pump).await.is_err() {
                    tracing::warn!("streams of changes still asked for names when the time to stop was over");
                }
            });
            Ok(())
        })
    }

    fn stop(&mut self) {
        // If the send fails, the receiver has already ended.
        let _ = self.stop.send(true);
    }
}

/// How a task of the thread ended.
enum Ended {
    /// A feed is over.
    Feed(StreamName),
    /// A place was found for a feed that is about to begin, or none was, for this caller.
    Place(Option<Box<str>>),
}

/// Serves until it is told to stop. A feed that is open then ends without a word: its client is sent away.
async fn serve(changes: EdgeChanges, mut asks: mpsc::Receiver<Ask>, mut stop: watch::Receiver<bool>) {
    let mut tasks: JoinSet<Ended> = JoinSet::new();
    let mut streams = CallerStreams::default();
    loop {
        let ask = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            Some(ended) = tasks.join_next() => {
                match ended {
                    Ok(Ended::Feed(name)) => streams.end(&name),
                    Ok(Ended::Place(Some(caller))) => streams.give_back(&caller),
                    // A feed that panicked keeps its place: a bug, which was reported.
                    Ok(Ended::Place(None)) | Err(_) => {}
                }
                continue;
            }
            Some(ask) = asks.recv() => ask,
        };
        match ask {
            Ask::Place(query, reply) => {
                let name = StreamName::of(&query);
                let is_reserved = changes.has_place() && streams.reserve(&name, Instant::now());
                if !is_reserved && !streams.is_open(&name) {
                    reply(Err(ReasonCode::QUOTA_EXCEEDED));
                    continue;
                }
                let changes = changes.clone();
                tasks.spawn(async move {
                    let found = place(&changes, &query).await;
                    let unused = (is_reserved && found.is_err()).then(|| query.identity.name().into());
                    reply(found);
                    Ended::Place(unused)
                });
            }
            Ask::Read(query, reply, wanted) => {
                let name = StreamName::of(&query);
                if !changes.has_place() || !streams.begin(&name, Instant::now()) {
                    reply(&topic(&query.filter), FeedNews::Later);
                    continue;
                }
                let changes = changes.clone();
                tasks.spawn(async move {
                    feed(&changes, &query, reply, wanted).await;
                    Ended::Feed(name)
                });
            }
        }
    }
}

/// Where a feed begins, or the code that its filter is refused with.
async fn place(changes: &EdgeChanges, query: &FeedQuery) -> Result<Box<[u8]>, ReasonCode> {
    let filter = filter(&query.identity, &query.filter).ok_or(ReasonCode::NOT_AUTHORIZED)?;
    let after = after(query).ok_or(ReasonCode::UNSPECIFIED_ERROR)?;
    match changes.place(after, filter).await {
        Ok(cursor) => Ok(cursor.as_bytes().into()),
        Err(ChangesEnded::Unavailable(_)) => Err(ReasonCode::QUOTA_EXCEEDED),
        Err(ChangesEnded::Unreadable(ChangesError::CursorInvalid | ChangesError::OtherHistory { .. })) => {
            Err(ReasonCode::UNSPECIFIED_ERROR)
        }
        Err(ChangesEnded::Unreadable(error)) => {
            tracing::error!("changes for an MQTT client: {error}");
            Err(ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR)
        }
    }
}

/// Reads one feed for as long as its broker wants more of it.
async fn feed(changes: &EdgeChanges, query: &FeedQuery, reply: NewsReply, mut wanted: mpsc::Receiver<()>) {
    let topic = topic(&query.filter);
    let (Some(filter), Some(from)) = (filter(&query.identity, &query.filter), after(query)) else {
        return reply(&topic, over(&Problem::forbidden("the rights of this client have changed")));
    };
    let mut parts = changes.read(CallerName::of_identity(&query.identity), from, filter);
    // Who begins at what comes from now on is told at once which place that is.
    let mut quiet_until = if query.after.is_none() { Some(Instant::now()) } else { None };
    let mut passed: Option<Box<str>> = None;
    while wanted.recv().await.is_some() {
        let next = tokio::select! {
            next = next(&mut parts, &mut passed, &mut quiet_until) => next,
            // One was asked for and none was given: nobody asks for a second.
            _ = wanted.recv() => return,
        };
        match next {
            Ok(part) => reply(&topic, news(&part, &query.identity)),
            Err(ChangesEnded::Unavailable(_)) => return reply(&topic, FeedNews::Later),
            Err(ended @ ChangesEnded::Unreadable(_)) => {
                let problem = Problem::from(ended);
                tracing::warn!("changes for MQTT clients of {}: {}", query.identity.name(), problem.detail());
                return reply(&topic, over(&problem));
            }
        }
    }
}

/// The next part with rows; or, now and then, one without, so that the place of a client moves on that nothing is for.
async fn next(
    parts: &mut ChangeParts,
    passed: &mut Option<Box<str>>,
    quiet_until: &mut Option<Instant>,
) -> Result<ChangePart, ChangesEnded> {
    loop {
        let until = *quiet_until.get_or_insert_with(|| Instant::now() + CHANGE_HEARTBEAT);
        let part = tokio::select! {
            part = parts.next() => part?,
            () = tokio::time::sleep_until(until), if passed.is_some() => {
                *quiet_until = None;
                let cursor = passed.take().expect("it was looked at just now");
                return Ok(ChangePart { rows: Vec::new(), cursor, is_at_end: false });
            }
        };
        if !part.rows.is_empty() {
            (*passed, *quiet_until) = (None, None);
            return Ok(part);
        }
        *passed = Some(part.cursor);
    }
}

/// The changes that a filter names and its client may see; `None` if it may follow none of them.
fn filter(identity: &Identity, filter: &str) -> Option<ChangeFilter> {
    let pattern = Pattern::of_topic_level(filter.strip_prefix(CHANGES)?)?;
    let rights = identity.rights();
    rights.may_read_some_of(&pattern).then(|| changes_of(rights, pattern, ChangeKind::ALL.to_vec()))
}

/// Where to begin; `None` for what is no text.
fn after(query: &FeedQuery) -> Option<After> {
    Some(match query.after.as_deref().map(std::str::from_utf8) {
        None | Some(Ok("now")) => After::Now,
        Some(Ok("start")) => After::Start,
        Some(Ok(cursor)) => After::Cursor(cursor.into()),
        Some(Err(_)) => return None,
    })
}

/// What is said when nothing more will come: a problem that says of itself that it is no change.
fn over(problem: &Problem) -> FeedNews {
    FeedNews::Over { payload: problem.clone().with("kind", "end").body().into() }
}

/// The topic of a filter's messages: as the filter says, and for a wildcard of MQTT the one that it matches.
fn topic(filter: &str) -> Box<str> {
    match filter.strip_prefix(CHANGES) {
        Some("#" | "+") => format!("{CHANGES}*").into(),
        _ => filter.into(),
    }
}

fn news(part: &ChangePart, identity: &Identity) -> FeedNews {
    let message = |row: &Change| {
        let mut properties = Vec::new();
        push_user_property(&mut properties, CURSOR, &row.cursor);
        let payload = change_json(row, identity).into();
        FeedMessage {
            partition: row.shard,
            place: row.cursor.as_bytes().into(),
            properties: properties.into(),
            payload,
        }
    };
    FeedNews::Part { messages: part.rows.iter().map(message).collect(), place: part.cursor.as_bytes().into() }
}
