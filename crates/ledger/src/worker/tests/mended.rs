//! Balances at times around a clock that was wrong until an operator mended it.

use tidegate_machines::ledger::{HistoryRow, Ledger};
use tidegate_planted::{Bug, plant};

use super::audits::{Auditor, read_all, varint, with_mends, with_snapshot};
use super::*;
use crate::limits::PAGE_ROWS_MAX;
use crate::mend::mend_time;
use crate::message::{AuditState, BalanceAt};

const HOUR: u64 = 3_600_000;
const YEARS: u64 = 10 * 365 * 24 * HOUR;

/// A node whose clock the test sets.
struct Show {
    node: TestWorker,
    shards: u16,
    moves: usize,
}

impl Show {
    fn new(shards: u16) -> Show {
        let mut show = Show { node: TestWorker::open(shards), shards, moves: 0 };
        show.node.now = TimeMs(HOUR / 2);
        for (id, kind) in [
            ("source", AccountKind::Source),
            ("wallet", AccountKind::Wallet),
            ("other", AccountKind::Wallet),
            ("candidate", AccountKind::Collector),
        ] {
            show.node.ask(open(id, kind));
        }
        show
    }

    /// One credit from `debit` to `credit`, by a clock that says `time`.
    fn pay(&mut self, time: u64, debit: &str, credit: &str) {
        self.node.now = TimeMs(time);
        self.moves += 1;
        let moved = (format!("move-{}", self.moves), debit.to_owned(), credit.to_owned());
        assert_eq!(self.node.ask(transfers(&[moved])), Reply::Outcomes(vec![Outcome::Applied]));
        // Credits to other shards arrive.
        self.node.begin(Vec::new(), &mut Finished::new());
    }

    fn sell(&mut self, times: &[u64]) {
        times.iter().for_each(|time| self.pay(*time, "source", "wallet"));
    }

    fn stop(&mut self) -> FakeDisk {
        let node = std::mem::replace(&mut self.node, TestWorker::open(1));
        node.worker.into_logs().into_iter().for_each(|log| _ = log.close().expect("the disk works"));
        node.disk
    }

    /// The operator stops the server, mends the time, and starts it.
    fn mend(&mut self, to: u64) {
        let disk = self.stop();
        for shard in 0..self.shards {
            let at = (TimeMs(to), TimeMs(to));
            let mended = mend_time(
                &logs(&disk),
                snapshots(&disk, shard),
                self.shards,
                Options::default(),
                at,
                "the clock was wrong",
            );
            assert_eq!(mended.expect("the log is whole").time, TimeMs(to));
        }
        self.node = TestWorker::over(disk, self.shards);
        self.node.now = TimeMs(to);
    }

    /// What is answered of `id` at a time, over as many pages as it takes, and how many that were.
    fn ask_at(&mut self, id: &str, at: u64) -> (BalanceAt, usize) {
        let (mut before, mut pages) = (None, 0);
        loop {
            pages += 1;
            let request = Request::ReadBalanceAt { id: id.into(), at: TimeMs(at), before };
            match self.node.ask(request) {
                Reply::BalanceAt { found: BalanceAt::Further { next }, .. } => before = Some(next),
                Reply::BalanceAt { found, .. } => return (found, pages),
                other => panic!("{other:?}"),
            }
            assert!(pages < 100, "each page gets further");
        }
    }

    /// The balance at a time, or from when to when nobody can tell.
    fn at(&mut self, id: &str, at: u64) -> Result<i64, (u64, u64)> {
        match self.ask_at(id, at).0 {
            BalanceAt::Known { last, .. } => Ok(last.map_or(0, |row| row.balance_after)),
            BalanceAt::Untold { mend, until } => Err((until.map_or(0, |until| until.0), mend.to.0)),
            further => panic!("{further:?}"),
        }
    }

    fn all_at(&mut self, id: &str, times: &[u64]) -> Vec<Result<i64, (u64, u64)>> {
        times.iter().map(|time| self.at(id, *time)).collect()
    }
}

