//! `tidegate queue walk`: sends what waits on a node that has stopped or crashed to another server.
//!
//! ```text
//!   data directory, nobody's ─▶ shards as their logs leave them ─▶ messages in the order of their keys
//!                                                                     │ batches, by queue
//!   another server, which serves meanwhile ◀── POST /v1/queues/{queue}/messages, the key as id
//! ```
//!
//! Promise: nothing is written into the directory, and a message is counted as sent when the other server has it. Its
//! key is its id there, so a second walk, or a link that brought it before, has it taken once, as long as that queue
//! remembers ids. What was handed out and not acknowledged is sent, too: whoever had it may not have been done. A queue
//! that is full there, is not there, or that this client may not send to, keeps no other one back: it is passed over
//! from then on, and named at the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::recorded_end::RecordedEnd;
use tidegate_journal::{LocalLogs, LogStore, Logs};
use tidegate_machines::IdSpace;
use tidegate_queue::machine::{Message, MessageKey, MessageState, MessageView, Via};
use tidegate_queue::{QUEUES, QueuesFamily, StoppedShard, id_elsewhere};
use tidegate_runtime::recorded_claim;
use tidegate_shard::loss::{Claim, examine, fold_to_end};

use super::connection::server;
use super::door::{Door, encoded};
use super::failure::Failure;
use super::id::not_empty;
use super::table::Shown;
use crate::command::audit::snapshots;
use crate::command::wrong_bytes::WrongBytes;
use crate::output::{complain, say};

/// Messages that are read together.
const BATCH_MESSAGES: usize = 500;
/// Bytes of the messages of one request: also as JSON, they are below what a server takes by default.
const REQUEST_BYTES_MAX: usize = 256 << 10;
/// How long a server that is busy is asked again.
const RETRY_FOR: Duration = Duration::from_secs(300);
/// How long to wait before that, unless the server says how long.
const PAUSE: Duration = Duration::from_secs(1);
/// Messages of a queue of which it is told why they are not taken.
const REFUSED_TOLD_MAX: u64 = 100;
/// How often to say how far it is where there is no terminal for a bar.
const PROGRESS_LINE_EVERY: Duration = Duration::from_secs(10);

/// What holds when a walk is begun again.
const ONCE: &str = "what was sent already is not taken twice, as long as the queues there remember ids (id_window_ms)";

/// What to send, and where.
#[derive(Args)]
pub struct WalkArguments {
    /// The data directory of the node. No server may be using it; nothing in it is changed.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The HTTP door of the server that gets the messages; --server if absent. Its queues have the same names, and are
    /// there already. A message that it got before is not taken again as long as its queue remembers ids
    /// (id_window_ms).
    #[arg(long, value_name = "URL", value_parser = server)]
    to: Option<String>,
    /// Messages of this queue only; again for each.
    #[arg(long = "queue", value_name = "NAME", value_parser = not_empty)]
    queues: Vec<String>,
    /// The queue there that gets them, if it is not the one of the same name. With one --queue. A queue does not take
    /// what has come through it before, also if it has given it on.
    #[arg(long, value_name = "NAME", value_parser = not_empty, requires = "queues")]
    into: Option<String>,
    /// Only messages whose keys come after this one: where a walk before has stopped.
    #[arg(long, value_name = "KEY")]
    after: Option<MessageKey>,
    /// Only messages up to this key.
    #[arg(long, value_name = "KEY")]
    until: Option<MessageKey>,
    /// Have the ids of senders remembered there, too, as far as this node remembers them: what a sender sends again
    /// there, because this server has not answered, is taken once, and found by its id. For a queue that gets the
    /// messages of these senders alone: those of others may have the same ids, and would not be taken.
    #[arg(long)]
    with_ids: bool,
    /// Read and count, and send nothing.
    #[arg(long)]
    dry_run: bool,
}

impl WalkArguments {
    /// The server that gets the messages, if it is named here.
    pub(super) fn server(&self) -> Option<&str> {
        self.to.as_deref()
    }
}

/// What became of the messages of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    messages: u64,
    sent: u64,
    duplicates: u64,
    expired: u64,
    unreadable: u64,
    /// Sent without attributes that no HTTP client can send.
    stripped: u64,
    /// Not sent, because the queue there was passed over.
    left: u64,
    /// Not taken, for what they are.
    refused: u64,
}

