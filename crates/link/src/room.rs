//! The links of a node, as a room: a thread for each.

use anyhow::Result;
use tidegate_queue::{QUEUES, QueueClient, QueueMessage};
use tidegate_runtime::background::Background;
use tidegate_runtime::{Carries, Room, Site};
use tidegate_telemetry::metrics;

use crate::forward::Forward;
use crate::keys::LinkSettings;

metrics! {
    /// What one link counts. For the thread that runs it.
    pub struct LinkMetrics(link) {
        forwarded: Counter "tidegate_link_forwarded_total" "Messages that are in the queue of the other server.";
        failures: Counter "tidegate_link_failures_total" "Attempts to forward that failed.";
        up: Gauge "tidegate_link_up" "1 while the last attempt to forward did not fail.";
    }
}

/// The links of a node.
pub struct LinkRoom(Vec<LinkSettings>);

impl LinkRoom {
    /// These links.
    pub fn new(links: Vec<LinkSettings>) -> LinkRoom {
        LinkRoom(links)
    }
}

impl<P: Carries<QueueMessage>> Room<P> for LinkRoom {
    fn endpoints(&self) -> u16 {
        self.0.len() as u16
    }

    fn begin(&mut self, site: &mut Site<P>) -> Result<()> {
        for (number, settings) in std::mem::take(&mut self.0).into_iter().enumerate() {
            let shards = site.placement().shards(QUEUES);
            let background = Background::new(site.take_endpoint(), |_| QueueClient::new(shards));
            let metrics = LinkMetrics::register(site.registry(), &settings.name);
            let (status, forward) = (site.status().clone(), Forward { settings, background, metrics });
            site.spawn(format!("link-{number}"), move || {
                forward.run(&|| status.is_stopping());
                Ok(())
            })?;
        }
        Ok(())
    }
}
