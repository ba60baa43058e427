use tidegate_machines::{RecordPosition, RecordSequence};

use super::*;
use crate::limits::GRANTS_BYTES_MAX;

const NOW: TimeMs = TimeMs(0);
const ALLOWED: Allowed = Allowed { services_max: 3, users_max: 2 };

fn token(byte: u8) -> TokenHash {
    TokenHash([byte; 32])
}

fn command(name: &str, action: Action) -> Command {
    Command { name: name.into(), action }
}

fn put(name: &str, grants: &[&str], byte: u8) -> Command {
    let grants = grants.iter().map(|grant| (*grant).into()).collect();
    command(name, Action::Put { grants, token: token(byte), only_new: false })
}

fn changed(name: &str, before: u64, after: Option<Service>) -> Event {
    Event::Service(ServiceChange { name: name.into(), before, after })
}

fn viewer(wallets: &[&str]) -> UserRights {
    UserRights::Viewer(wallets.iter().map(|wallet| (*wallet).into()).collect())
}

fn dave(wallets: &[&str]) -> User {
    User { password_hash: "$argon2id$1".into(), rights: viewer(wallets) }
}

fn put_user(name: &str, rights: UserRights, password_hash: Option<&str>) -> Command {
    let password_hash = password_hash.map(Into::into);
    command(name, Action::PutUser { rights, password_hash, only_new: false })
}

/// A roster, and the records that made it.
struct Journaled {
    roster: Roster,
    records: Vec<Vec<u8>>,
}

impl Journaled {
    fn new() -> Journaled {
        Journaled { roster: Roster::new(ShardIndex(0), 1), records: Vec::new() }
    }

    fn run(&mut self, command: Command) -> Result<Outcome, Refusal> {
        match self.roster.decide(&command, ALLOWED, NOW) {
            Decision::Answer(outcome) => outcome,
            Decision::Append { event, outcome } => {
                let mut record = Vec::new();
                Roster::encode(&event, &mut record);
                self.records.push(record);
                self.roster.apply_checked(&event, place(self.records.len() as u64)).expect("it was just decided");
                self.roster.assert_sound();
                outcome
            }
        }
    }
}

fn place(sequence: u64) -> Place {
    Place { position: RecordPosition(sequence * 100), sequence: RecordSequence(sequence) }
}

fn snapshot(roster: &Roster) -> Vec<u8> {
    let mut bytes = Vec::new();
    roster.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    bytes
}

#[test]
fn a_put_makes_changes_and_keeps() {
    let mut journaled = Journaled::new();
    assert_eq!(journaled.run(put("cam", &["publish:cam/#"], 1)), Ok(Outcome::Made));
    assert_eq!(journaled.run(put("cam", &["publish:cam/#"], 2)), Ok(Outcome::Unchanged { since: 1 }));
    assert_eq!(journaled.run(put("cam", &["publish:#"], 3)), Ok(Outcome::Changed));
    assert_eq!(journaled.roster.services()["cam"].service.token_sha256, token(1), "the token stays");
    let only_new = Action::Put { grants: Vec::new(), token: token(4), only_new: true };
    assert_eq!(journaled.run(command("cam", only_new)), Err(Refusal::Exists));
    assert_eq!(journaled.run(command("cam", Action::Rotate { token: token(5) })), Ok(Outcome::Changed));
    assert_eq!(journaled.roster.services()["cam"].service.token_sha256, token(5));
    assert_eq!(journaled.run(command("cam", Action::Delete)), Ok(Outcome::Deleted));
    assert_eq!(journaled.run(command("cam", Action::Delete)), Err(Refusal::NotFound));
    assert_eq!(journaled.run(command("cam", Action::Rotate { token: token(6) })), Err(Refusal::NotFound));
    assert_eq!((journaled.records.len(), journaled.roster.services().len()), (4, 0));
}

#[test]
fn bounds_hold() {
    let mut journaled = Journaled::new();
    for name in ["a", "b", "c"] {
        assert_eq!(journaled.run(put(name, &[], 1)), Ok(Outcome::Made));
    }
    assert_eq!(journaled.run(put("d", &[], 1)), Err(Refusal::TooMany));
    assert_eq!(journaled.run(put("a", &["audit"], 1)), Ok(Outcome::Changed), "one that is there may change");
    let long = "x".repeat(GRANTS_BYTES_MAX + 1);
    for wrong in [put("", &[], 1), put(&"n".repeat(65), &[], 1), put("a", &[&long], 1), put("a", &["audit"; 65], 1)] {
        assert_eq!(journaled.run(wrong), Err(Refusal::Invalid));
    }
}

#[test]
fn a_replay_and_a_snapshot_give_the_same_roster() {
    let mut journaled = Journaled::new();
    for round in 0..40u8 {
        let name = ["a", "b", "c"][usize::from(round % 3)];
        let action = match round % 7 {
            3 => command(name, Action::Delete),
            4 => command(name, Action::Rotate { token: token(round) }),
            5 => put_user(name, viewer(&[&format!("wallet:{round}")]), Some("hash")),
            6 => command("b", Action::DeleteUser),
            _ => put(name, &[&format!("read:{round}")], round),
        };
        let _ = journaled.run(action);
    }
    let mut replayed = Roster::new(ShardIndex(0), 1);
    for (sequence, record) in (1..).zip(&journaled.records) {
        replayed.apply_checked(&Roster::decode(record).expect("it was written"), place(sequence)).expect("it follows");
    }
    assert_eq!(replayed, journaled.roster);
    let read = Roster::read_snapshot(&snapshot(&replayed)).expect("it was written");
    assert_eq!((&read, snapshot(&read)), (&replayed, snapshot(&replayed)));
}

