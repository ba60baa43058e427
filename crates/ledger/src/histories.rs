//! Whether the logs of all shards are of one history, credit by credit.
//!
//! ```text
//!   A's log:  transferred 21: dave/x1, 5 credit  ◀── the same? ──▶  B's log:  credit 21 received: dave/x1, 5 credit
//! ```
//!
//! Why beside the comparison of numbers and sums that each start makes: two logs that were forked from one copy may
//! agree in both. Nobody can tell then what of one was told to whom, and to write the credits of one again into the
//! other makes two wrong histories out of two right ones. So whoever is about to accept a loss asks this first, and an
//! audit asks it always.
//!
//! One pass adds up the hashes of 1,024 credits at a time, 16 bytes for both sides of a block. Only blocks whose sums
//! differ are looked at credit by credit: those of two histories, and those of which a part was lost and accepted.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use tidegate_journal::{JournalError, Logs};
use tidegate_machines::ledger::{InboundCredit, Ledger};
use tidegate_machines::{RecordPosition, ShardIndex};

use crate::regain::{read_all, received, sent};

/// Credits of a pair of shards that have one sum.
const BLOCK: u64 = 1_024;

/// Blocks that are looked at credit by credit in one pass over the logs: 4 million hashes, some 200 MB.
const BLOCKS_AT_A_TIME: usize = 4_096;

/// One of the credits that a shard sent to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct CreditKey {
    from: ShardIndex,
    to: ShardIndex,
    number: u64,
}

impl CreditKey {
    fn block(self) -> CreditKey {
        CreditKey { number: self.number / BLOCK, ..self }
    }
}

/// Which end of its way a credit was read at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Sent,
    Received,
}

/// What the comparison of all credits found.
pub struct Histories {
    /// Credits between shards that stand in the logs of their receivers.
    pub credits: u64,
    /// The first credit of each pair of shards that is another one in the log of its sender than in that of its
    /// receiver, in words.
    pub strange: Vec<String>,
}

/// Compares each credit in the log of its sender with that in the log of its receiver. `states` are the folds of all
/// shards' logs in order. Reads all logs, which nobody writes.
pub fn compare_credits<G: Logs>(logs: &G, directory: u64, states: &[Ledger]) -> Result<Histories, JournalError> {
    let comparison = Comparison { logs, directory, states, hasher: RandomState::new() };
    let (mut credits, mut sums) = (0, HashMap::<CreditKey, (u64, u64)>::new());
    if states.len() > 1 {
        comparison.each(&mut |end, key, said| {
            let sums = sums.entry(key.block()).or_default();
            match end {
                End::Sent => sums.0 = sums.0.wrapping_add(said),
                End::Received => (sums.1, credits) = (sums.1.wrapping_add(said), credits + 1),
            }
        })?;
    }
    let mut differ: Vec<CreditKey> =
        sums.iter().filter(|(_, (sent, received))| sent != received).map(|(block, _)| *block).collect();
    differ.sort_unstable();
    let mut strange = BTreeMap::new();
    for blocks in differ.chunks(BLOCKS_AT_A_TIME) {
        comparison.strange_within(blocks, &mut strange)?;
    }
    Ok(Histories { credits, strange: strange.into_iter().map(in_words).collect() })
}

fn in_words(((from, to), number): ((ShardIndex, ShardIndex), u64)) -> String {
    let (from, to) = (from.0, to.0);
    format!(
        "ledger shards {from} and {to} are of two histories: credit {number} from shard {from} to shard {to} is \
         another one in journal/ledger-{from} than in journal/ledger-{to}"
    )
}

/// The logs that are compared.
struct Comparison<'a, G> {
    logs: &'a G,
    directory: u64,
    states: &'a [Ledger],
    hasher: RandomState,
}

impl<G: Logs> Comparison<'_, G> {
    /// Calls `met` with both ends of each credit that its receiver has taken in: which it is, and a hash of what it
    /// says. Behind that, a credit is on its way, and there is nothing to compare it with.
    fn each(&self, met: &mut dyn FnMut(End, CreditKey, u64)) -> Result<(), JournalError> {
        let said = |credit: &InboundCredit<'_>| {
            self.hasher.hash_one((credit.number.0, credit.id, credit.debit, credit.credit, credit.amount))
        };
        for state in self.states {
            let here = state.shard();
            read_all(self.logs, self.directory, here, &mut |at: RecordPosition, event| {
                if let Some((to, credit)) = sent(state, at, event, self.states.len() as u16) {
                    let is_taken_in = self.states[usize::from(to.0)].watermark(here) >= credit.number;
                    if is_taken_in {
                        met(End::Sent, CreditKey { from: here, to, number: credit.number.0 }, said(&credit));
                    }
                } else if let Some(credit) = received(state, event) {
                    let key = CreditKey { from: credit.from, to: here, number: credit.number.0 };
                    met(End::Received, key, said(&credit));
                }
            })?;
        }
        Ok(())
    }

    /// The first credit of each pair in these blocks that both ends have, and that says other things at each.
    fn strange_within(
        &self,
        blocks: &[CreditKey],
        strange: &mut BTreeMap<(ShardIndex, ShardIndex), u64>,
    ) -> Result<(), JournalError> {
        let mut met: HashMap<CreditKey, (End, u64)> = HashMap::new();
        self.each(&mut |end, key, said| {
            if blocks.binary_search(&key.block()).is_err() {
                return;
            }
            match met.get(&key) {
                None => drop(met.insert(key, (end, said))),
                Some((other, known)) if *other != end && *known != said => {
                    let first = strange.entry((key.from, key.to)).or_insert(key.number);
                    *first = key.number.min(*first);
                }
                Some(_) => {}
            }
        })
    }
}
