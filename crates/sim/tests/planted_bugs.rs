//! The simulator finds what it was made to find: each planted bug by some seed out of a bounded range, by the promise
//! that it breaks, on each store where it can occur, while the same seeds hold without it.
//!
//! Seeds that have found a bug before (`planted_bugs/found_by.rs`) are tried first. Where they find it no more, because
//! what a seed does has changed, all seeds of the range are tried, which takes minutes, and what to write there is
//! printed (`--nocapture`).

#[path = "planted_bugs/found_by.rs"]
mod found_by;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tidegate_planted::{Bug, plant};
use tidegate_sim::gateway::Gateway;
use tidegate_sim::harness::StoreName::{Local, Stream};
use tidegate_sim::harness::{LocalStore, STORES, StoreName, StreamStore, TICKS, Workload, run_on};
use tidegate_sim::ledger::Ledger;
use tidegate_sim::links;
use tidegate_sim::queue::QueueClients;
use tidegate_sim::violation::Violation;
use tidegate_sim::{Run, hush_panics_in_runs};

/// Seeds that are tried for each bug.
const SEEDS: Range<u64> = 0..500;

/// For what the workload is made to meet.
const FEW_SEEDS: Range<u64> = 0..60;

/// For what hardly any seed meets: a session that is lost with the end of its log, a retained message that two nodes
/// write at once, while nothing else is seen missing, or a write that failed in a place that is only read again.
const MANY_SEEDS: Range<u64> = 0..4_000;

/// Tries all seeds with the bug planted. Each of `promises` must be seen broken by one, which holds without the bug.
fn is_found<W: Workload<LocalStore> + Workload<StreamStore>>(bug: Bug, stores: &[StoreName], promises: &[&str]) {
    for store in stores {
        is_found_on::<W>(bug, *store, SEEDS, promises);
    }
}

fn is_found_on<W: Workload<LocalStore> + Workload<StreamStore>>(
    bug: Bug,
    store: StoreName,
    seeds: Range<u64>,
    promises: &[&str],
) {
    is_found_by((<W as Workload<LocalStore>>::NAME, run_on::<W>), bug, (store, seeds), promises);
}

/// Runs a seed of a workload on a store, for so many ticks.
type RunOn = fn(StoreName, u64, u64, bool) -> Run;

fn is_found_by(
    (workload, run_on): (&str, RunOn),
    bug: Bug,
    (store, seeds): (StoreName, Range<u64>),
    promises: &[&str],
) {
    hush_panics_in_runs();
    plant(Some(bug));
    let mut broken: BTreeMap<&str, (u64, u64, String)> = BTreeMap::new();
    let known = found_by::seeds(workload, bug, store).iter().copied();
    let tried_first = Vec::from_iter(known.filter(|seed| seeds.contains(seed)));
    let others = seeds.clone().filter(|seed| !tried_first.contains(seed));
    for seed in tried_first.iter().copied().chain(others) {
        if let Some(Violation { property, detail }) = run_on(store, seed, TICKS, false).violation {
            let detail = detail.chars().take(160).collect();
            broken.entry(property).or_insert((0, seed, detail)).0 += 1;
        }
        if promises.iter().all(|promise| broken.contains_key(promise)) {
            break;
        }
    }
    plant(None);
    let found: BTreeSet<u64> =
        promises.iter().filter_map(|promise| broken.get(promise)).map(|(_, seed, _)| *seed).collect();
    if !found.iter().eq(&tried_first) {
        println!("found_by: (\"{workload}\", Bug::{bug:?}, {store:?}, &{:?}),", Vec::from_iter(&found));
    }
    for (promise, (seen, first, detail)) in &broken {
        println!("{bug:?} on {store:?}: {seen} of {seeds:?}, first {first}: {promise}: {detail}");
    }
    for promise in promises {
        let Some((_, seed, _)) = broken.get(promise) else {
            panic!("no seed of {seeds:?} sees {bug:?} on {store:?} by: {promise}")
        };
        let without = run_on(store, *seed, TICKS, false).violation;
        assert_eq!(without, None, "seed {seed} on {store:?} fails without {bug:?}, too");
    }
}

