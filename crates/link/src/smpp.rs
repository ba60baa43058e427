//! `[[smpp]]`: an SMSC, which sends messages to phones.
//!
//! ```text
//!   message: to, from, text ─▶ parts ─ submit_sm, a window of them ─▶ SMSC
//!   trail:   handed, its id there      ◀─ submit_sm_resp ────────────┤
//!   trail:   noted, what became of it  ◀─ deliver_sm, a receipt ─────┤
//!   inbound: a message of a phone      ◀─ deliver_sm, no receipt ────┘   answered when it is durable
//! ```
//!
//! Promise: a message is gone here when the SMSC has taken its last part. A receipt, or a message of a phone, is
//! answered when it is durable here, so the SMSC sends it again if this server dies before.
//!
//! Of a message in parts, the last part is the one whose id the trail has, and for which a receipt is asked.

mod delivery;
mod keys;
mod message;
mod pace;
mod session;

use std::rc::Rc;

use tidegate_queue::Received;
use tidegate_telemetry::metrics;

use crate::queue::Queue;
use crate::room::{Kind, Running, Start};
use crate::target::{Fate, LinkSettings, Session, Target};
use crate::tls::warn_if_open;

pub use keys::{SmppKeys, SmppLink, smpp_links};
use session::Bound;

metrics! {
    /// What one link over SMPP counts. For the thread that runs it.
    pub struct SmppMetrics(link) {
        submitted: Counter "tidegate_smpp_submitted_total" "Short messages that the SMSC has taken: parts of messages.";
        throttled: Counter "tidegate_smpp_throttled_total"
            "Short messages that the SMSC did not take because it has too many.";
        rate: Gauge "tidegate_smpp_rate" "Short messages a second that may be sent now.";
        receipts: Counter "tidegate_smpp_receipts_total" "Delivery receipts that are in the trail of their message.";
        unmatched: Counter "tidegate_smpp_receipts_unmatched_total"
            "Delivery receipts of messages that are not known, or not any more.";
        inbound: Counter "tidegate_smpp_inbound_total" "Messages of phones that are in the queue for them.";
        turned_away: Counter "tidegate_smpp_turned_away_total"
            "Requests of the SMSC that were answered with an error: unreadable, or no queue took them.";
    }
}

/// An SMSC, and what is counted of it.
pub struct Smsc {
    link: Rc<SmppLink>,
    metrics: Rc<SmppMetrics>,
}

impl Kind for SmppLink {
    fn start(self: Box<Self>, start: Start) -> Running {
        warn_if_open(&self.link.consumer(), &self.address, self.tls.as_ref());
        let metrics = Rc::new(SmppMetrics::register(&start.registry, self.link.label()));
        metrics.rate.set(self.rate_per_s.into());
        start.forward(Smsc { link: Rc::new(*self), metrics })
    }
}

impl Target for Smsc {
    type Session = Bound;

    fn settings(&self) -> &LinkSettings {
        &self.link.link
    }

    async fn open(&mut self, queue: &Queue) -> Result<Bound, String> {
        Bound::open(&self.link, &self.metrics, queue).await
    }
}

impl Session for Bound {
    fn gave_up(&self) -> bool {
        self.was_given_up()
    }

    fn gifts_max(&self) -> usize {
        self.window()
    }

    async fn give(self: Rc<Self>, messages: Vec<Received>) -> Vec<Fate> {
        let mut fates = Vec::with_capacity(messages.len());
        for message in &messages {
            fates.push(self.submit(message).await);
        }
        fates
    }

    fn noted(&self, reference: &str) {
        self.forget(reference);
    }

    async fn over(&self) -> String {
        self.is_over().await
    }

    async fn close(&self) {
        self.unbind().await;
    }
}
