//! The audits of two shards, round by round: what is asked, kept, written and told, and what health says.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tidegate_journal::disk::BLOCK_BYTES;
use tidegate_machines::ledger::{AccountKind, PeerFigures};
use tidegate_runtime::damage::Met;
use tidegate_shard::Snapshots;

use super::super::Exchanges;
use super::super::tests::{Between, How, Parcel, TestNode, folder, id_of, wait_for};
use super::super::told::told;
use super::*;
use crate::auditor::tests::difference;
use crate::message::Conservation;

fn never() -> bool {
    false
}

/// A node whose audits the test makes.
struct Audits {
    node: TestNode,
    audits: AuditLoop<Parcel>,
    between: Between,
}

/// Five sales of shard 0 to a wallet of shard 1, and a hold.
const SALES: usize = 5;

impl Audits {
    fn start(data: &Path) -> Audits {
        let (node, mut audits, between) = TestNode::stepped(data, 2);
        audits.open_all(&never);
        Audits { node, audits, between }
    }

    /// With accounts on both shards, sales between them that have arrived, and a hold.
    fn show(data: &Path) -> Audits {
        let mut show = Audits::start(data);
        let (source, wallet, near) = (id_of(0, "source"), id_of(1, "wallet"), id_of(0, "near"));
        show.node.open(&source, AccountKind::Source);
        show.node.open(&wallet, AccountKind::Wallet);
        show.node.open(&near, AccountKind::Wallet);
        show.sell("sale", SALES);
        show.node.hold(&id_of(0, "hold"), &source, &near);
        show
    }

    /// So many sales more, which arrive.
    fn sell(&mut self, name: &str, count: usize) {
        let (source, wallet) = (id_of(0, "source"), id_of(1, "wallet"));
        let goal = self.node.balance(&wallet) + count as i64;
        let ids: Vec<_> = (0..count).map(|number| id_of(0, &format!("{name}-{number}"))).collect();
        self.node.sell(&ids, &source, &wallet);
        wait_for(|| (self.node.balance(&wallet) == goal).then_some(()));
    }

    /// A round; what shards were given to keep.
    fn round(&mut self, snapshot_due: bool) -> Vec<AuditReport> {
        self.between.heard();
        self.audits.audit_all(snapshot_due, &never);
        self.between.kept()
    }

    /// The shards whose ids were covered in a round with snapshots, because one was written.
    fn covered_in_a_round(&mut self) -> Vec<u16> {
        self.between.heard();
        self.audits.audit_all(true, &never);
        let heard = self.between.heard().into_iter();
        heard.filter(|(_, call)| matches!(call, Operation::CoverIds)).map(|(shard, _)| shard.0).collect()
    }

    fn states(&self) -> Vec<AuditState> {
        self.audits.shards.iter().map(|shard| shard.report.state()).collect()
    }

    /// Shards that differ and that cannot be read, as health has them.
    fn health(&self) -> (u32, u32) {
        (self.node.status().differing_shards(), self.node.status().unread_shards())
    }

    fn stop(self) {
        let Audits { node, audits, between } = self;
        drop((audits, between));
        node.stop();
    }

    /// No shard was told for long, or all were just now, whatever the clock says.
    fn told_long_ago(&mut self, is_so: bool) {
        let told = match is_so {
            true => Instant::now().checked_sub(2 * TELL).expect("this system runs for longer than two seconds"),
            false => Instant::now() + 3_600 * TELL,
        };
        self.audits.shards.iter_mut().for_each(|shard| shard.told = told);
    }

    /// Reads again once; the shard whose turn it is then, and what was kept meanwhile.
    fn read_again(&mut self) -> (usize, Vec<AuditReport>) {
        self.between.heard();
        self.audits.read_again(&never);
        (self.audits.turn, self.between.kept())
    }
}

