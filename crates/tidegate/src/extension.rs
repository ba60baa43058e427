//! A room that another crate adds to the server.
//!
//! ```text
//!   Extension ─┬─ config rows, metric rows, families of logs      known before anything is read
//!              └─ open(document) ─▶ Opened { logs, room, HTTP, frames }   once the configuration is good
//! ```

use std::path::Path;

use anyhow::Result;
use tidegate_backup::Known;
use tidegate_broker::TopicsFamily;
use tidegate_config::{Document, Section};
use tidegate_doors::binary::frames::OpenFrames;
use tidegate_doors::http_room::OpenHttpRoom;
use tidegate_journal::directory::{Directory, Wanted};
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Family, LocalLogs};
use tidegate_ledger::LedgerFamily;
use tidegate_machines::TimeMs;
use tidegate_roster::RosterFamily;
use tidegate_runtime::Room;
use tidegate_shard::ShardFamily;
use tidegate_telemetry::MetricRow;

use crate::command::accept_loss::{Asked, Judged, losses_of};
use crate::command::audit::audit_family;
use crate::command::mend_time::{OverInLog, over_of};

/// What a crate outside brings to the server.
pub trait Extension<P>: Sync {
    /// The keys of its configuration.
    fn sections(&self) -> &'static [Section];

    /// What it counts.
    fn metrics(&self) -> &'static [MetricRow];

    /// The families of its logs, for `tidegate audit`, `backup` and `restore`.
    fn families(&self) -> Vec<KnownFamily>;

    /// What it serves, as the configuration says.
    fn open(&self, document: &Document) -> Result<Opened<P>>;

    /// What of its configuration may be a slip, and is none that a start refuses: said by a start and by a check.
    fn warnings(&self, _document: &Document) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// What all extensions warn of.
pub(crate) fn warnings<P>(extensions: &[&dyn Extension<P>], document: &Document) -> Result<Vec<String>> {
    let warnings = extensions.iter().map(|extension| extension.warnings(document));
    Ok(warnings.collect::<Result<Vec<_>>>()?.concat())
}

/// An extension with its configuration read.
pub struct Opened<P> {
    /// Its logs.
    pub logs: Vec<Wanted>,
    /// Its shards, ports and threads.
    pub room: Box<dyn Room<P>>,
    /// Its paths at the HTTP door, if it has some.
    pub http: Option<OpenHttpRoom<P>>,
    /// Its frames on the binary port, if it has some.
    pub frames: Option<OpenFrames<P>>,
}

/// A family of logs, how one of them is audited, and what its records say to whoever copies them.
#[derive(Clone, Copy)]
pub struct KnownFamily {
    pub(crate) family: Family,
    pub(crate) audit: AuditFamily,
    pub(crate) losses: LossesOfFamily,
    pub(crate) over: OverOfFamily,
    pub(crate) copied: Known,
}

/// Audits all logs of one family, and says what is wrong.
type AuditFamily = fn(&Path, &Directory, &LocalLogs<RealDisk>, &mut Vec<String>);

/// What all logs of one family have lost.
type LossesOfFamily = fn(&Asked<'_>, &Directory, &LocalLogs<RealDisk>) -> Judged;

/// What of all logs of one family is over by a clock.
type OverOfFamily = fn(&Path, &Directory, &LocalLogs<RealDisk>, TimeMs) -> Vec<OverInLog>;

impl KnownFamily {
    /// The family whose logs fold into the machine of `F`.
    pub const fn of<F: ShardFamily>() -> KnownFamily {
        KnownFamily {
            family: F::FAMILY,
            audit: audit_family::<F>,
            losses: losses_of::<F>,
            over: over_of::<F>,
            copied: Known::of::<F>(),
        }
    }

    /// All families of this server and its extensions, the ledger first.
    pub(crate) fn all<P>(extensions: &[&dyn Extension<P>]) -> Vec<KnownFamily> {
        let mut all = vec![
            KnownFamily::of::<LedgerFamily>(),
            KnownFamily::of::<TopicsFamily>(),
            KnownFamily::of::<RosterFamily>(),
        ];
        all.extend(extensions.iter().flat_map(|extension| extension.families()));
        all
    }
}
