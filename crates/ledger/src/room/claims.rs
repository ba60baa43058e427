//! Whether the homes of ids still have the claims that the newest decisions rest upon, before a shard writes anything.
//!
//! ```text
//!   recover-ledger-0 ─▶ newest decisions ─┐             ┌─▶ are those on my ids in my index? ─▶ no: records are lost
//!   recover-ledger-1 ─▶ newest decisions ─┴─ all wait ──┴─▶ the same
//! ```
//!
//! Why the newest: what a log loses, it loses from its end, and a claim was durable before the decision. A start that
//! looked at all would read all logs; an audit does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::{Result, bail};
use tidegate_disk::Disk;
use tidegate_journal::{Durability, JournalError, LogReader, Position};
use tidegate_machines::ledger::{Event, Ledger};
use tidegate_machines::{Machine, ShardIndex};
use tidegate_planted::{Bug, is_planted};
use tidegate_runtime::log_checks::{LogCheck, LogChecks};

use crate::claims::{id_in_words, proof_in_words, resting};
use crate::ids::IdIndex;

/// So many bytes at the end of a log are looked at, or more: where a part of it begins.
const NEWEST_BYTES: u64 = 1 << 20;

/// Decisions on ids of one home that are looked for.
const OF_HOME: usize = 16;

/// The newest decisions of the shards that are recovered so far.
#[derive(Default)]
pub(super) struct Decisions {
    newest: Mutex<Vec<Newest>>,
    shards: Arc<LogChecks>,
}

/// The newest decisions of a shard that rest on others.
struct Newest {
    owner: ShardIndex,
    /// By home.
    ids: BTreeMap<ShardIndex, Vec<Box<str>>>,
}

/// The part that the recovery of one shard has in it. If it ends before it has looked, no other one waits for it.
pub(super) struct DecisionsOfShard {
    all: Arc<Decisions>,
    looks: LogCheck,
}

impl Decisions {
    /// The part of another shard.
    pub fn add(self: &Arc<Self>) -> DecisionsOfShard {
        DecisionsOfShard { all: self.clone(), looks: self.shards.add() }
    }

    /// All shards have their parts.
    pub fn close(&self) {
        self.shards.close();
    }
}

impl DecisionsOfShard {
    /// Shows the newest decisions of `ledger`, whose log ends at `end`, waits for those of all others, and looks
    /// whether `ids`, which has all ids of the log, has those that others have decided on. `Err` names what is lost,
    /// and `accept_loss`, the command that lets a start go on nevertheless.
    pub fn look<D: Disk, R: LogReader>(
        self,
        (ledger, shards): (&Ledger, u16),
        (reader, end): (&R, &Durability),
        ids: &IdIndex<D>,
        accept_loss: &str,
    ) -> Result<()> {
        let here = ledger.shard();
        if shards > 1 {
            let newest = Newest::find(reader, end, here, shards);
            self.all.newest.lock().expect("no recovery panicked").push(newest);
        }
        self.looks.pass()?;
        let all = self.all.newest.lock().expect("no recovery panicked");
        let lost: Vec<String> = all
            .iter()
            .filter_map(|newest| {
                let unknown = newest.ids.get(&here)?.iter().filter(|id| ids.is_new(ids.hash(id.as_bytes())));
                let unknown: Vec<String> = unknown.map(|id| id_in_words(id)).collect();
                (!unknown.is_empty()).then(|| proof_in_words(here.0, newest.owner.0, &unknown.join(", ")))
            })
            .collect();
        if lost.is_empty() || is_planted(Bug::PeerLossNotSeen) {
            return Ok(());
        }
        bail!(
            "{}. Nothing is served. Put back the newest segment files of the logs named; or, to go on without what is \
             lost, run `{accept_loss}`",
            lost.join("; ")
        )
    }
}

impl Newest {
    /// Reads the end of a log. What is damaged there is left to whoever asks for it: then fewer are found.
    fn find<R: LogReader>(reader: &R, end: &Durability, owner: ShardIndex, shards: u16) -> Newest {
        let mut ids: BTreeMap<ShardIndex, Vec<Box<str>>> = BTreeMap::new();
        let _ = each_at_the_end(reader, end, &mut |event| {
            if let Some((id, home)) = resting(owner, event, shards) {
                let of_home = ids.entry(home).or_default();
                if of_home.len() == OF_HOME {
                    of_home.remove(0);
                }
                of_home.push(id.into());
            }
        });
        Newest { owner, ids }
    }
}

fn each_at_the_end<R: LogReader>(
    reader: &R,
    end: &Durability,
    each: &mut dyn FnMut(&Event<'_>),
) -> Result<(), JournalError> {
    let begins = reader.begins_at_or_before(Position(end.position().0.saturating_sub(NEWEST_BYTES)))?;
    // A start fetches nothing from an archive.
    if !reader.is_here(begins.position)? {
        return Ok(());
    }
    let mut groups = reader.groups(begins, end)?;
    while let Some(group) = groups.next_group()? {
        for (_, _, record) in group.records() {
            if let Ok(event) = Ledger::decode(record) {
                each(&event);
            }
        }
    }
    Ok(())
}