#[test]
fn auditors_are_opened_in_the_order_of_their_shards_unless_the_process_stops() {
    let folder = folder();
    let (node, mut audits, between) = TestNode::stepped(folder.path(), 2);
    audits.open_all(&|| true);
    assert_eq!((audits.shards.len(), audits.unopened.len()), (0, 2));
    let lines = told(|| audits.open_all(&never));
    assert!(lines.len() == 2 && lines[1].contains("begins behind") && lines[1].contains("shard=1"), "{lines:?}");
    let shards = audits.shards.iter().map(|shard| (shard.auditor.shard().0, shard.report.shard)).collect::<Vec<_>>();
    assert_eq!((shards, audits.unopened.len()), (vec![(0, 0), (1, 1)], 0));
    drop((audits, between));
    node.stop();
}

#[test]
fn a_round_compares_all_adds_up_the_money_and_writes_snapshots_when_they_are_due() {
    let folder = folder();
    let mut show = Audits::show(folder.path());
    let kept = show.round(false);
    let [first, second] = &kept[..] else { panic!("each shard keeps its report: {kept:?}") };
    assert_eq!([first.state(), second.state()], [AuditState::Agreed; 2]);
    assert_eq!((first.accounts_compared, first.holds_compared, second.accounts_compared), (2, 1, 1));
    let credit = Conservation { asset: "credit".into(), sum: 0, in_transit: 0 };
    assert_eq!((&first.conservation[..], &second.conservation[..]), (&[credit.clone()][..], &[credit][..]));
    assert_eq!((show.health(), show.node.reports()), ((0, 0), kept));

    assert_eq!(show.covered_in_a_round(), [0, 1], "both have one, and covered their ids");
    assert_eq!(show.covered_in_a_round(), [] as [u16; 0], "nothing is new");
    show.sell("more", 1);
    let heard = {
        show.round(false);
        show.between.heard()
    };
    assert!(heard.is_empty(), "{heard:?}");
    for log in show.audits.shards.iter().map(|shard| shard.auditor.log()) {
        let snapshots: Snapshots<LedgerFamily, RealDisk> = Snapshots::new(RealDisk, folder.path(), log);
        let newest = snapshots.with_key(show.audits.key.as_ref()).newest_header(Default::default());
        assert!(newest.is_ok(), "{newest:?}");
    }
    assert_eq!(show.node.status().failing_snapshots(), 0);
    show.stop();
}

/// A live balance of the wallet that is one too many.
fn drift(answer: Answer) -> Answer {
    let Answer::Figures { sequence, mut figures, more } = answer else { return answer };
    figures.iter_mut().filter(|of| of.id.starts_with("wallet")).for_each(|of| of.balance += 1);
    Answer::Figures { sequence, figures, more }
}

#[test]
fn a_shard_that_differs_is_told_shown_and_gets_no_snapshot() {
    let folder = folder();
    let mut show = Audits::show(folder.path());
    show.between.play(|shard, _| if shard.0 == 1 { How::Change(drift) } else { How::Ask });
    let lines = told(|| assert_eq!(show.covered_in_a_round(), [0], "the other one has a snapshot"));
    let line = lines.iter().find(|line| line.contains("a live figure is not what the journal says"));
    let line = line.unwrap_or_else(|| panic!("{lines:?}"));
    let says = ["ERROR", "shard=1", "figure=\"balance\"", "live=\"6\"", "journal=\"5\"", "agreed_at_sequence=0"];
    assert!(says.iter().all(|word| line.contains(word)), "{line}");
    assert_eq!((show.states(), show.health()), (vec![AuditState::Agreed, AuditState::Differs], (1, 0)));
    assert_eq!(show.node.reports()[1].differences[0].live, 6);

    show.between.play(|_, _| How::Ask);
    assert_eq!(show.covered_in_a_round(), [1]);
    assert_eq!((show.states(), show.health()), (vec![AuditState::Agreed; 2], (0, 0)));
    show.stop();
}

