//! Three nodes in a row, joined by the links and the route of real ones, over a network that loses, repeats and is cut:
//! as the nodes of an SMS gateway are.
//!
//! ```text
//!   sender ─▶ texts ═link═▶ in ─route─┬▶ west ═link═▶ west ─▶ receivers
//!             node 0        node 1    ├▶ east ═link═▶ east ─▶
//!                           ▲         ├▶ dead                 node 2
//!                           ║         └▶ round ═link═▶ round ─┬▶ dead
//!                           ╚══════link═══ it is refused ═════╝
//! ```
//!
//! Each node is a world of its own, with all faults of the harness; the code that forwards is that of a real node, but
//! for sockets: its requests go over a network of the simulation.
//!
//! # What is checked
//!
//! * What its sender was told is taken arrives, once, whatever was lost, came twice or late, or was killed: under one
//!   key of the last node, and not again when its receiver was told that it is done.
//! * A message is what was sent, under the key of its first node, and comes not before its time.
//! * Those of one ordering key that a rule gives out by weight arrive in their order.
//! * What no rule fits is a dead letter of the node in the middle; what the links lead back to that node is one of the
//!   last; and nothing else is left.
//! * Every node remembers what became of each message, and its counters add up.

mod clients;
mod network;
mod node;
mod oracle;
mod tasks;

use std::cell::RefCell;
use std::rc::Rc;

use tidegate_queue::machine::Settings;

use self::clients::Clients;
use self::network::Network;
use self::node::{Asker, LinkedNode};
use self::oracle::Oracle;
use self::tasks::Tasks;
use crate::chance::Chance;
use crate::harness::{End, Floor, LocalStore, Store, StoreName, StreamStore, Tally, Workload, World};
use crate::note;
use crate::run::{Run, run_in};
use crate::trace::Trace;
use crate::violation::Violation;

/// The name on command lines.
pub const NAME: &str = "links";

/// Nodes in a row.
const NODES: usize = 3;
/// Where dead letters go.
const DEAD: &str = "dead";
/// The queues of what comes back.
const ROUND: &str = "round";
/// Ticks within which all that was sent arrives once nothing goes wrong any more.
const QUIET_BUDGET: u64 = 40_000;

/// What the runs of many seeds must have met.
pub fn floors() -> Vec<Floor> {
    vec![
        Floor::of("a message that arrived", 6_500, "what is forwarded is compared with what was sent"),
        Floor::of("a request that was lost", 110, "a link gives again what nobody got"),
        Floor::of("an answer that was lost", 110, "what is given again is taken once"),
        Floor::of("a request that came late", 110, "what is given again is taken once"),
        Floor::of("a request that came twice", 110, "what comes twice is taken once"),
        Floor::of("a request to nobody", 250, "a connection ends with the process that it is of"),
        Floor::of("a cut of the network", 230, "messages wait for who is away"),
        Floor::of("a full disk", 15, "what is refused is given again"),
        Floor::of("a power failure", 100, "what was forwarded survives"),
        Floor::of("a kill", 90, "what was forwarded survives"),
    ]
}

/// Three nodes.
struct Row<S: Store> {
    worlds: Vec<World<LinkedNode, S>>,
    tasks: Vec<Option<Tasks>>,
    network: Rc<RefCell<Network>>,
    clients: Clients,
    trace: Trace,
    tick: u64,
}

/// Runs one seed on a kind of store to its end; `aloud` prints every event.
pub fn run_on(store: StoreName, seed: u64, ticks: u64, aloud: bool) -> Run {
    let replay = format!("make sim SEED={seed} WORLD={NAME} STORE={}", store.as_str());
    run_in(seed, &replay, aloud, |trace, tally| match store {
        StoreName::Local => live::<LocalStore>(seed, ticks, trace, tally),
        StoreName::Stream => live::<StreamStore>(seed, ticks, trace, tally),
    })
}

fn live<S: Store>(seed: u64, ticks: u64, trace: Trace, tally: &mut Tally) -> Result<(), Violation> {
    let mut row = Row::<S>::new(seed, ticks, trace)?;
    let ended = row.live();
    row.count(tally);
    ended
}

/// The queues of a node. Ids last for ever: what is given again may come late.
fn queues(place: usize, chance: &mut Chance) -> Vec<(Box<str>, Settings)> {
    let common = Settings { id_window_ms: None, trail_ms: 3_600_000, ..Settings::default() };
    let small = |chance: &mut Chance| Settings {
        messages_max: chance.happens(500).then(|| chance.within(2..=12)),
        ..common.clone()
    };
    let with_dead_letters = |settings| Settings { dead_letter: Some(DEAD.into()), ..settings };
    match place {
        0 => vec![("texts".into(), common)],
        1 => vec![
            (DEAD.into(), common.clone()),
            ("in".into(), with_dead_letters(common.clone())),
            ("west".into(), small(chance)),
            ("east".into(), small(chance)),
            (ROUND.into(), common),
        ],
        _ => vec![
            (DEAD.into(), common.clone()),
            ("west".into(), small(chance)),
            ("east".into(), small(chance)),
            (ROUND.into(), with_dead_letters(common)),
        ],
    }
}

