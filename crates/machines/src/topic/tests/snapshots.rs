//! Snapshots: reading gives the same state, and damage is found.

use proptest::prelude::*;
use proptest::sample::Index;

use super::shard::{Shard, message};
use crate::machine::tests::{place, read_changed, read_forged, restore, snapshot};
use crate::topic::{
    Command, Due, Event, KeptPlace, Mismatch, Origin, Principal, Receiver, Refusal, Session, Slot, SnapshotError,
    Topics, Will,
};
use crate::{Machine, TimeMs};

/// A shard with a bit of everything.
pub fn shard() -> Shard {
    let mut shard = Shard::new();
    shard.limits.age_max_ms = 60_000;
    for id in ["anna", "bert", "carl", "dora"] {
        let will = (id != "carl").then(|| Will { message: message("w", id, 1, None), delay_s: 9, expiry_s: Some(4) });
        shard.ask(&Command::OpenSession { client_id: id.into(), owner: owner_of(id), expiry_s: 60, will }).unwrap();
    }
    for (slot, filter) in [(0, "b/#"), (0, "a/+"), (3, "a/+")] {
        let filter = filter.into();
        shard.ask(&Command::Subscribe { slot: Slot(slot), filter, options: 1, subscription_id: slot }).unwrap();
    }
    for (nth, payload) in ["one", "two", "three", "four"].into_iter().enumerate() {
        let receiver =
            |slot, ids: &[u32]| Receiver { slot: Slot(slot), qos: 2, retain: nth == 1, subscription_ids: ids.into() };
        let message = message("a/t", payload, 2, (nth == 2).then_some(TimeMs(5_000_000)));
        let origin = (nth > 1).then_some(Origin { part: nth as u32 % 2, ..Origin::new(1, 4, nth as u16) });
        let receivers = [receiver(0, &[1, 2]), receiver(3, &[])].into();
        shard.ask(&Command::Publish { message, receivers, origin, unheeded: [].into() }).unwrap();
    }
    for command in [
        Command::Acknowledge { slot: Slot(0), number: 1 },
        Command::MarkReceived { slot: Slot(3), number: 0 },
        attach_with_will(3, "again"),
        Command::DetachSession { slot: Slot(3), expiry_s: 5, keep_will: true },
        Command::EndSession { slot: Slot(2) },
        Command::EndSession { slot: Slot(1) },
        Command::Retain { message: message("r/1", "kept", 0, None), owner: None },
        Command::Retain { message: message("r/2", "kept, too", 1, Some(TimeMs(9_000_000))), owner: owner_of("bert") },
        Command::Delay { at: TimeMs(2_000_000), message: message("d", "later", 1, None), origin: None, owner: None },
        Command::Delay {
            at: TimeMs(1_500_000),
            message: message("d", "sooner", 2, None),
            origin: None,
            owner: owner_of("anna"),
        },
        keep(0, "b/#", 7),
        keep(0, "a/+", 300),
        keep(3, "a/+", 0),
    ] {
        shard.ask(&command).unwrap();
    }
    shard
}

/// Whose the sessions of the tests are: of two of them nobody knows it.
fn owner_of(id: &str) -> Option<Principal> {
    match id {
        "anna" => Some(Principal::user(id)),
        "bert" => Some(Principal::address("10.0.0.1")),
        _ => None,
    }
}

/// The command that a client comes back and brings a will.
fn attach_with_will(slot: u32, payload: &str) -> Command {
    let will = Some(Will { message: message("w", payload, 2, None), delay_s: 9, expiry_s: None });
    Command::AttachSession { slot: Slot(slot), owner: None, expiry_s: 60, will }
}

/// The command that a subscription was read up to `number`.
fn keep(slot: u32, filter: &str, number: u64) -> Command {
    let kept = KeptPlace { number, place: number.to_string().into_bytes().into() };
    Command::KeepPlace { slot: Slot(slot), filter: filter.into(), kept }
}

#[test]
fn a_place_belongs_to_its_subscription_and_ends_with_it() {
    let mut shard = shard();
    let number = |shard: &Shard, slot, filter: &str| Some(shard.topics.kept_place(Slot(slot), filter)?.number);
    assert_eq!(number(&shard, 0, "a/+"), Some(300));
    shard.ask(&keep(0, "a/+", 301)).unwrap();
    let again = |slot| Command::Subscribe { slot: Slot(slot), filter: "a/+".into(), options: 0, subscription_id: 9 };
    shard.ask(&again(0)).unwrap();
    assert_eq!(number(&shard, 0, "a/+"), Some(301), "subscribing again keeps the place");
    assert_eq!(shard.ask(&keep(0, "z", 1)), Err(Refusal::NoSubscription));
    assert_eq!(shard.ask(&keep(2, "a/+", 1)), Err(Refusal::NoSession(Slot(2))));
    shard.ask(&Command::Unsubscribe { slot: Slot(0), filter: "a/+".into() }).unwrap();
    shard.ask(&again(0)).unwrap();
    assert_eq!(number(&shard, 0, "a/+"), None, "another subscription begins anew");
    assert_eq!(number(&shard, 0, "b/#"), Some(7));
    shard.ask(&Command::EndSession { slot: Slot(3) }).unwrap();
    shard.ask(&Command::Unsubscribe { slot: Slot(0), filter: "b/#".into() }).unwrap();
    shard.topics.assert_sound();
    assert_eq!(older_snapshot(&shard.topics)[0], 1, "a state without places was written as before there were any");
}