impl Counts {
    fn add(&mut self, more: Counts) {
        self.messages += more.messages;
        self.sent += more.sent;
        self.duplicates += more.duplicates;
        self.expired += more.expired;
        self.unreadable += more.unreadable;
        self.stripped += more.stripped;
        self.left += more.left;
        self.refused += more.refused;
    }
}

type Shard = StoppedShard<<<LocalLogs<RealDisk> as Logs>::Log as LogStore>::Reader>;

/// Walks, and says what became of the messages and where to go on.
pub(super) fn run(door: &Door, shown: &Shown, arguments: &WalkArguments) -> Result<(), Failure> {
    let Opened { _directory, shards, losses } = opened(&arguments.data)?;
    losses.iter().for_each(|loss| complain(format_args!("LOST: {loss}")));
    let is_known = |queue: &str| shards.iter().any(|shard| shard.has_queue(queue));
    if let Some(unknown) = arguments.queues.iter().find(|queue| !is_known(queue)) {
        return Err(anyhow!("{}: there is no queue {unknown:?} in it", arguments.data.display()).into());
    }
    if arguments.into.is_some() && arguments.queues.len() != 1 {
        return Err(anyhow!("--into is for the messages of one queue: name one --queue").into());
    }
    let all = shards.iter().map(StoppedShard::count).sum();
    let mut walk = Walk {
        door,
        arguments,
        is_json: shown.is_json(),
        bar: bar(all),
        told_at: Instant::now(),
        counts: BTreeMap::new(),
        done: arguments.after,
        passed_over: BTreeMap::new(),
    };
    let done = walk.shards(&shards);
    walk.bar.finish_and_clear();
    walk.summary(done.is_ok() && walk.passed_over.is_empty());
    done?;
    if !walk.passed_over.is_empty() {
        return Err(walk.queues_passed_over());
    }
    if let refused @ 1.. = walk.total().refused {
        return Err(anyhow!(
            "{refused} messages are not taken there; all others were walked. Why was told. Of what a queue there has, \
             nothing is to be done; what it has had, and was lost behind it, another queue takes: walk again with \
             --queue NAME --into OTHER"
        )
        .into());
    }
    match walk.total().unreadable {
        0 if losses.is_empty() => Ok(()),
        0 => Err(anyhow!(
            "what is left was walked; the directory has lost its newest records, and messages with them: see the \
             lines with LOST, and walk again if their files come back"
        )
        .into()),
        count => Err(anyhow!("{count} messages cannot be read and were not sent; their keys were told").into()),
    }
}

/// A directory that nobody uses.
struct Opened {
    /// Keeps others from using it.
    _directory: Directory,
    /// Its queues, as far as its logs go.
    shards: Vec<Shard>,
    /// What is proven to be lost behind that.
    losses: Vec<String>,
}

/// Opens a directory that nobody uses, and folds its queues.
fn opened(data: &Path) -> Result<Opened, Failure> {
    let families = [QUEUES];
    let directory = Directory::open_to_judge(data, &families).map_err(anyhow::Error::from)?;
    let logs = LocalLogs::new(RealDisk, data, &families).mending(WrongBytes::default().reading());
    let shards = directory.shards(QUEUES);
    let (mut found, mut losses) = (Vec::new(), Vec::new());
    for log in directory.logs(QUEUES) {
        let what = || format!("queues shard {}: tidegate audit --data {} says more", log.shard, data.display());
        let snapshots = snapshots::<QueuesFamily>(data, log);
        let recorded = recorded_claim(&RecordedEnd::new(RealDisk, data, &QUEUES, log)).with_context(what)?;
        let claims: Vec<Claim> = recorded.into_iter().collect();
        let examined = examine(&logs, &snapshots, &claims).map_err(anyhow::Error::from).with_context(what)?;
        losses.extend(examined.loss::<QueuesFamily>(log).map(|loss| loss.to_string()));
        let state =
            fold_to_end(&logs, &snapshots, shards, &examined).map_err(anyhow::Error::from).with_context(what)?;
        found.push(StoppedShard::new(state, logs.reader(log).map_err(anyhow::Error::from).with_context(what)?));
    }
    match found.is_empty() {
        true => Err(anyhow!("{}: there are no queues in it", data.display()).into()),
        false => Ok(Opened { _directory: directory, shards: found, losses }),
    }
}