#[test]
fn an_acknowledgement_of_mqtt_before_its_sync_is_found() {
    let promises = ["what was acknowledged reaches every durable session", "a durable session survives"];
    for store in STORES {
        is_found_on::<Gateway>(Bug::ReplyBeforeSync, store, MANY_SEEDS, &promises);
    }
}

#[test]
fn a_reply_before_its_sync_is_found() {
    let promises = ["what was seen or acknowledged is never taken back", "no acknowledged account is lost"];
    is_found::<Ledger>(Bug::ReplyBeforeSync, &STORES, &promises);
}

#[test]
fn ids_lost_over_a_restart_are_found() {
    let promises = ["the same id is applied once", "the same id has the same answer"];
    is_found::<Ledger>(Bug::IdsLostOverRestart, &STORES, &promises);
}

#[test]
fn a_hold_that_is_not_released_is_found() {
    is_found::<Ledger>(Bug::HoldNotReleased, &STORES, &["a hold is released when its time is over"]);
}

#[test]
fn an_amount_that_stays_held_is_found() {
    is_found::<Ledger>(Bug::HoldAmountKept, &STORES, &["what is held is what open holds reserve"]);
}

#[test]
fn a_funded_transfer_that_is_refused_is_found() {
    let promises = ["what is available can be spent", "a refusal names what was available then"];
    is_found::<Ledger>(Bug::FundedTransferRefused, &STORES, &promises);
}

#[test]
fn what_is_held_and_counted_twice_is_found() {
    is_found::<Ledger>(Bug::HeldCountedTwice, &STORES, &["what is available can be spent"]);
}

#[test]
fn a_jump_of_the_clock_that_is_followed_is_found() {
    is_found::<Ledger>(Bug::ClockJumpFollowed, &STORES, &["a hold lives as long as was asked"]);
}

/// The same of topics: clients are cut off, and what is delayed comes at once.
#[test]
fn a_jump_of_the_clock_that_ends_connections_is_found() {
    let promises = ["who speaks is not cut off", "a delayed message does not come before its time"];
    is_found::<Gateway>(Bug::ClockJumpFollowed, &STORES, &promises);
}

/// What falls due before the workers know each other's subscriptions reaches only some sessions.
#[test]
fn what_is_due_before_all_subscriptions_are_known_is_found() {
    is_found::<Gateway>(Bug::DueBeforeServing, &STORES, &["what was acknowledged reaches every durable session"]);
}

/// What a will is known by must be its own, and be known until its record is gone: or a crash doubles it.
#[test]
fn a_will_that_is_taken_for_another_is_found() {
    for store in STORES {
        is_found_on::<Gateway>(Bug::WillNamedBySession, store, FEW_SEEDS, &["QoS 2 is delivered exactly once"]);
    }
}

/// Only who is owed a will misses one.
#[test]
fn a_will_that_is_not_sent_is_found() {
    let promises = ["what was acknowledged reaches every durable session"];
    is_found_on::<Gateway>(Bug::OverdueWillDropped, Local, FEW_SEEDS, &promises);
}

/// A crash then loses it for those who do not have it.
#[test]
fn a_will_whose_record_is_replaced_while_it_is_under_way_is_found() {
    let promises = ["what was acknowledged reaches every durable session"];
    is_found::<Gateway>(Bug::WillReplacedEarly, &STORES, &promises);
}

#[test]
fn a_will_that_is_sent_though_it_was_taken_back_is_found() {
    for store in STORES {
        let promises = ["a will that was taken back is never sent"];
        is_found_on::<Gateway>(Bug::WillSentAfterGoodbye, store, FEW_SEEDS, &promises);
    }
}

