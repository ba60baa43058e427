//! Who is served when: floods of one user, and what is left of a client that goes.

use super::*;

/// As many as one client sends at once.
const PINGS: usize = 4_000;

/// Packets that the workers' brokers have taken.
fn packets(node: &Node) -> u64 {
    node.workers.iter().map(|worker| worker.port.broker.facts().messages_received).sum()
}

#[test]
fn a_flood_of_one_user_is_served_in_short_turns_and_leaves_others_theirs() {
    let mut node = Node::open(1_000);
    let mut flood: Vec<Client> = (0..60).map(|n| node.connect_accepted(&format!("flood {n}"))).collect();
    let mut other = node.connect_accepted("other");
    for client in &mut flood {
        client.tcp.write_all(&[0xc0, 0].repeat(PINGS)).unwrap();
    }
    // The flood is under way before the other says anything.
    node.turn();
    for _ in 0..10 {
        let before = packets(&node);
        node.turn();
        let taken = packets(&node) - before;
        assert!(taken > 0 && taken <= 2 * WORK_IN_TURN_MAX as u64, "{taken} packets in a turn of two workers");
    }
    other.say(0xc0, &[]);
    // The kernel may take a moment to show it.
    let turns = (1..).find(|_| {
        node.turn();
        other.packet().is_some()
    });
    assert!(turns.is_some_and(|turns| turns <= 3), "answered in turn {turns:?}");
    let answered: usize = flood.iter_mut().map(count_pings).sum();
    assert!(answered < 60 * PINGS / 2, "and the flood was not over: {answered} answers");
    node.until("the flood is over", |node| packets(node) >= (60 * PINGS) as u64);
}

fn count_pings(client: &mut Client) -> usize {
    std::iter::from_fn(|| client.packet()).count()
}

#[test]
fn filters_cost_as_much_as_they_are() {
    let mut node = Node::open(10);
    let mut client = node.connect_accepted("flood 1");
    let filters: Vec<u8> = (0..50).flat_map(|n| [text(&format!("some/filter/{n:03}")), vec![0]].concat()).collect();
    let subscribe = packet(0x82, &[b"\x00\x01\x00".to_vec(), filters].concat());
    let count = 200;
    let before = packets(&node);
    client.tcp.write_all(&subscribe.repeat(count)).unwrap();
    let mut most = 0;
    node.until("all are taken", |node| {
        let so_far = packets(node);
        node.turn();
        most = most.max(packets(node) - so_far);
        packets(node) - before >= count as u64
    });
    assert!(most * 50 <= WORK_IN_TURN_MAX as u64, "{most} packets with fifty filters each in one turn");
}

#[test]
fn what_a_client_has_sent_before_it_goes_is_served() {
    let mut node = Node::open(10);
    let mut reader = node.connect_accepted("reader");
    reader.subscribe("t");
    node.receive(&mut reader);
    let mut writer = node.connect_accepted("writer");
    let count = 3_000;
    writer.tcp.write_all(&packet(0x30, &publication("t", b"x")).repeat(count)).unwrap();
    drop(writer);
    node.until("the writer is gone", |node| node.sockets() == 1);
    let mut heard = 0;
    node.until("all have come", |_| {
        heard += count_pings(&mut reader);
        heard == count
    });
}
