//! What others wait for while one caller asks as much as it can.

use std::net::IpAddr;
use std::sync::Arc;

use super::*;

fn caller(turns: &RequestTurns, n: u8) -> CallerMark {
    turns.mark(&CallerName::of_address(IpAddr::from([10, 0, 0, n])))
}

/// Who had a round, in order, while `connections` of caller 1 ask one small request after another, and one connection
/// of caller 2 asks ten of so many rounds.
fn order(connections: usize, rounds: u64) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let turns = Arc::new(RequestTurns::default());
        let served = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn({
            let turns = turns.clone();
            async move { turns.begin_all().await }
        });
        for _ in 0..connections {
            let (turns, served) = (turns.clone(), served.clone());
            tokio::spawn(async move {
                loop {
                    turns.take(caller(&turns, 1), 1).await;
                    served.lock().unwrap().push(1);
                }
            });
        }
        let other = tokio::spawn({
            let (turns, served) = (turns.clone(), served.clone());
            async move {
                for _ in 0..10 {
                    turns.take(caller(&turns, 2), rounds).await;
                    served.lock().unwrap().push(2);
                }
            }
        });
        other.await.unwrap();
        let served = served.lock().unwrap();
        served.clone()
    })
}

/// The most requests of caller 1 between two of caller 2.
fn most_between(order: &[u8]) -> usize {
    order.split(|caller| *caller == 2).map(<[u8]>::len).max().unwrap()
}

#[test]
fn who_asks_little_waits_for_a_turn_and_not_for_all_connections_of_who_asks_much() {
    for connections in [200, 2_000] {
        let most = most_between(&order(connections, 1));
        assert!(most <= 2 * ROUNDS_IN_TURN as usize, "{connections} connections: {most}");
    }
}

#[test]
fn what_is_large_waits_for_as_many_rounds_as_it_costs() {
    let order = order(200, 20);
    let small = order.iter().filter(|caller| **caller == 1).count();
    // Of the rounds of a turn, each caller has half as long as both ask.
    assert!(small >= 150, "ten requests of twenty rounds, and so many small ones: {small}");
    assert!(most_between(&order) <= 3 * ROUNDS_IN_TURN as usize);
}

#[test]
fn nothing_is_left_of_who_gives_up() {
    let turns = RequestTurns::default();
    let mut context = Context::from_waker(Waker::noop());
    let mut rounds: Vec<_> = (0..3).map(|_| Box::pin(turns.take(caller(&turns, 1), 1))).collect();
    assert!(rounds.iter_mut().all(|round| round.as_mut().poll(&mut context).is_pending()), "no turn has begun");
    drop(rounds.remove(1));
    assert!(!turns.begin(), "nobody is left waiting");
    assert!(rounds[0].as_mut().poll(&mut context).is_ready());
    // It has a round, and is gone before it can use it.
    drop(rounds);
    assert!(turns.state().requests.waiting.is_empty() && turns.state().requests.turns.is_empty());
    assert!(Box::pin(turns.take(caller(&turns, 2), 5)).as_mut().poll(&mut context).is_ready(), "the turn goes on");
}

#[test]
fn bodies_and_answers_are_worth_their_bytes() {
    let by_lane = |bytes| rounds_of_request(ReadBy::Lane, bytes);
    assert_eq!([Some(0), Some(200), Some(8 << 10)].map(by_lane), [1, 1, 3]);
    assert_eq!([None, Some(u64::MAX)].map(by_lane), [17, ROUNDS_MAX]);
    let by_hyper = |bytes| rounds_of_request(ReadBy::Hyper, bytes);
    assert_eq!([Some(0), Some(8 << 10), None, Some(u64::MAX)].map(by_hyper), [4, 6, 20, ROUNDS_MAX]);
    assert_eq!([200, 100 << 10, u64::MAX].map(rounds_of_answer), [0, 25, ROUNDS_MAX]);
    assert_eq!([200, 100 << 10, u64::MAX].map(requests_of_answer), [0, 6, ROUNDS_MAX as u32]);
    assert_eq!([15, 16, 1_000].map(rounds_of_rows), [0, 1, 62]);
}
