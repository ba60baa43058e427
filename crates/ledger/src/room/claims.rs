//! Whether the homes of ids still have the claims that the newest decisions rest upon, asked before anybody is served.
//!
//! ```text
//!   recover-ledger-1 ─▶ its newest decisions on ids of shard 0 ─▶ shard 0: known? ─▶ no: it has lost records
//! ```
//!
//! Why the newest: what a log loses, it loses from its end, and a claim was durable before the decision. A start that
//! looked at all would read all logs; an audit does.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use tidegate_journal::{Durability, JournalError, LogReader, Position};
use tidegate_machines::ledger::{Event, Ledger};
use tidegate_machines::{Machine, ShardIndex};
use tidegate_planted::{Bug, is_planted};
use tidegate_runtime::Carries;
use tidegate_runtime::background::Background;

use super::operation_client::OperationClient;
use crate::claims::{Resting, id_in_words, proof_in_words, resting};
use crate::operation::{Answer, Message, Operation, SeedId};

/// So many bytes at the end of a log are looked at, or more: where a part of it begins.
const NEWEST_BYTES: u64 = 1 << 20;

/// Decisions on ids of one home that are looked for.
const OF_HOME: usize = 16;

/// The newest decisions of a shard that rest on others.
pub(super) struct NewestResting {
    owner: ShardIndex,
    /// The command that lets a start go on without them.
    accept_loss: String,
    /// By home.
    ids: BTreeMap<ShardIndex, Vec<Box<str>>>,
}

impl NewestResting {
    /// Reads the end of a log. What is damaged there is left to whoever asks for it: then fewer are found.
    pub fn find<R: LogReader>(
        reader: &R,
        end: &Durability,
        (ledger, shards): (&Ledger, u16),
        accept_loss: String,
    ) -> NewestResting {
        let mut newest = NewestResting { owner: ledger.shard(), accept_loss, ids: BTreeMap::new() };
        if shards > 1 {
            let _ = each_at_the_end(reader, end, &mut |event| {
                if let Some(Resting { id, home, .. }) = resting(ledger, event, shards) {
                    let of_home = newest.ids.entry(home).or_default();
                    if of_home.len() == OF_HOME {
                        of_home.remove(0);
                    }
                    of_home.push(id.into());
                }
            });
        }
        newest
    }
}

fn each_at_the_end<R: LogReader>(
    reader: &R,
    end: &Durability,
    each: &mut dyn FnMut(&Event<'_>),
) -> Result<(), JournalError> {
    let begins = reader.begins_at_or_before(Position(end.position().0.saturating_sub(NEWEST_BYTES)))?;
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

/// Asks each home for the ids that others have decided on. `Err` names every loss, and the way out.
pub(super) fn check<P: Carries<Message>>(
    all: Vec<NewestResting>,
    background: &mut Background<P, OperationClient>,
) -> Result<()> {
    let accept_loss = all.first().map(|newest| newest.accept_loss.clone()).unwrap_or_default();
    let of_each =
        all.into_iter().flat_map(|NewestResting { owner, ids, .. }| ids.into_iter().map(move |of| (owner, of)));
    let mut lost = Vec::new();
    for (owner, (home, ids)) in of_each {
        let known = match background.ask((home, Operation::FindSeeds(ids.clone())), &|| false) {
            Some(Ok(Answer::Seeds(known))) => known,
            other => bail!("ledger shard {home} did not say whether it knows the ids of shard {owner}: {other:?}"),
        };
        let unknown: Vec<String> = std::iter::zip(&ids, known)
            .filter(|(_, known)| *known == SeedId::New)
            .map(|(id, _)| id_in_words(id))
            .collect();
        if !unknown.is_empty() && !is_planted(Bug::PeerLossNotSeen) {
            lost.push(proof_in_words(home.0, owner.0, &unknown.join(", ")));
        }
    }
    if lost.is_empty() {
        return Ok(());
    }
    bail!(
        "{}. Nothing is served. Put back the newest segment files of the logs named; or, to go on without what is \
         lost, run `{accept_loss}`",
        lost.join("; ")
    )
}
