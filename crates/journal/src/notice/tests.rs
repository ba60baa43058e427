use super::*;

fn notice() -> Notice {
    let lost = Some(Lost { from: Sequence(896_014), to: Some(Sequence(900_013)) });
    Notice { kind: NoticeKind::LossAccepted, time_ms: 1_760_000_000_000, lost, text: "disk 2 was replaced".into() }
}

#[test]
fn a_notice_is_read_as_it_was_written() {
    let kinds = [NoticeKind::LossAccepted, NoticeKind::Restored];
    let losses =
        [None, Some(Lost { from: Sequence(7), to: None }), Some(Lost { from: Sequence(7), to: Some(Sequence(7)) })];
    for kind in kinds {
        for lost in losses {
            for text in ["", "\u{fc}ber Nacht", &"x".repeat(NOTICE_TEXT_BYTES_MAX)] {
                let notice = Notice { kind, lost, text: text.into(), ..notice() };
                assert_eq!(Notice::decode(&notice.encode()), Some(notice));
            }
        }
    }
    assert_eq!(
        notice().to_string(),
        "loss accepted at 1760000000000 ms, without records 896014 to 900013: disk 2 was replaced"
    );
}

#[test]
fn what_is_no_notice_is_refused() {
    let good = notice().encode();
    for cut in 0..good.len() {
        assert_eq!(Notice::decode(&good[..cut]), None, "cut to {cut} bytes");
    }
    assert_eq!(Notice::decode(&[good.clone(), vec![0]].concat()), None, "a byte too many");
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Notice::decode(&bytes)
    };
    assert_eq!(with(0, 2), None, "another version");
    assert_eq!(with(1, 0), None, "no kind");
    assert_eq!(with(1, 3), None, "a kind that this program does not know");
    assert_eq!(with(NOTICE_BYTES_MIN, 0xff), None, "text that is not UTF-8");
    let lost_backwards = Lost { from: Sequence(1), to: Some(Sequence(9)) };
    let mut bytes = Notice { lost: Some(lost_backwards), ..notice() }.encode();
    bytes[10] = 10;
    assert_eq!(Notice::decode(&bytes), None, "from 10 to 9");
    bytes[10] = 0;
    assert_eq!(Notice::decode(&bytes), None, "an end without a beginning");
}

#[test]
fn timelines_are_a_history_if_each_begins_once_and_they_are_not_too_many() {
    let timeline = |number: u16| {
        let mut chain = [0; 32];
        chain[..2].copy_from_slice(&number.to_le_bytes());
        Timeline(ChainHash(chain))
    };
    let all: Vec<Timeline> = (1..=TIMELINES_MAX as u16).map(timeline).collect();
    assert_eq!(Timelines::of(all.clone()).unwrap().begun(), all);
    assert_eq!(Timelines::of([&all[..], &[timeline(999)]].concat()), None, "one too many");
    assert_eq!(Timelines::of(vec![timeline(1), timeline(2), timeline(1)]), None, "one comes back");
    assert_eq!(Timelines::of(vec![timeline(1), Timeline::FIRST]), None, "the first one begins with no notice");
}
