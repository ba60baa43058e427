//! Looks every few seconds whether the data directory is still the one that this process serves.
//!
//! ```text
//!   Guard::look ─▶ put back: an error in the log          ─▶ /healthz: ok
//!               └▶ a fault:  an error in the log, once    ─▶ /healthz: degraded, with what to do
//! ```
//!
//! Why: the server goes on with the files that it has open, whatever becomes of their names; who moved or removed them
//! would learn of it from the next start, or from two servers that wrote to one journal.

use std::time::{Duration, Instant};

use tidegate_journal::directory::{Guard, GuardFault, Look};

use crate::metrics::DirectoryMetrics;
use crate::status::Status;

/// How often.
pub const LOOK_AT_DIRECTORY: Duration = Duration::from_secs(2);
/// How often it is looked whether the thread should stop.
const NAP: Duration = Duration::from_millis(100);

/// Looks until the process stops.
pub(crate) fn watch(guard: &Guard, status: &Status, metrics: &DirectoryMetrics) {
    let (mut told, mut looked) = (None, None::<Instant>);
    while !status.is_stopping() {
        if looked.is_none_or(|looked| looked.elapsed() >= LOOK_AT_DIRECTORY) {
            looked = Some(Instant::now());
            tell(guard.look(), &mut told, status);
            metrics.fault.set(i64::from(status.directory_fault().is_some()));
        }
        std::thread::sleep(NAP);
    }
}

/// Says what a look has found; a fault that was told already is not told again.
fn tell(look: Look, told: &mut Option<(GuardFault, String)>, status: &Status) {
    for mended in &look.mended {
        tracing::error!("{mended}. See who did that: without this, the next start could have been refused");
    }
    status.set_directory_fault(look.fault.as_ref().map(|(fault, _)| *fault));
    if *told != look.fault {
        match &look.fault {
            Some((fault, why)) => tracing::error!(why, "{}", fault.words()),
            None => tracing::info!("the data directory is as it should be again"),
        }
        *told = look.fault;
    }
}