/// What a will is known by is forgotten no sooner than that is on record.
#[test]
fn a_will_that_is_forgotten_early_is_found() {
    for store in STORES {
        is_found_on::<Gateway>(Bug::WillForgottenEarly, store, FEW_SEEDS, &["QoS 2 is delivered exactly once"]);
    }
}

#[test]
fn a_time_that_stands_still_is_found() {
    is_found::<Ledger>(Bug::TimeStandsStill, &STORES, &["a hold is released when its time is over"]);
}

/// A start with a clock that is behind dates what clients do; once the clock is right, their sessions are over.
#[test]
fn a_time_that_goes_back_at_a_start_is_found() {
    is_found::<Gateway>(Bug::TimeStandsStill, &STORES, &["a durable session survives"]);
}

#[test]
fn a_credit_that_is_applied_twice_is_found() {
    let promises = ["conservation over all shards, with what is in flight"];
    is_found::<Ledger>(Bug::CreditAppliedTwice, &STORES, &promises);
}

#[test]
fn a_watermark_that_is_off_by_one_is_found() {
    // The shard that misses a credit sees it by the numbers, and stops.
    let promises = ["a shard stops only for a fault of its store"];
    is_found::<Ledger>(Bug::WatermarkOffByOne, &STORES, &promises);
}

/// What only a comparison of the live state with the journal can see: these fail if the auditor does nothing.
#[test]
fn a_live_state_that_drifts_is_found_by_the_auditor() {
    let promises = ["the auditor agrees with the live state"];
    for bug in [Bug::LiveCreditTooMany, Bug::LiveHoldLost, Bug::LiveAssetMixed, Bug::LiveWatermarkOff] {
        is_found::<Ledger>(bug, &[Local], &promises);
    }
}

/// Only a clock that was mended shows it.
#[test]
fn a_mend_that_the_live_state_loses_is_found() {
    let promises = ["a balance at a time is that of then", "the auditor agrees with the live state"];
    is_found::<Ledger>(Bug::LiveMendLost, &STORES, &promises);
}

#[test]
fn a_loss_that_is_not_seen_is_found() {
    let promises = ["a log that has lost its end is never served"];
    is_found::<Ledger>(Bug::LossNotSeen, &[Local], &promises);
    is_found::<Gateway>(Bug::LossNotSeen, &[Local], &promises);
}

#[test]
fn a_torn_tail_that_is_accepted_is_found() {
    is_found::<Ledger>(Bug::TornTailAccepted, &[Local], &["a node starts after any crash, or names the damage"]);
}

#[test]
fn an_unknown_outcome_that_is_taken_for_stored_is_found() {
    is_found::<Ledger>(
        Bug::UnknownTakenForStored,
        &[Stream],
        &["what was seen or acknowledged is never taken back", "a node without faults comes to rest"],
    );
    let promises = ["what was acknowledged reaches every durable session"];
    is_found::<Gateway>(Bug::UnknownTakenForStored, &[Stream], &promises);
}

#[test]
fn a_fence_that_is_ignored_is_found() {
    // The reader of the log notices it before any client does.
    is_found::<Ledger>(Bug::FenceIgnored, &[Stream], &["a node starts after any crash, or names the damage"]);
    let promises = ["the last retained message stays", "a node starts after any crash, or names the damage"];
    is_found_on::<Gateway>(Bug::FenceIgnored, Stream, MANY_SEEDS, &promises);
}

#[test]
fn a_void_group_that_is_not_passed_over_is_found() {
    let promises = ["a node starts after any crash, or names the damage"];
    is_found::<Ledger>(Bug::VoidGroupKept, &[Stream], &promises);
    is_found::<Gateway>(Bug::VoidGroupKept, &[Stream], &promises);
}

/// Only a bad sector shows it: pages that rot are not read as if they were sound.
#[test]
fn a_page_that_cannot_be_read_and_is_taken_for_empty_is_found() {
    is_found::<Ledger>(Bug::UnreadableTakenForAbsent, &STORES, &["an id stands for one content"]);
}

