use tidegate_journal::{ChainHash, Position, Sequence};
use tidegate_machines::RecordPosition;

use super::*;

/// A window of groups of 100 bytes from position 1000 on; the first `kept` of them are.
fn window(kept: usize, groups: &[&[Tie]]) -> Window {
    let cursor = |number: usize| Cursor {
        position: Position(1_000 + 100 * number as u64),
        sequence: Sequence(number as u64),
        chain: ChainHash([0; 32]),
    };
    let mut window = Window { base: cursor(0), ends: Vec::new(), ties: Vec::new(), kept };
    groups.iter().enumerate().for_each(|(number, ties)| window.push(cursor(number + 1), ties.to_vec()));
    window
}

fn rests_at(shard: u16, position: u64) -> Tie {
    Tie::RestsOn(Fact::Record { shard: ShardIndex(shard), position: RecordPosition(position) })
}

fn named(about: u64) -> Fact {
    Fact::Named { kind: 1, about, number: 0 }
}

fn kept(mut windows: Vec<Window>) -> Result<Vec<usize>, Missing> {
    close(&mut windows)?;
    Ok(windows.iter().map(|window| window.kept).collect())
}

#[test]
fn cuts_without_ties_stay() {
    assert_eq!(kept(vec![window(1, &[&[], &[]]), window(2, &[&[], &[], &[]])]), Ok(vec![1, 2]));
}

#[test]
fn a_credit_brings_the_group_of_its_debit() {
    let windows = vec![window(0, &[&[], &[], &[]]), window(1, &[&[rests_at(0, 1_150)], &[rests_at(0, 1_250)]])];
    assert_eq!(kept(windows), Ok(vec![2, 1]), "the second credit is not kept, nor its debit");
}

#[test]
fn what_is_brought_brings_more() {
    let first = window(0, &[&[], &[rests_at(1, 1_050)], &[]]);
    let second = window(0, &[&[Tie::RestsOn(named(7))], &[]]);
    let third = window(1, &[&[rests_at(0, 1_120)], &[], &[Tie::Is(named(7))], &[]]);
    assert_eq!(kept(vec![first, second, third]), Ok(vec![2, 1, 3]));
}

#[test]
fn what_is_before_the_base_or_was_never_named_is_not_looked_for() {
    let windows = vec![window(0, &[&[]]), window(1, &[&[rests_at(0, 999), Tie::RestsOn(named(7))]])];
    assert_eq!(kept(windows), Ok(vec![0, 1]));
}

#[test]
fn a_debit_that_no_log_has_is_named() {
    let windows = vec![window(0, &[&[]]), window(1, &[&[rests_at(0, 1_100)]])];
    assert_eq!(kept(windows), Err(Missing { by: 1, of: ShardIndex(0), position: 1_100 }));
    let windows = vec![window(0, &[]), window(1, &[&[rests_at(2, 1_000)]])];
    assert!(kept(windows).is_err());
}
