//! The links of a node, as a room: one thread for all.

use std::pin::Pin;
use std::rc::Rc;

use anyhow::{Context, Result};
use tidegate_queue::{QUEUES, QueueClient, QueueMessage};
use tidegate_runtime::pump::Pump;
use tidegate_runtime::{Carries, Room, Site};
use tidegate_telemetry::Registry;
use tokio::sync::watch;
use tokio::task::LocalSet;

use crate::forward::{Forward, LinkMetrics};
use crate::queue::Queue;
use crate::states::LinkStates;
use crate::target::Target;

/// A link of any kind, before it runs.
pub trait Kind: Send {
    /// What runs it, on the thread of the links.
    fn start(self: Box<Self>, start: Start) -> Running;
}

/// What runs a link.
pub type Running = Pin<Box<dyn Future<Output = ()>>>;

/// What a link gets when it starts.
pub struct Start {
    /// Asks the queues.
    pub queue: Queue,
    /// For what it counts.
    pub registry: Registry,
    /// Says when the process stops.
    pub stop: watch::Receiver<bool>,
    /// How all links are.
    pub states: Rc<LinkStates>,
}

impl Start {
    /// Forwards to `target`.
    pub fn forward(self, target: impl Target) -> Running {
        let metrics = LinkMetrics::register(&self.registry, target.settings().label());
        let state = self.states.add(&target.settings().from);
        Box::pin(Forward::new(target, self.queue, metrics, (self.stop, state)).run())
    }
}

/// The links of a node.
pub struct LinkRoom {
    links: Vec<Box<dyn Kind>>,
    stop: watch::Sender<bool>,
}

impl LinkRoom {
    /// These links.
    pub fn new(links: Vec<Box<dyn Kind>>) -> LinkRoom {
        LinkRoom { links, stop: watch::channel(false).0 }
    }
}

impl<P: Carries<QueueMessage>> Room<P> for LinkRoom {
    fn endpoints(&self) -> u16 {
        u16::from(!self.links.is_empty())
    }

    fn begin(&mut self, site: &mut Site<P>) -> Result<()> {
        let links = std::mem::take(&mut self.links);
        if links.is_empty() {
            return Ok(());
        }
        let shards = site.placement().shards(QUEUES);
        let mut pump = Pump::new(site.take_endpoint(), site.status().clone());
        let queues = pump.client(|_| QueueClient::new(shards));
        let (registry, stop) = (site.registry().clone(), self.stop.subscribe());
        site.spawn("links".to_owned(), move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.context("a runtime for links")?;
            let (local, states) = (LocalSet::new(), Rc::new(LinkStates::default()));
            let queue = Queue::new(Rc::new(queues));
            for link in links {
                let (queue, registry, stop) = (queue.clone(), registry.clone(), stop.clone());
                local.spawn_local(link.start(Start { queue, registry, stop, states: states.clone() }));
            }
            // The pump ends behind the last link.
            drop(queue);
            local.spawn_local(pump.run());
            runtime.block_on(local);
            // What still waits for another server on a thread of its own has nothing to say any more.
            runtime.shutdown_background();
            Ok(())
        })
    }

    fn stop(&mut self) {
        // If the send fails, the thread has already ended.
        let _ = self.stop.send(true);
    }
}