#[test]
fn a_record_has_the_hash_in_hex() {
    let mut journaled = Journaled::new();
    let _ = journaled.run(put("cam", &["publish:#"], 0xab));
    let expected = format!(
        r#"{{"name":"cam","before":0,"after":{{"token_sha256":"{}","grants":["publish:#"]}}}}"#,
        "ab".repeat(32)
    );
    assert_eq!(String::from_utf8(journaled.records.remove(0)).expect("JSON"), expected);
    assert!(Roster::decode(expected.replace("ab", "AB").as_bytes()).is_err(), "a value has one form");
}

#[test]
fn users_and_services_share_no_names() {
    let mut journaled = Journaled::new();
    assert_eq!(journaled.run(put("dave", &[], 1)), Ok(Outcome::Made));
    assert_eq!(journaled.run(put_user("dave", viewer(&["wallet:dave"]), None)), Err(Refusal::NotFound), "no password");
    assert_eq!(journaled.run(put_user("dave", viewer(&["wallet:dave"]), Some("1"))), Ok(Outcome::Made));
    let unchanged = Ok(Outcome::Unchanged { since: 2 });
    assert_eq!(journaled.run(put_user("dave", viewer(&["wallet:dave"]), None)), unchanged);
    assert_eq!(journaled.run(put_user("dave", UserRights::Service(Vec::new()), None)), Ok(Outcome::Changed));
    assert_eq!(&*journaled.roster.users()["dave"].user.password_hash, "1", "the password stays");
    assert_eq!(journaled.run(put_user("dave", viewer(&[]), Some("2"))), Ok(Outcome::Changed));
    assert_eq!(&*journaled.roster.users()["dave"].user.password_hash, "2");
    let only_new = Action::PutUser { rights: viewer(&[]), password_hash: Some("3".into()), only_new: true };
    assert_eq!(journaled.run(command("dave", only_new)), Err(Refusal::Exists));
    assert_eq!(journaled.run(put_user("erin", viewer(&[]), Some("1"))), Ok(Outcome::Made));
    assert_eq!(journaled.run(put_user("frank", viewer(&[]), Some("1"))), Err(Refusal::TooMany));
    for (rights, hash) in [(viewer(&["w"; 65]), "1"), (viewer(&[]), ""), (viewer(&[]), &*"h".repeat(257))] {
        assert_eq!(journaled.run(put_user("dave", rights, Some(hash))), Err(Refusal::Invalid));
    }
    assert_eq!(journaled.run(command("dave", Action::DeleteUser)), Ok(Outcome::Deleted));
    assert_eq!(journaled.run(command("dave", Action::DeleteUser)), Err(Refusal::NotFound));
    assert_eq!((journaled.roster.services().len(), journaled.roster.users().len()), (1, 1));
}

#[test]
fn a_record_of_a_user_has_a_form_of_its_own() {
    let mut journaled = Journaled::new();
    let _ = journaled.run(put_user("dave", viewer(&["wallet:dave"]), Some("$argon2id$1")));
    let expected = concat!(
        r#"{"user":"dave","before":0,"after":"#,
        r#"{"password_hash":"$argon2id$1","rights":{"viewer":["wallet:dave"]}}}"#
    );
    assert_eq!(String::from_utf8_lossy(&journaled.records[0]), expected);
    let written = |journaled: &Journaled| String::from_utf8_lossy(&snapshot(&journaled.roster)).into_owned();
    let form = written(&journaled);
    assert!(form.contains(r#""services":{},"users":{"dave":{"changed":1,"user":{"#), "{form}");
    let _ = journaled.run(command("dave", Action::DeleteUser));
    assert!(!written(&journaled).contains("users"), "as it was written before there were users");
    assert!(!format!("{:?}", dave(&[])).contains("argon2"), "a hash belongs in no log");
}

#[test]
fn what_does_not_follow_is_refused_and_changes_nothing() {
    let mut journaled = Journaled::new();
    let _ = journaled.run(put("cam", &[], 1));
    let before = journaled.roster.clone();
    let service = || Some(Service { token_sha256: token(2), grants: Vec::new() });
    for (event, sequence) in [
        (changed("cam", 0, service()), 2),
        (changed("cam", 1, service()), 1),
        (changed("new", 1, service()), 2),
        (changed("new", 0, None), 2),
        (changed("", 0, service()), 2),
        (Event::User(UserChange { user: "cam".into(), before: 1, after: None }), 2),
        (Event::User(UserChange { user: "cam".into(), before: 1, after: Some(dave(&[])) }), 2),
        (Event::User(UserChange { user: "dave".into(), before: 0, after: Some(dave(&["x"; 65])) }), 2),
    ] {
        assert_eq!(journaled.roster.apply_checked(&event, place(sequence)), Err(Mismatch(event)));
        assert_eq!(journaled.roster, before);
    }
    let foreign = snapshot(&before);
    let later = String::from_utf8(foreign).expect("JSON").replace("\"changed\":1", "\"changed\":2");
    assert!(Roster::read_snapshot(later.as_bytes()).is_err(), "a change that was not folded in");
}
