//! The links of queues to other servers, added to the server as a room from outside would be.

use anyhow::{Result, ensure};
use tidegate_config::{Document, Section};
use tidegate_link::{Kind, LinkRoom, links, routes, smpp_links, undeclared, webhooks};
use tidegate_queue::{QueueMessage, QueuesKeys, declared};
use tidegate_runtime::Carries;
use tidegate_telemetry::MetricRow;

use crate::extension::{Extension, KnownFamily, Opened};

/// Links of one server: they share a thread.
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
        let mut all: Vec<Box<dyn Kind>> = Vec::new();
        all.extend(links(document)?.into_iter().map(|link| Box::new(link) as Box<dyn Kind>));
        all.extend(smpp_links(document)?.into_iter().map(|link| Box::new(link) as Box<dyn Kind>));
        all.extend(webhooks(document)?.into_iter().map(|link| Box::new(link) as Box<dyn Kind>));
        let keys: QueuesKeys = document.section()?;
        let routes = routes(document, &declared(document, keys.shards)?, keys.shards)?;
        all.extend(routes.into_iter().map(|route| Box::new(route) as Box<dyn Kind>));
        ensure!(all.len() <= LINKS_MAX, "there are more than {LINKS_MAX} links: they share one thread");
        Ok(Opened { logs: Vec::new(), room: Box::new(LinkRoom::new(all)), http: None, frames: None })
    }

    fn warnings(&self, document: &Document) -> Result<Vec<String>> {
        let keys: QueuesKeys = document.section()?;
        undeclared(document, &declared(document, keys.shards)?)
    }
}