/// Only a write that fails shows it.
#[test]
fn a_failed_write_that_is_ignored_is_found() {
    let promises = ["the auditor finds damage only where there is some"];
    is_found_on::<Ledger>(Bug::FailedWriteIgnored, Local, MANY_SEEDS, &promises);
}

/// A page of ids that is read for long shows it: tables become runs meanwhile.
#[test]
fn a_table_of_ids_that_is_let_go_too_early_is_found() {
    is_found::<Ledger>(Bug::LookupNotWaitedFor, &STORES, &["the same id is applied once"]);
}

/// Two calls with one id, of which the second waits for a page while the first is decided, show it.
#[test]
fn an_id_that_was_new_when_its_call_began_to_wait_is_not_trusted() {
    is_found::<Ledger>(Bug::NewIdTrusted, &STORES, &["the same id is applied once"]);
}

/// Only a log that is put back alone shows it.
#[test]
fn a_loss_that_only_another_shard_knows_of_is_found() {
    is_found::<Ledger>(Bug::PeerLossNotSeen, &[Local], &["an older log is not served beside newer ones"]);
}

/// Only share groups show these.
#[test]
fn what_a_share_group_gets_twice_or_not_at_all_is_found() {
    is_found::<Gateway>(Bug::SharedWithTwo, &STORES, &["a message of a share group is one member's"]);
    let promises = ["what was acknowledged reaches every durable session"];
    is_found::<Gateway>(Bug::SharedWithNobody, &STORES, &promises);
    is_found::<Gateway>(Bug::SharedEndsAtOnce, &STORES, &promises);
    is_found::<Gateway>(Bug::SharedInMemoryLost, &STORES, &promises);
}

/// Only a backup that was restored shows it.
#[test]
fn a_restore_that_does_not_end_the_timeline_is_found() {
    is_found::<Ledger>(Bug::RestoreNotMarked, &[Local], &["what was restored is served"]);
}

/// Only a file DIRECTORY that is not in its place shows it.
#[test]
fn a_foreign_directory_that_is_served_is_found() {
    let promises = ["another directory's DIRECTORY is refused, and said to be that"];
    is_found_on::<Ledger>(Bug::ForeignDirectoryServed, Local, FEW_SEEDS, &promises);
}

/// Only logs that are not in their places show it.
#[test]
fn a_log_in_anothers_place_that_is_served_is_found() {
    let promises = ["a log in another's place is refused, and said to be another's"];
    is_found_on::<Ledger>(Bug::ForeignLogServed, Local, FEW_SEEDS, &promises);
}

/// Only a rollback to an older timeline shows it.
#[test]
fn a_snapshot_of_an_abandoned_timeline_is_found() {
    let promises = ["a node starts after any crash, or names the damage"];
    is_found::<Ledger>(Bug::AbandonedSnapshotUsed, &[Local], &promises);
}

#[test]
fn a_frozen_account_that_is_debited_is_found() {
    is_found::<Ledger>(Bug::FrozenAccountDebited, &STORES, &["nothing leaves a frozen account"]);
}

#[test]
fn a_frozen_account_that_is_credited_is_found() {
    is_found::<Ledger>(Bug::FrozenAccountCredited, &STORES, &["nothing enters a frozen account"]);
}

#[test]
fn a_linked_group_of_holds_of_which_some_are_placed_is_found() {
    is_found::<Ledger>(Bug::LinkedHoldsSplit, &STORES, &["a linked group is all or nothing"]);
}

/// One of two principals who use the same id is told that it stands for something else.
#[test]
fn an_id_space_that_is_ignored_is_found() {
    is_found::<Ledger>(Bug::IdSpaceIgnored, &STORES, &["an id that was used once is not reused"]);
}