impl<S: Store> Row<S> {
    fn new(seed: u64, ticks: u64, trace: Trace) -> Result<Row<S>, Violation> {
        let mut chance = Chance::new(seed);
        let mut worlds = Vec::with_capacity(NODES);
        for place in 0..NODES {
            let mut world = World::<LinkedNode, S>::new(chance.number(), ticks, trace.clone())?;
            world.load.settle(place as u16 + 1, queues(place, &mut chance));
            worlds.push(world);
        }
        let processes = worlds.iter().map(|world| world.load.process.clone()).collect();
        let network = Rc::new(RefCell::new(Network::new(processes, chance.branch(), trace.clone())));
        let (messages, now) = (chance.within(50..=400), worlds[0].site.clock.now_ms());
        let oracle = Oracle::draw(&mut chance, messages, now);
        let clients = Clients::new(oracle, chance);
        let tasks = (0..NODES).map(|_| None).collect();
        Ok(Row { worlds, tasks, network, clients, trace, tick: 0 })
    }

    fn live(&mut self) -> Result<(), Violation> {
        let ticks = self.worlds.iter().map(|world| world.site.setup.ticks).min().expect("there are nodes");
        while self.tick < ticks {
            self.tick()?;
        }
        self.worlds.iter_mut().try_for_each(World::become_calm)?;
        self.network.borrow_mut().is_calm = true;
        self.come_to_quiet()?;
        self.check()?;
        // What was forwarded is so after a restart, too.
        for place in 0..NODES {
            self.tasks[place] = None;
            self.worlds[place].end(End::Stop)?;
            self.worlds[place].audit_offline()?;
        }
        self.come_to_quiet()?;
        self.check()
    }

    fn tick(&mut self) -> Result<(), Violation> {
        self.tick += 1;
        for place in 0..NODES {
            self.worlds[place].tick()?;
            self.follow(place);
            if let Some(tasks) = &self.tasks[place] {
                tasks.step();
            }
        }
        self.network.borrow_mut().step();
        self.hear()?;
        self.ask();
        Ok(())
    }

    /// The links of a node begin and end with its process.
    fn follow(&mut self, place: usize) {
        let process = &self.worlds[place].load.process;
        let (starts, is_up) = (process.borrow().starts, process.borrow().is_up);
        if self.tasks[place].as_ref().is_some_and(|tasks| !is_up || tasks.start != starts) {
            self.tasks[place] = None;
        }
        if is_up && self.tasks[place].is_none() {
            self.tasks[place] = Some(Tasks::new(place, process, &self.network));
        }
    }

    fn come_to_quiet(&mut self) -> Result<(), Violation> {
        for _ in 0..QUIET_BUDGET {
            if self.is_quiet() {
                return Ok(());
            }
            self.tick()?;
        }
        let left = |world: &World<LinkedNode, S>| {
            let queues = world
                .node
                .as_ref()
                .map(|node| node.state(0).each_queue().map(|of| (of.name.to_owned(), of.counts)).collect::<Vec<_>>());
            format!("{queues:?}")
        };
        let words: Vec<_> = self.worlds.iter().map(left).collect();
        let property = "all that was sent arrives when nothing goes wrong any more";
        Err(Violation::of(property, format!("not within {QUIET_BUDGET} ticks: {}", words.join("; "))))
    }

    fn is_quiet(&self) -> bool {
        let is_left = |place: usize| {
            let node = self.worlds[place].node.as_ref().expect("it was looked at just now");
            node.state(0).each_queue().any(|of| of.name != DEAD && of.counts != Default::default())
        };
        self.clients.oracle.is_done()
            && self.network.borrow().is_idle()
            && self.worlds.iter().all(LinkedNode::is_quiet)
            && !(0..NODES).any(is_left)
    }

    fn check(&self) -> Result<(), Violation> {
        let state = |place: usize| self.worlds[place].node.as_ref().expect("quiet has processes").state(0);
        self.clients.oracle.check_end([state(0), state(1), state(2)])
    }

    /// Compares what clients were told.
    fn hear(&mut self) -> Result<(), Violation> {
        let now = self.worlds[2].site.clock.now_ms();
        for place in [0, 2] {
            let heard = std::mem::take(&mut self.worlds[place].load.process.borrow_mut().heard);
            for (number, reply) in heard {
                note!(self.trace, "client hears {number}: {}", reply.as_ref().map_or("nothing", |_| "an answer"));
                self.clients.hear(number, reply, now)?;
            }
        }
        Ok(())
    }

    /// Somebody sends, or receives.
    fn ask(&mut self) {
        let is_calm = self.network.borrow().is_calm;
        for (place, number, request) in self.clients.wishes(is_calm) {
            self.worlds[place].load.process.borrow_mut().ask(request, Asker::Client(number));
        }
    }

    fn count(&mut self, tally: &mut Tally) {
        for world in &mut self.worlds {
            world.site.count_faults_of_the_disk();
            tally.merge(&world.site.tally);
        }
        tally.merge(&self.network.borrow().tally);
        tally.add("a message that arrived", self.clients.oracle.delivered);
    }
}
