//! The counters of a node: their shards recovered and placed, their metrics, and their way to the doors.

use anyhow::Result;
use tidegate::{Extension, KnownFamily, Opened};
use tidegate_config::{Document, Section};
use tidegate_doors::binary::frames::ClientFrames;
use tidegate_journal::directory::{ShardCount, Wanted};
use tidegate_journal::{Family, Options};
use tidegate_runtime::direct::{Direct, DirectClient};
use tidegate_runtime::{Carries, Home, Room, Site};
use tidegate_telemetry::{MetricRow, metrics};

use crate::family::{COUNTERS, CounterCommands, CounterFamily, CounterService, shard_of};
use crate::frames::CounterFrames;
use crate::http::CounterHttp;
use crate::limits::{CounterKeys, SEGMENT_BYTES};

metrics! {
    /// What one shard counts beside what every shard counts.
    pub struct CounterMetrics(shard) {
        counters: Gauge "tidegate_counters" "Counters that there are.";
    }
}

/// Adds counters to a server.
pub struct CounterExtension;

impl<P: Carries<Direct<CounterService>>> Extension<P> for CounterExtension {
    fn sections(&self) -> &'static [Section] {
        CounterKeys::SECTIONS
    }

    fn metrics(&self) -> &'static [MetricRow] {
        CounterMetrics::ROWS
    }

    fn families(&self) -> Vec<KnownFamily> {
        vec![KnownFamily::of::<CounterFamily>()]
    }

    fn open(&self, document: &Document) -> Result<Opened<P>> {
        let keys: CounterKeys = document.section()?;
        Ok(Opened {
            logs: vec![Wanted { family: COUNTERS, shards: keys.shards, count: ShardCount::Kept }],
            room: Box::new(CounterRoom(keys)),
            http: Some(Box::new(|site, pump| Box::new(CounterHttp(pump.client(|_| client(site)))))),
            frames: Some(Box::new(|site, me| Box::new(ClientFrames::new(CounterFrames, me, client(site))))),
        })
    }
}

fn client<P: Send + 'static>(site: &Site<P>) -> DirectClient<CounterService> {
    DirectClient::new(site.placement().shards(COUNTERS), shard_of)
}

/// The shards of counters.
struct CounterRoom(CounterKeys);

impl<P: Carries<Direct<CounterService>>> Room<P> for CounterRoom {
    fn families(&self) -> Vec<(Family, Home)> {
        vec![(COUNTERS, Home::Member)]
    }

    fn recover(&mut self, site: &mut Site<P>) -> Result<()> {
        site.recover_direct::<CounterCommands>(Options::small(SEGMENT_BYTES), &self.0, |registry, shard| {
            let metrics = CounterMetrics::register(registry, shard);
            Box::new(move |shard, _| metrics.counters.set(shard.state_ahead().count() as i64))
        })
    }
}
