//! The threads beside the logs: the one that keeps them small and reads them again, the one that tells witnesses, and
//! the one that looks after their directory.

use std::sync::mpsc::channel;

use anyhow::Result;

use super::{Site, WitnessThread};
use crate::directory_watch::watch;
use crate::disk_room::{RoomWatch, WatchedRoom};
use crate::metrics::{DirectoryMetrics, WitnessMetrics};
use crate::tail_watch::{Tail, TailWatch};
use crate::threads::spawn;
use crate::witness::Witnesses;

/// Starts the thread that tells the witnesses, if there are any.
pub(super) fn witness_logs<P: Send + 'static>(site: &Site<P>) -> Result<Option<WitnessThread>> {
    let mut witnesses = Witnesses::new(site.witnessed.1.try_iter(), site.status.clone(), &site.registry);
    if witnesses.is_empty() {
        // The page of metrics is that of every server.
        for family in &site.families {
            for log in site.directory.logs(*family) {
                WitnessMetrics::register(&site.registry, family.name, log.shard);
            }
        }
        return Ok(None);
    }
    let (running, stopped) = channel();
    let thread = spawn("witness".into(), move || {
        witnesses.run(&stopped);
        Ok(())
    })?;
    Ok(Some((running, thread)))
}

/// Starts the thread that looks whether the data directory is still this process's.
pub(super) fn watch_directory<P: Send + 'static>(site: &mut Site<P>) -> Result<()> {
    let Some(guard) = site.directory.guard()? else { return Ok(()) };
    let (status, metrics) = (site.status.clone(), DirectoryMetrics::register(&site.registry));
    site.spawn("directory".into(), move || {
        watch(&guard, &status, &metrics);
        Ok(())
    })
}

/// Starts the thread that compacts logs and reads them again.
pub(super) fn keep_logs<P: Send + 'static>(site: &mut Site<P>) -> Result<()> {
    let (keeper, status, rate) = (std::mem::take(&mut site.log_keeper), site.status.clone(), site.scrub_bytes_per_s);
    let watched: Vec<_> = site.rooms_watched.1.try_iter().collect();
    let tail = |of: &WatchedRoom| Ok((Tail::new(of.family, of.log, site.reader(of.log)?), of.end.clone()));
    let tails = TailWatch::new(watched.iter().map(tail).collect::<Result<_>>()?, status.damages().clone());
    let rooms = RoomWatch::new(watched.into_iter(), site.disk_reserve_bytes, status.clone(), &site.registry);
    site.spawn("log-keeper".into(), move || {
        keeper.run(rate, (rooms, tails), &|| status.is_stopping());
        Ok(())
    })
}