struct Walk<'a> {
    door: &'a Door,
    arguments: &'a WalkArguments,
    is_json: bool,
    bar: ProgressBar,
    told_at: Instant,
    counts: BTreeMap<Box<str>, Counts>,
    /// All up to this key is done.
    done: Option<MessageKey>,
    /// Queues that take nothing there, and what the server says of that: nothing more is sent to them.
    passed_over: BTreeMap<Box<str>, String>,
}

impl Walk<'_> {
    /// Goes through the shards together, by key.
    fn shards(&mut self, shards: &[Shard]) -> Result<(), Failure> {
        let WalkArguments { after, until, .. } = *self.arguments;
        let mut ahead: Vec<_> = shards.iter().map(|shard| shard.messages(after).peekable()).collect();
        let mut batch: Vec<(usize, MessageView)> = Vec::with_capacity(BATCH_MESSAGES);
        loop {
            let keys = ahead.iter_mut().enumerate().filter_map(|(index, views)| Some((views.peek()?.key, index)));
            let next = keys.min().filter(|(key, _)| until.is_none_or(|until| *key <= until));
            let Some((_, index)) = next else { break };
            let view = ahead[index].next().expect("it was seen just now");
            self.bar.inc(1);
            batch.push((index, view));
            if batch.len() == BATCH_MESSAGES {
                self.batch(shards, &std::mem::take(&mut batch))?;
            }
        }
        self.batch(shards, &batch)
    }

    /// Sends the messages of a batch, each to its queue.
    fn batch(&mut self, shards: &[Shard], batch: &[(usize, MessageView)]) -> Result<(), Failure> {
        let queues = &self.arguments.queues;
        let is_wanted = |view: &MessageView| queues.is_empty() || queues.iter().any(|queue| **queue == *view.queue);
        let mut read = BTreeMap::new();
        for (index, shard) in shards.iter().enumerate() {
            let here = batch.iter().filter(|(of, view)| *of == index && is_wanted(view)).map(|(_, view)| view);
            read.extend(shard.read(here));
        }
        let mut by_queue: BTreeMap<Box<str>, Vec<Walked<'_>>> = BTreeMap::new();
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
        for (index, view) in batch.iter().filter(|(_, view)| is_wanted(view)) {
            let counts = self.counts.entry(view.queue.clone()).or_default();
            counts.messages += 1;
            match read.remove(&view.key) {
                _ if view.expires_at.is_some_and(|at| at.0 <= now_ms) => counts.expired += 1,
                Some(Ok(message)) => {
                    let origin = shards[*index].origin(view, &message).filter(|_| self.arguments.with_ids);
                    let walked = Walked { view, origin: origin.map(Into::into), message };
                    by_queue.entry(view.queue.clone()).or_default().push(walked);
                }
                unread => {
                    counts.unreadable += 1;
                    let why = unread.and_then(Result::err).unwrap_or_else(|| "its log does not have it".into());
                    let (key, queue) = (view.key, &view.queue);
                    self.bar.suspend(|| complain(format_args!("tidegate: {key} of {queue} cannot be read: {why}")));
                }
            }
        }
        for (queue, messages) in by_queue.iter().filter(|_| !self.arguments.dry_run) {
            let sent = match self.passed_over.contains_key(queue) {
                true => 0,
                false => self.queue(queue, messages)?,
            };
            self.counts.entry(queue.clone()).or_default().left += (messages.len() - sent) as u64;
        }
        // Who goes on comes to what was passed over, too.
        if self.passed_over.is_empty() {
            self.done = batch.last().map(|(_, view)| view.key).or(self.done);
        }
        self.tell();
        Ok(())
    }

    /// Sends messages to their queue, in requests of a size that a server takes and for which the queue has room. How
    /// many it took: all, unless it is passed over.
    fn queue(&mut self, queue: &str, messages: &[Walked<'_>]) -> Result<usize, Failure> {
        let (mut rest, mut most) = (messages, messages.len());
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|walked| {
                bytes += walked.message.bytes();
                bytes <= REQUEST_BYTES_MAX
            });
            let (part, behind) = rest.split_at(fits.count().clamp(1, most));
            let bodies: Vec<Value> = part.iter().map(body_of).collect();
            let into = self.arguments.into.as_deref().unwrap_or(queue);
            let answer = self.post(&format!("/v1/queues/{}/messages", encoded(into)), &json!({ "messages": bodies }));
            if let Err(Failure::Refused(refusal)) = &answer
                && matches!(refusal.code(), "queue_full" | "ordering_keys_full" | "queue_not_found" | "forbidden")
            {
                // Fewer may have room.
                if refusal.code().ends_with("_full") && part.len() > 1 {
                    most = part.len() / 2;
                    continue;
                }
                self.passed_over.insert(queue.into(), refusal.detail().to_owned());
                return Ok(messages.len() - rest.len());
            }
            if let Err(Failure::Refused(refusal)) = &answer
                && refusal.code() == "message_invalid"
            {
                most = (part.len() / 2).max(1);
                if let [walked] = part {
                    self.refused(walked.view, refusal.detail());
                    (rest, most) = (behind, messages.len());
                }
                continue;
            }
            let answer = answer.map_err(|failure| failure.while_doing(&format!("messages for the queue {queue:?}")))?;
            let receipts = answer["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
            if receipts.len() != part.len() {
                let (sent, taken) = (part.len(), receipts.len());
                return Err(anyhow!("{sent} messages were sent, and the server answered for {taken}").into());
            }
            let duplicates = receipts.iter().filter(|receipt| receipt["duplicate"] == true).count() as u64;
            let counts = self.counts.entry(queue.into()).or_default();
            counts.duplicates += duplicates;
            counts.stripped += part.iter().filter(|walked| is_stripped(&walked.message)).count() as u64;
            counts.sent += part.len() as u64 - duplicates;
            rest = behind;
        }
        Ok(messages.len())
    }

    /// A message is not taken there, whatever it waits for: others are as good as before.
    fn refused(&mut self, view: &MessageView, why: &str) {
        let counts = self.counts.entry(view.queue.clone()).or_default();
        counts.refused += 1;
        if counts.refused <= REFUSED_TOLD_MAX {
            let (key, queue) = (view.key, &view.queue);
            self.bar.suspend(|| complain(format_args!("tidegate: {key} of {queue} is not taken: {why}")));
        }
    }

    /// Which queues did not take all there, as the end of a walk.
    fn queues_passed_over(&self) -> Failure {
        let left = |queue: &str| self.counts.get(queue).map_or(0, |counts| counts.left);
        let named = self.passed_over.iter().map(|(queue, why)| format!("{queue} ({} not sent): {why}", left(queue)));
        let (count, named) = (self.passed_over.len(), named.collect::<Vec<_>>().join("; "));
        anyhow!(
            "{count} queues there did not take all, and all others were walked: {named}. Mend that, and walk again: \
             {ONCE}"
        )
        .into()
    }

    /// Posts, again as long as the server is busy.
    fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let since = Instant::now();
        loop {
            let refusal = match self.door.post(path, body) {
                Err(Failure::Refused(refusal)) if refusal.is_passing() => refusal,
                done => return done,
            };
            let pause = refusal.retry_after.unwrap_or(PAUSE).max(Duration::from_millis(100));
            if since.elapsed() + pause > RETRY_FOR {
                return Err(Failure::Refused(refusal));
            }
            self.bar.set_message("waiting for the server");
            std::thread::sleep(pause);
        }
    }

    fn total(&self) -> Counts {
        self.counts.values().fold(Counts::default(), |mut total, counts| {
            total.add(*counts);
            total
        })
    }

    /// Says how far it is.
    fn tell(&mut self) {
        let Counts { sent, duplicates, .. } = self.total();
        self.bar.set_message(format!("{sent} sent, {duplicates} there before"));
        if let Some(key) = self.done
            && self.bar.is_hidden()
            && !self.is_json
            && self.told_at.elapsed() >= PROGRESS_LINE_EVERY
        {
            complain(format_args!("tidegate: {sent} sent, {duplicates} there before, done up to {key}"));
            self.told_at = Instant::now();
        }
    }

    fn summary(&self, is_whole: bool) {
        if self.is_json {
            return say(format_args!("{}", self.summary_as_json(is_whole)));
        }
        let is_dry = self.arguments.dry_run;
        let line = |name: &str, counts: Counts| {
            let Counts { messages, sent, duplicates, expired, unreadable, left, refused, .. } = counts;
            let more = |count: u64, what: &str| if count > 0 { format!(", {count} {what}") } else { String::new() };
            let (expired, unreadable) = (more(expired, "expired"), more(unreadable, "cannot be read"));
            let left = more(left, "not sent: the queue there does not take them") + &more(refused, "not taken");
            match is_dry {
                true => say(format_args!("{name}: {messages} messages{expired}{unreadable}")),
                false => say(format_args!(
                    "{name}: {messages} messages, {sent} sent, {duplicates} there before{expired}{unreadable}{left}"
                )),
            }
        };
        self.counts.iter().for_each(|(queue, counts)| line(queue, *counts));
        line("all", self.total());
        if is_dry {
            say(format_args!("nothing was sent"));
        }
        if self.total().stripped > 0 {
            let count = self.total().stripped;
            complain(format_args!("{count} of them have attributes that are not JSON, and were sent without these"));
        }
        match self.done {
            Some(key) if is_whole => say(format_args!("done up to {key}")),
            Some(key) => complain(format_args!("stopped: go on with --after {key}; {ONCE}")),
            None if is_whole => {}
            None => complain(format_args!("stopped: begin again; {ONCE}")),
        }
    }

    fn summary_as_json(&self, is_whole: bool) -> Value {
        let fields = |Counts { messages, sent, duplicates, expired, unreadable, stripped, left, refused }: Counts| {
            json!({
                "messages": messages, "sent": sent, "duplicates": duplicates, "expired": expired,
                "unreadable": unreadable, "without_attributes": stripped, "passed_over": left,
                "refused": refused,
            })
        };
        let queues: Map<String, Value> =
            self.counts.iter().map(|(queue, counts)| (queue.to_string(), fields(*counts))).collect();
        let mut summary = fields(self.total());
        summary["queues"] = queues.into();
        summary["dry_run"] = self.arguments.dry_run.into();
        summary["is_whole"] = is_whole.into();
        summary["done_up_to"] = self.done.map(|key| key.to_string()).into();
        summary
    }
}

