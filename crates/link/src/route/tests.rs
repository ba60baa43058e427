//! Routing between queues that the fake shards have, and others.

use tidegate_machines::queue::{Counts, Delivery, Readiness};
use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_queue::machine::{MessageKey, Outcome, Refusal};
use tidegate_queue::{Answer, Call, CallerRequest, QueueReply, QueueRequest, Read};

use super::*;
use crate::attributes::written;
use crate::queue::{Coming, Replies, Shards};

/// Shards that have the queue `there` alone.
#[derive(Default)]
struct OneQueue {
    routed_to: RefCell<Vec<Box<str>>>,
}

impl Shards for Rc<OneQueue> {
    fn ask(&self, request: CallerRequest) -> Coming<'static, QueueReply> {
        let not_found = |queue: Box<str>| Answer::refused(Refusal::QueueNotFound(queue));
        let answer = match request.request {
            QueueRequest::Call(Call::Read(Read::Readiness(queue))) if *queue == *"there" => {
                Answer::Readiness(Readiness { counts: Counts::default(), room: 1_000, is_paused: false }, true)
            }
            QueueRequest::Call(Call::Read(Read::Readiness(queue))) => not_found(queue),
            QueueRequest::Call(Call::Route { to, messages, .. }) if *to == *"there" => {
                self.routed_to.borrow_mut().push(to);
                Answer::Outcome(Outcome::Leases(vec![Ok(()); messages.len()]))
            }
            QueueRequest::Call(Call::Route { to, .. }) => not_found(to),
            other => panic!("a route asks no such thing: {other:?}"),
        };
        Box::pin(async { Ok(answer) })
    }

    fn open(&self, _request: CallerRequest) -> Option<Box<dyn Replies>> {
        None
    }
}

fn rule(prefix: &str, choose: Choose, to: &[&str]) -> Rule {
    Rule {
        attribute: "to".into(),
        prefix: vec![prefix.into()],
        contains: Vec::new(),
        to: to.iter().map(|queue| ((*queue).into(), 1)).collect(),
        choose,
    }
}

fn message(number: u64, to: &str) -> Received {
    let key = MessageKey::new(TimeMs(1), 0, ShardIndex(0), 0, number);
    Received {
        delivery: Delivery { lease: Lease { key, attempt: 1 }, until: TimeMs(2) },
        attempts: 1,
        lease_left_ms: 1_000,
        expires_in_ms: None,
        message: Arc::new(Message { priority: 4, attributes: written(&[("to", to.to_owned())]), ..Message::default() }),
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_not_there_keeps_only_what_goes_to_it_back() {
    let rules = vec![
        rule("+1", Choose::Weight, &["gone"]),
        rule("+2", Choose::Failover, &["gone", "there"]),
        rule("+3", Choose::LeastLoaded, &["there", "gone"]),
        rule("+4", Choose::Failover, &["gone"]),
    ];
    let link =
        LinkSettings { kind: "route", name: "r".into(), from: "in".into(), lease_ms: 5_000, pause_max_ms: 1_000 };
    let mut router = Router { route: Rc::new(Route { link, rules, batch: 10 }), states: Rc::default() };
    let shards = Rc::new(OneQueue::default());
    let routing = Rc::new(router.open(&Queue::new(Rc::new(shards.clone()))).await.expect("it goes on without it"));
    let messages = (1..).zip(["+1", "+2", "+3", "+4"]).map(|(number, to)| message(number, to)).collect();
    let fates = routing.give(messages).await;
    let is_routed: Vec<bool> = fates.iter().map(|fate| matches!(fate, Fate::Routed)).collect();
    assert_eq!(is_routed, [false, true, true, false]);
    let waits = |fate: &Fate| matches!(fate, Fate::Routed | Fate::Later { .. });
    assert!(fates.iter().all(waits), "the others pass meanwhile");
    assert_eq!(*shards.routed_to.borrow(), [Box::from("there")]);
}
