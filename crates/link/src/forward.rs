//! The work of one link, on a thread of its own.

use std::time::{Duration, Instant};

use tidegate_queue::machine::limits::REASON_BYTES_MAX;
use tidegate_queue::machine::{Lease, Outcome, Rejection, shortened};
use tidegate_queue::{Answer, Call, QueueClient, QueueMessage, QueueRequest, Receive, Received};
use tidegate_runtime::Carries;
use tidegate_runtime::background::Background;

use crate::keys::LinkSettings;
use crate::pause::Pause;
use crate::remote::{NotTaken, Remote};
use crate::room::LinkMetrics;

/// How long to wait for messages before it is asked again.
const WAIT_MS: u64 = 1_000;
/// How long one look whether to stop lasts.
const PATIENCE: Duration = Duration::from_millis(50);

/// One link.
pub struct Forward<P> {
    pub settings: LinkSettings,
    pub background: Background<P, QueueClient>,
    pub metrics: LinkMetrics,
}

/// What came of one round.
enum Round {
    /// Messages are there, and gone here; or there were none.
    Done,
    /// It was in vain; the connection may be gone with it.
    Failed(NotTaken),
    /// The process stops.
    Stop,
}

impl<P: Carries<QueueMessage>> Forward<P> {
    /// Forwards until `stopped` says so.
    pub fn run(mut self, stopped: &dyn Fn() -> bool) {
        let mut pause = Pause::new(self.settings.pause_max_ms);
        let mut remote = None;
        let mut was_well = true;
        while !stopped() {
            let round = match &mut remote {
                Some(remote) => self.round(remote, stopped),
                None => match Remote::connect(&self.settings) {
                    Ok(connected) => {
                        remote = Some(connected);
                        Round::Done
                    }
                    Err(error) => Round::Failed(error),
                },
            };
            match round {
                Round::Done => {
                    pause.reset();
                    self.tell(true, &mut was_well, "");
                }
                Round::Failed(NotTaken { why, is_over }) => {
                    if is_over {
                        remote = None;
                    }
                    self.metrics.failures.increment();
                    self.tell(false, &mut was_well, &why);
                    sleep(pause.take(), stopped);
                }
                Round::Stop => return,
            }
        }
    }

    /// Says when the link begins to fail, and when it works again.
    fn tell(&self, is_well: bool, was_well: &mut bool, why: &str) {
        self.metrics.up.set(i64::from(is_well));
        if std::mem::replace(was_well, is_well) == is_well {
            return;
        }
        let link = &self.settings;
        match is_well {
            true => tracing::info!(?link, "the link works again"),
            false => tracing::warn!(?link, why, "the link does not work; it is tried again, and messages wait here"),
        }
    }

    /// Forwards some messages.
    fn round(&mut self, remote: &mut Remote, stopped: &dyn Fn() -> bool) -> Round {
        let LinkSettings { name, from, to, batch, lease_ms, .. } = self.settings.clone();
        let consumer = format!("link:{name}").into();
        let (max, lease_ms, wait_ms) = (batch, Some(lease_ms), WAIT_MS);
        let receive = Receive { queue: from.clone(), max, lease_ms, consumer, wait_ms };
        let received = match self.background.ask(QueueRequest::Receive(receive), stopped) {
            None => return Round::Stop,
            Some(Ok(Answer::Received(received))) => received,
            Some(Ok(Answer::Outcome(Outcome::Refused(refusal)))) => return here(refusal.to_string()),
            Some(Ok(other)) => unreachable!("who receives gets messages: {other:?}"),
            Some(Err(unavailable)) => return here(format!("the queue cannot be asked now ({unavailable:?})")),
        };
        if received.is_empty() {
            return Round::Done;
        }
        let leases: Vec<Lease> = received.iter().map(|received| received.delivery.lease).collect();
        if let Err(failed) = remote.send(&to, &received) {
            return self.give_back(from, leases, failed, stopped);
        }
        self.acknowledge(from, leases, &received, stopped)
    }

    fn acknowledge(
        &mut self,
        queue: Box<str>,
        leases: Vec<Lease>,
        received: &[Received],
        stopped: &dyn Fn() -> bool,
    ) -> Round {
        match self.background.ask(QueueRequest::Call(Call::Acknowledge { queue, leases }), stopped) {
            None => Round::Stop,
            // A lease that was lost meanwhile: the message comes again, and is taken there once.
            Some(Ok(_)) => {
                self.metrics.forwarded.add(received.len() as u64);
                Round::Done
            }
            Some(Err(unavailable)) => here(format!("the queue cannot be asked now ({unavailable:?})")),
        }
    }

    /// Gives messages back that were not taken there, as far as is known.
    fn give_back(
        &mut self,
        queue: Box<str>,
        leases: Vec<Lease>,
        failed: NotTaken,
        stopped: &dyn Fn() -> bool,
    ) -> Round {
        let why = format!("link {}: {}", self.settings.name, failed.why);
        let reason = shortened(&why, REASON_BYTES_MAX);
        let then = Rejection::Retry(Some(0));
        let call = Call::Reject { queue, leases, then, reason: reason.into() };
        match self.background.ask(QueueRequest::Call(call), stopped) {
            None => Round::Stop,
            // If they cannot be given back, their leases end.
            Some(_) => Round::Failed(failed),
        }
    }
}

/// It failed here, and the connection is as good as before.
fn here(why: String) -> Round {
    Round::Failed(NotTaken { why: format!("here: {why}"), is_over: false })
}

fn sleep(pause: Duration, stopped: &dyn Fn() -> bool) {
    let until = Instant::now() + pause;
    while !stopped() && Instant::now() < until {
        std::thread::sleep(PATIENCE.min(pause));
    }
}
