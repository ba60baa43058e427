//! Which queue of a rule gets a message.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use tidegate_queue::Received;

use super::rule::{Choose, Rule};
use crate::identity::id_of;

/// How a queue is, as it was last looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Its link is up, or somebody receives from it.
    pub is_served: bool,
    /// It has room and is not paused.
    pub takes: bool,
    /// Messages that wait there or are handed out, and those that went there since.
    pub load: u64,
}

/// How queues are, by their names.
pub type Looks = BTreeMap<Box<str>, Look>;

/// The queue for a message; `None` if none takes it now.
pub fn choose<'a>(rule: &'a Rule, received: &Received, looks: &mut Looks) -> Option<&'a str> {
    let ordering_key = received.message.ordering_key.as_deref();
    let hash = || hash_of(ordering_key.unwrap_or(&id_of(received)));
    choose_by(rule, ordering_key.is_some(), hash, looks)
}

fn choose_by<'a>(rule: &'a Rule, is_ordered: bool, hash: impl Fn() -> u64, looks: &mut Looks) -> Option<&'a str> {
    if rule.choose == Choose::Weight {
        return Some(by_weight(rule, hash()));
    }
    let of = |queue: &str| looks.get(queue).copied().unwrap_or_default();
    let names = || rule.to.iter().map(|(queue, _)| &**queue);
    let mut there: Vec<&str> = names().filter(|queue| of(queue).takes && of(queue).is_served).collect();
    if there.is_empty() {
        // Nobody is there: it waits where it would go first.
        there = names().filter(|queue| of(queue).takes).collect();
    }
    let chosen = match rule.choose {
        Choose::LeastLoaded if is_ordered => *there.get((hash() % there.len().max(1) as u64) as usize)?,
        Choose::LeastLoaded => there.iter().copied().min_by_key(|queue| of(queue).load)?,
        _ => *there.first()?,
    };
    if let Some(look) = looks.get_mut(chosen) {
        look.load += 1;
    }
    Some(chosen)
}

fn by_weight(rule: &Rule, hash: u64) -> &str {
    let all: u64 = rule.to.iter().map(|(_, weight)| weight).sum();
    let mut left = hash % all;
    for (queue, weight) in &rule.to {
        match left.checked_sub(*weight) {
            Some(rest) => left = rest,
            None => return queue,
        }
    }
    unreachable!("what is left is below the sum of the weights")
}

/// A hash that is the same in all versions and on all hosts.
fn hash_of(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    u64::from_be_bytes(digest[..8].try_into().expect("a digest has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(choose: Choose, to: &[(&str, u64)]) -> Rule {
        let to = to.iter().map(|(queue, weight)| ((*queue).into(), *weight)).collect();
        Rule { attribute: "to".into(), prefix: Vec::new(), contains: Vec::new(), to, choose }
    }

    fn looks(all: &[(&str, bool, bool, u64)]) -> Looks {
        let look = |&(queue, is_served, takes, load): &(&str, bool, bool, u64)| {
            (queue.into(), Look { is_served, takes, load })
        };
        all.iter().map(look).collect()
    }

    #[test]
    fn weights_share_by_hash_and_a_text_always_goes_one_way() {
        let rule = rule(Choose::Weight, &[("a", 3), ("b", 1)]);
        let chosen = |text: &str| choose_by(&rule, true, || hash_of(text), &mut Looks::new()).unwrap().to_owned();
        let of_a = (0..1_000).filter(|number: &u32| chosen(&number.to_string()) == "a").count();
        assert_eq!((of_a, chosen("7"), chosen("7")), (744, chosen("7"), chosen("7")));
    }

    #[test]
    fn failover_takes_the_first_that_is_there() {
        let rule = rule(Choose::Failover, &[("a", 1), ("b", 1)]);
        let chosen = |all: &[(&str, bool, bool, u64)]| choose_by(&rule, true, || 0, &mut looks(all)).map(str::to_owned);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(chosen(&[("a", true, true, 9), ("b", true, true, 0)]), some("a"));
        assert_eq!(chosen(&[("a", false, true, 0), ("b", true, true, 0)]), some("b"), "nobody serves a");
        assert_eq!(chosen(&[("a", true, false, 0), ("b", true, true, 0)]), some("b"), "a is full");
        assert_eq!(chosen(&[("a", false, true, 0), ("b", false, true, 0)]), some("a"), "nobody is there");
        assert_eq!(chosen(&[("a", true, false, 0), ("b", false, true, 0)]), some("b"));
        assert_eq!(chosen(&[("a", true, false, 0), ("b", true, false, 0)]), None);
    }

    #[test]
    fn the_least_loaded_gets_messages_until_it_is_not_and_a_key_goes_one_way() {
        let rule = rule(Choose::LeastLoaded, &[("a", 1), ("b", 1), ("c", 1)]);
        let mut looks = looks(&[("a", true, true, 4), ("b", true, true, 2), ("c", false, true, 0)]);
        let free: String = (0..4).map(|_| choose_by(&rule, false, || 0, &mut looks).unwrap()).collect();
        assert_eq!(free, "bbab");
        let of_key = |hash: u64, looks: &mut Looks| choose_by(&rule, true, || hash, looks).unwrap().to_owned();
        assert_eq!(
            (of_key(4, &mut looks), of_key(4, &mut looks), of_key(5, &mut looks)),
            ("a".into(), "a".into(), "b".into())
        );
    }
}
