use super::*;

const WILL: MessageName = (3, 0);

fn at(ms: u64) -> Now {
    Now { since_boot_ms: ms, aged_ms: ms }
}

/// A will with this delay, of a client that was told CONNACK at 1,000 ms.
fn standing(delay_s: u64, is_durable: bool) -> Wills {
    let mut wills = Wills::default();
    wills.left(WILL, delay_s, is_durable);
    wills.connected(WILL.0, false, at(1_000));
    wills
}

fn is_forbidden(wills: &Wills, now: Now) -> bool {
    wills.heard(WILL, now).is_err()
}

#[test]
fn a_will_without_delay_is_owed_when_its_connection_is_cut_or_its_process_ends() {
    for parting in [Parting::Cut { is_heard: false }, Parting::SentAway, Parting::ProcessEnded] {
        let mut wills = standing(0, true);
        assert!(is_forbidden(&wills, at(1_500)), "its client is connected");
        assert_eq!(wills.gone(WILL.0, parting, at(2_000)), Some(WILL));
        wills.process_ended(at(2_000));
        assert!(wills.is_owed(WILL) && !is_forbidden(&wills, at(2_000)), "{parting:?}");
    }
}

#[test]
fn a_connect_waits_for_a_will_that_is_owed_but_not_for_ever() {
    let owed = || {
        let mut wills = standing(0, true);
        wills.gone(WILL.0, Parting::SentAway, at(2_000));
        wills.connecting(WILL.0, false, at(2_100));
        wills
    };
    let mut waits = owed();
    waits.process_ended(at(2_900));
    assert!(waits.is_owed(WILL), "it waits yet");
    waits.connecting(WILL.0, false, at(3_000));
    waits.connecting(WILL.0, false, at(3_500));
    waits.process_ended(at(3_900));
    assert!(!waits.is_owed(WILL), "the first may have waited for as long as it may");
    let mut answered = owed();
    answered.connected(WILL.0, true, at(2_900));
    answered.connecting(WILL.0, true, at(60_000));
    answered.process_ended(at(99_000));
    assert!(answered.is_owed(WILL), "all have it");
    let mut outwaited = owed();
    outwaited.connected(WILL.0, true, at(3_100));
    assert!(outwaited.is_owed(WILL), "the process has it");
    outwaited.process_ended(at(3_200));
    assert!(!outwaited.is_owed(WILL) && !is_forbidden(&outwaited, at(3_200)));
}

#[test]
fn a_good_bye_takes_a_will_back_once_it_is_durable() {
    let mut wills = standing(0, true);
    assert_eq!(wills.gone(WILL.0, Parting::Said, at(2_000)), None);
    assert!(is_forbidden(&wills, at(9_000)));
    let mut lost = standing(0, true);
    lost.gone(WILL.0, Parting::Said, at(2_000));
    lost.process_ended(at(2_000));
    assert!(!is_forbidden(&lost, at(9_000)) && !lost.is_owed(WILL), "nobody knows");
    wills.all_is_durable();
    wills.process_ended(at(2_100));
    assert!(is_forbidden(&wills, at(9_000)));
}

#[test]
fn who_comes_back_before_the_delay_has_passed_takes_the_will_back() {
    let mut wills = standing(2, true);
    wills.gone(WILL.0, Parting::Cut { is_heard: true }, at(2_000));
    assert!(is_forbidden(&wills, at(3_900)), "too early");
    wills.connecting(WILL.0, false, at(3_900));
    wills.connected(WILL.0, true, at(3_950));
    wills.process_ended(at(4_000));
    assert!(is_forbidden(&wills, at(9_000)));
}

#[test]
fn who_stays_away_for_longer_than_the_delay_is_told_of() {
    let mut wills = standing(2, true);
    wills.gone(WILL.0, Parting::Cut { is_heard: true }, at(2_000));
    wills.connecting(WILL.0, false, at(4_100));
    assert!(!wills.is_owed(WILL), "the server's clock may be slower");
    wills.connecting(WILL.0, false, at(4_300));
    assert!(wills.is_owed(WILL));
}

#[test]
fn a_delay_begins_again_with_the_process_that_knows_of_it() {
    let mut wills = standing(2, true);
    wills.gone(WILL.0, Parting::Cut { is_heard: true }, at(2_000));
    wills.process_ended(at(2_100));
    wills.connecting(WILL.0, false, at(60_000));
    assert!(!wills.is_owed(WILL), "no process was there");
    wills.process_serves(at(60_000));
    wills.connecting(WILL.0, false, at(62_300));
    assert!(wills.is_owed(WILL));
}

#[test]
fn a_clean_start_ends_the_delay_and_waits_for_what_it_sends() {
    for (answered_at, is_kept) in [(2_100, true), (3_500, false)] {
        let mut wills = standing(2, true);
        wills.gone(WILL.0, Parting::SentAway, at(2_000));
        wills.connecting(WILL.0, true, at(2_050));
        assert!(!is_forbidden(&wills, at(2_060)), "it may be sent before CONNACK");
        wills.connected(WILL.0, false, at(answered_at));
        assert!(wills.is_owed(WILL));
        wills.process_ended(at(4_000));
        assert_eq!(wills.is_owed(WILL), is_kept, "answered at {answered_at}");
        assert!(!is_forbidden(&wills, at(4_100)));
    }
}

#[test]
fn a_connect_that_is_not_answered_leaves_both_wills_open() {
    let mut wills = standing(2, true);
    wills.gone(WILL.0, Parting::Cut { is_heard: true }, at(2_000));
    wills.left((WILL.0, 1), 0, true);
    wills.gone(WILL.0, Parting::Cut { is_heard: true }, at(2_100));
    for name in [WILL, (WILL.0, 1)] {
        assert!(!wills.is_owed(name) && wills.heard(name, at(9_000)).is_ok(), "{name:?}");
    }
}

#[test]
fn a_session_that_ends_with_its_connection_owes_its_will_while_the_process_lives() {
    let mut wills = standing(0, false);
    wills.gone(WILL.0, Parting::Cut { is_heard: true }, at(2_000));
    assert!(wills.is_owed(WILL));
    wills.process_ended(at(2_000));
    assert!(!wills.is_owed(WILL));
}