/// The attributes of a message, if they are of the form that doors write. The binary port has taken any bytes.
fn attributes_of(message: &Message) -> Option<Value> {
    serde_json::from_slice(&message.attributes).ok().filter(Value::is_object)
}

fn is_stripped(message: &Message) -> bool {
    !message.attributes.is_empty() && attributes_of(message).is_none()
}

/// Through which queues a message had come before this one: the queue that gets it takes the place of this one, and may
/// have its name and number.
fn way_before(message: &Message) -> Option<&str> {
    let via = Via::parse(message.via.as_deref()?)?;
    Some(via.before).filter(|before| !before.is_empty())
}

/// A message that is sent on.
struct Walked<'v> {
    view: &'v MessageView,
    message: Arc<Message>,
    /// What its first sender called it, if the other server is to remember that.
    origin: Option<Box<str>>,
}

/// A message as the HTTP door takes it.
fn body_of(Walked { view, message, origin }: &Walked<'_>) -> Value {
    let origin = origin.as_deref().map(IdSpace::split);
    let mut body = json!({ "id": id_elsewhere(message, view.key), "priority": message.priority });
    match std::str::from_utf8(&message.body) {
        Ok(text) => body["body"] = text.into(),
        Err(_) => body["body_base64"] = BASE64.encode(&message.body).into(),
    }
    let deliver_at = view.until.filter(|_| view.state == MessageState::Scheduled);
    let given = [
        ("attributes", attributes_of(message)),
        ("ordering_key", view.ordering_key.as_deref().map(Value::from)),
        ("deliver_at_ms", deliver_at.map(|at| at.0.into())),
        ("expires_at_ms", view.expires_at.map(|at| at.0.into())),
        ("via", way_before(message).map(Value::from)),
        ("origin_id", origin.map(|(_, id)| id.into())),
        ("origin_id_space", origin.map(|(space, _)| space).filter(|space| !space.is_empty()).map(Value::from)),
    ];
    for (field, value) in given {
        if let Some(value) = value {
            body[field] = value;
        }
    }
    body
}

fn bar(messages: u64) -> ProgressBar {
    let template = "walking {bar:40} {human_pos}/{human_len} messages {per_sec} {eta} {msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(messages).with_style(style)
}
