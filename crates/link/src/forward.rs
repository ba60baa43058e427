//! The work of one link, whatever the other side is.
//!
//! ```text
//!   open ─▶ receive ─▶ give, several at once ─▶ fates ─▶ hand, reject
//!    ▲         └─ not while the other side is away; behind a pause one message is tried, then as many as before
//!    └─ over, or not there: a pause that grows
//! ```

use std::collections::BTreeMap;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use tidegate_queue::Received;
use tidegate_queue::machine::limits::BATCH_MESSAGES_MAX;
use tidegate_queue::machine::{Lease, Rejection};
use tidegate_telemetry::metrics;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::pause::Pause;
use crate::queue::{Queue, Receiving};
use crate::states::{LinkState, OwnState};
use crate::target::{Fate, LinkSettings, Session, Target};
use crate::told::Told;

/// How long messages that are under way may take when the process stops.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// Calls to the queue that may be under way before more messages are received.
const SETTLING_MAX: usize = 16;
/// After this, a message that ended the connection is tried again.
const SUSPECT_RETRY_MS: u64 = 60_000;
/// The same while the other side takes no others either: these are tried meanwhile.
const SUSPECT_TURN_MS: u64 = 2_000;
/// After this, a message that is refused for good is tried again if its queue has no dead letter queue.
const REFUSED_RETRY_MS: u64 = 60_000;

metrics! {
    /// What one link counts. For the thread that runs it.
    pub struct LinkMetrics(link) {
        forwarded: Counter "tidegate_link_forwarded_total" "Messages that the other side has taken.";
        failures: Counter "tidegate_link_failures_total"
            "Messages that were not taken, and attempts to connect that failed.";
        refused: Counter "tidegate_link_refused_total"
            "Messages that will never be taken: dead letters, if the queue has a dead letter queue.";
        up: Gauge "tidegate_link_up" "1 while the other side is there and takes messages.";
    }
}

/// One link.
pub struct Forward<T> {
    target: T,
    queue: Queue,
    metrics: LinkMetrics,
    stop: watch::Receiver<bool>,
    pause: Pause,
    /// The other side was away when it was last asked; one message is tried.
    is_probing: bool,
    /// The message that was given alone, while nothing else was under way, to see whether the other side is there.
    probe: Option<Lease>,
    /// The other side has taken a message, or refused it for good, since one was last suspected.
    has_taken: bool,
    /// What was asked of the queue. It is kept over sessions: what comes to somebody who has just gone would wait until
    /// its lease ends.
    receiving: Option<Receiving>,
    /// What the log was told.
    told: Told,
    /// For routes, which choose by it.
    state: OwnState,
}

/// Why a session is served no longer.
enum End {
    Stop,
    Over(String),
}

/// How the other side is, by what became of the last messages.
#[derive(Debug, PartialEq, Eq)]
enum Health {
    /// It takes some, or wants them more slowly.
    Good,
    /// All have failed. Without a pause, a queue that has none of its own would be tried as fast as may be.
    Failing(String),
    /// It is not there, and this is why.
    Away(String),
}

/// Messages that were given, and what became of them.
type Given = (Vec<Lease>, Vec<Fate>);

impl<T: Target> Forward<T> {
    /// A link that ends when `stop` says so.
    pub fn new(
        target: T,
        queue: Queue,
        metrics: LinkMetrics,
        (stop, state): (watch::Receiver<bool>, OwnState),
    ) -> Forward<T> {
        let pause = Pause::new(target.settings().pause_max_ms);
        let told = Told::default();
        Forward {
            target,
            queue,
            metrics,
            stop,
            pause,
            is_probing: false,
            probe: None,
            has_taken: false,
            receiving: None,
            told,
            state,
        }
    }

