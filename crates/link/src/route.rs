//! `[[route]]`: other queues of this server. Which one gets a message is said by rules.
//!
//! ```text
//!   messages ─▶ the first rule that fits ─▶ a queue of it: by weight, failover, or least loaded
//!                  └─ none: a dead letter        └─ one record takes them out of here and puts them there
//! ```
//!
//! Promise: a message is in one queue at any time, because one record moves it: no crash loses it, or has it in two.
//! It keeps its key, so its trail goes on. All queues of a route are on one shard for that.
//!
//! Order: messages of one ordering key are routed one after the other, and each queue hands out those of a key in
//! order. So it is kept for as long as all of a key go to one queue. By weight they do, always: the hash of the key
//! chooses. Failover chooses another queue when the state of the first changes, and what is in the first one then is
//! still there. `least_loaded` chooses for messages with an ordering key by its hash among the queues that are there.

mod blocked;
mod choice;
mod keys;
mod rule;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_planted::{Bug, is_planted};
use tidegate_queue::Received;
use tidegate_queue::machine::{Lease, Message};
use tokio::time::{Instant, sleep};

use crate::attributes::Attributes;
use crate::queue::Queue;
use crate::room::{Kind, Running, Start};
use crate::states::{LinkState, LinkStates};
use crate::target::{Fate, LinkSettings, Session, Target};

use blocked::BlockedQueues;
use choice::{Look, Looks, choose};
pub use keys::{Route, RouteKeys, RuleKeys, routes, routing};
pub use rule::{Choose, Rule};

/// Batches that are under way at once.
const GIFTS_MAX: usize = 4;
/// What is known of queues is looked at again after so long.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long a route waits at the start until the links of its queues have been tried.
const STATES_WITHIN: Duration = Duration::from_secs(5);

/// A route, and what it needs to know of links.
pub struct Router {
    route: Rc<Route>,
    states: Rc<LinkStates>,
}

impl Kind for Route {
    fn start(self: Box<Self>, start: Start) -> Running {
        let states = start.states.clone();
        start.forward(Router { route: Rc::new(*self), states })
    }
}

impl Target for Router {
    type Session = Routing;

    fn settings(&self) -> &LinkSettings {
        &self.route.link
    }

    async fn open(&mut self, queue: &Queue) -> Result<Routing, String> {
        let routing = Routing {
            route: self.route.clone(),
            states: self.states.clone(),
            queue: queue.clone(),
            looks: RefCell::default(),
            looked_at: Cell::new(Instant::now()),
            blocked: RefCell::default(),
        };
        let until = Instant::now() + STATES_WITHIN;
        let is_unknown = |queue: &str| self.states.of(queue) == Some(LinkState::Unknown);
        while self.route.watched().any(|queue| is_unknown(queue)) && Instant::now() < until {
            sleep(LOOK_AGAIN / 10).await;
        }
        routing.look().await?;
        Ok(routing)
    }
}

/// What routes messages. It is never over: it has no connection.
pub struct Routing {
    route: Rc<Route>,
    states: Rc<LinkStates>,
    queue: Queue,
    looks: RefCell<Looks>,
    looked_at: Cell<Instant>,
    blocked: RefCell<BlockedQueues>,
}

/// Messages for one queue: their places in what was given, and what was sent.
type Part = (Vec<usize>, Vec<(Lease, Arc<Message>)>);

impl Session for Routing {
    fn gifts_max(&self) -> usize {
        GIFTS_MAX
    }

    fn messages_max(&self) -> usize {
        self.route.batch
    }

    async fn give(self: Rc<Self>, messages: Vec<Received>) -> Vec<Fate> {
        if self.looked_at.get().elapsed() >= LOOK_AGAIN {
            self.looked_at.set(Instant::now());
            if let Err(why) = self.look().await {
                let back = |_| Fate::Back { why: why.clone(), after_ms: 0, is_away: true };
                return messages.iter().map(back).collect();
            }
        }
        let rules: Vec<Option<&Rule>> = messages.iter().map(|received| self.rule_of(received)).collect();
        let nothing_fits = || format!("no rule of {} fits the message", self.route.link.consumer());
        let mut fates: Vec<Fate> = rules
            .iter()
            .map(|rule| if rule.is_some() { Fate::Routed } else { Fate::Dead { why: nothing_fits() } })
            .collect();
        let mut left: Vec<usize> = (0..messages.len()).filter(|place| rules[*place].is_some()).collect();
        // Each round finds at least one more queue full, if there is something for another one.
        while !left.is_empty() {
            let parts = self.parts(&messages, &rules, std::mem::take(&mut left), &mut fates);
            for (to, part) in parts {
                left.extend(self.route_part(to, part, &rules, &mut fates).await);
            }
        }
        fates
    }

