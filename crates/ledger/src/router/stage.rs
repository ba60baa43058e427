//! What a request waits for, and what comes of its answers.

use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::{AccountKind, AccountView, AssetView, Refusal};

use super::assets::sum_assets;
use super::changing::Changing;
use super::history::{BalanceSearch, HistoryMerge, HistoryStream};
use super::lookup::Lookup;
use super::transfers::Deciding;
use crate::message::{AuditReport, Reply};
use crate::operation::{Answer, Operation};

/// What a request waits for. Each stage collects answers and, when the last one is there, gives the next calls or the
/// reply.
pub(super) enum Stage {
    /// Transfers, holds, posts, voids, accounts to open.
    Deciding(Deciding),
    /// One shard's answer is the reply, unless it is a part of a collector.
    One,
    /// A collector's parts: its home answered, the other shards are to be asked or were.
    Parts { sum: AccountView, asked: bool },
    /// Nothing is awaited but stragglers; the reply is known.
    Known(Reply),
    /// Pages of all shards.
    List { accounts: Vec<AccountView>, limit: usize },
    /// Histories of all parts.
    History(HistoryMerge),
    /// The same, for the balance of a time.
    Balance(BalanceSearch),
    /// The same, page after page.
    Stream(HistoryStream),
    /// Nothing is awaited but stragglers, and nobody waits for a reply.
    Cancelled,
    /// What became of an id.
    Lookup(Lookup),
    /// A change of an account, and all shards that are told.
    Changing(Changing),
    /// Assets of all shards.
    Assets(Vec<AssetView>),
    /// Every shard hears what is wanted.
    Announced,
    /// Reports of all shards.
    Audit(Vec<AuditReport>),
}

/// What a stage comes to when its answers are there.
pub(super) enum Next {
    Calls(Vec<(ShardIndex, Operation)>),
    Reply(Reply),
}

impl Stage {
    /// Takes in one answer.
    pub fn collect(&mut self, shard: ShardIndex, answer: Answer) {
        match (self, answer) {
            (Stage::Known(_), _) => {}
            (Stage::Deciding(deciding), answer) => deciding.collect(shard, answer),
            (Stage::History(merge), answer) => merge.collect(shard, answer),
            (Stage::Balance(search), answer) => search.collect(shard, answer),
            (Stage::Stream(stream), answer) => stream.collect(shard, answer),
            (Stage::Changing(changing), answer) => changing.collect(answer),
            // Every question can be refused, for instance because what it needs is damaged. Answers of other shards to
            // this request are still awaited, and dropped.
            (stage, Answer::Refused(refusal)) => *stage = Stage::Known(Reply::Refused(refusal)),
            (Stage::Parts { sum, .. }, Answer::Account(part)) => part.into_iter().for_each(|part| add_part(sum, &part)),
            (Stage::List { accounts, .. }, Answer::Accounts(page)) => accounts.extend(page),
            (Stage::Announced, Answer::Announced) => {}
            (Stage::Audit(reports), Answer::Audit(report)) => {
                assert!(report.shard == shard.0, "a shard reports of itself");
                assert!(reports.iter().all(|other| other.shard != shard.0), "each shard that was asked answers once");
                reports.push(*report);
            }
            (Stage::Lookup(lookup), Answer::Id(known)) => lookup.collect(shard, *known),
            (Stage::Assets(assets), Answer::Assets(of_shard)) => assets.extend(of_shard),
            (stage @ Stage::One, answer) => {
                *stage = match answer {
                    Answer::Account(Some(sum)) if sum.kind == AccountKind::Collector => {
                        Stage::Parts { sum, asked: false }
                    }
                    Answer::Account(Some(account)) => Stage::Known(Reply::Account(account)),
                    Answer::Account(None) => Stage::Known(Reply::Refused(Refusal::AccountNotFound)),
                    Answer::Opened { created, account } => Stage::Known(Reply::AccountOpened { created, account }),
                    Answer::Holds { holds, more } => {
                        let next = holds.last().filter(|_| more).map(|last| last.at.0);
                        Stage::Known(Reply::Holds { holds, next })
                    }
                    Answer::Declared { created } => Stage::Known(Reply::AssetDeclared { created }),
                    other => unreachable!("{other:?} answers no single call"),
                }
            }
            (_, other) => unreachable!("{other:?} answers another question"),
        }
    }

    /// All awaited answers are there; `last` is the shard of the last one.
    pub fn complete(&mut self, last: ShardIndex, shard_count: u16) -> Next {
        match self {
            Stage::Deciding(deciding) => deciding.complete(shard_count),
            Stage::History(merge) => Next::Reply(merge.page()),
            Stage::Balance(search) => Next::Reply(search.reply()),
            Stage::Stream(stream) => Next::Reply(stream.part()),
            Stage::Parts { sum, asked: false } if shard_count > 1 => {
                let others = (0..shard_count).map(ShardIndex).filter(|shard| *shard != last);
                let calls = others.map(|shard| (shard, Operation::ReadAccount { id: sum.id.clone() })).collect();
                *self = Stage::Parts { sum: sum.clone(), asked: true };
                Next::Calls(calls)
            }
            Stage::Parts { sum, .. } => Next::Reply(Reply::Account(sum.clone())),
            Stage::List { accounts, limit } => {
                let accounts = std::mem::take(accounts);
                Next::Reply(Reply::Accounts(merge_pages(accounts, *limit)))
            }
            Stage::Lookup(lookup) => lookup.complete(),
            Stage::Changing(changing) => changing.complete(),
            Stage::Assets(assets) => Next::Reply(Reply::Assets(sum_assets(std::mem::take(assets)))),
            Stage::Announced => Next::Reply(Reply::Announced),
            Stage::Audit(reports) => {
                reports.sort_by_key(|report| report.shard);
                Next::Reply(Reply::Audit(std::mem::take(reports)))
            }
            Stage::Known(reply) => Next::Reply(reply.clone()),
            Stage::One => unreachable!("one answer makes the reply known"),
            Stage::Cancelled => unreachable!("nobody waits for a reply"),
        }
    }
}

/// Sums the parts of collectors and keeps the first `limit` accounts in the order of their ids. A part that one shard
/// left out of its page has an id behind `limit` others, so no sum lacks one.
fn merge_pages(mut accounts: Vec<AccountView>, limit: usize) -> Vec<AccountView> {
    accounts.sort_by(|a, b| a.id.cmp(&b.id));
    let mut merged: Vec<AccountView> = Vec::new();
    for account in accounts {
        match merged.last_mut() {
            Some(last) if last.id == account.id => add_part(last, &account),
            _ => merged.push(account),
        }
    }
    assert!(merged.is_sorted_by(|a, b| a.id < b.id), "an account stands once, with the sum of its parts");
    merged.truncate(limit);
    merged
}

pub(super) fn add_part(sum: &mut AccountView, part: &AccountView) {
    assert!(sum.id == part.id && sum.asset == part.asset, "parts of one account are added");
    // No sum of parts can overflow: the sources of one asset never issue more than i64::MAX over all shards.
    sum.balance = sum.balance.checked_add(part.balance).expect("issuance is bounded");
    sum.held = sum.held.checked_add(part.held).expect("holds are bounded by issuance");
    sum.credited += part.credited;
    sum.debited += part.debited;
    // The home has the newest, and all metadata.
    let newness = |account: &AccountView| account.settings.as_ref().map(|s| (s.revision, s.metadata.len()));
    if newness(part) > newness(sum) {
        sum.settings = part.settings.clone();
    }
}
