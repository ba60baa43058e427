//! Whether the logs of all shards are of one history, credit by credit.
//!
//! ```text
//!   A's log:  transferred 21: dave/x1, 5 credit  ◀── the same? ──▶  B's log:  credit 21 received: dave/x1, 5 credit
//! ```
//!
//! Why beside the comparison of numbers and sums that each start makes: two logs that were forked from one copy may
//! agree in both. Nobody can tell then what of one was told to whom, and to write the credits of one again into the
//! other makes two wrong histories out of two right ones. So whoever is about to accept a loss asks this first.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use tidegate_journal::{JournalError, Logs};
use tidegate_machines::ledger::{InboundCredit, Ledger};
use tidegate_machines::{OutboundNumber, ShardIndex};

use crate::regain::{read_all, received, sent};

/// Each of the credits from a shard to another, by its number: a hash of what it says.
type Credits = HashMap<(u16, u16, u64), u64>;

/// The first credit of each pair of shards that is another one in the log of its sender than in that of its receiver,
/// in words. `states` are the folds of all shards' logs in order. Reads all logs, which nobody writes.
pub fn strange_credits<G: Logs>(logs: &G, directory: u64, states: &[Ledger]) -> Result<Vec<String>, JournalError> {
    let (hasher, shards) = (RandomState::new(), states.len() as u16);
    let said = |credit: &InboundCredit<'_>| hasher.hash_one((credit.id, credit.debit, credit.credit, credit.amount));
    let mut known = Credits::new();
    for from in states {
        read_all(logs, directory, from.shard(), &mut |at, event| {
            if let Some((to, credit)) = sent(from, at, event, shards) {
                known.insert((from.shard().0, to.0, credit.number.0), said(&credit));
            }
        })?;
    }
    let mut strange: HashMap<(ShardIndex, ShardIndex), OutboundNumber> = HashMap::new();
    for to in states {
        read_all(logs, directory, to.shard(), &mut |_, event| {
            let Some(credit) = received(to, event) else { return };
            let sent = known.get(&(credit.from.0, to.shard().0, credit.number.0));
            if sent.is_some_and(|sent| *sent != said(&credit)) {
                strange.entry((credit.from, to.shard())).or_insert(credit.number);
            }
        })?;
    }
    let mut strange: Vec<_> = strange.into_iter().map(|((from, to), number)| (from.0, to.0, number.0)).collect();
    strange.sort_unstable();
    let in_words = strange.into_iter().map(|(from, to, number)| {
        format!(
            "ledger shards {from} and {to} are of two histories: credit {number} from shard {from} to shard {to} is \
             another one in journal/ledger-{from} than in journal/ledger-{to}"
        )
    });
    Ok(in_words.collect())
}