    async fn over(&self) -> String {
        std::future::pending().await
    }

    async fn close(&self) {}
}

impl Routing {
    /// The fate of a message that a queue does not take.
    fn back(&self, queue: &str, why: &str) -> Fate {
        self.blocked.borrow_mut().back(&self.route.link.consumer(), queue, why)
    }

    fn rule_of(&self, received: &Received) -> Option<&Rule> {
        let attributes = Attributes::read(&received.message.attributes);
        self.route.rules.iter().find(|rule| rule.fits(&attributes, &received.message.body))
    }

    /// What goes to which queue. What goes to none has its fate.
    fn parts(
        &self,
        messages: &[Received],
        rules: &[Option<&Rule>],
        places: Vec<usize>,
        fates: &mut [Fate],
    ) -> BTreeMap<Box<str>, Part> {
        let mut parts: BTreeMap<Box<str>, Part> = BTreeMap::new();
        let mut looks = self.looks.borrow_mut();
        for place in places {
            let (received, rule) = (&messages[place], rules[place].expect("those without one have their fate"));
            match choose(rule, received, &mut looks) {
                Some(to) => {
                    let (places, part) = parts.entry(to.into()).or_default();
                    places.push(place);
                    part.push((received.delivery.lease, received.message.clone()));
                }
                None => {
                    let (first, _) = rule.to.first().expect("a rule has queues");
                    fates[place] = self.back(first, "neither it nor another queue of its rule takes messages now");
                }
            }
        }
        parts
    }

    /// Puts messages into a queue. Those that another one may get.
    async fn route_part(
        &self,
        to: Box<str>,
        (places, part): Part,
        rules: &[Option<&Rule>],
        fates: &mut [Fate],
    ) -> Vec<usize> {
        let link = &self.route.link;
        let routed = self.queue.route((link.from.clone(), to.clone()), link.consumer(), part).await;
        let outcomes = match routed {
            Ok(outcomes) => outcomes.into_iter().map(Some).collect(),
            Err(_) if is_planted(Bug::RouteTrustsRefusal) => {
                let taken = |place: &usize| fates[*place] = Fate::Taken { reference: to.clone() };
                places.iter().for_each(taken);
                return Vec::new();
            }
            Err(why) => {
                places.iter().for_each(|place| fates[*place] = self.back(&to, &why));
                vec![None; places.len()]
            }
        };
        let may_choose = |place: usize| rules[place].is_some_and(|rule| rule.choose != Choose::Weight);
        let mut others = Vec::new();
        for (place, outcome) in places.into_iter().zip(outcomes) {
            match outcome {
                // Lost: its lease was over, and it comes again by itself.
                Some(Ok(())) => {
                    self.blocked.borrow_mut().took(&to);
                    fates[place] = Fate::Routed;
                }
                Some(Err(why)) => fates[place] = self.back(&to, &why.to_string()),
                None if may_choose(place) => others.push(place),
                None => {}
            }
        }
        if !others.is_empty() {
            self.looks.borrow_mut().insert(to, Look::default());
        }
        others
    }

    /// Looks at the queues between which is chosen by how they are.
    async fn look(&self) -> Result<(), String> {
        for queue in self.route.watched() {
            let look = match self.queue.readiness(queue.clone()).await? {
                Some((readiness, is_received)) => Look {
                    is_served: self.states.of(queue).map_or(is_received, |state| state == LinkState::Up),
                    takes: readiness.room > 0 && !readiness.is_paused,
                    load: readiness.counts.waiting + readiness.counts.leased,
                },
                // One that is not there takes nothing, and keeps nothing from the others.
                None => Look::default(),
            };
            self.looks.borrow_mut().insert(queue.clone(), look);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