#[test]
fn an_account_that_was_moved_last_while_the_clock_was_wrong_has_those_moves_from_the_mend_on() {
    for shards in [1, 2] {
        let mut show = Show::new(shards);
        show.sell(&[HOUR, HOUR + YEARS, HOUR + YEARS + 1]);
        show.mend(2 * HOUR);
        show.pay(2 * HOUR + 5, "source", "other");
        let untold = Err((HOUR, 2 * HOUR));
        let times = [HOUR - 1, HOUR, HOUR + 1, 2 * HOUR - 1, 2 * HOUR, 2 * HOUR + 5, HOUR + YEARS, 2 * YEARS];
        let expected = [Ok(0), Ok(1), untold, untold, Ok(3), Ok(3), Ok(3), Ok(3)];
        assert_eq!(show.all_at("wallet", &times), expected, "{shards} shards");
        // Of which time the answer is known by is not when the wrong clock said.
        let (BalanceAt::Known { last: Some(last), written_by, .. }, _) = show.ask_at("wallet", 3 * HOUR) else {
            panic!("it is known")
        };
        assert_eq!((last.time_ms, written_by), (HOUR + YEARS + 1, TimeMs(2 * HOUR)));
        assert_eq!(show.at("other", 2 * HOUR + 4), Ok(0));
    }
}

#[test]
fn an_account_that_has_rows_of_the_wrong_clock_only_is_known_from_the_mend_on() {
    let mut show = Show::new(1);
    show.sell(&[YEARS, YEARS + 1]);
    show.mend(2 * HOUR);
    let untold = Err((0, 2 * HOUR));
    assert_eq!(show.all_at("wallet", &[1, HOUR, 2 * HOUR - 1, 2 * HOUR]), [untold, untold, untold, Ok(2)]);
}

#[test]
fn a_right_row_behind_the_time_shows_that_what_followed_it_is_later() {
    let mut show = Show::new(1);
    show.sell(&[HOUR, 3 * HOUR, YEARS, YEARS + 1]);
    show.mend(4 * HOUR);
    let untold = Err((3 * HOUR, 4 * HOUR));
    let times = [2 * HOUR, 3 * HOUR - 1, 3 * HOUR, 3 * HOUR + 1, 4 * HOUR];
    assert_eq!(show.all_at("wallet", &times), [Ok(1), Ok(1), Ok(2), untold, Ok(4)]);
}

#[test]
fn what_a_mend_forward_is_behind_of_says_when_it_was() {
    let mut show = Show::new(1);
    show.sell(&[HOUR, HOUR + 5]);
    show.mend(2 * HOUR);
    show.sell(&[2 * HOUR + 5]);
    let times = [HOUR, HOUR + 5, 2 * HOUR - 1, 2 * HOUR + 4, 2 * HOUR + 5];
    assert_eq!(show.all_at("wallet", &times), [Ok(1), Ok(2), Ok(2), Ok(2), Ok(3)]);
}

#[test]
fn of_several_mends_each_says_of_its_own_rows_when_they_were() {
    let mut show = Show::new(1);
    show.sell(&[HOUR, YEARS]);
    show.mend(2 * HOUR);
    show.sell(&[2 * HOUR + 5, 5 * YEARS]);
    // Once by mistake, and then right.
    show.mend(4 * YEARS);
    show.sell(&[4 * YEARS + 5]);
    show.mend(4 * HOUR);
    show.sell(&[4 * HOUR + 5]);
    let (first, second) = (Err((HOUR, 2 * HOUR)), Err((2 * HOUR + 5, 4 * HOUR)));
    let times = [HOUR, HOUR + 1, 2 * HOUR, 2 * HOUR + 5, 2 * HOUR + 6, 4 * HOUR - 1, 4 * HOUR, 4 * HOUR + 5];
    assert_eq!(show.all_at("wallet", &times), [Ok(1), first, Ok(2), Ok(3), second, second, Ok(5), Ok(6)]);
}

#[test]
fn of_a_collector_each_part_goes_by_the_mends_of_its_own_shard() {
    let (mut node, sources) = collector_of_two_shards("votes");
    node.begin(Vec::new(), &mut Finished::new());
    let mut show = Show { node, shards: 2, moves: 0 };
    let [one, two] = &sources;
    show.pay(HOUR, one, "votes");
    show.pay(HOUR + 10, two, "votes");
    show.pay(YEARS, two, "votes");
    show.pay(YEARS + 1, two, "votes");
    show.mend(2 * HOUR);
    show.pay(2 * HOUR + 5, one, "votes");
    let untold = Err((HOUR + 10, 2 * HOUR));
    let times = [HOUR, HOUR + 10, HOUR + 11, 2 * HOUR, 2 * HOUR + 4, 2 * HOUR + 5];
    assert_eq!(show.all_at("votes", &times), [Ok(1), Ok(2), untold, Ok(4), Ok(4), Ok(5)]);
}

