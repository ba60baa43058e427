//! Bugs, and the switch that plants one.

/// A bug. Each is one line in the code that it breaks, and is found by a test in `sim/tests/planted_bugs.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// What the ledger has paid for leases that the log of campaigns has lost is not counted.
    LostLeasesUncounted,
    /// A campaign that gets another zone begins its day anew.
    DaysOfZoneApart,
    /// What the ledger has paid of a lease beyond what its wins have cost is not counted.
    PaidMoreUncounted,
    /// A queue does not see that a message has come through it before.
    MessageGoesRound,
    /// Whoever sends may give a message the key of another node as its id.
    KeyOfAnyone,
    /// A torn group is accepted as whole when a log is opened.
    TornTailAccepted,
    /// A win that comes after its deadline is paid.
    LateWinTaken,
    /// A lease is granted before the ledger holds its money.
    GrantedUnheld,
    /// A lease is closed when it is retired, though bids of it may still win.
    ClosedEarly,
    /// A loss returns what its bid reserves, and does not keep the bid from winning.
    LossForgotten,
    /// A loss of a bid that has won returns its price.
    WonBidReturned,
    /// A lease is taken for one whose bids are all known, though some are not.
    KnownEarly,
    /// A lease is forgotten as soon as its money was given back, though notices of its bids may come again.
    ForgottenEarly,
    /// What was not bid of a lease is counted twice when it is given back.
    LeftReturnedTwice,
    /// What the ledger holds of closed leases that it did not settle is leased again.
    UnsettledLeased,
    /// A win of a lease that a restore has taken back is charged to the lease that has its number now.
    ForeignWinTaken,
    /// A settlement whose answer was lost is taken for done.
    SettlementTrusted,
    /// A lease is granted to another worker as well.
    GrantedTwice,
    /// Leases that an earlier process has left open are not settled.
    LeasesForgotten,
    /// An answer leaves when its group is submitted, not when it is durable.
    ReplyBeforeSync,
    /// A replay forgets which ids were used.
    IdsLostOverRestart,
    /// A hold whose time is over stays open.
    HoldNotReleased,
    /// A void or expiry closes the hold and leaves its amount held.
    HoldAmountKept,
    /// A pull confirms one credit more than the other shard has.
    WatermarkOffByOne,
    /// A transfer of seven, or of a multiple of seven, is refused whatever a wallet has.
    FundedTransferRefused,
    /// What a wallet has held is counted twice when a transfer is weighed.
    HeldCountedTwice,
    /// A credit from another shard leaves the watermark as it was, so that the same credit is taken in again.
    CreditAppliedTwice,
    /// Money leaves an account whose debits are frozen.
    FrozenAccountDebited,
    /// A post takes an account above its `balance_max`.
    PostLimitIgnored,
    /// A refusal that is remembered is said to have been decided with the newest record.
    RefusalTimeForgotten,
    /// The live state counts one credit too many, which the journal does not say.
    LiveCreditTooMany,
    /// The live state loses a hold; what it reserves stays reserved.
    LiveHoldLost,
    /// The live state takes a new account for one of another asset.
    LiveAssetMixed,
    /// The live state loses where the time was set back.
    LiveMendLost,
    /// The live state notes one credit of another shard more than was taken in.
    LiveWatermarkOff,
    /// The time of records follows a jump of the wall clock at once.
    ClockJumpFollowed,
    /// The time of a shard whose newest record is ahead of the clock stands still.
    TimeStandsStill,
    /// A message to a stream whose outcome nobody knows is taken for stored.
    UnknownTakenForStored,
    /// A stream's log goes on although another writer stands where its message should be.
    FenceIgnored,
    /// A log that ends before its snapshot is served, as if the snapshot were of another history.
    LossNotSeen,
    /// A page of the id index that cannot be read is taken for one without the id.
    UnreadableTakenForAbsent,
    /// A write that failed is taken for done, as if the sync behind it would tell.
    FailedWriteIgnored,
    /// A table of ids leaves memory as soon as a run holds it, though a lookup that began before does not know the run.
    LookupNotWaitedFor,
    /// An id that was new when its call waited is taken for new, although another call has used it meanwhile.
    NewIdTrusted,
    /// What shards know of each other's credits is not compared at a start.
    PeerLossNotSeen,
    /// A snapshot of an abandoned timeline stays, and is used once the log has passed its place.
    AbandonedSnapshotUsed,
    /// Some records are kept under the hash of another id.
    IdMisfiled,
    /// A group of a stream without its last message is not passed over when the next epoch begins.
    VoidGroupKept,
    /// Of a linked group with a member that is refused, the holds are placed that could be placed alone.
    LinkedHoldsSplit,
    /// Money enters an account that is frozen.
    FrozenAccountCredited,
    /// Some ids of an id space are taken for ids of the empty one.
    IdSpaceIgnored,
    /// A transfer that is read by its id shows its debited account as the credited one, too.
    TransferMisread,
    /// A transfer that was refused is not found by its id.
    RefusalNotFound,
    /// A hold that was voided is shown as open when it is read by its id.
    VoidedHoldShownOpen,
    /// A debit that another shard knows of is written again under another id.
    RegainedUnderOtherId,
    /// A loss between shards is booked with less than what is missing.
    LossBookedShort,
    /// Going back through a history, a post is taken to have released only what it moved.
    PostReleaseMiscounted,
    /// A cursor within a group of changes stands behind the next record.
    ChangeSkipped,
    /// A cursor within a group of changes stands before its own record.
    ChangeRepeated,
    /// Who reads changes on from a cursor that this history does not have begins at the first record.
    ForeignCursorFollowed,
    /// What is due is sent before a worker knows the subscriptions of all others.
    DueBeforeServing,
    /// All wills of a session are known to their receivers by the session.
    WillNamedBySession,
    /// What a will is known by is forgotten before its record says that it was sent.
    WillForgottenEarly,
    /// A will that was not sent by the time its client comes back is not sent any more.
    OverdueWillDropped,
    /// A client that comes back while its will is under way replaces what is on record of it.
    WillReplacedEarly,
    /// A will is sent although its client has said DISCONNECT 0x00.
    WillSentAfterGoodbye,
    /// A restored log does not say that its timeline ended there.
    RestoreNotMarked,
    /// A message of a share group goes to a second member, too.
    SharedWithTwo,
    /// A message of a share group whose turn is that of a member that is away goes to nobody.
    SharedWithNobody,
    /// The session of a member of a share group ends at once, with what the group has given to it.
    SharedEndsAtOnce,
    /// What a member of a share group has in memory is given to nobody when its session ends.
    SharedInMemoryLost,
    /// The file DIRECTORY of another directory is taken for that of the logs beside it.
    ForeignDirectoryServed,
    /// A log is served whoever's it is, as the header of a segment says.
    ForeignLogServed,
    /// A lease ends when it begins, so that the message is handed out again at once.
    LeaseEndsAtOnce,
    /// Messages that are packed in memory do not wake.
    PackedTimerLost,
    /// Some messages that are acknowledged wait for a receiver again.
    AcknowledgedComesBack,
    /// A message that is sent with a delay is handed out at once.
    DelayIgnored,
    /// A message that waited for its time overtakes those of its ordering key.
    OrderingKeyOvertaken,
    /// The ids of messages are not remembered.
    MessageIdForgotten,
    /// A body is taken for that of the message before it in its record.
    BodyMisread,
    /// Of a message that is written again, it is not noted how-manieth of its new record it is.
    MovedPartForgotten,
    /// A log forgets what is in a snapshot, though bodies in it are still needed.
    OldBodyForgotten,
    /// A message is handed out once more than its queue says before it is a dead letter.
    DeliveredTooOften,
    /// Who has lost a lease to somebody else may still acknowledge the message.
    LostLeaseTrusted,
    /// A snapshot of queues says of each lease that it is over.
    LeaseLostInSnapshot,
    /// A schedule that has fired fires again at once, at the same time.
    ScheduleStandsStill,
    /// Deliveries are not counted for the rate of a queue.
    RateIgnored,
    /// A purge passes over messages that wait for their time.
    PurgePassesOver,
    /// A link takes messages for taken when the connection breaks before the other server has answered.
    LinkTrustsSilence,
    /// A link gives a message that it gives again another name.
    LinkNamesAnew,
    /// A route takes messages for moved that the other queue has refused.
    RouteTrustsRefusal,
}

#[cfg(feature = "bugs")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants `bug` into all code that runs on this thread, instead of the one that was there.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether `bug` is planted on this thread.
    #[inline]
    pub fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "bugs")]
pub use switch::{is_planted, plant};

/// Whether `bug` is planted on this thread: never, in this build.
#[cfg(not(feature = "bugs"))]
#[inline(always)]
pub const fn is_planted(_bug: Bug) -> bool {
    false
}

#[cfg(all(test, feature = "bugs"))]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_planted_on_one_thread_until_the_next() {
        plant(Some(Bug::ReplyBeforeSync));
        assert!(is_planted(Bug::ReplyBeforeSync) && !is_planted(Bug::TornTailAccepted));
        let elsewhere = std::thread::spawn(|| is_planted(Bug::ReplyBeforeSync));
        assert!(!elsewhere.join().expect("no panic"));
        plant(None);
        assert!(!is_planted(Bug::ReplyBeforeSync));
    }
}
