use tidegate_machines::{RecordPosition, RecordSequence};

use super::*;

const NOW: TimeMs = TimeMs(0);

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
        match self.roster.decide(&command, 3, NOW) {
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
    for round in 0..20u8 {
        let name = ["a", "b", "c"][usize::from(round % 3)];
        let action = match round % 5 {
            3 => command(name, Action::Delete),
            4 => command(name, Action::Rotate { token: token(round) }),
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
fn what_does_not_follow_is_refused_and_changes_nothing() {
    let mut journaled = Journaled::new();
    let _ = journaled.run(put("cam", &[], 1));
    let before = journaled.roster.clone();
    let service = || Some(Service { token_sha256: token(2), grants: Vec::new() });
    for (event, sequence) in [
        (Event { name: "cam".into(), before: 0, after: service() }, 2),
        (Event { name: "cam".into(), before: 1, after: service() }, 1),
        (Event { name: "new".into(), before: 1, after: service() }, 2),
        (Event { name: "new".into(), before: 0, after: None }, 2),
        (Event { name: "".into(), before: 0, after: service() }, 2),
    ] {
        assert_eq!(journaled.roster.apply_checked(&event, place(sequence)), Err(Mismatch(event)));
        assert_eq!(journaled.roster, before);
    }
    let foreign = snapshot(&before);
    let later = String::from_utf8(foreign).expect("JSON").replace("\"changed\":1", "\"changed\":2");
    assert!(Roster::read_snapshot(later.as_bytes()).is_err(), "a change that was not folded in");
}
