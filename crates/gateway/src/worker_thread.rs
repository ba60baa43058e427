//! The poll loop of a worker: sockets, rings, shards, in turn, on one pinned thread.
//!
//! ```text
//!   ┌▶ take parcels ─▶ read sockets ─▶ step shards ─▶ encode replies ─▶ send parcels ─▶ write sockets ─┐
//!   └──────────────── poll: at once if there was work, else asleep until a socket, a ring or the log ◀─┘
//! ```
//!
//! Why one turn reads all sockets before the shards step: what arrived together is decided together and synced as one group.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::{Events, Poll, Waker};
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{LocalLog, LogStore};
use tidegate_ledger::message::Request;
use tidegate_ledger::operation::Message;
use tidegate_ledger::operation::Outgoing;
use tidegate_ledger::router::Finished;
use tidegate_ledger::worker::Worker;
use tidegate_machines::TimeMs;
use tidegate_planted::Tampering;
use tidegate_telemetry::metrics;

use crate::binary::port::{BinaryPort, LISTENER, WAKER};
use crate::mesh::Endpoint;
use crate::metrics::WorkerMetrics;
use crate::mqtt::{Host, MqttPort, MqttSettings, PAUSED_TICK};
use crate::parcel::Parcel;
use crate::recovery::LocalFetchers;
use crate::status::Status;

/// How long an idle worker sleeps at most: timers (expiries, retries, silent clients) are looked at so often.
const TICK: Duration = Duration::from_millis(20);
/// How long a stopping worker waits for clients to take their replies.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long it takes to disconnect the MQTT clients that are left when the time to send them away is over.
const HURRY: Duration = Duration::from_secs(2);
/// How long a stopping worker waits for its shards to sync what they hold.
const STOP_AT_LATEST: Duration = Duration::from_secs(20);

/// Tokens of requests that the MQTT port has started have this bit.
const MQTT_REQUEST: u64 = 1 << 63;

metrics! {
    /// What one worker's loop counts. For its thread.
    pub struct LoopMetrics(worker) {
        ring_depth: Gauge "tidegate_ring_depth" "Messages waiting in all rings to a worker.";
        busy_nanoseconds: Counter
            "tidegate_worker_busy_seconds_total" "Time that a worker's loop did not wait for events.";
    }
}

type LocalWorker = Worker<RealDisk, LocalLog<RealDisk>>;
type LocalMqtt = MqttPort<LocalLog<RealDisk>>;

/// Everything a worker's thread owns.
pub struct WorkerThread {
    worker: LocalWorker,
    /// The threads that read for its shards, in the shards' order.
    fetchers: Vec<LocalFetchers>,
    port: BinaryPort,
    mqtt: Option<LocalMqtt>,
    endpoint: Endpoint<Parcel>,
    poll: Poll,
    status: Arc<Status>,
    /// Workers that have nothing of their own under way while the process stops.
    quiet: Arc<AtomicU16>,
    workers: u16,
    metrics: WorkerMetrics,
    farewell: Farewell,
}

/// How a worker's MQTT clients are sent away when the process stops.
#[derive(Clone, Copy, Debug)]
pub struct Farewell {
    /// So many per second, over all workers.
    pub per_second: u32,
    /// Who is left after so long is disconnected at once.
    pub timeout: Duration,
}

impl Farewell {
    /// As the settings of MQTT say; without MQTT there is nobody to send away.
    pub fn of(mqtt: Option<&MqttSettings>) -> Farewell {
        mqtt.map_or(Farewell { per_second: 1, timeout: Duration::ZERO }, |mqtt| Farewell {
            per_second: mqtt.drain.per_second,
            timeout: Duration::from_millis(mqtt.drain_timeout_ms),
        })
    }
}

/// What passes through a worker in one turn.
#[derive(Default)]
struct Passing {
    out: Outgoing,
    finished: Finished,
}

/// The worker as its MQTT port knows it.
struct MqttHost<'a> {
    worker: &'a mut LocalWorker,
    passing: &'a mut Passing,
}

impl Host for MqttHost<'_> {
    fn deliver(&mut self, message: Message) {
        self.worker.deliver(message, &mut self.passing.out, &mut self.passing.finished);
    }

    fn start(&mut self, token: u64, request: Request) {
        self.worker.start(token | MQTT_REQUEST, request, &mut self.passing.out, &mut self.passing.finished);
    }

    fn has_room(&self) -> bool {
        self.worker.has_room()
    }
}

/// A process that stops, as its worker sees it.
struct Stopping {
    since: Instant,
    /// The MQTT clients that were left when the time was over are disconnected without waiting for their turn.
    hurried: bool,
    said_quiet: bool,
}

