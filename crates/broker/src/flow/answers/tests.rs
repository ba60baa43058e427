use super::*;

fn answer(packet_id: u16, remaining: u16) -> Answer {
    let outstanding = Outstanding::new(remaining, ReasonCode::SUCCESS);
    Answer { packet_id, kind: AckKind::PubAck, outstanding, mute: false, is_counted: true, arrived_ns: 0 }
}

#[test]
fn answers_leave_in_order_and_only_when_all_have_spoken() {
    let mut answers = Answers::default();
    answers.push(answer(1, 2));
    answers.push(answer(2, 1));
    answers.push(answer(3, 0));
    assert!(!answers.take_ack(1, Word::Durable));
    assert!(!answers.take_ack(0, Word::Refused(ReasonCode::QUOTA_EXCEEDED)));
    assert_eq!(answers.take(), None);
    assert!(answers.take_ack(0, Word::Durable));
    let taken: Vec<_> =
        std::iter::from_fn(|| answers.take()).map(|answer| (answer.packet_id, answer.outstanding.reason())).collect();
    let expected = [(1, ReasonCode::QUOTA_EXCEEDED), (2, ReasonCode::SUCCESS), (3, ReasonCode::SUCCESS)];
    assert_eq!(taken, expected);
    assert_eq!((answers.next_serial(), answers.is_empty()), (3, true));
    assert!(!answers.take_ack(1, Word::Durable), "too late, and about nothing that is here");
}

#[test]
fn answers_are_kept_to_themselves_until_somebody_asks_again() {
    let mut answers = Answers::default();
    answers.push(answer(7, 0));
    answers.push(answer(8, 0));
    assert_eq!(answers.counted(), 2);
    answers.mute();
    answers.unmute(1);
    assert_eq!(answers.counted(), 0, "another connection begins with nothing");
    assert_eq!(
        [answers.take(), answers.take()].map(|answer| answer.map(|answer| answer.mute)),
        [Some(true), Some(false)]
    );
}