#[test]
fn what_was_held_then_is_known_as_well() {
    let mut show = Show::new(1);
    show.sell(&[HOUR, HOUR + 1, HOUR + 2, HOUR + 3]);
    let hold = |id: &str, amount| HoldRequest {
        id: id.into(),
        debit: "wallet".into(),
        credit: "candidate".into(),
        amount,
        expires_in_ms: 2 * YEARS,
        memo: "".into(),
        code: 0,
        user_data: "".into(),
        open_holds_max: 9,
    };
    let place = |show: &mut Show, time, id: &str, amount| {
        show.node.now = TimeMs(time);
        let placed = show.node.ask(Request::PlaceHolds(vec![hold(id, amount)]));
        assert_eq!(placed, Reply::Outcomes(vec![Outcome::Applied]));
    };
    place(&mut show, HOUR + 10, "right", 1);
    place(&mut show, YEARS, "wrong", 2);
    show.mend(2 * HOUR);
    show.node.now = TimeMs(2 * HOUR + 5);
    assert_eq!(show.node.ask(Request::VoidHolds(vec!["right".into()])), Reply::Outcomes(vec![Outcome::Applied]));
    let held = |show: &mut Show, at| match show.ask_at("wallet", at).0 {
        BalanceAt::Known { held, .. } => held,
        _ => None,
    };
    let times = [HOUR + 3, HOUR + 10, HOUR + 11, 2 * HOUR, 2 * HOUR + 4, 2 * HOUR + 5];
    let expected = [Some(0), Some(1), None, Some(3), Some(3), Some(2)];
    assert_eq!(times.map(|at| held(&mut show, at)), expected);
}

/// More rows of the wrong clock than a page has.
#[test]
fn many_rows_of_a_wrong_clock_take_several_pages_and_none_is_forgotten_between_them() {
    let rows = 2 * PAGE_ROWS_MAX as usize + 300;
    let mut show = Show::new(1);
    show.sell(&[HOUR, 2 * HOUR]);
    show.node.now = TimeMs(YEARS);
    let sales: Vec<_> = (0..rows).map(|n| (format!("sale-{n}"), "source".into(), "wallet".into())).collect();
    assert_eq!(show.node.ask(transfers(&sales)), Reply::Outcomes(vec![Outcome::Applied; rows]));
    show.mend(3 * HOUR);
    show.sell(&[3 * HOUR + 5]);
    for (at, expected, pages) in [
        (4 * HOUR, Ok(rows as i64 + 3), 1),
        (3 * HOUR, Ok(rows as i64 + 2), 1),
        (3 * HOUR - 1, Err((2 * HOUR, 3 * HOUR)), 4),
        (2 * HOUR, Ok(2), 4),
        (HOUR + 1, Ok(1), 4),
        (HOUR - 1, Ok(0), 4),
    ] {
        let (found, took) = show.ask_at("wallet", at);
        assert_eq!((show.at("wallet", at), took), (expected, pages), "at {at}: {found:?}");
    }
}

#[test]
fn a_span_has_the_rows_of_a_wrong_clock_where_it_was_mended() {
    let mut show = Show::new(1);
    show.sell(&[HOUR, YEARS, YEARS + 1]);
    show.mend(2 * HOUR);
    show.sell(&[4 * HOUR]);
    let mut span = |from: u64, to: u64| {
        let times = TimeSpan::new(Some(from), Some(to)).expect("a span");
        let read = Request::ReadHistory { id: "wallet".into(), before: None, limit: 10, times };
        let Reply::History { rows, .. } = show.node.ask(read) else { panic!("it is open") };
        rows.iter().map(|row: &HistoryRow| row.balance_after).collect::<Vec<_>>()
    };
    assert_eq!(span(0, 2 * HOUR - 1), [1]);
    assert_eq!(span(2 * HOUR, 4 * HOUR - 1), [3, 2]);
    assert_eq!(span(4 * HOUR, 2 * YEARS), [4]);
}

/// A number of chance (xorshift64*).
fn below(state: &mut u64, bound: u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
}