    /// Forwards until it is told to stop.
    pub async fn run(mut self) {
        while !*self.stop.borrow() {
            let mut stop = self.stop.clone();
            let opened = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                opened = self.target.open(&self.queue) => opened,
            };
            let why = match opened {
                Err(why) => why,
                Ok(session) => {
                    let began = Instant::now();
                    if !self.is_probing {
                        self.tell_success();
                    }
                    match self.serve(Rc::new(session)).await {
                        End::Stop => return,
                        End::Over(why) => {
                            if began.elapsed() > Duration::from_millis(self.target.settings().pause_max_ms) {
                                self.pause.reset();
                            }
                            why
                        }
                    }
                }
            };
            self.metrics.failures.increment();
            self.tell_failure(&why);
            let until = Instant::now() + self.pause.take();
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = sleep_until(until) => {}
            }
        }
    }

    /// Shows whether the other side takes messages, as far as is known: one that is there, and was given none since it
    /// failed, may.
    fn set_up(&self, is_up: bool) {
        self.metrics.up.set(i64::from(is_up));
        self.state.set(if is_up { LinkState::Up } else { LinkState::Down });
    }

    /// Says that the link fails, and shows it.
    fn tell_failure(&mut self, why: &str) {
        self.set_up(false);
        if self.told.fails(why, Instant::now()) {
            let LinkSettings { from, .. } = self.target.settings();
            let (link, queue) = (&*self.target.settings().consumer(), &**from);
            tracing::warn!(link, queue, why, "the link does not work; it is tried again, and messages wait");
        }
    }

    /// Says that messages fail one after the other, and shows it.
    fn tell_failing(&mut self, why: &str) {
        self.set_up(false);
        if self.told.fails(why, Instant::now()) {
            let LinkSettings { from, .. } = self.target.settings();
            let (link, queue) = (&*self.target.settings().consumer(), &**from);
            tracing::warn!(
                link,
                queue,
                why,
                "none of the messages that the link gives is taken; they are tried again as their queue says"
            );
        }
    }

    /// The other side is there, and has failed at no message since, or has taken one.
    fn tell_success(&mut self) {
        self.set_up(true);
        if self.told.works() {
            tracing::info!(link = &*self.target.settings().consumer(), "the link works again");
        }
    }

    /// Gives messages to a session until it is over.
    async fn serve(&mut self, session: Rc<T::Session>) -> End {
        let link = self.target.settings().clone();
        let mut giving: JoinSet<Given> = JoinSet::new();
        let mut settling: JoinSet<()> = JoinSet::new();
        let mut leased: BTreeMap<Lease, Instant> = BTreeMap::new();
        let mut rest_until: Option<Instant> = None;
        let mut stop = self.stop.clone();
        let mut extend = tokio::time::interval(Duration::from_millis(link.lease_ms / 4));
        let end = loop {
            let gifts_max = if self.is_probing { 1 } else { session.gifts_max() };
            let free = gifts_max.saturating_sub(giving.len());
            if self.receiving.is_none() && rest_until.is_none() && free > 0 && settling.len() < SETTLING_MAX {
                let messages = if self.is_probing { 1 } else { free * session.messages_max() };
                self.receiving = Some(self.queue.receive(&link, messages.min(BATCH_MESSAGES_MAX)));
            }
            tokio::select! {
                // Looked at first: what is not waited for any more has nothing in it.
                biased;
                received = next(&mut self.receiving) => {
                    self.receiving = None;
                    match received {
                        Err(why) => rest_until = Some(self.fail(&format!("here: {why}"))),
                        // Nothing is left to try it with: the next message will show how it is.
                        Ok(received) if received.is_empty() && rest_until.is_none() => self.state.set(LinkState::Up),
                        Ok(mut received) => {
                            // It was asked for when the other side was there.
                            let most = match (rest_until, self.is_probing) {
                                (Some(_), _) => 0,
                                (None, true) => 1 - leased.len().min(1),
                                (None, false) => received.len(),
                            };
                            let too_many = received.split_off(most.min(received.len()));
                            self.give_back(&link, too_many, &mut settling);
                            for gift in in_gifts(received, session.messages_max()) {
                                leased.extend(gift.iter().map(|received| (received.delivery.lease, Instant::now())));
                                giving.spawn_local(give(session.clone(), gift));
                            }
                            let alone = leased.keys().next().filter(|_| self.is_probing && leased.len() == 1);
                            self.probe = alone.copied();
                        }
                    }
                }
                Some(given) = giving.join_next() => {
                    let mut all = vec![given.expect("what gives does not panic")];
                    all.extend(std::iter::from_fn(|| giving.try_join_next()).map(|given| given.expect("as before")));
                    // Whether the fate or the end of the connection is seen first is chance.
                    all.iter_mut().for_each(|given| self.suspect(&session, given));
                    let health = self.settle(&session, all, &mut leased, &mut settling);
                    if rest_until.is_none() && health != Health::Good {
                        rest_until = Some(match health {
                            Health::Away(why) => self.fail(&why),
                            Health::Failing(why) => {
                                self.tell_failing(&why);
                                Instant::now() + self.pause.take()
                            }
                            Health::Good => unreachable!("it was looked at just now"),
                        });
                    }
                }
                Some(_) = settling.join_next() => {}
                why = session.over() => break End::Over(why),
                _ = stop.wait_for(|stop| *stop) => break End::Stop,
                () = resting(rest_until) => rest_until = None,
                _ = extend.tick() => self.extend(&link, &mut leased, &mut settling),
            }
        };
        self.finish(&session, giving, settling, leased, matches!(end, End::Stop)).await;
        session.close().await;
        end
    }

    /// A message that was alone under way when the other side, which had been there, hung up or did not answer is tried
    /// again later, and others pass meanwhile. The attempt counts if others were taken since the last one of which that
    /// was said: else it is not the message, and the other side takes none.
    fn suspect(&mut self, session: &T::Session, (leases, fates): &mut Given) {
        let Some(at) = leases.iter().position(|lease| self.probe == Some(*lease)) else { return };
        self.probe = None;
        if let Fate::Back { why, is_away: true, .. } = &mut fates[at]
            && session.gave_up()
        {
            let (link, key) = (&*self.target.settings().consumer(), leases[at].key.to_string());
            tracing::warn!(link, key, why, "this message alone was under way: it is put aside, and tried again later");
            let why = std::mem::take(why);
            fates[at] = match std::mem::take(&mut self.has_taken) {
                true => Fate::Again { why, after_ms: Some(SUSPECT_RETRY_MS) },
                false => Fate::Later { why, after_ms: SUSPECT_TURN_MS },
            };
        }
    }

    /// Gives back what cannot be given now.
    fn give_back(&self, link: &LinkSettings, received: Vec<Received>, settling: &mut JoinSet<()>) {
        if received.is_empty() {
            return;
        }
        let leases = received.iter().map(|received| received.delivery.lease).collect();
        let (queue, link) = (self.queue.clone(), link.clone());
        settling.spawn_local(async move {
            let back = queue.reject(link.from.clone(), leases, Rejection::Back(0), "the other side is away");
            if let Err(why) = back.await {
                tracing::warn!(link = &*link.consumer(), why, "messages wait until their leases end");
            }
        });
    }

    /// The other side, or the queue, is away: until when to rest.
    fn fail(&mut self, why: &str) -> Instant {
        self.is_probing = true;
        self.tell_failure(why);
        Instant::now() + self.pause.take()
    }

    /// Waits for what is under way, and gives back what takes too long.
    async fn finish(
        &mut self,
        session: &Rc<T::Session>,
        mut giving: JoinSet<Given>,
        mut settling: JoinSet<()>,
        mut leased: BTreeMap<Lease, Instant>,
        stops: bool,
    ) {
        let link = self.target.settings().clone();
        let until = Instant::now() + STOP_WITHIN;
        while let Ok(Some(given)) = tokio::time::timeout_at(until, giving.join_next()).await {
            let mut given = given.expect("what gives does not panic");
            if !stops {
                self.suspect(session, &mut given);
            }
            let all = vec![given];
            if let Health::Away(_) = self.settle(session, all, &mut leased, &mut settling) {
                self.is_probing = true;
            }
        }
        giving.abort_all();
        let left: Vec<Lease> = leased.into_keys().collect();
        for leases in left.chunks(BATCH_MESSAGES_MAX) {
            let why = if stops { "this server stops" } else { "the connection is over" };
            let back = self.queue.reject(link.from.clone(), leases.to_vec(), Rejection::Back(0), why);
            if let Ok(Err(why)) = timeout(STOP_WITHIN, back).await {
                tracing::warn!(link = &*link.consumer(), why, "messages wait until their leases end");
            }
        }
        let all = async { while settling.join_next().await.is_some() {} };
        if timeout(STOP_WITHIN, all).await.is_err() {
            tracing::warn!(link = &*link.consumer(), "the queue was not told of all messages in time; they come again");
        }
    }

    /// Lets leases last that have used up half of their time.
    fn extend(&mut self, link: &LinkSettings, leased: &mut BTreeMap<Lease, Instant>, settling: &mut JoinSet<()>) {
        let now = Instant::now();
        let half = Duration::from_millis(link.lease_ms / 2);
        let old: Vec<Lease> =
            leased.iter().filter(|(_, since)| now - **since >= half).map(|(lease, _)| *lease).collect();
        for leases in old.chunks(BATCH_MESSAGES_MAX) {
            leased.extend(leases.iter().map(|lease| (*lease, now)));
            let (queue, leases, link) = (self.queue.clone(), leases.to_vec(), link.clone());
            settling.spawn_local(async move {
                if let Err(why) = queue.extend(link.from.clone(), leases, link.lease_ms).await {
                    tracing::warn!(link = &*link.consumer(), why, "leases cannot be extended");
                }
            });
        }
    }

    /// Tells the queue what became of messages.
    fn settle(
        &mut self,
        session: &Rc<T::Session>,
        given: Vec<Given>,
        leased: &mut BTreeMap<Lease, Instant>,
        settling: &mut JoinSet<()>,
    ) -> Health {
        let link = self.target.settings().clone();
        let mut settlement = Settlement::default();
        for (lease, fate) in given.into_iter().flat_map(|(leases, fates)| leases.into_iter().zip(fates)) {
            leased.remove(&lease);
            settlement.add(lease, fate);
        }
        let Settlement { handed, routed, rejected, away, .. } = &settlement;
        let taken = handed.len() + routed;
        let refused: usize =
            rejected.iter().filter(|((then, _), _)| then.is_dead()).map(|(_, leases)| leases.len()).sum();
        let failed: usize = rejected.values().map(Vec::len).sum();
        self.metrics.refused.add(refused as u64);
        self.metrics.failures.add((failed - refused) as u64);
        self.metrics.forwarded.add(taken as u64);
        let health = match away {
            Some(why) => Health::Away(why.clone()),
            None => settlement.failing.clone().filter(|_| taken == 0).map_or(Health::Good, Health::Failing),
        };
        // One that the other side will never take has been answered, too.
        if taken > 0 || refused > 0 && health == Health::Good {
            self.pause.reset();
            (self.is_probing, self.has_taken) = (false, true);
            self.tell_success();
        }
        settling.spawn_local(settlement.tell(self.queue.clone(), link, session.clone()));
        health
    }
}

