//! How many connections the limit of open files leaves for each door.
//!
//! ```text
//!   RLIMIT_NOFILE ─┬─ kept: journals, those who read them, runs of ids, snapshots, threads, the operator's tools
//!                  └─ doors: HTTP and binary a few, MQTT the rest; no door more than it asks for
//! ```
//!
//! Promise: as many strangers as want to may connect and stay silent; journals still open their next segments, and each
//! door still takes its own clients. It is settled before anything listens.
//!
//! Why parts and not what comes first: connections of one door that is flooded must not close the others. Why MQTT has
//! most: its clients stay connected while they are idle.

use tidegate_doors::admission::{bound_for, let_in_max};
use tidegate_doors::footprint::change_readers;
use tidegate_journal::limits::OPEN_SEGMENTS_MAX;
use tidegate_ledger::room::FETCH_THREADS;

use crate::config::Config;

/// Files of the process itself: the data directory's lock, standard streams, what archiving and reloading open.
const KEPT_FOR_PROCESS: usize = 64;
/// Of a log: its last segment, the next one, the folder that is synced, segments that are read.
const KEPT_PER_LOG: usize = 8;
/// Runs of the index of ids of one shard, with those that a merge reads and writes.
const KEPT_PER_INDEX: usize = 32;
/// Segments that the threads of a ledger's log have open who look up old records.
const KEPT_PER_LEDGER: usize = FETCH_THREADS * OPEN_SEGMENTS_MAX;
/// Of a thread that serves: its poll, what wakes it, its listeners, a connection that is accepted to be turned away,
/// and few that give way to new ones.
const KEPT_PER_THREAD: usize = 12;
/// The part of the limit that connections get at least, however many shards there are.
const CONNECTIONS_PART_MIN: usize = 4;
/// HTTP and binary each get one of so many of the files that are left, if MQTT wants the others...
const SMALL_DOOR_PART: usize = 20;
/// ... and as many as this at least, as long as that is no more than an equal part.
const SMALL_DOOR_MIN: usize = 512;
/// What each door needs to be of any use.
const CONNECTIONS_MIN: usize = 16;

/// Logs of the roster: one, whatever the configuration says.
pub const ROSTER_LOGS: u16 = 1;

/// What needs descriptors besides connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Shards of all families.
    pub logs: usize,
    /// Those of them that have an index of ids.
    pub indexes: usize,
    /// Workers and edge threads.
    pub threads: usize,
    /// Readers of changes: each has a segment of each of these open.
    pub readers: usize,
}

impl Needs {
    /// What a server with this configuration needs for so many shards.
    pub fn of(config: &Config, logs: usize, indexes: usize) -> Needs {
        let (listen, edges) = (&config.listen, usize::from(config.limits.edge_threads));
        let http = listen.http.map(|_| &config.limits.http);
        let readers = change_readers(http, edges, DoorConnections::asked(config).mqtt > 0);
        Needs { logs, indexes, threads: config.limits.workers + edges, readers }
    }

    /// Descriptors that no connection gets, if the limit allows it.
    pub fn kept(self) -> usize {
        KEPT_FOR_PROCESS
            + self.logs * KEPT_PER_LOG
            + self.indexes * (KEPT_PER_INDEX + KEPT_PER_LEDGER + self.readers)
            + self.threads * KEPT_PER_THREAD
    }
}

/// Connections of each door, all its threads together; zero for a door that is shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorConnections {
    /// HTTP.
    pub http: usize,
    /// The binary port.
    pub binary: usize,
    /// MQTT over all its listeners, with WebSockets.
    pub mqtt: usize,
}

impl DoorConnections {
    /// What this configuration asks for.
    pub fn asked(config: &Config) -> DoorConnections {
        let (listen, limits) = (&config.listen, &config.limits);
        let has_mqtt = listen.mqtt.is_some() || listen.mqtts.is_some() || config.mqtt.websocket.is_some();
        DoorConnections {
            http: listen.http.map_or(0, |_| limits.http.connections_max * usize::from(limits.edge_threads)),
            binary: listen.binary.map_or(0, |_| limits.binary_connections_max * limits.workers),
            mqtt: if has_mqtt { config.mqtt.admission.connections_max } else { 0 },
        }
    }
}

/// How the open files are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// What the system gives.
    pub limit: usize,
    /// What no connection gets.
    pub kept: usize,
    /// What each door gets.
    pub connections: DoorConnections,
    /// What should be kept is more than the limit allows.
    pub is_short: bool,
}

impl OpenFiles {
    /// Divides `limit` among what the server `needs` and the connections that are `wanted`. The error says what limit
    /// is needed.
    pub fn divide(limit: usize, needs: Needs, wanted: DoorConnections) -> Result<OpenFiles, String> {
        let wants_kept = needs.kept();
        let kept = wants_kept.min(limit - limit / CONNECTIONS_PART_MIN);
        let DoorConnections { http, binary, mqtt } = share_out(limit - kept, wanted);
        let few = |wanted: usize, part: usize| part < wanted.min(CONNECTIONS_MIN);
        if few(wanted.http, http) || few(wanted.binary, binary) || few(wanted.mqtt, mqtt) {
            return Err(format!(
                "the limit of open files, {limit}, is too low for {} logs on {} threads and any connections: raise it \
                 to {} or more (ulimit -n, LimitNOFILE of systemd)",
                needs.logs,
                needs.threads,
                wants_kept + 4_096
            ));
        }
        let mqtt = if mqtt < let_in(wanted.mqtt) { bound_for(mqtt) } else { wanted.mqtt };
        let connections = DoorConnections { http, binary, mqtt };
        Ok(OpenFiles { limit, kept, connections, is_short: kept < wants_kept })
    }
}