#[test]
fn a_round_without_one_shard_adds_up_nothing_and_keeps_nobody_from_a_snapshot() {
    let folder = folder();
    let mut show = Audits::show(folder.path());
    for failing in [1, 0] {
        show.sell(&format!("before-{failing}"), 1);
        // It is written again, as soon as a snapshot of that shard is asked for.
        show.audits
            .shards
            .iter_mut()
            .for_each(|shard| shard.report = AuditReport { shard: shard.report.shard, ..AuditReport::default() });
        show.audits.shards[failing].watch.fails("there is no room".into());
        show.between.play(move |shard, _| if usize::from(shard.0) == failing { How::Fail } else { How::Ask });
        show.between.heard();
        show.audits.audit_all(true, &never);
        let heard = show.between.heard();
        let asked = |is: fn(&Operation) -> bool| {
            heard.iter().filter(|(_, call)| is(call)).map(|(shard, _)| shard.0).collect::<Vec<_>>()
        };
        let other = 1 - failing as u16;
        assert_eq!(asked(|call| matches!(call, Operation::ReadPeers)), [other], "within its own comparison");
        assert_eq!(asked(|call| matches!(call, Operation::CoverIds)), [other]);
        let mut states = [AuditState::NeverRun; 2];
        states[usize::from(other)] = AuditState::Agreed;
        assert_eq!(show.states(), states);
        assert_eq!(show.node.status().failing_snapshots(), 1, "none was tried for the shard that failed");
        show.between.play(|_, _| How::Ask);
        show.audits.audit_all(true, &never);
        assert_eq!((show.states(), show.node.status().failing_snapshots()), (vec![AuditState::Agreed; 2], 0));
        assert!(show.audits.shards.iter().all(|shard| shard.report.conservation.len() == 1));
    }
    show.stop();
}

/// A shard that says that it has sent one credit more.
fn sent_more(answer: Answer) -> Answer {
    let Answer::Peers { sequence, mut peers, assets, settings, mends, waits } = answer else { return answer };
    peers.iter_mut().for_each(more);
    Answer::Peers { sequence, peers, assets, settings, mends, waits }
}

fn more(peer: &mut PeerFigures) {
    peer.outbound.0 += 1;
}