/// As a program wrote it that kept no time.
fn older_snapshot(topics: &Topics) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(topics.write_older_snapshot(&mut |part| bytes.extend_from_slice(part)));
    bytes
}

#[test]
fn the_time_of_the_newest_event_is_kept() {
    let mut shard = shard();
    let published = shard.topics.time();
    assert!(TimeMs(0) < published && published < TimeMs(1_500_000), "a delayed message says when it is to be sent");
    assert_eq!(restore::<Topics>(&snapshot(&shard.topics)).time(), published);
    shard.ask(&Command::EndSession { slot: Slot(3) }).unwrap();
    assert_eq!(shard.topics.newest_known(), published, "it does not hang on a session that was left");
    let old: Topics = restore(&older_snapshot(&self::shard().topics));
    assert_eq!(old.time(), TimeMs(0), "an older snapshot does not say it");
    assert_eq!(old.newest_known(), published, "but when a session was left");
    assert_eq!(snapshot(&old), older_snapshot(&self::shard().topics), "a state has one form");
    let mut without = snapshot(&Topics::new(shard.topics.shard()));
    without[0] = 3;
    assert!(Topics::read_snapshot(&without).is_err(), "nor is zero a time");
}

#[test]
fn owners_come_back_and_a_session_keeps_the_one_that_it_has() {
    let mut shard = shard();
    let owner = |topics: &Topics, slot| topics.session(Slot(slot)).and_then(|session| session.owner().cloned());
    let messages = |topics: &Topics| {
        let retained = topics.all_retained().map(|kept| kept.owner.clone());
        retained.chain(topics.all_delayed().map(|kept| kept.owner.clone())).collect::<Vec<_>>()
    };
    let restored: Topics = restore(&snapshot(&shard.topics));
    for topics in [&shard.topics, &restored, &shard.replay()] {
        assert_eq!((owner(topics, 0), owner(topics, 3)), (owner_of("anna"), None));
        assert_eq!(messages(topics), [None, owner_of("bert"), None, owner_of("anna")]);
    }
    let attach = |slot, name| {
        let owner = Some(Principal::user(name));
        Command::AttachSession { slot: Slot(slot), owner, expiry_s: 9, will: None }
    };
    shard.ask(&attach(0, "eve")).unwrap();
    assert_eq!(owner(&shard.topics, 0), owner_of("anna"), "it is not given away");
    shard.ask(&attach(3, "dora")).unwrap();
    assert_eq!(owner(&shard.topics, 3), Some(Principal::user("dora")), "nobody's is the first one's");
    assert_eq!(owner(&shard.replay(), 3), Some(Principal::user("dora")));
    let forged = Event::SessionAttached {
        at: TimeMs(2_000_000),
        slot: Slot(3),
        owner: Some(Principal::user("eve")),
        expiry_s: 9,
        will: None,
        names_will: false,
    };
    let folded = Machine::apply_checked(&mut shard.replay(), &forged, place(shard.records.len()));
    assert_eq!(folded, Err(Mismatch::Unfounded("the session has an owner")));
}

#[test]
fn a_will_is_named_by_the_record_that_brought_it() {
    let mut shard = shard();
    let record = |topics: &Topics, slot| topics.session(Slot(slot)).and_then(Session::will_record);
    let (opened, attached) = (record(&shard.topics, 0), record(&shard.topics, 3));
    assert_eq!(opened, shard.topics.session(Slot(0)).map(Session::incarnation));
    assert!(attached > shard.topics.session(Slot(3)).map(Session::incarnation), "another will, another name");
    let bytes = snapshot(&shard.topics);
    assert_eq!(bytes[0], 5);
    for topics in [restore(&bytes), shard.replay()] {
        assert_eq!((record(&topics, 0), record(&topics, 3)), (opened, attached));
    }
    let due: Vec<_> = shard.topics.due(TimeMs(2_000_000)).filter(|due| matches!(due, Due::Will { .. })).collect();
    assert_eq!(due, [Due::Will { slot: Slot(3), record: attached.unwrap() }]);
    shard.ask(&attach_with_will(0, "one")).unwrap();
    let first = record(&shard.topics, 0).unwrap();
    shard.ask(&attach_with_will(0, "two")).unwrap();
    assert!(Some(first) < record(&shard.topics, 0));
    let late = Command::ClearWill { slot: Slot(0), record: first };
    assert_eq!(shard.ask(&late), Err(Refusal::Nothing), "it is not the one that was sent");
    assert!(shard.topics.session(Slot(0)).unwrap().will().is_some());
}