async fn next(receiving: &mut Option<Receiving>) -> Result<Vec<Received>, String> {
    match receiving {
        Some(receiving) => receiving.next().await,
        None => pending().await,
    }
}

async fn resting(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}

async fn give<S: Session>(session: Rc<S>, gift: Vec<Received>) -> Given {
    let leases: Vec<Lease> = gift.iter().map(|received| received.delivery.lease).collect();
    let fates = session.give(gift).await;
    assert_eq!(leases.len(), fates.len(), "each message has a fate");
    (leases, fates)
}

fn in_gifts(mut received: Vec<Received>, messages_max: usize) -> Vec<Vec<Received>> {
    let mut gifts = Vec::new();
    while !received.is_empty() {
        let rest = received.split_off(messages_max.min(received.len()));
        gifts.push(std::mem::replace(&mut received, rest));
    }
    gifts
}

/// What is done to a message that was not taken; in an order, so that those with one fate are told in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Then {
    Back(u64),
    Again(Option<u64>),
    Dead,
}

impl Then {
    fn is_dead(self) -> bool {
        self == Then::Dead
    }

    fn rejection(self) -> Rejection {
        match self {
            Then::Back(after_ms) => Rejection::Back(after_ms),
            Then::Again(after_ms) => Rejection::Retry(after_ms),
            Then::Dead => Rejection::Dead,
        }
    }
}