impl WorkerThread {
    /// Prepares the thread's poll; its endpoint can be woken from here on.
    #[expect(clippy::too_many_arguments, reason = "one worker's share of everything")]
    pub fn new(
        worker: LocalWorker,
        fetchers: Vec<LocalFetchers>,
        port: BinaryPort,
        mqtt: Option<LocalMqtt>,
        endpoint: Endpoint<Parcel>,
        status: Arc<Status>,
        quiet: Arc<AtomicU16>,
        workers: u16,
        metrics: WorkerMetrics,
        farewell: Farewell,
    ) -> io::Result<WorkerThread> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        endpoint.bed().set_wake(move || {
            // A wake-up that fails is made up for by the next tick.
            let _ = waker.wake();
        });
        assert_eq!(fetchers.len(), worker.shards().len(), "somebody reads for every shard");
        Ok(WorkerThread { worker, fetchers, port, mqtt, endpoint, poll, status, quiet, workers, metrics, farewell })
    }

    /// Serves until the process stops, then closes the logs of its shards.
    pub fn run(mut self) -> anyhow::Result<()> {
        self.port.register(self.poll.registry())?;
        if let Some(mqtt) = &mut self.mqtt {
            mqtt.register(self.poll.registry())?;
        }
        let mut events = Events::with_capacity(1_024);
        let mut passing = Passing::default();
        let mut stopping: Option<Stopping> = None;
        let mut drained_per_second = None;
        let mut ticked = Instant::now();
        let mut busy = Duration::ZERO;
        let tampering = Tampering::from_env();
        loop {
            let turned = Instant::now();
            let now = now_ms();
            let worked = self.turn(now, stopping.is_some(), &mut passing);

            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.tick(now, std::mem::take(&mut busy));
                if self.status.drain_per_second() != drained_per_second {
                    drained_per_second = self.status.drain_per_second();
                    if let (Some(mqtt), Some(per_second)) = (&mut self.mqtt, drained_per_second) {
                        mqtt.drain(per_second, now);
                    }
                }
                tampering.look(|order| {
                    let done = self
                        .worker
                        .shards_mut()
                        .iter_mut()
                        .any(|shard| shard.state_to_tamper_with(order).tamper(order));
                    if done {
                        tracing::warn!(
                            account = order.account(),
                            change = order.change(),
                            "a test changed a live balance"
                        );
                    }
                    done
                });
            }
            if stopping.is_none() && self.status.is_stopping() {
                stopping = Some(self.begin_to_stop(now));
            }
            if let Some(stopping) = &mut stopping
                && self.may_end(stopping, now)
            {
                break;
            }

            let took = turned.elapsed();
            busy += took;
            if let Some(mqtt) = &mut self.mqtt {
                mqtt.observe_turn(took);
            }
            let (worker, fetchers, port, mqtt) = (&self.worker, &self.fetchers, &self.port, &mut self.mqtt);
            let asleep = !worked
                && self.endpoint.sleep_unless(|| {
                    port.has_work(worker.has_room())
                        || worker.has_news()
                        || fetchers.iter().any(LocalFetchers::has_news)
                        || mqtt.as_mut().is_some_and(MqttPort::has_work)
                });
            let nap = if self.mqtt.as_ref().is_some_and(MqttPort::has_paused) { PAUSED_TICK } else { TICK };
            self.poll.poll(&mut events, Some(if asleep { nap } else { Duration::ZERO })).or_else(interrupted)?;
            if asleep {
                self.endpoint.awake();
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.port.accept(self.poll.registry(), now.0),
                    WAKER => {}
                    token => match &mut self.mqtt {
                        Some(mqtt) if LocalMqtt::owns(token) => mqtt.on_event(event),
                        _ => self.port.on_event(event),
                    },
                }
            }
        }
        self.note_failure();
        let topics = self.mqtt.map(|mqtt| mqtt.into_broker().into_shards()).unwrap_or_default();
        for log in self.worker.into_logs() {
            log.close()?;
        }
        for shard in topics {
            shard.into_log().close()?;
        }
        Ok(())
    }

    fn turn(&mut self, now: TimeMs, stopping: bool, passing: &mut Passing) -> bool {
        let registry = self.poll.registry();
        let mut worked = match &mut self.mqtt {
            Some(mqtt) => {
                let host = &mut MqttHost { worker: &mut self.worker, passing };
                // What came by the rings goes before what sockets bring.
                let came = mqtt.take_parcels(host, &mut self.endpoint, now);
                came | mqtt.serve(host, &mut self.endpoint, registry, now)
            }
            None => self.endpoint.receive(|_, parcel| match parcel {
                Parcel::Shard(message) => self.worker.deliver(message, &mut passing.out, &mut passing.finished),
                Parcel::Topics(_) | Parcel::Connection(_) => unreachable!("there are no topics"),
            }),
        };
        if !stopping {
            // The port reads while the worker has room; both sides of that are this one worker.
            let room = std::cell::RefCell::new(&mut self.worker);
            worked |= self.port.serve(
                now.0,
                || room.borrow().has_room(),
                |token, request| room.borrow_mut().start(token, request, &mut passing.out, &mut passing.finished),
            );
        }
        worked |= self.take_found();
        worked |= self.worker.step(now, &mut passing.out, &mut passing.finished);
        self.hand_out_jobs();
        worked |= self.pass_on_replies(now, passing);
        for (shard, account) in self.worker.take_figures() {
            if let Some(mqtt) = &mut self.mqtt {
                mqtt.announce(shard, account, now);
            }
        }
        if let Some(mqtt) = &mut self.mqtt {
            let host = &mut MqttHost { worker: &mut self.worker, passing };
            worked |= mqtt.step(host, &mut self.endpoint, self.poll.registry(), now);
        }
        self.endpoint.send(&mut passing.out);
        self.port.flush(self.poll.registry());
        worked
    }

    /// Brings the shards what was read for them.
    fn take_found(&mut self) -> bool {
        let mut worked = false;
        for (fetchers, shard) in self.fetchers.iter_mut().zip(self.worker.shards_mut()) {
            while let Some((job, found)) = fetchers.take() {
                shard.fetched(job, found);
                worked = true;
            }
        }
        worked
    }

    /// Lets others read what the shards want read. What finds no room is handed out when a read has come back.
    fn hand_out_jobs(&mut self) {
        for (fetchers, shard) in self.fetchers.iter_mut().zip(self.worker.shards_mut()) {
            while fetchers.has_room() {
                let Some(job) = shard.take_job() else { break };
                fetchers.submit(job);
            }
        }
    }

    /// Gives replies of the shards to the port whose client asked.
    fn pass_on_replies(&mut self, now: TimeMs, passing: &mut Passing) -> bool {
        let mut worked = false;
        while !passing.finished.is_empty() {
            worked = true;
            for (token, reply) in std::mem::take(&mut passing.finished) {
                let worker = &mut self.worker;
                match &mut self.mqtt {
                    Some(mqtt) if token & MQTT_REQUEST != 0 => {
                        mqtt.reply(&mut MqttHost { worker, passing }, token & !MQTT_REQUEST, reply, now);
                    }
                    _ => self.port.reply(token, reply, &mut |token, request| {
                        worker.start(token, request, &mut passing.out, &mut passing.finished);
                    }),
                }
            }
        }
        worked
    }

    /// What is done now and then. `busy`: how long the loop did not wait since the last time.
    fn tick(&mut self, now: TimeMs, busy: Duration) {
        self.port.end_overdue(now.0);
        // Clients that could not be taken when files had run out cause no event of their own.
        self.port.accept(self.poll.registry(), now.0);
        self.metrics.observe(&mut self.worker);
        self.metrics.turns.ring_depth.set(self.endpoint.depth() as i64);
        self.metrics.turns.busy_nanoseconds.add(busy.as_nanos() as u64);
        if let Some(mqtt) = &mut self.mqtt {
            mqtt.tick(Instant::now(), now);
            self.metrics.observe_topics(mqtt.broker_mut().shards_mut());
        }
        self.note_failure();
    }

    /// A shard whose journal failed fails the process: nobody is told "durable" any more.
    fn note_failure(&self) {
        if let Some(shard) = self.worker.shards().iter().find(|shard| shard.failure().is_some()) {
            let failure = shard.failure().expect("looked at above");
            self.status.fail(format!("ledger shard {}: {failure}", shard.index()));
        }
        let topics = self.mqtt.iter().flat_map(|mqtt| mqtt.broker().shards());
        if let Some((shard, failure)) = topics.filter_map(|shard| Some((shard.index(), shard.failure()?))).next() {
            self.status.fail(format!("topics shard {shard}: {failure}"));
        }
    }

    fn begin_to_stop(&mut self, now: TimeMs) -> Stopping {
        self.port.stop_listening(self.poll.registry());
        if let Some(mqtt) = &mut self.mqtt {
            mqtt.stop_listening();
            mqtt.drain(self.farewell.per_second, now);
        }
        Stopping { since: Instant::now(), hurried: false, said_quiet: false }
    }

    /// Whether a stopping worker may end: nobody asks anything any more, and what was accepted is durable.
    fn may_end(&mut self, stopping: &mut Stopping, now: TimeMs) -> bool {
        let elapsed = stopping.since.elapsed();
        let (patience, left) = match &mut self.mqtt {
            None => (FAREWELL, false),
            Some(mqtt) => {
                if elapsed >= self.farewell.timeout && !std::mem::replace(&mut stopping.hurried, true) {
                    mqtt.drain(u32::MAX, now);
                }
                (FAREWELL.max(self.farewell.timeout + HURRY), !mqtt.is_quiet())
            }
        };
        let patient = elapsed < patience;
        let is_quiet = self.port.is_quiet() && self.worker.pending() == 0 && !left;
        if !stopping.said_quiet && (is_quiet || !patient) {
            stopping.said_quiet = true;
            self.quiet.fetch_add(1, Ordering::AcqRel);
        }
        let all_quiet = self.quiet.load(Ordering::Acquire) >= self.workers;
        let is_idle = self.worker.is_idle() && self.mqtt.as_ref().is_none_or(MqttPort::is_idle);
        // What cannot be synced any more, on a full disk for one, was never acknowledged.
        let settled = all_quiet && is_idle || elapsed >= patience + STOP_AT_LATEST;
        settled && self.status.may_end()
    }
}

fn interrupted(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

/// The wall clock, for the times that records carry.
pub fn now_ms() -> TimeMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimeMs(since.as_millis() as u64)
}
