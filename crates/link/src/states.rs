//! Which links of this server work, for those that choose between queues by it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It has not been tried yet.
    Unknown,
    /// The other side is there and takes messages.
    Up,
    /// It is not there, or takes none.
    Down,
}

/// The state of one link.
pub type OwnState = Rc<Cell<LinkState>>;

/// The states of all links, by the queues that they receive from.
#[derive(Debug, Default)]
pub struct LinkStates(RefCell<BTreeMap<Box<str>, Vec<OwnState>>>);

impl LinkStates {
    /// One more link receives from a queue.
    pub fn add(&self, from: &str) -> OwnState {
        let state = Rc::new(Cell::new(LinkState::Unknown));
        self.0.borrow_mut().entry(from.into()).or_default().push(state.clone());
        state
    }

    /// The state of the best link of a queue; `None` if it has none.
    pub fn of(&self, queue: &str) -> Option<LinkState> {
        let states = self.0.borrow();
        let states = states.get(queue)?;
        let has = |wanted| states.iter().any(|state| state.get() == wanted);
        Some(match () {
            () if has(LinkState::Up) => LinkState::Up,
            () if has(LinkState::Unknown) => LinkState::Unknown,
            () => LinkState::Down,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_served_while_one_of_its_links_is() {
        let states = LinkStates::default();
        assert_eq!(states.of("a"), None);
        let (one, other) = (states.add("a"), states.add("a"));
        assert_eq!(states.of("a"), Some(LinkState::Unknown));
        one.set(LinkState::Down);
        assert_eq!(states.of("a"), Some(LinkState::Unknown));
        other.set(LinkState::Down);
        assert_eq!((states.of("a"), states.of("b")), (Some(LinkState::Down), None));
        one.set(LinkState::Up);
        assert_eq!(states.of("a"), Some(LinkState::Up));
    }
}