/// Clocks that are right, or years ahead: what they say is never a time that has come.
#[test]
fn whatever_clocks_did_a_balance_that_is_given_is_that_of_then() {
    let (mut told, mut untold) = (0, 0);
    for seed in 1..=6u64 {
        let mut chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut show = Show::new(1 + (seed % 2) as u16);
        let mut now = HOUR;
        // When in truth each account had been given how many credits.
        let mut given: Vec<(u64, &str)> = Vec::new();
        for _ in 0..1 + below(&mut chance, 4) {
            for ahead in [0, YEARS * (1 + below(&mut chance, 3))] {
                for _ in 0..below(&mut chance, 4) {
                    now += 1 + below(&mut chance, 1_000);
                    let to = ["wallet", "other", "candidate"][below(&mut chance, 3) as usize];
                    show.pay(now + ahead, "source", to);
                    given.push((now, to));
                }
            }
            now += 1 + below(&mut chance, 1_000);
            show.mend(now);
        }
        for _ in 0..30 {
            let at = HOUR + below(&mut chance, now - HOUR + 500);
            for id in ["wallet", "other", "candidate"] {
                let truth = given.iter().filter(|(time, to)| *time <= at && *to == id).count() as i64;
                match show.at(id, at) {
                    Ok(balance) => {
                        assert_eq!(balance, truth, "seed {seed}: {id} at {at}");
                        told += 1;
                    }
                    Err((until, from)) => {
                        assert!(until < at && at < from, "seed {seed}: {id} at {at} is not between {until} and {from}");
                        let next = show.at(id, from).unwrap_or(i64::MIN);
                        assert!(next == i64::MIN || next >= truth, "seed {seed}: {id} from {from}");
                        assert!(until == 0 || show.at(id, until).is_ok(), "seed {seed}: {id} until {until}");
                        untold += 1;
                    }
                }
            }
        }
    }
    assert!(told > untold && untold > 50, "{told} told, {untold} not");
}

#[test]
fn the_auditor_compares_where_the_time_was_mended() {
    let mut show = Show::new(1);
    show.sell(&[YEARS]);
    show.mend(2 * HOUR);
    show.sell(&[2 * HOUR + 5]);
    let mut auditor: Auditor = show.node.auditor(0);
    assert_eq!(show.node.audit(&mut auditor, |_| {}).state(), AuditState::Agreed);
    let report = show.node.audit(&mut auditor, |answer| with_mends(answer, |mends| *mends = Default::default()));
    assert_eq!(report.state(), AuditState::Differs);
    let [found] = &report.differences[..] else { panic!("{:?}", report.differences) };
    let (live, journal) = found.texts.as_ref().expect("both in words");
    assert_eq!((found.figure, &**live), ("mends", "0 forgotten, "));
    assert!(journal.contains(&format!("{YEARS} to {}", 2 * HOUR)), "{journal}");
}

#[test]
fn a_live_state_that_loses_a_mend_is_found_by_the_auditor() {
    let mut show = Show::new(1);
    show.sell(&[HOUR, YEARS]);
    show.mend(2 * HOUR);
    let mut auditor: Auditor = show.node.auditor(0);
    plant(Some(Bug::LiveMendLost));
    show.sell(&[2 * HOUR + 5]);
    plant(None);
    assert_eq!(show.at("wallet", 2 * HOUR), Ok(1), "what it does to answers");
    let report = show.node.audit(&mut auditor, |_| {});
    assert_eq!(report.state(), AuditState::Differs);
    assert_eq!(report.differences.iter().map(|of| of.figure).collect::<Vec<_>>(), ["mends"]);
}

/// A snapshot that says nothing of a mend, as one of an earlier version would if it were read.
#[test]
fn a_snapshot_without_a_mend_is_found_by_the_fold_from_the_first_record() {
    for is_forged in [false, true] {
        let mut show = Show::new(1);
        show.sell(&[HOUR, YEARS]);
        show.mend(2 * HOUR);
        let disk = show.stop();
        let forge = |ledger: Ledger| if is_forged { without_mends(&ledger) } else { ledger };
        let mut node = TestWorker::over(with_snapshot(disk, forge), 1);
        assert!(node.replayed.snapshot_sequence > 0, "it began from the snapshot");
        let mut auditor = node.auditor(0);
        let mut scrub = auditor.scrub(Default::default()).expect("the disk works");
        read_all(&mut auditor, &mut scrub);
        let report = node.audit(&mut auditor, |_| {});
        let expected: &[&str] = if is_forged { &["mends"] } else { &[] };
        assert_eq!(report.differences.iter().map(|of| of.figure).collect::<Vec<_>>(), expected);
        show.node = node;
        assert_eq!(show.at("wallet", 2 * HOUR), Ok(if is_forged { 1 } else { 2 }));
    }
}

fn without_mends(ledger: &Ledger) -> Ledger {
    let [mend] = ledger.mends().kept() else { panic!("{:?}", ledger.mends()) };
    let figures = [0, 1, mend.position.0, mend.sequence.0, mend.was.0, mend.to.0];
    let list: Vec<u8> = figures.into_iter().flat_map(|figure| varint(figure.into())).collect();
    let mut body = Vec::new();
    ledger.write_snapshot(&mut |part| body.extend_from_slice(part));
    let rest = body.strip_suffix(&list[..]).expect("the list is the end");
    Ledger::decode_snapshot(&[rest, &[0, 0]].concat()).expect("it breaks no rule")
}