/// What MQTT takes in for such a bound, with clients that are only told of it.
fn let_in(bound: usize) -> usize {
    if bound == 0 { 0 } else { let_in_max(bound) }
}

/// Cuts what is wanted to the files that are left.
fn share_out(left: usize, wanted: DoorConnections) -> DoorConnections {
    let DoorConnections { http, binary, mqtt } = wanted;
    let mqtt = let_in(mqtt);
    let doors = [http, binary, mqtt].iter().filter(|wanted| **wanted > 0).count().max(1);
    let few = (left / SMALL_DOOR_PART).max(SMALL_DOOR_MIN.min(left / doors));
    // What MQTT does not want is for the others.
    let small = (left.saturating_sub(mqtt) / 2).max(few);
    let binary_part = binary.min(small.max(left.saturating_sub(mqtt + http)));
    let http_part = http.min(small.max(left.saturating_sub(mqtt + binary_part)));
    let mqtt = mqtt.min(left - http_part - binary_part);
    DoorConnections { http: http_part, binary: binary_part, mqtt }
}

/// The limit of open files of this process, raised as far as the system lets us: each client is an open file. Systems
/// give a thousand unless asked for more, up to a limit that only the operator can raise.
pub fn raise_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the calls take a pointer to a live struct of theirs. A failure leaves the limit as it was.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return usize::MAX >> 1;
        }
        let before = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        if before < limit.rlim_max && libc::setrlimit(libc::RLIMIT_NOFILE, &limit) != 0 {
            limit.rlim_cur = before;
        }
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX).min(usize::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Needs = Needs { logs: 3, indexes: 2, threads: 3, readers: 10 };
    const WANTED: DoorConnections = DoorConnections { http: 10_000, binary: 20_000, mqtt: 1 << 21 };

    #[test]
    fn a_high_limit_gives_each_door_what_it_asks_for() {
        let files = OpenFiles::divide(4 << 20, SMALL, WANTED).unwrap();
        assert_eq!(
            (files.connections, files.kept, files.is_short),
            (WANTED, 64 + 3 * 8 + 2 * (32 + 2 * 64 + 10) + 3 * 12, false)
        );
    }

    /// Who reads old records, follows the changes or looks up ids has files open as long as it is there: no connection
    /// may have been given them.
    #[test]
    fn what_readers_may_have_open_is_kept() {
        let readers = Needs { readers: 160, ..SMALL };
        let files = OpenFiles::divide(4_096, readers, WANTED).unwrap();
        let open = 2 * (160 + FETCH_THREADS * OPEN_SEGMENTS_MAX);
        let without = OpenFiles::divide(4_096, Needs { readers: 0, ..SMALL }, WANTED).unwrap();
        assert!(files.kept > open && files.kept == without.kept + 2 * 160, "{files:?}");
        let DoorConnections { http, binary, mqtt } = files.connections;
        assert!(http + binary + let_in_max(mqtt) + open < 4_096, "{files:?}");
    }

    #[test]
    fn all_connections_and_what_is_kept_are_within_the_limit() {
        for limit in (1_000..20_000).step_by(37).chain([65_536, 524_288, 1 << 20]) {
            let files = OpenFiles::divide(limit, SMALL, WANTED).unwrap();
            let DoorConnections { http, binary, mqtt } = files.connections;
            assert!(http + binary + let_in_max(mqtt) + files.kept <= limit, "{files:?}");
            assert!(http > 100 && binary > 100 && mqtt > 50, "{files:?}");
            assert!(http <= WANTED.http && binary <= WANTED.binary && mqtt <= WANTED.mqtt, "{files:?}");
        }
        let files = OpenFiles::divide(1 << 20, SMALL, WANTED).unwrap();
        assert_eq!((files.connections.http, files.connections.binary), (10_000, 20_000), "who wants little has it");
        let files = OpenFiles::divide(20_000, SMALL, WANTED).unwrap();
        assert!(files.connections.mqtt >= 17_300 && files.connections.http >= 900, "{files:?}");
        let without = OpenFiles::divide(20_000, SMALL, DoorConnections { mqtt: 0, ..WANTED }).unwrap().connections;
        assert!(without.http + without.binary > 19_000, "nobody else wants it: {without:?}");
    }

    #[test]
    fn a_door_that_is_shut_takes_nothing_and_many_shards_leave_some_connections() {
        let wanted = DoorConnections { mqtt: 0, ..WANTED };
        let files = OpenFiles::divide(1_024, SMALL, wanted).unwrap();
        assert_eq!(files.connections.mqtt, 0);
        assert_eq!(files.connections.http, files.connections.binary);
        let many = Needs { logs: 128, indexes: 64, threads: 20, readers: 0 };
        let files = OpenFiles::divide(1_024, many, wanted).unwrap();
        assert!(files.is_short && files.kept == 768, "{files:?}");
        let refused = OpenFiles::divide(100, many, wanted).unwrap_err();
        assert!(refused.contains("raise it to 15664 or more"), "{refused}");
    }
}