#[test]
fn a_credit_that_does_not_arrive_is_told_of_the_shard_it_was_sent_to() {
    let folder = folder();
    let mut show = Audits::show(folder.path());
    // As if somebody had looked long ago, when that credit was on its way already.
    let live = [0, 1].map(|shard| match show.node.call(shard, Operation::ReadPeers) {
        Answer::Peers { mut peers, .. } => {
            peers.iter_mut().filter(|_| shard == 0).for_each(more);
            (peers, false)
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(show.audits.waiting.observe(&live, 1), []);
    // What is added up is asked behind what is compared.
    let mut peers_asked = 0;
    show.between.play(move |shard, call| {
        peers_asked += usize::from(shard.0 == 0 && matches!(call, Operation::ReadPeers));
        if shard.0 == 0 && peers_asked == 2 { How::Change(sent_more) } else { How::Ask }
    });
    let mut covered = Vec::new();
    let lines = told(|| covered = show.covered_in_a_round());
    assert_eq!(covered, [0, 1], "each shard is what its own log says");
    let told: Vec<_> = lines.iter().filter(|line| line.contains("did not arrive")).collect();
    let says = ["ERROR", "shard=1", "from=(shard 0)", "taken_in=\"5\"", "sent=\"6\""];
    assert!(told.len() == 1 && says.iter().all(|word| told[0].contains(word)), "{told:?}");
    assert_eq!((show.states(), show.health()), (vec![AuditState::Agreed, AuditState::Differs], (1, 0)));
    assert_eq!(show.node.reports()[1].differences[0].figure, "arrived");
    show.stop();
}

#[test]
fn folds_of_two_histories_whose_numbers_fit_are_told_apart_by_their_sums() {
    let (folder, of_another) = (folder(), super::super::tests::folder());
    let (mut show, mut other) = (Audits::show(folder.path()), Audits::show(of_another.path()));
    let (source, wallet) = (id_of(0, "source"), id_of(1, "wallet"));
    show.node.transfer("last", &source, &wallet, 3);
    other.node.transfer("last", &source, &wallet, 4);
    for (show, balance) in [(&mut show, 8), (&mut other, 9)] {
        wait_for(|| (show.node.balance(&wallet) == balance).then_some(()));
        show.round(false);
    }
    assert_eq!(show.audits.conserve(&never), []);
    std::mem::swap(&mut show.audits.shards[1].auditor, &mut other.audits.shards[1].auditor);
    let found = show.audits.conserve(&never);
    let [(ShardIndex(1), difference)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(difference.live_text(), "9 credit taken in up to credit 6");
    assert_eq!(difference.journal_text(), "8 credit sent");

    // A start that recovers the two says the same, and nothing of two that fit.
    let states = || show.audits.shards.iter().map(|shard| shard.auditor.folded());
    let note_all = |states: Vec<&tidegate_machines::ledger::Ledger>| {
        let exchanges = Exchanges::of(2);
        states.into_iter().try_for_each(|ledger| exchanges.note(ledger, "tidegate accept-loss"))
    };
    let refused = note_all(states().collect()).expect_err("they are of two histories").to_string();
    assert!(refused.contains("shard 0 has sent 8 credit to shard 1, which has taken in 9"), "{refused}");
    std::mem::swap(&mut show.audits.shards[1].auditor, &mut other.audits.shards[1].auditor);
    let fitting: Vec<_> = show.audits.shards.iter().map(|shard| shard.auditor.folded()).collect();
    assert!(note_all(fitting).is_ok());
    show.stop();
    other.stop();
}

#[test]
fn health_counts_shards_by_what_their_reports_come_to() {
    let folder = folder();
    let mut show = Audits::start(folder.path());
    assert!(!show.audits.met_damage());
    show.audits.shards[1].report.damage = Some("it cannot be read".into());
    show.audits.tell_status();
    assert_eq!((show.health(), show.audits.met_damage()), ((0, 1), true));
    show.audits.shards[0].report.differences = vec![difference("balance")];
    show.audits.tell_status();
    assert_eq!(show.health(), (1, 1));
    show.stop();
}

#[test]
fn logs_are_read_again_in_turn_and_a_shard_is_told_when_its_pass_ends() {
    let folder = folder();
    let mut show = Audits::show(folder.path());
    let turn = |show: &Audits| (show.audits.turn, show.audits.shards[show.audits.turn].reading);
    assert_eq!(turn(&show), (0, Reading::Log));
    // The log first, of which nothing is told; with its ids the pass is over.
    show.told_long_ago(false);
    assert_eq!(show.read_again(), (0, vec![]));
    assert!(matches!(turn(&show), (0, Reading::Runs(_))));
    show.told_long_ago(false);
    let (next, kept) = show.read_again();
    assert_eq!((next, kept.len(), kept[0].shard), (1, 1, 0));
    assert!(kept[0].scrub.last_full_at_ms > 0);
    // A shard that was told nothing for long is told how far it is.
    show.told_long_ago(true);
    let (next, kept) = show.read_again();
    assert_eq!((next, kept.len(), kept[0].shard), (1, 1, 1));
    assert!(show.audits.shards[1].told.elapsed() < 2 * TELL, "it was told");
    show.told_long_ago(false);
    let (next, kept) = show.read_again();
    assert_eq!((next, kept.len(), kept[0].shard), (0, 1, 1));
    assert_eq!(turn(&show), (0, Reading::Log));
    // None is due before long: each gives its turn away, and nothing is read.
    let before = show.audits.shards.iter().map(|shard| shard.scrubbed.scrub.facts()).collect::<Vec<_>>();
    show.told_long_ago(true);
    assert_eq!([show.read_again(), show.read_again(), show.read_again()], [(1, vec![]), (0, vec![]), (1, vec![])]);
    assert_eq!(show.audits.shards.iter().map(|shard| shard.scrubbed.scrub.facts()).collect::<Vec<_>>(), before);
    show.stop();
}

#[test]
fn behind_a_snapshot_the_fold_from_the_first_record_is_told_when_it_arrives() {
    let folder = folder();
    let mut show = Audits::show(folder.path());
    assert_eq!(show.covered_in_a_round(), [0, 1]);
    wait_for(|| (show.node.metric("tidegate_ids_runs", 0) == 1).then_some(()));
    let sequence = show.audits.shards[0].report.sequence;
    show.stop();

    let mut show = Audits::start(folder.path());
    let begun = show.audits.shards.iter().map(|shard| shard.auditor.begins_behind().0).collect::<Vec<_>>();
    assert_eq!((begun[0], show.audits.shards[0].auditor.rests_on_the_first_record()), (sequence, None));
    // One group after the other.
    let shard = &mut show.audits.shards[0];
    let (first, second) = (shard.read_again(1), shard.read_again(1));
    assert!(first.0 > 0 && second.0 > 0 && !first.1 && !second.1, "{first:?} {second:?}");
    let facts = shard.scrubbed.scrub.facts();
    assert_eq!((first.0 + second.0, shard.reading), (facts.bytes, Reading::Log));
    // Behind the last one all that is live is known to follow from the first record.
    show.told_long_ago(false);
    let (mut kept, mut lines) = (Vec::new(), Vec::new());
    while show.audits.shards[0].auditor.rests_on_the_first_record().is_none() {
        lines = told(|| kept = show.read_again().1);
    }
    let says = ["INFO", "the live state follows from the first record", "shard=0", &format!("sequence={sequence}")];
    let line = lines.iter().find(|line| line.contains(says[1])).unwrap_or_else(|| panic!("{lines:?}"));
    assert!(says.iter().all(|word| line.contains(word)), "{line}");
    assert_eq!((kept.len(), kept[0].first_fold.agreed_at_sequence), (1, sequence));
    // The runs of its ids, and then the next shard.
    let runs = wait_for(|| {
        let shard = &mut show.audits.shards[0];
        matches!(shard.reading, Reading::Runs(_)).then(|| shard.read_again(u64::MAX)).or_else(|| {
            shard.read_again(u64::MAX);
            None
        })
    });
    assert!(runs.0 > 0 && runs.1, "{runs:?}");
    show.stop();
}

#[test]
fn damage_that_is_sound_again_is_shown_by_its_shard_at_once() {
    let folder = folder();
    let mut show = Audits::show(folder.path());
    let Answer::DurableEnd { durable } = show.node.call(1, Operation::ReadDurableEnd) else { unreachable!() };
    let log = show.audits.shards[1].auditor.log();
    let met = Some(Met::Group(Cursor::START, durable));
    let file = ("segment-0".to_owned(), 64);
    show.node.status().damages().note_at(LEDGER.name, log, (&file.0, file.1), ("it rotted".into(), "all".into()), met);
    show.round(false);
    assert_eq!((show.states(), show.health()), (vec![AuditState::Agreed, AuditState::Damaged], (0, 1)));
    show.between.heard();
    show.audits.look_again(&never);
    let kept = show.between.kept();
    assert_eq!(kept.iter().map(|report| (report.shard, report.state())).collect::<Vec<_>>(), [(1, AuditState::Agreed)]);
    assert_eq!(show.health(), (0, 0));
    show.stop();
}

#[test]
fn rounds_are_made_and_logs_read_until_the_process_stops() {
    let folder = folder();
    let (node, mut audits, between) = TestNode::stepped(folder.path(), 2);
    audits.schedule.audit_interval = Some(Duration::ZERO);
    let kept = RefCell::new(Vec::new());
    audits.run(&|| {
        kept.borrow_mut().extend(between.kept());
        kept.borrow().len() >= 4
    });
    let rounds: Vec<u16> = kept.take().iter().map(|report| report.shard).collect();
    assert_eq!(rounds[..4], [0, 1, 0, 1]);
    drop(between);
    node.stop();

    let (node, audits, between) = TestNode::stepped(folder.path(), 2);
    audits.run(&|| {
        kept.borrow_mut().extend(between.kept());
        kept.borrow().iter().any(|report: &AuditReport| report.shard == 1)
    });
    let read = kept.take();
    assert!(read.iter().all(|report| report.finished_at_ms == 0 && report.scrub.last_full_at_ms > 0), "{read:?}");
    drop(between);
    node.stop();
}

#[test]
fn what_an_audit_tells_is_what_its_report_says() {
    let agreed = AuditReport { shard: 3, sequence: 9, finished_at_ms: 5, ..AuditReport::default() };
    let conserved = |sum, in_transit| Conservation { asset: "credit".into(), sum, in_transit };
    let errors = |report: &AuditReport| {
        let lines = told(|| tell(report)).into_iter();
        lines.filter(|line| line.starts_with("ERROR")).collect::<Vec<_>>()
    };
    let sound = AuditReport { conservation: vec![conserved(0, 0), conserved(0, 7)], ..agreed.clone() };
    assert_eq!(errors(&sound), [] as [&str; 0]);
    for (sum, in_transit) in [(1, 0), (-2, 5), (0, -1)] {
        let lines = errors(&AuditReport { conservation: vec![conserved(sum, in_transit)], ..agreed.clone() });
        let says = format!("asset=\"credit\" sum=\"{sum}\" in_transit=\"{in_transit}\"");
        assert!(lines.len() == 1 && lines[0].contains(&says), "{lines:?}");
    }
    let differing = AuditReport { differences: vec![difference("balance")], ..agreed };
    let first = |rests| told(|| tell_first_fold(&differing, rests));
    assert_eq!(first(None), [] as [&str; 0]);
    assert!(first(Some(true))[0].starts_with("INFO"));
    let false_one = first(Some(false));
    assert!(false_one[0].contains("is not what the journal says: stop, remove it, start again"), "{false_one:?}");
    assert!(false_one[1].contains("a live figure is not what the journal says"), "{false_one:?}");
}

/// The path of the only segment of a shard's log.
fn segment(data: &Path, shard: u16) -> PathBuf {
    let entries = std::fs::read_dir(data.join("journal").join(format!("{}-{shard}", LEDGER.name)));
    let mut paths = entries.expect("it has a log").map(|entry| entry.expect("it is read").path());
    let is_segment = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains("segment-"));
    paths.find(is_segment).expect("it has a segment")
}

#[test]
fn damage_that_stands_is_told_once_and_again_when_it_is_another() {
    let folder = folder();
    let mut show = Audits::show(folder.path());
    // The last block of a log is written again with each group and mark: damage there would not stand.
    show.sell("behind", 200);
    let segment = segment(folder.path(), 0);
    let bytes = std::fs::read(&segment).expect("it is read");
    let place = |text: &[u8]| bytes.windows(text.len()).position(|window| window == text).expect("it is durable");
    let at = place(b"sale-0");
    assert!(place(b"behind-199") - at > BLOCK_BYTES);
    let file = File::options().write(true).open(&segment).expect("it opens");
    // Of one byte it would follow what it was.
    file.write_all_at(b"SA", at as u64).expect("it is written");
    let damage = |show: &mut Audits| {
        let lines = told(|| drop(show.round(false))).into_iter();
        let lines: Vec<_> = lines.filter(|line| line.contains("the audit met damage in the journal")).collect();
        assert_eq!(show.health(), (0, 1), "{lines:?}");
        lines
    };
    let first = damage(&mut show);
    assert!(first.len() == 1 && first[0].starts_with("ERROR") && first[0].contains("shard=0"), "{first:?}");
    assert_eq!(damage(&mut show), [] as [&str; 0]);
    assert_eq!(damage(&mut show), [] as [&str; 0]);
    show.audits.shards[0].told_damage = Some("something else".into());
    assert_eq!(damage(&mut show), first);

    let mut told_damage = Some("it rotted".to_owned());
    let sound = AuditReport::default();
    assert_eq!(told(|| tell_damage(&sound, &mut told_damage)), [] as [&str; 0]);
    let damaged = AuditReport { damage: Some("it rotted".into()), ..sound };
    assert_eq!(told(|| tell_damage(&damaged, &mut told_damage)).len(), 1, "it was sound meanwhile");
    show.stop();
}
