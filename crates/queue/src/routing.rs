//! What the routes of the configuration do with queues: which ones they need, and where messages go by them at once.
//!
//! Why here: a change of a queue while the server runs must not undo what was checked when the configuration was read.
//!
//! Invariant: nothing here moves messages.

use std::collections::BTreeSet;

/// What one route does with queues.
#[derive(Clone, Debug)]
pub struct RouteQueues {
    /// Its name.
    pub name: Box<str>,
    /// Whose messages it moves.
    pub from: Box<str>,
    /// Where to.
    pub to: Vec<Box<str>>,
    /// There may be messages that no rule fits: they are dead letters.
    pub has_unfit: bool,
}

/// All routes.
#[derive(Clone, Debug, Default)]
pub struct Routing(pub Vec<RouteQueues>);

impl Routing {
    /// A route that needs the queue of this name.
    pub fn user_of(&self, queue: &str) -> Option<&str> {
        let needs = |route: &&RouteQueues| *route.from == *queue || route.to.iter().any(|to| **to == *queue);
        self.0.iter().find(needs).map(|route| &*route.name)
    }

    /// Whether messages of a queue may come back to it at once, by routes, or as dead letters that no rule fits.
    pub fn goes_round<'a>(&'a self, start: &str, dead_letter_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        let next = |queue: &str| {
            let of_queue: Vec<&RouteQueues> = self.0.iter().filter(|route| *route.from == *queue).collect();
            let has_unfit = of_queue.iter().any(|route| route.has_unfit);
            let to = of_queue.into_iter().flat_map(|route| route.to.iter().map(|to| &**to));
            to.chain(dead_letter_of(queue).filter(|_| has_unfit)).collect::<Vec<&str>>()
        };
        let (mut seen, mut left) = (BTreeSet::new(), next(start));
        while let Some(queue) = left.pop() {
            if queue == start {
                return true;
            }
            if seen.insert(queue) {
                left.extend(next(queue));
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_close_a_circle_only_where_a_message_may_fit_no_rule() {
        let route = |from: &str, to: &str, has_unfit| RouteQueues {
            name: format!("{from}-{to}").into(),
            from: from.into(),
            to: vec![to.into()],
            has_unfit,
        };
        let routing = |has_unfit| Routing(vec![route("a", "b", false), route("b", "c", has_unfit)]);
        let (some, none) = (routing(true), routing(false));
        let back = |queue: &str| (queue == "b").then_some("a");
        assert!(some.goes_round("b", back) && some.goes_round("a", back));
        assert!(!some.goes_round("c", back), "nothing leaves it");
        assert!(!none.goes_round("b", back), "all messages fit");
        assert!(!some.goes_round("b", |_| None));
        assert!(Routing(vec![route("a", "b", false), route("b", "a", false)]).goes_round("a", |_| None));
        assert_eq!(some.user_of("c"), Some("b-c"));
        assert_eq!(some.user_of("d"), None);
    }
}
