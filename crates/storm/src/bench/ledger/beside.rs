//! Single votes of one service, beside the load of another: what a caller feels of the others.

use super::peers::all_applied;
use crate::load::{self, Pressure, Tally};
use crate::tidegate::binary::Transfers;
use crate::tidegate::server::{OTHER_TOKEN, Tidegate};
use crate::tidegate::session::Session;
use crate::workload::{Names, Pattern, Workload};
use anyhow::{Context, Result, ensure};
use histogram::Histogram;
use std::thread;
use std::time::{Duration, Instant};
use tidegate_wire::limits::TRANSFERS_MAX;

/// What the other service does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// Full batches.
    Batches,
    /// Full batches, each of which is applied as a whole or not at all.
    Linked,
    /// The batches of before again: their records are read from the disk.
    Repeats,
}

/// Batches under way at the same time, each on a connection of its own.
const LOAD: Pressure = Pressure { connections: 8, in_flight: 1 };
/// Those of repeats: more than the server reads ahead.
const REPEATS_LOAD: Pressure = Pressure { connections: 16, in_flight: 4 };
/// A vote is due each so often: longer than one takes, or votes would wait for each other and not for the load.
const VOTE_GAP: Duration = Duration::from_millis(50);
/// For how long.
const MEASURED: Duration = Duration::from_secs(15);
/// The load goes on for so long before the first vote is due.
const WARM_UP: Duration = Duration::from_secs(1);
/// More transfers than there is time for.
const ENDLESS: u64 = 1 << 36;

/// Ids of the votes and of the load differ, and so do those of each kind of load.
const VOTES_SERIES: u32 = 100;
const LOAD_SERIES: u32 = 200;

impl Beside {
    /// In the order in which they are measured.
    pub const ALL: [Beside; 4] = [Beside::Nothing, Beside::Batches, Beside::Linked, Beside::Repeats];

    /// As figures name it.
    pub fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "idle",
            Beside::Batches => "batches",
            Beside::Linked => "linked",
            Beside::Repeats => "repeats",
        }
    }

    /// Which ids it sends.
    fn series(self) -> u32 {
        LOAD_SERIES + if self == Beside::Repeats { Beside::Batches } else { self } as u32
    }
}

/// What was measured.
pub struct Votes {
    latency_ns: Histogram,
    /// Transfers a second of the load.
    pub load_per_s: Option<f64>,
}

impl Votes {
    /// Latency in milliseconds at a quantile such as 0.99, from when a vote was due.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        match self.latency_ns.quantile_bucket(quantile) {
            Ok(Some(bucket)) => bucket.end() as f64 / 1e6,
            _ => f64::NAN,
        }
    }
}

/// Votes beside this load.
pub fn votes(tidegate: &Tidegate, names: &Names, beside: Beside) -> Result<Votes> {
    let until = Instant::now() + WARM_UP + MEASURED;
    thread::scope(|scope| {
        let load = (beside != Beside::Nothing).then(|| scope.spawn(move || run_load(tidegate, names, beside, until)));
        thread::sleep(WARM_UP);
        let latency_ns = vote(tidegate, names, beside, until)?;
        let load = load.map(|load| load.join().expect("the load does not panic")).transpose()?;
        Ok(Votes { latency_ns, load_per_s: load.map(|tally| tally.answered_per_second()) })
    })
}

fn run_load(tidegate: &Tidegate, names: &Names, beside: Beside, until: Instant) -> Result<Tally> {
    let work = Workload::new(Pattern::Uniform, names.wallets(), ENDLESS, beside.series());
    let mut transfers = Transfers::new(names, work, TRANSFERS_MAX).linked(beside == Beside::Linked).until(until);
    let pressure = if beside == Beside::Repeats { REPEATS_LOAD } else { LOAD };
    let tally = load::run(tidegate.binary(), pressure, &mut transfers)?;
    let outcomes = tally.outcomes();
    match beside {
        Beside::Repeats => ensure!(outcomes.duplicate == outcomes.total(), "all were sent before, but {outcomes}"),
        _ => all_applied(outcomes, outcomes.total())?,
    }
    Ok(tally)
}

/// One vote after the other, each when it is due or, if the one before it takes longer, as soon as that is answered.
fn vote(tidegate: &Tidegate, names: &Names, beside: Beside, until: Instant) -> Result<Histogram> {
    let mut latency_ns = Histogram::new(7, 37)?;
    let mut session = Session::open_as(tidegate.binary(), OTHER_TOKEN)?;
    let mut votes = Workload::new(Pattern::Votes, names.wallets(), ENDLESS, VOTES_SERIES + beside as u32);
    let mut due = Instant::now();
    while due < until {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        session.pay(names, &votes.next().context("there are more votes than time")?)?;
        latency_ns.increment(due.elapsed().as_nanos() as u64)?;
        due += VOTE_GAP;
    }
    Ok(latency_ns)
}
