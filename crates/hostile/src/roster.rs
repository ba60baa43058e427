//! The roster: a record of its log, decoded and folded, and the body of its snapshots. Each has one encoding, and a
//! state that was decoded can be written, read again and used.

use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};
use tidegate_roster::{Action, Allowed, Command, Roster, TokenHash, UserRights};

const ALLOWED: Allowed = Allowed { services_max: 10, users_max: 10 };

/// A service that was changed, one that was deleted, and users likewise; the records of it.
pub fn sample() -> (Roster, Vec<Vec<u8>>) {
    let (mut roster, mut records) = (Roster::new(ShardIndex(0), 1), Vec::new());
    let put = |grants: &[&str]| Action::Put {
        grants: grants.iter().map(|grant| (*grant).into()).collect(),
        token: TokenHash([7; 32]),
        only_new: false,
    };
    let user = |rights, password_hash: Option<&str>| Action::PutUser {
        rights,
        password_hash: password_hash.map(Into::into),
        only_new: false,
    };
    for (name, action) in [
        ("cam-7", put(&["publish:cam/%u/#"])),
        ("stage", put(&[])),
        ("cam-7", put(&["publish:cam/%u/#", "read:*"])),
        ("cam-7", Action::Rotate { token: TokenHash([8; 32]) }),
        ("stage", Action::Delete),
        ("dave", user(UserRights::Viewer(vec!["wallet:dave".into()]), Some("$argon2id$1"))),
        ("erin", user(UserRights::Service(vec!["read:*".into()]), Some("$argon2id$2"))),
        ("dave", user(UserRights::Viewer(Vec::new()), None)),
        ("erin", Action::DeleteUser),
    ] {
        let command = Command { name: name.into(), action };
        let Decision::Append { event, .. } = roster.decide(&command, ALLOWED, TimeMs(0)) else {
            panic!("{command:?} changes nothing");
        };
        let mut record = Vec::new();
        Roster::encode(&event, &mut record);
        roster.apply(&event, place(roster.sequence() + 1));
        records.push(record);
    }
    (roster, records)
}

/// The body of its snapshot.
pub fn snapshot_of(roster: &Roster) -> Vec<u8> {
    let mut snapshot = Vec::new();
    roster.write_snapshot(&mut |part| snapshot.extend_from_slice(part));
    snapshot
}

fn place(sequence: u64) -> Place {
    Place { position: RecordPosition(sequence * 64), sequence: RecordSequence(sequence) }
}

/// A record: refused, or in its only form, and then it follows from a state or leaves it as it was.
pub fn check_event(bytes: &[u8]) {
    let Ok(event) = Roster::decode(bytes) else { return };
    let mut again = Vec::new();
    Roster::encode(&event, &mut again);
    assert_eq!(again, bytes, "an event has one encoding");
    for mut roster in [Roster::new(ShardIndex(0), 1), sample().0] {
        let before = roster.clone();
        match roster.apply_checked(&event, place(before.sequence() + 1)) {
            Ok(()) => roster.assert_sound(),
            Err(_) => assert_eq!(roster, before, "what does not follow changes nothing"),
        }
    }
}

/// A snapshot: refused, or in its only form, and then it can be gone on with.
pub fn check_snapshot(bytes: &[u8]) {
    let Ok(mut roster) = Roster::read_snapshot(bytes) else { return };
    roster.assert_sound();
    assert_eq!(snapshot_of(&roster), bytes, "a state has one encoding");
    let services = roster.services().keys().map(|name| (name.clone(), Action::Delete));
    let users = roster.users().keys().map(|name| (name.clone(), Action::DeleteUser));
    for (name, action) in services.chain(users).collect::<Vec<_>>() {
        let Some(sequence) = roster.sequence().checked_add(1) else { return };
        let command = Command { name, action };
        if let Decision::Append { event, .. } = roster.decide(&command, ALLOWED, TimeMs(0)) {
            roster.apply(&event, place_of(sequence));
        }
    }
    assert!(roster.services().is_empty() && roster.users().is_empty(), "all can be deleted");
}

/// Sequences of a snapshot may be of any size.
fn place_of(sequence: u64) -> Place {
    Place { position: RecordPosition(1), sequence: RecordSequence(sequence) }
}
