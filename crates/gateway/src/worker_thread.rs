//! The poll loop of a worker: sockets, rings, shards, in turn, on one pinned thread.
//!
//! ```text
//!   ┌▶ take messages ─▶ read sockets ─▶ step shards ─▶ encode replies ─▶ send messages ─▶ write sockets ─┐
//!   └───────────────── poll: at once if there was work, else asleep until a socket, a ring or the log ◀──┘
//! ```
//!
//! Why one turn reads all sockets before the shards step: what arrived together is decided together and synced as one group.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::{Events, Poll, Waker};
use tidegate_journal::LocalLog;
use tidegate_journal::disk::RealDisk;
use tidegate_machines::TimeMs;
use tidegate_shard::core::Outgoing;
use tidegate_shard::operation::Message;
use tidegate_shard::router::Finished;
use tidegate_shard::worker::Worker;

use crate::binary::port::{BinaryPort, LISTENER, WAKER};
use crate::mesh::Endpoint;
use crate::metrics::WorkerMetrics;
use crate::status::Status;

/// How long an idle worker sleeps at most: timers (expiries, retries, silent clients) are looked at so often.
const TICK: Duration = Duration::from_millis(20);
/// How long a stopping worker waits for clients to take their replies.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long a stopping worker waits for its shards to sync what they hold.
const STOP_AT_LATEST: Duration = Duration::from_secs(20);

/// Everything a worker's thread owns.
pub struct WorkerThread {
    worker: Worker<RealDisk, LocalLog<RealDisk>>,
    port: BinaryPort,
    endpoint: Endpoint<Message>,
    poll: Poll,
    status: Arc<Status>,
    /// Workers that have nothing of their own under way while the process stops.
    quiet: Arc<AtomicU16>,
    workers: u16,
    metrics: WorkerMetrics,
}

impl WorkerThread {
    /// Prepares the thread's poll; its endpoint can be woken from here on.
    pub fn new(
        worker: Worker<RealDisk, LocalLog<RealDisk>>,
        port: BinaryPort,
        endpoint: Endpoint<Message>,
        status: Arc<Status>,
        quiet: Arc<AtomicU16>,
        workers: u16,
        metrics: WorkerMetrics,
    ) -> io::Result<WorkerThread> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        endpoint.bed().set_wake(move || {
            // A wake-up that fails is made up for by the next tick.
            let _ = waker.wake();
        });
        Ok(WorkerThread { worker, port, endpoint, poll, status, quiet, workers, metrics })
    }

    /// Serves until the process stops, then closes the logs of its shards.
    pub fn run(mut self) -> anyhow::Result<()> {
        self.port.register(self.poll.registry())?;
        let mut events = Events::with_capacity(1_024);
        let mut out: Outgoing = Vec::new();
        let mut finished: Finished = Vec::new();
        let mut stopping: Option<Instant> = None;
        let mut said_quiet = false;
        let mut ticked = Instant::now();
        let mut busy = Duration::ZERO;
        #[cfg(feature = "fault-injection")]
        let tamper = crate::tamper::Tamper::from_env();
        loop {
            let turned = Instant::now();
            let now = now_ms();
            let worked = self.turn(now, stopping.is_some(), &mut out, &mut finished);

            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.port.end_overdue(now.0);
                // Clients that could not be taken when files had run out cause no event of their own.
                self.port.accept(self.poll.registry(), now.0);
                self.metrics.observe(&mut self.worker);
                self.port.observe(self.endpoint.depth(), std::mem::take(&mut busy));
                #[cfg(feature = "fault-injection")]
                tamper.look(&mut self.worker);
                if let Some(failure) = self.worker.failure() {
                    self.status.fail(failure.to_string());
                }
            }
            if stopping.is_none() && self.status.is_stopping() {
                stopping = Some(Instant::now());
                self.port.stop_listening(self.poll.registry());
            }
            if let Some(since) = stopping {
                let patient = since.elapsed() < FAREWELL;
                if !said_quiet && (self.port.is_quiet() && self.worker.pending() == 0 || !patient) {
                    said_quiet = true;
                    self.quiet.fetch_add(1, Ordering::AcqRel);
                }
                let all_quiet = self.quiet.load(Ordering::Acquire) >= self.workers;
                // What cannot be synced any more, on a full disk for one, was never acknowledged.
                let settled = all_quiet && self.worker.is_idle() || since.elapsed() >= STOP_AT_LATEST;
                if settled && self.status.may_end() {
                    break;
                }
            }

            busy += turned.elapsed();
            let (worker, port) = (&self.worker, &self.port);
            let asleep =
                !worked && self.endpoint.sleep_unless(|| port.has_work(worker.has_room()) || worker.has_news());
            self.poll.poll(&mut events, Some(if asleep { TICK } else { Duration::ZERO })).or_else(interrupted)?;
            if asleep {
                self.endpoint.awake();
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.port.accept(self.poll.registry(), now.0),
                    WAKER => {}
                    _ => self.port.on_event(event),
                }
            }
        }
        if let Some(failure) = self.worker.failure() {
            self.status.fail(failure.to_string());
        }
        for log in self.worker.into_logs() {
            log.close()?;
        }
        Ok(())
    }

    fn turn(&mut self, now: TimeMs, stopping: bool, out: &mut Outgoing, finished: &mut Finished) -> bool {
        let (worker, port) = (&mut self.worker, &mut self.port);
        let mut worked = self.endpoint.receive(|_, message| worker.deliver(message, out, finished));
        if !stopping {
            // The port reads while the worker has room; both sides of that are this one worker.
            let room = std::cell::RefCell::new(worker);
            worked |= port.serve(
                now.0,
                || room.borrow().has_room(),
                |token, request| room.borrow_mut().start(token, request, &mut *out, &mut *finished),
            );
        }
        worked |= self.worker.step(now, out, finished);
        while !finished.is_empty() {
            worked = true;
            for (token, reply) in std::mem::take(finished) {
                let worker = &mut self.worker;
                self.port.reply(token, reply, &mut |token, request| worker.start(token, request, out, finished));
            }
        }
        self.endpoint.send(out);
        self.port.flush(self.poll.registry());
        worked
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