/// Only reads by id show these.
#[test]
fn what_is_read_by_its_id_and_is_not_so_is_found() {
    is_found::<Ledger>(Bug::TransferMisread, &STORES, &["what is read by its id is what was asked"]);
    is_found::<Ledger>(Bug::RefusalNotFound, &STORES, &["what was decided is found by its id"]);
    is_found::<Ledger>(Bug::VoidedHoldShownOpen, &STORES, &["a hold that has ended is not open again"]);
}

/// Only what a history says was held shows it: what is held now is counted elsewhere.
#[test]
fn a_release_that_is_miscounted_going_back_is_found() {
    is_found::<Ledger>(Bug::PostReleaseMiscounted, &STORES, &["a history says what was held at each moment"]);
}

/// Only a reader of changes that goes on at its cursor sees these.
#[test]
fn a_cursor_of_changes_that_stands_at_a_wrong_record_is_found() {
    let promises = ["a reader of changes misses nothing"];
    is_found::<Ledger>(Bug::ChangeSkipped, &STORES, &promises);
    let promises = ["a reader of changes sees each record once, in order"];
    is_found::<Ledger>(Bug::ChangeRepeated, &STORES, &promises);
}

/// Only a loss of one shard that is accepted shows it.
#[test]
fn a_debit_that_is_written_again_under_another_id_is_found() {
    is_found::<Ledger>(Bug::RegainedUnderOtherId, &[Local], &["the same id is applied once"]);
}

/// Only a loss of one shard that no record tells of any more, and is accepted, shows it.
#[test]
fn a_loss_that_is_booked_with_less_than_is_missing_is_found() {
    is_found::<Ledger>(Bug::LossBookedShort, &[Local], &["a loss that was accepted stops no start"]);
}

/// Only a rollback to an older timeline shows it.
#[test]
fn a_cursor_of_another_timeline_that_is_followed_is_found() {
    let promises = ["a cursor of another timeline is refused"];
    is_found::<Ledger>(Bug::ForeignCursorFollowed, &[Local], &promises);
}

#[test]
fn a_post_above_a_limit_is_found() {
    is_found::<Ledger>(Bug::PostLimitIgnored, &STORES, &["an upper limit holds for posts, too"]);
}

#[test]
fn a_refusal_with_a_wrong_time_is_found() {
    is_found::<Ledger>(Bug::RefusalTimeForgotten, &STORES, &["a remembered refusal says when it was decided"]);
}

#[test]
fn an_id_that_is_kept_under_another_hash_is_found() {
    is_found::<Ledger>(Bug::IdMisfiled, &STORES, &["the index of ids is what the journal says"]);
}

/// A crash takes back what a sender or a consumer was told.
#[test]
fn an_answer_of_a_queue_before_its_sync_is_found() {
    let promises = ["what was taken is there until it has ended", "what was acknowledged is not handed out again"];
    is_found::<QueueClients>(Bug::ReplyBeforeSync, &STORES, &promises);
}

#[test]
fn a_lease_that_ends_at_once_is_found() {
    let promises = ["no two have a lease of one message", "a lease lasts as long as was promised"];
    is_found::<QueueClients>(Bug::LeaseEndsAtOnce, &STORES, &promises);
}

/// Only a start from a snapshot shows it: the records behind it do not follow from it.
#[test]
fn a_lease_that_a_snapshot_loses_is_found() {
    let promises = ["a node starts after any crash, or names the damage"];
    is_found::<QueueClients>(Bug::LeaseLostInSnapshot, &STORES, &promises);
}

/// So does only one from a snapshot: too few messages are open at once for any to be packed.
#[test]
fn a_timer_that_is_lost_when_messages_are_packed_is_found() {
    let promises = ["a node starts after any crash, or names the damage"];
    is_found::<QueueClients>(Bug::PackedTimerLost, &STORES, &promises);
}

#[test]
fn a_lost_lease_that_counts_is_found() {
    is_found::<QueueClients>(Bug::LostLeaseTrusted, &STORES, &["who has lost a lease is told so"]);
}

