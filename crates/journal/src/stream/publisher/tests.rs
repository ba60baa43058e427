//! What a publisher asks of its stream, message by message, over a stream that says what the test wants.

use std::sync::{Arc, Mutex};

use super::*;
use crate::Family;
use crate::disk::stream::{Extent, StreamError};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    /// To store the message as this number.
    Store(u64),
    LookUp(u64),
}

/// A stream that notes what it is asked, and whose outcomes are those that were put in.
#[derive(Clone, Default)]
struct Script {
    asked: Arc<Mutex<Vec<Asked>>>,
    outcomes: Arc<Mutex<VecDeque<Outcome>>>,
}

impl Script {
    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn say(&self, outcome: Outcome) {
        self.outcomes.lock().unwrap().push_back(outcome);
    }
}

impl Stream for Script {
    fn another(&self) -> Script {
        self.clone()
    }

    fn publish(&mut self, expected_last: u64, _message: Message) {
        self.asked.lock().unwrap().push(Asked::Store(expected_last + 1));
    }

    fn look_up(&mut self, number: u64) {
        self.asked.lock().unwrap().push(Asked::LookUp(number));
    }

    fn poll(&mut self) -> Option<Outcome> {
        self.outcomes.lock().unwrap().pop_front()
    }

    fn has_outcome(&self) -> bool {
        !self.outcomes.lock().unwrap().is_empty()
    }

    fn set_wake(&mut self, _wake: crate::Wake) {}

    fn wait(&mut self) -> Result<(), StreamError> {
        unreachable!("these tests do not wait")
    }

    fn get(&self, _number: u64) -> Result<Option<Message>, StreamError> {
        unreachable!("a publisher reads by looking up")
    }

    fn extent(&self) -> Result<Extent, StreamError> {
        unreachable!("a publisher knows where its messages are")
    }

    fn purge_below(&self, _number: u64) -> Result<(), StreamError> {
        unreachable!("a publisher purges nothing")
    }
}

fn message(number: u64) -> Message {
    Arc::from(&[number as u8; 9][..])
}

/// One that was told of messages 2 to `last`, behind its epoch message, and has sent them.
fn sent(script: &Script, last: u64) -> Publisher<Script> {
    let family = Family { number: 1, name: "whole", retention: crate::Retention::Whole };
    let mut publisher = Publisher::new(family.log(5, 0), script.clone(), 1, 3);
    (2..=last).for_each(|number| publisher.push(message(number)));
    publisher.turn().unwrap();
    publisher
}

fn turn(publisher: &mut Publisher<Script>, script: &Script, outcomes: &[Outcome]) -> Vec<Asked> {
    outcomes.iter().for_each(|outcome| script.say(outcome.clone()));
    assert_eq!(publisher.has_news(), !outcomes.is_empty());
    publisher.turn().unwrap();
    assert!(!publisher.has_news(), "all was heard");
    script.asked()
}

#[test]
fn no_more_is_under_way_than_may_be_and_settled_is_what_is_stored_with_all_before_it() {
    let script = Script::default();
    let mut publisher = sent(&script, 6);
    assert_eq!(script.asked(), [Asked::Store(2), Asked::Store(3), Asked::Store(4)]);
    assert_eq!(turn(&mut publisher, &script, &[Outcome::Stored { number: 3 }]), [Asked::Store(5)]);
    assert_eq!(publisher.settled(), 1, "nobody knows of message 2 yet");
    let next = turn(&mut publisher, &script, &[Outcome::Stored { number: 2 }]);
    assert_eq!((next, publisher.settled()), (vec![Asked::Store(6)], 3));
}

#[test]
fn what_is_unclear_is_looked_up_when_all_before_it_is_stored_and_ours_is_taken_for_stored() {
    let script = Script::default();
    let mut publisher = sent(&script, 3);
    assert_eq!(script.asked(), [Asked::Store(2), Asked::Store(3)]);
    let unclear = turn(&mut publisher, &script, &[Outcome::Unknown { number: 3 }]);
    assert_eq!(unclear, [], "an answer of now says nothing while message 2 is under way");
    let asked = turn(&mut publisher, &script, &[Outcome::Stored { number: 2 }]);
    assert_eq!(asked, [Asked::LookUp(3)]);
    publisher.push(message(4));
    assert_eq!(turn(&mut publisher, &script, &[]), [], "it holds up those behind it");
    let again = turn(&mut publisher, &script, &[Outcome::NotFound { number: 3 }]);
    assert_eq!(again, [Asked::LookUp(3)], "nobody has said anything");
    let found = Outcome::Found { number: 3, message: Some(message(3)) };
    assert_eq!(turn(&mut publisher, &script, &[found]), [Asked::Store(4)]);
    assert_eq!(publisher.settled(), 3);
    turn(&mut publisher, &script, &[Outcome::Stored { number: 4 }]);
    assert!(publisher.is_empty());
}

#[test]
fn what_is_not_there_is_sent_again_with_all_that_is_unclear_behind_it() {
    let script = Script::default();
    let mut publisher = sent(&script, 4);
    script.asked();
    // Message 2 was lost, so that 3 and 4 came too early.
    let outcomes = [Outcome::Unknown { number: 2 }, Outcome::Refused { number: 3 }, Outcome::Refused { number: 4 }];
    assert_eq!(turn(&mut publisher, &script, &outcomes), [Asked::LookUp(2)]);
    let again = turn(&mut publisher, &script, &[Outcome::Found { number: 2, message: None }]);
    assert_eq!(again, [Asked::Store(2), Asked::Store(3), Asked::Store(4)]);
    let outcomes = [2, 3, 4].map(|number| Outcome::Stored { number });
    assert_eq!(turn(&mut publisher, &script, &outcomes), []);
    assert_eq!(publisher.settled(), 4);
}

#[test]
fn anothers_message_under_our_number_means_that_we_are_fenced_out() {
    let script = Script::default();
    let mut publisher = sent(&script, 2);
    turn(&mut publisher, &script, &[Outcome::Refused { number: 2 }]);
    script.say(Outcome::Found { number: 2, message: Some(message(9)) });
    assert!(matches!(publisher.turn(), Err(JournalError::Fenced { number: 2, .. })));
}

#[test]
fn an_outcome_of_a_number_that_nothing_waits_for_changes_nothing() {
    let script = Script::default();
    let mut publisher = sent(&script, 3);
    script.asked();
    // One behind the last message, and one that is settled.
    let outcomes = [Outcome::Stored { number: 4 }, Outcome::Unknown { number: 1 }];
    assert_eq!(turn(&mut publisher, &script, &outcomes), []);
    assert_eq!(publisher.settled(), 1);
}
