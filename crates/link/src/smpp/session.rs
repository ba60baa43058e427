//! One session with an SMSC.
//!
//! ```text
//!   submit ─▶ request, its number ─▶ writer ─▶ SMSC ─▶ reader ─┬─ a response: to whoever waits for its number
//!                   ▲ enquire_link after a silence             ├─ deliver_sm: a task, so many at once
//!                   └──────────────────────────────────────────┴─ enquire_link, unbind: answered
//! ```
//!
//! Promise: a session that does not answer in time is over; what was under way then goes back to the queue.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tidegate_queue::Received;
use tidegate_smpp::{Incoming, Meaning, RESPONSE, Request, Status, Submit, bytes_of, next, response_to};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Notify, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;

use super::SmppMetrics;
use super::keys::SmppLink;
use super::message::{ShortMessages, short_messages};
use super::pace::Pace;
use crate::queue::Queue;
use crate::target::Fate;
use crate::tls::{self, Tls};

/// Deliveries of the SMSC that are served at once; it waits for the others.
const DELIVERIES_MAX: usize = 100;
/// Packets that wait to be written: the reader waits for the others.
const OUT_MAX: usize = 1_024;
/// How often a part is sent whose predecessors the SMSC has taken.
const PART_TRIES_MAX: u32 = 100;
/// When a message is tried again that the SMSC has no room for.
const THROTTLED_MS: u64 = 1_000;
/// How far ahead messages are given their times to go: those behind them get theirs by the pace of then.
const PACED_AHEAD: Duration = Duration::from_millis(50);
/// What an SMSC sends that cannot be served is told once in so long, however often it comes.
const STRANGE_TOLD_EVERY: Duration = Duration::from_secs(10);
/// How long the end of a session may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// `command_id` of `enquire_link`, `unbind` and `deliver_sm`.
const ENQUIRE_LINK: u32 = 0x15;
const UNBIND: u32 = 0x06;
pub const DELIVER_SM: u32 = 0x05;

/// A session that is bound.
pub struct Bound {
    shared: Rc<Shared>,
    /// They end with this.
    _tasks: JoinSet<()>,
}

/// What the tasks of a session share.
pub struct Shared {
    pub link: Rc<SmppLink>,
    pub metrics: Rc<SmppMetrics>,
    pub queue: Queue,
    out: mpsc::Sender<Vec<u8>>,
    waiting: RefCell<HashMap<u32, Waiting>>,
    sequence: Cell<u32>,
    heard: Cell<Instant>,
    pace: RefCell<Pace>,
    /// Who is given a time to go next.
    turn: Mutex<()>,
    /// Of each kind of strange things: when it was told last, and how many came since.
    strange: RefCell<HashMap<&'static str, (Instant, u64)>>,
    /// Why it is over; empty while it is not.
    over: watch::Sender<String>,
    /// References that the SMSC has given, and the queue does not know yet: their receipts wait.
    unnoted: RefCell<BTreeSet<Box<str>>>,
    noted: Notify,
    deliveries: RefCell<JoinSet<()>>,
    deliveries_max: Arc<Semaphore>,
}

/// Who waits for a response.
struct Waiting {
    response: oneshot::Sender<(Status, Box<str>)>,
    /// Its `command_id`.
    command: u32,
    /// The id in the response is the reference of a message.
    is_reference: bool,
}