#[test]
fn what_was_acknowledged_and_comes_back_is_found() {
    let promises = ["what was acknowledged is not handed out again"];
    is_found::<QueueClients>(Bug::AcknowledgedComesBack, &STORES, &promises);
}

#[test]
fn a_delay_that_is_ignored_is_found() {
    is_found::<QueueClients>(Bug::DelayIgnored, &STORES, &["nothing is handed out before its time"]);
}

#[test]
fn a_message_that_overtakes_those_of_its_ordering_key_is_found() {
    let promises = ["a message waits for those before it of its ordering key"];
    is_found::<QueueClients>(Bug::OrderingKeyOvertaken, &STORES, &promises);
}

#[test]
fn ids_of_messages_that_are_forgotten_are_found() {
    is_found::<QueueClients>(
        Bug::MessageIdForgotten,
        &STORES,
        &["a message is taken once within the window of its id"],
    );
}

#[test]
fn a_body_of_another_message_is_found() {
    is_found::<QueueClients>(Bug::BodyMisread, &STORES, &["what is handed out is what was sent"]);
    is_found::<QueueClients>(Bug::MovedPartForgotten, &STORES, &["what is handed out is what was sent"]);
}

/// Only a log that forgets segments shows it.
#[test]
fn a_body_that_is_forgotten_is_found() {
    is_found::<QueueClients>(Bug::OldBodyForgotten, &STORES, &["a body that is still needed can be read"]);
}

#[test]
fn a_message_that_is_handed_out_too_often_is_found() {
    let promises = ["a message is handed out as often as its queue says"];
    is_found::<QueueClients>(Bug::DeliveredTooOften, &STORES, &promises);
}

/// Purges are rare.
#[test]
fn a_purge_that_passes_over_messages_is_found() {
    is_found::<QueueClients>(Bug::PurgePassesOver, &STORES, &["what was purged is not handed out"]);
}

#[test]
fn a_rate_that_is_ignored_is_found() {
    is_found::<QueueClients>(Bug::RateIgnored, &STORES, &["a queue hands out no more than its rate"]);
}

#[test]
fn a_schedule_that_fires_again_at_once_is_found() {
    let promises = ["a schedule fires once for each of its times"];
    is_found::<QueueClients>(Bug::ScheduleStandsStill, &STORES, &promises);
}

#[test]
fn a_link_that_takes_silence_for_an_answer_is_found() {
    is_found_between_nodes(Bug::LinkTrustsSilence, &["all that was sent arrives when nothing goes wrong any more"]);
}

#[test]
fn a_link_that_gives_a_message_another_name_is_found() {
    is_found_between_nodes(Bug::LinkNamesAnew, &["a message has the key of its first node on all others"]);
}

#[test]
fn a_route_that_takes_a_refusal_for_success_is_found() {
    is_found_between_nodes(Bug::RouteTrustsRefusal, &["all that was sent arrives when nothing goes wrong any more"]);
}

/// A message under the key of another one is taken for it on the next node.
#[test]
fn a_sender_that_gives_the_key_of_another_message_is_found() {
    is_found_between_nodes(Bug::KeyOfAnyone, &["all that was sent arrives when nothing goes wrong any more"]);
}

/// The queue says that it has it already, and the link before lets go of the only copy.
#[test]
fn a_queue_that_does_not_see_what_has_come_through_it_is_found() {
    is_found_between_nodes(Bug::MessageGoesRound, &["what comes back to a queue is a dead letter of the one before"]);
}

/// Ids that are forgotten let through what is given again.
#[test]
fn a_message_that_arrives_twice_is_found() {
    is_found_between_nodes(Bug::MessageIdForgotten, &["a message arrives once"]);
}

fn is_found_between_nodes(bug: Bug, promises: &[&str]) {
    for store in STORES {
        is_found_by((links::NAME, links::run_on), bug, (store, SEEDS), promises);
    }
}
