use super::*;

fn received() -> Incoming {
    Incoming::new(IncomingStage::Received, WorkerSet::NONE, 0)
}

#[test]
fn each_connection_counts_what_was_sent_over_it() {
    let mut all = AllIncoming::default();
    (1..=3).for_each(|packet_id| all.add(packet_id, received()));
    assert_eq!((all.len(), all.counted()), (3, 3));
    all.count_none();
    assert_eq!((all.len(), all.counted()), (3, 0));
    // The first comes again, twice; the second is released; the fourth is new.
    all.count(1);
    all.count(1);
    all.remove(2);
    all.add(4, received());
    assert_eq!((all.len(), all.counted()), (3, 2));
    all.assert_sound();
    [1, 3, 4].into_iter().for_each(|packet_id| all.remove(packet_id));
    assert_eq!((all.len(), all.counted()), (0, 0));
}