impl Bound {
    /// Connects and binds.
    pub async fn open(link: &Rc<SmppLink>, metrics: &Rc<SmppMetrics>, queue: &Queue) -> Result<Bound, String> {
        let patience = Duration::from_millis(link.response_ms);
        let connected = timeout(patience, connect(link)).await;
        let connected = connected.map_err(|_| {
            let why = format!("no connection within {} ms", link.response_ms);
            // An SMSC without TLS waits for the rest of what it takes for a long PDU.
            if link.tls.is_some() { tls::with_hint(why, true) } else { why }
        })?;
        let (read, write) = connected.map_err(|error| match tls::is_ended(&error) {
            true => tls::with_hint(tls::why(&error), link.tls.is_some()),
            false => tls::why(&error),
        })?;
        let (out, to_write) = mpsc::channel(OUT_MAX);
        let shared = Rc::new(Shared {
            link: link.clone(),
            metrics: metrics.clone(),
            queue: queue.clone(),
            out,
            waiting: RefCell::default(),
            sequence: Cell::new(0),
            heard: Cell::new(Instant::now()),
            pace: RefCell::new(Pace::new(link.rate_per_s, Instant::now())),
            turn: Mutex::new(()),
            strange: RefCell::default(),
            over: watch::channel(String::new()).0,
            unnoted: RefCell::default(),
            noted: Notify::new(),
            deliveries: RefCell::default(),
            deliveries_max: Arc::new(Semaphore::new(DELIVERIES_MAX)),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn_local(writes(shared.clone(), write, to_write));
        tasks.spawn_local(reads(shared.clone(), read));
        let (status, _) = shared.request(&Request::Bind(&link.bind), false).await?;
        if status != Status::OK {
            return Err(format!("the SMSC does not let {:?} bind: {status}", link.bind.system_id));
        }
        tasks.spawn_local(enquires(shared.clone()));
        Ok(Bound { shared, _tasks: tasks })
    }

    /// Messages that may be under way.
    pub fn window(&self) -> usize {
        self.shared.link.window
    }

    /// The queue knows a reference, or never will: its receipts need not wait.
    pub fn forget(&self, reference: &str) {
        self.shared.unnoted.borrow_mut().remove(reference);
        self.shared.noted.notify_waiters();
    }

    /// Why it is over, as soon as it is.
    pub async fn is_over(&self) -> String {
        let mut over = self.shared.over.subscribe();
        over.wait_for(|why| !why.is_empty()).await.expect("the sender is here").clone()
    }

    /// Whether the SMSC has closed the connection, or did not answer.
    pub fn was_given_up(&self) -> bool {
        self.shared.why_over().is_some_and(|why| why.starts_with(CLOSED) || why.starts_with(UNANSWERED))
    }

    /// Ends it in good order, if it is not over.
    pub async fn unbind(&self) {
        let mut deliveries = self.shared.deliveries.take();
        let served = async { while deliveries.join_next().await.is_some() {} };
        let _ = timeout(CLOSE_WITHIN, served).await;
        if self.shared.why_over().is_none() {
            let _ = timeout(CLOSE_WITHIN, self.shared.request(&Request::Unbind, false)).await;
        }
        self.shared.end("it was unbound");
        // Those that came meanwhile: the SMSC sends them again.
        drop(self.shared.deliveries.take());
    }

    /// Sends one message, in as many parts as it takes.
    pub async fn submit(&self, received: &Received) -> Fate {
        let messages = match short_messages(&self.shared.link, received) {
            Ok(messages) => messages,
            Err(why) => return Fate::Dead { why },
        };
        let mut reference = Box::default();
        for number in 0..messages.parts.len() {
            match self.submit_part(&messages, number).await {
                Ok(id) => reference = id,
                Err(fate) => return fate,
            }
        }
        Fate::Taken { reference }
    }

    /// Sends one part until the SMSC has taken it: the reference that it has there.
    async fn submit_part(&self, messages: &ShortMessages, number: usize) -> Result<Box<str>, Fate> {
        let shared = &*self.shared;
        let is_last = number + 1 == messages.parts.len();
        for _ in 0..PART_TRIES_MAX {
            tokio::select! {
                () = shared.until_its_turn() => {}
                why = self.is_over() => return Err(away(why)),
            }
            let sent = Instant::now();
            let submit = Submit {
                service_type: &shared.link.service_type,
                source: &messages.source,
                destination: &messages.destination,
                coding: messages.coding,
                part: &messages.parts[number],
                wants_receipt: shared.link.receipts && is_last,
                validity_s: messages.validity_s,
            };
            let (status, id) = shared.request(&Request::Submit(submit), is_last).await.map_err(away)?;
            let why = status.to_string();
            match status.meaning() {
                Meaning::Ok => {
                    shared.metrics.submitted.increment();
                    return Ok(shared.reference_of(&id));
                }
                Meaning::Throttled => {
                    shared.metrics.throttled.increment();
                    shared.at_pace(|pace| pace.slow_down(sent, Instant::now()));
                    // The SMSC has the parts before this one: they are not sent again.
                    if number == 0 {
                        return Err(Fate::Back { why, after_ms: THROTTLED_MS, is_away: false });
                    }
                }
                Meaning::Session => {
                    shared.end(&why);
                    return Err(away(why));
                }
                Meaning::Temporary => return Err(Fate::Again { why, after_ms: None }),
                Meaning::Permanent => return Err(Fate::Dead { why }),
            }
        }
        let why = format!("the SMSC has no room for part {}", number + 1);
        Err(Fate::Back { why, after_ms: THROTTLED_MS, is_away: false })
    }
}

fn away(why: String) -> Fate {
    Fate::Back { why, after_ms: 0, is_away: true }
}

impl Shared {
    /// Asks the pace, and shows what it is then.
    fn at_pace<R>(&self, ask: impl FnOnce(&mut Pace) -> R) -> R {
        let mut pace = self.pace.borrow_mut();
        let answer = ask(&mut pace);
        self.metrics.rate.set(pace.rate() as i64);
        answer
    }

    /// Waits until one more message may go.
    async fn until_its_turn(&self) {
        let turn = self.turn.lock().await;
        let at = self.at_pace(|pace| pace.take(Instant::now()));
        sleep_until(at.checked_sub(PACED_AHEAD).unwrap_or(at)).await;
        drop(turn);
        sleep_until(at).await;
    }

    /// Says, not too often, that something came which is not served.
    pub fn tell_strange(&self, what: &'static str, why: &str) {
        self.metrics.turned_away.increment();
        let (now, mut strange) = (Instant::now(), self.strange.borrow_mut());
        let before = strange.get(what).copied();
        let times = before.map_or(0, |(_, untold)| untold) + 1;
        if before.is_some_and(|(told, _)| now - told < STRANGE_TOLD_EVERY) {
            strange.entry(what).and_modify(|(_, untold)| *untold = times);
            return;
        }
        strange.insert(what, (now, 0));
        tracing::warn!(link = &*self.link.link.consumer(), times, why, "{what}");
    }

    /// Sends a request and waits for its response. An error says why the session is over.
    async fn request(&self, request: &Request<'_>, is_reference: bool) -> Result<(Status, Box<str>), String> {
        if let Some(why) = self.why_over() {
            return Err(why);
        }
        // [SMPP 3.4, 3.2] Numbers are 1 to 0x7fffffff.
        let sequence = self.sequence.get() % 0x7fff_ffff + 1;
        self.sequence.set(sequence);
        let (response, answer) = oneshot::channel();
        self.waiting.borrow_mut().insert(sequence, Waiting { response, command: request.response(), is_reference });
        let asked = async {
            self.send(bytes_of(request, sequence)).await;
            answer.await
        };
        match timeout(Duration::from_millis(self.link.response_ms), asked).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => Err(self.why_over().unwrap_or_default()),
            Err(_) => {
                let why = format!("{UNANSWERED} within {} ms", self.link.response_ms);
                self.end(&why);
                Err(why)
            }
        }
    }

    /// Sends bytes, if the session is not over. Waits while the SMSC does not read what was sent before.
    pub async fn send(&self, bytes: Vec<u8>) {
        // The writer ends with the session only.
        let _ = self.out.send(bytes).await;
    }

    fn why_over(&self) -> Option<String> {
        Some(self.over.borrow().clone()).filter(|why| !why.is_empty())
    }

    /// Ends the session: whoever waits for a response is told.
    fn end(&self, why: &str) {
        self.over.send_if_modified(|known| {
            let is_first = known.is_empty();
            if is_first {
                why.clone_into(known);
            }
            is_first
        });
        self.waiting.borrow_mut().clear();
    }

    /// Waits until the queue knows a reference, if the SMSC has given it just now.
    pub async fn until_noted(&self, reference: &str) {
        loop {
            let noted = self.noted.notified();
            if !self.unnoted.borrow().contains(reference) {
                return;
            }
            noted.await;
        }
    }

    /// Serves what the SMSC has sent.
    async fn take(self: &Rc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Response { command, sequence, status, message_id } => {
                // One that says no to anything.
                let is_nack = command == RESPONSE && status != Status::OK;
                let fits = |waiting: &Waiting| waiting.command == command || is_nack;
                if !self.waiting.borrow().get(&sequence).is_none_or(fits) {
                    let why = format!("command 0x{command:08x}, status {status}, number {sequence}");
                    return self.tell_strange("the SMSC answers a request with the response of another one", &why);
                }
                let Some(waiting) = self.waiting.borrow_mut().remove(&sequence) else { return };
                if waiting.is_reference && status == Status::OK {
                    // Here, and not where it is waited for: the receipt may come right behind it.
                    self.unnoted.borrow_mut().insert(self.reference_of(&message_id));
                }
                // Nobody waits for it any more: the session ends.
                let _ = waiting.response.send((status, message_id));
            }
            Incoming::Enquire { sequence } => self.send(response_to(ENQUIRE_LINK, sequence, Status::OK)).await,
            Incoming::Unbind { sequence } => {
                self.send(response_to(UNBIND, sequence, Status::OK)).await;
                self.end("the SMSC has unbound");
            }
            Incoming::Deliver { .. } if self.why_over().is_some() => {}
            Incoming::Deliver { sequence, delivered } => {
                let permit = self.deliveries_max.clone().acquire_owned().await.expect("it is never closed");
                let shared = self.clone();
                let mut deliveries = self.deliveries.borrow_mut();
                while deliveries.try_join_next().is_some() {}
                deliveries.spawn_local(async move {
                    shared.serve_delivery(sequence, &delivered).await;
                    drop(permit);
                });
            }
            Incoming::Notification => {}
            Incoming::Strange { command, sequence, why } => {
                self.tell_strange("the SMSC sent what is not served", &format!("command 0x{command:08x}: {why}"));
                let status = if command == DELIVER_SM { Status::PERMANENT } else { Status::INVALID_COMMAND };
                self.send(response_to(command, sequence, status)).await;
            }
        }
    }
}

