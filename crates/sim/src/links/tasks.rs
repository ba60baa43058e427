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

use super::ROUND;
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
    /// The links of node `place`: the first one gives all to the second, which routes, and gives all to the third. That
    /// gives some of it back.
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
        let link = |from: &str, (node, to): (usize, &str)| -> Running {
            let transport = Way { network: network.clone(), to: node };
            start().forward(Forwarding { link: settings("link", from), to: to.into(), batch: BATCH, transport })
        };
        let running: Vec<Running> = match place {
            0 => vec![link("texts", (1, "in"))],
            1 => {
                let mut running = vec![Box::new(route()).start(start())];
                running.extend(["west", "east", ROUND].map(|queue| link(queue, (2, queue))));
                running
            }
            _ => vec![link(ROUND, (1, "in"))],
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

/// `+1` goes by weight, `+4` to the first that is there, `+9` comes back, and nothing else is for any rule.
fn route() -> Route {
    let rule = |prefix: &str, choose, to: &[(&str, u64)]| Rule {
        attribute: "to".into(),
        prefix: vec![prefix.into()],
        contains: Vec::new(),
        to: to.iter().map(|(queue, weight)| ((*queue).into(), *weight)).collect(),
        choose,
    };
    let rules = vec![
        rule("+1", Choose::Weight, &[("west", 1), ("east", 2)]),
        rule("+4", Choose::Failover, &[("west", 1), ("east", 1)]),
        rule("+9", Choose::Weight, &[(ROUND, 1)]),
    ];
    Route { link: settings("route", "in"), rules, batch: BATCH }
}