/// As programs wrote it that named all wills of a session by the record that opened it.
#[test]
fn wills_of_an_older_snapshot_are_named_as_they_were() {
    let mut shard = shard();
    shard.ask(&Command::AttachSession { slot: Slot(3), owner: None, expiry_s: 5, will: None }).unwrap();
    let before = snapshot(&shard.topics);
    assert_eq!(before[0], 4, "a state without such a will has the form that it had");
    let attach = attach_with_will(3, "old");
    let Command::AttachSession { slot, owner, expiry_s, will } = attach else { unreachable!() };
    let mut folded: Topics = restore(&before);
    let old = Event::SessionAttached { at: TimeMs(2_000_000), slot, owner, expiry_s, will, names_will: false };
    Machine::apply_checked(&mut folded, &old, place(shard.records.len())).unwrap();
    let older = snapshot(&folded);
    assert_eq!(older[0], 4);
    let read: Topics = restore(&older);
    let session = read.session(Slot(3)).unwrap();
    assert_eq!(session.will_record(), Some(session.incarnation()));
    assert_eq!(snapshot(&read), older);
    let mut forged = older;
    forged[0] = 5;
    assert!(Topics::read_snapshot(&forged).is_err(), "nor is there a second form");
}

#[test]
fn it_comes_back_and_goes_on_in_the_same_way() {
    let mut live = shard();
    let bytes = snapshot(&live.topics);
    let mut restored = Shard { topics: restore(&bytes), ..shard() };
    assert_eq!(snapshot(&restored.topics), bytes);
    for client_id in ["emil", "fred", "gina"] {
        let open = Command::OpenSession { client_id: client_id.into(), owner: None, expiry_s: 60, will: None };
        assert_eq!(live.ask(&open), restored.ask(&open), "slots are used again in the same order");
    }
    assert_eq!(snapshot(&live.topics), snapshot(&restored.topics));
}

#[test]
fn what_is_cut_or_longer_is_damaged() {
    let bytes = snapshot(&shard().topics);
    for cut in 0..bytes.len() {
        assert!(Topics::read_snapshot(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(Topics::read_snapshot(&longer).err(), Some(SnapshotError::Damaged("bytes after the end")));
    assert_eq!(Topics::read_snapshot(&[9]).err(), Some(SnapshotError::UnknownVersion(9)));
}

#[test]
fn every_changed_byte_is_an_error_or_another_state_with_one_form() {
    let bytes = snapshot(&shard().topics);
    let mut found = 0;
    for at in 0..bytes.len() {
        for change in [1, 2, 4, 0x10, 0x40, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] ^= change;
            match read_forged::<Topics>(&bytes) {
                Some(topics) => assert!(topics.due(TimeMs::MAX).count() < bytes.len()),
                None => found += 1,
            }
        }
    }
    assert!(found > bytes.len(), "only {found} of {} changes were found", 7 * bytes.len());
}

proptest! {
    #[test]
    fn changed_bytes_are_an_error_or_keep_the_rules(changes in proptest::collection::vec(any::<(Index, u8)>(), 1..6)) {
        thread_local!(static BYTES: Vec<u8> = snapshot(&shard().topics));
        BYTES.with(|bytes| read_changed::<Topics>(bytes, &changes));
    }
}

/// The audit's case: records are whole, but one is missing, or comes twice.
#[test]
fn a_record_that_is_missing_or_repeated_does_not_fold() {
    let shard = shard();
    let whole = snapshot(&shard.topics);
    let events: Vec<_> = shard.records.iter().map(|record| Topics::decode(record).unwrap()).collect();
    for skip in 0..events.len() {
        let mut topics = Topics::new(shard.topics.shard());
        let kept = events.iter().enumerate().filter(|(nth, _)| *nth != skip);
        let folded: Vec<_> = kept.map(|(nth, event)| Machine::apply_checked(&mut topics, event, place(nth))).collect();
        let fits = folded.iter().all(Result::is_ok);
        assert!(!fits || snapshot(&topics) != whole, "record {skip} is missed by nobody");
    }
    let mut topics = shard.replay();
    let newest = topics.sequence();
    assert_eq!(
        Machine::apply_checked(&mut topics, &events[events.len() - 1], place(events.len() - 1)),
        Err(Mismatch::OutOfOrder { found: newest, newest })
    );
}
