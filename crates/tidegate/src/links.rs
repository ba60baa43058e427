//! The links between queues of several servers, added to the server as a room from outside would be.

use anyhow::{Result, ensure};
use tidegate_config::{Document, Section};
use tidegate_link::{LinkRoom, links};
use tidegate_queue::QueueMessage;
use tidegate_runtime::Carries;
use tidegate_telemetry::MetricRow;

use crate::extension::{Extension, KnownFamily, Opened};

/// Links of one server: each has a thread.
const LINKS_MAX: usize = 100;

/// Adds the links to a server.
pub struct Links;

impl<P: Carries<QueueMessage>> Extension<P> for Links {
    fn sections(&self) -> &'static [Section] {
        // They stand in the list of the server's own.
        &[]
    }

    fn metrics(&self) -> &'static [MetricRow] {
        &[]
    }

    fn families(&self) -> Vec<KnownFamily> {
        Vec::new()
    }

    fn open(&self, document: &Document) -> Result<Opened<P>> {
        let links = links(document)?;
        ensure!(links.len() <= LINKS_MAX, "there are more than {LINKS_MAX} [[link]]: each has a thread");
        Ok(Opened { logs: Vec::new(), room: Box::new(LinkRoom::new(links)), http: None, frames: None })
    }
}
