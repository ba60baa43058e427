//! The links and the route of a process, on tokio's clock, which passes with that of the simulation.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tidegate_link::{
    Choose, Forwarding, Kind, LinkMetrics, LinkSettings, LinkStates, Queue, Route, Rule, Running, Start,
};
use tidegate_telemetry::Registry;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::{LocalSet, yield_now};

use super::network::{Network, Way};
use super::node::{AsLink, Process, TICK_MS};

/// Steps that each task may take in a tick, at least.
const STEPS: usize = 24;
/// Messages at once.
const BATCH: usize = 4;
/// How long messages are leased by links.
const LEASE_MS: u64 = 1_000;
const PAUSE_MAX_MS: u64 = 500;

/// What forwards for one process, as long as that lives.
pub struct Tasks {
    // Before the runtime: its tasks are of it.
    local: LocalSet,
    runtime: Runtime,
    _stop: watch::Sender<bool>,
    /// Of which start of the process it is.
    pub start: u64,
}

impl Tasks {
    /// The links of node `place`: the first one gives all to the second, which routes, and gives all to the third.
    pub fn new(place: usize, process: &Rc<RefCell<Process>>, network: &Rc<RefCell<Network>>) -> Tasks {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let (runtime, local, stop) =
            (runtime.expect("a runtime without threads"), LocalSet::new(), watch::channel(false).0);
        let states = Rc::new(LinkStates::default());
        let start = || Start {
            queue: Queue::new(Rc::new(AsLink(process.clone()))),
            registry: Registry::of(&[LinkMetrics::ROWS]),
            stop: stop.subscribe(),
            states: states.clone(),
        };
        let link = |from: &str, to: &str| -> Running {
            let transport = Way { network: network.clone(), to: place + 1 };
            start().forward(Forwarding { link: settings("link", from), to: to.into(), batch: BATCH, transport })
        };
        let running: Vec<Running> = match place {
            0 => vec![link("texts", "in")],
            1 => vec![link("west", "west"), link("east", "east"), Box::new(route()).start(start())],
            _ => Vec::new(),
        };
        let _within = runtime.enter();
        running.into_iter().for_each(|running| drop(local.spawn_local(running)));
        drop(_within);
        let start = process.borrow().starts;
        Tasks { local, runtime, _stop: stop, start }
    }

    /// Lets a tick pass.
    pub fn step(&self) {
        let steps = async {
            tokio::time::advance(Duration::from_millis(TICK_MS)).await;
            for _ in 0..STEPS {
                yield_now().await;
            }
        };
        self.runtime.block_on(self.local.run_until(steps));
    }
}

fn settings(kind: &'static str, from: &str) -> LinkSettings {
    LinkSettings { kind, name: from.into(), from: from.into(), lease_ms: LEASE_MS, pause_max_ms: PAUSE_MAX_MS }
}

/// `+1` goes by weight, `+4` to the first that is there, and nothing else is for any rule.
fn route() -> Route {
    let rule = |prefix: &str, choose, weights: [u64; 2]| Rule {
        attribute: "to".into(),
        prefix: vec![prefix.into()],
        contains: Vec::new(),
        to: vec![("west".into(), weights[0]), ("east".into(), weights[1])],
        choose,
    };
    let rules = vec![rule("+1", Choose::Weight, [1, 2]), rule("+4", Choose::Failover, [1, 1])];
    Route { link: settings("route", "in"), rules, batch: BATCH }
}