/// Why a session is over that the SMSC has closed.
const CLOSED: &str = "the SMSC closed the connection";
/// Why one is over in which something was not answered.
const UNANSWERED: &str = "the SMSC did not answer";

/// The two directions of a connection.
type Reads = Box<dyn AsyncRead + Unpin>;
type Writes = Box<dyn AsyncWrite + Unpin>;

/// Connects, and encrypts if that is wanted.
async fn connect(link: &SmppLink) -> io::Result<(Reads, Writes)> {
    let stream = TcpStream::connect(&*link.address).await?;
    stream.set_nodelay(true)?;
    Ok(match &link.tls {
        None => {
            let (read, write) = stream.into_split();
            (Box::new(read), Box::new(write))
        }
        Some(Tls { config, name }) => {
            let stream = TlsConnector::from(config.clone()).connect(name.clone(), stream).await?;
            let (read, write) = split(stream);
            (Box::new(read), Box::new(write))
        }
    })
}

/// Reads until the session is over.
async fn reads(shared: Rc<Shared>, mut read: Reads) {
    let mut bytes = BytesMut::new();
    loop {
        loop {
            match next(&mut bytes) {
                Ok(Some(incoming)) => shared.take(incoming).await,
                Ok(None) => break,
                Err(error) => return shared.end(&error.to_string()),
            }
        }
        if tls::is_alert(&bytes) {
            return shared.end("the SMSC speaks TLS on that port: set tls = true");
        }
        bytes.reserve(4_096);
        match read.read_buf(&mut bytes).await {
            Ok(0) => return shared.end(CLOSED),
            Ok(_) => shared.heard.set(Instant::now()),
            Err(error) => return shared.end(&format!("{CLOSED}: {}", tls::why(&error))),
        }
    }
}

/// Writes what is to be sent.
async fn writes(shared: Rc<Shared>, mut write: Writes, mut to_write: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = to_write.recv().await {
        let written = async { write.write_all(&bytes).await.and(write.flush().await) };
        if let Err(error) = written.await {
            return shared.end(&format!("{CLOSED}: {}", tls::why(&error)));
        }
    }
}

/// Asks the SMSC whether it is there, after each silence.
async fn enquires(shared: Rc<Shared>) {
    let silence = Duration::from_secs(shared.link.enquire_link_s);
    loop {
        let due = shared.heard.get() + silence;
        if due > Instant::now() {
            sleep_until(due).await;
        } else if shared.request(&Request::Enquire, false).await.is_err() {
            return;
        }
    }
}
