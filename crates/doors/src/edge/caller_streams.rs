//! How many streams of changes each caller of MQTT has, and which.
//!
//! ```text
//!   SUBSCRIBE ─▶ reserve ─▶ SUBACK ─▶ begin ─▶ open ─▶ end
//!                  └── as many as there may be: SUBACK 0x97
//! ```
//!
//! Promise: who was told that a stream is granted finds room for it a moment later, because a granted one is counted
//! before it begins. One that is open already is granted again, whatever others there are.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use tidegate_broker::ConnectionKey;
use tidegate_runtime::Address;
use tokio::time::Instant;

use crate::ledger_http::limits::STREAMS_OF_CALLER_MAX;
use crate::mqtt::feeds::FeedQuery;

/// How long a stream that was granted may take to begin: its subscription is written down in between.
const BEGINS_WITHIN: Duration = Duration::from_secs(5);

/// One connection's stream of one filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StreamName {
    caller: Box<str>,
    client: (Address, ConnectionKey),
    filter: Box<str>,
}

impl StreamName {
    /// The stream that is asked about.
    pub fn of(query: &FeedQuery) -> StreamName {
        StreamName { caller: query.identity.name().into(), client: query.client, filter: query.filter.clone() }
    }
}

#[derive(Debug, Default)]
struct Caller {
    open: Vec<StreamName>,
    /// When those were granted that have not begun.
    granted: VecDeque<Instant>,
}

/// All callers that have any.
#[derive(Debug, Default)]
pub(super) struct CallerStreams {
    callers: HashMap<Box<str>, Caller>,
}

impl CallerStreams {
    /// Grants one more stream, which is to begin soon. `false` if the caller has as many as it may.
    pub fn reserve(&mut self, name: &StreamName, now: Instant) -> bool {
        let caller = self.caller(name, now);
        let may = !caller.open.contains(name) && caller.open.len() + caller.granted.len() < STREAMS_OF_CALLER_MAX;
        if may {
            caller.granted.push_back(now);
        }
        self.forget_if_idle(&name.caller);
        may
    }

    /// A stream that was granted does not begin.
    pub fn give_back(&mut self, caller: &str) {
        if let Some(known) = self.callers.get_mut(caller) {
            known.granted.pop_front();
        }
        self.forget_if_idle(caller);
    }

    /// A stream begins that was granted, or for which there is room. `false` if there is none. One that begins over
    /// again takes the place of the one before, which is about to end.
    pub fn begin(&mut self, name: &StreamName, now: Instant) -> bool {
        let caller = self.caller(name, now);
        let may = caller.open.contains(name)
            || caller.granted.pop_front().is_some()
            || caller.open.len() < STREAMS_OF_CALLER_MAX;
        if may {
            caller.open.push(name.clone());
        }
        self.forget_if_idle(&name.caller);
        may
    }

    /// A stream that began is over.
    pub fn end(&mut self, name: &StreamName) {
        let caller = self.callers.get_mut(&name.caller).expect("whoever has a stream is in the table");
        let place = caller.open.iter().position(|open| open == name).expect("what ends has begun");
        caller.open.swap_remove(place);
        self.forget_if_idle(&name.caller);
    }

    /// Whether this stream is open.
    pub fn is_open(&self, name: &StreamName) -> bool {
        self.callers.get(&name.caller).is_some_and(|caller| caller.open.contains(name))
    }

    /// The caller, without what was granted to it and did not begin in time.
    fn caller(&mut self, name: &StreamName, now: Instant) -> &mut Caller {
        let caller = self.callers.entry(name.caller.clone()).or_default();
        while caller.granted.front().is_some_and(|granted| now.duration_since(*granted) > BEGINS_WITHIN) {
            caller.granted.pop_front();
        }
        caller
    }

    fn forget_if_idle(&mut self, caller: &str) {
        if self.callers.get(caller).is_some_and(|caller| caller.open.is_empty() && caller.granted.is_empty()) {
            self.callers.remove(caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_runtime::{Address, MemberIndex};

    use super::*;

    fn stream(caller: &str, connection: u32) -> StreamName {
        let me = Address { member: MemberIndex(0), ..Address::new(0, 0) };
        let client = (me, ConnectionKey { index: connection, generation: 1 });
        StreamName { caller: caller.into(), client, filter: "$ledger/changes/*".into() }
    }

    #[test]
    fn what_was_granted_begins_and_one_too_many_is_told_so_before() {
        let (mut streams, now) = (CallerStreams::default(), Instant::now());
        // All are granted before any begins, as by one SUBSCRIBE.
        for connection in 0..STREAMS_OF_CALLER_MAX as u32 {
            assert!(streams.reserve(&stream("dave", connection), now));
        }
        assert!(!streams.reserve(&stream("dave", 100), now), "one too many");
        assert!(streams.reserve(&stream("carol", 0), now), "of another caller");
        for connection in 0..STREAMS_OF_CALLER_MAX as u32 {
            assert!(streams.begin(&stream("dave", connection), now));
        }
        assert!(!streams.begin(&stream("dave", 100), now));
        // Who has one is granted it again.
        assert!(!streams.reserve(&stream("dave", 3), now) && streams.is_open(&stream("dave", 3)));
        assert!(!streams.is_open(&stream("dave", 100)));
        assert!(streams.begin(&stream("dave", 3), now), "over again");
        streams.end(&stream("dave", 3));
        assert!(!streams.reserve(&stream("dave", 100), now), "the one before has ended");
        streams.end(&stream("dave", 3));
        assert!(streams.reserve(&stream("dave", 100), now));
    }

    #[test]
    fn what_was_granted_and_does_not_begin_makes_room_again() {
        let (mut streams, now) = (CallerStreams::default(), Instant::now());
        (0..STREAMS_OF_CALLER_MAX as u32).for_each(|n| assert!(streams.reserve(&stream("dave", n), now)));
        assert!(!streams.reserve(&stream("dave", 100), now + BEGINS_WITHIN));
        streams.give_back("dave");
        assert!(streams.reserve(&stream("dave", 100), now), "its place was not found");
        assert!(streams.reserve(&stream("dave", 101), now + BEGINS_WITHIN * 2), "nobody came for it");
        assert!(streams.begin(&stream("dave", 101), now + BEGINS_WITHIN * 2));
        streams.end(&stream("dave", 101));
        assert!(streams.callers.is_empty(), "who has none is forgotten");
    }
}