/// What the queue is to be told.
#[derive(Default)]
struct Settlement {
    handed: Vec<(Lease, Box<str>)>,
    /// How many are out of the queue already.
    routed: usize,
    rejected: BTreeMap<(Then, String), Vec<Lease>>,
    away: Option<String>,
    /// Why a message failed.
    failing: Option<String>,
}

impl Settlement {
    fn add(&mut self, lease: Lease, fate: Fate) {
        let (then, why) = match fate {
            Fate::Routed => {
                self.routed += 1;
                return;
            }
            Fate::Taken { reference } => return self.handed.push((lease, reference)),
            Fate::Back { why, after_ms, is_away } => {
                if is_away {
                    self.away.get_or_insert_with(|| why.clone());
                }
                (Then::Back(after_ms), why)
            }
            Fate::Later { why, after_ms } => (Then::Back(after_ms), why),
            Fate::Again { why, after_ms } => {
                self.failing.get_or_insert_with(|| why.clone());
                (Then::Again(after_ms), why)
            }
            Fate::Dead { why } => (Then::Dead, why),
        };
        self.rejected.entry((then, why)).or_default().push(lease);
    }

    async fn tell<S: Session>(self, queue: Queue, link: LinkSettings, session: Rc<S>) {
        let consumer = link.consumer();
        for handed in self.handed.chunks(BATCH_MESSAGES_MAX) {
            // A lease that was lost meanwhile: the message comes again.
            if let Err(why) = queue.hand(link.from.clone(), consumer.clone(), handed.to_vec()).await {
                tracing::warn!(
                    link = &*consumer,
                    why,
                    "messages were taken, and the queue cannot be told: they come again"
                );
            }
        }
        self.handed.iter().for_each(|(_, reference)| session.noted(reference));
        for ((then, why), leases) in self.rejected {
            let why = format!("{consumer}: {why}");
            for leases in leases.chunks(BATCH_MESSAGES_MAX) {
                let reject = |then| queue.reject(link.from.clone(), leases.to_vec(), then, &why);
                let mut told = reject(then.rejection()).await;
                if then.is_dead() && told.is_err() {
                    // Without a dead letter queue, it stays in its queue, with the reason in its trail.
                    tracing::warn!(
                        link = &*consumer,
                        why,
                        "a message is refused, and its queue has no dead letter queue"
                    );
                    told = reject(Rejection::Retry(Some(REFUSED_RETRY_MS))).await;
                }
                if let Err(error) = told {
                    tracing::warn!(
                        link = &*consumer,
                        error,
                        "messages that were not taken wait until their leases end"
                    );
                }
            }
        }
    }
}
