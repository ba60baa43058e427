//! Queues on topics; the tests themselves answer for the shards.

use std::sync::Arc;

use tidegate_queue::machine::{Delivery, Limit, Message, MessageKey, Receipt, Refusal};
use tidegate_runtime::ShardAddresses;
use tidegate_shard::Unavailable;

use super::*;

const JOBS: ReceiverKey = ReceiverKey(1);
const NOW: TimeMs = TimeMs(1_700_000_000_000);
const LEASE_MS: u64 = 30_000;

fn clients() -> QueueClients {
    QueueClients::new(Address::new(0, 0), QueueClient::new(ShardAddresses::new([Address::new(0, 1)])))
}

/// With a receiver that has asked for two messages.
fn receiving() -> QueueClients {
    let mut clients = clients();
    clients.receive(JOBS, "a client", "$queue-out/jobs");
    clients.receive_more(JOBS, 2, NOW);
    clients
}

fn at(after_ms: u64) -> TimeMs {
    TimeMs(NOW.0 + after_ms)
}

/// What waits for an answer, in the order of asking.
fn asked(clients: &QueueClients) -> Vec<String> {
    let mut asked: Vec<_> = clients.asked.iter().collect();
    asked.sort_by_key(|(token, _)| **token);
    let told = |asked: &Asked| match asked {
        Asked::Send(ticket) => format!("send {}", ticket.0),
        Asked::Find(_, filter) => format!("find {filter}"),
        Asked::Receive { .. } => "receive".to_owned(),
        Asked::Extend(_) => "extend".to_owned(),
        Asked::Settle(Settlement { queue, leases, rejected }) => {
            let numbers: Vec<_> = leases.iter().map(|lease| lease.key.number()).collect();
            match rejected {
                None => format!("acknowledge {queue} {numbers:?}"),
                Some((then, why)) => format!("reject {queue} {numbers:?} {then:?}: {why}"),
            }
        }
    };
    asked.into_iter().map(|(_, asked)| told(asked)).collect()
}

/// Answers what was asked first.
fn reply(clients: &mut QueueClients, reply: QueueReply, now: TimeMs) -> Option<QueueAnswer> {
    let token = *clients.asked.keys().min().expect("something was asked");
    let asked = clients.asked.remove(&token).expect("it was just looked at");
    clients.take(asked, reply, now)
}

fn messages(numbers: &[u64]) -> QueueReply {
    let received = |number: &u64| {
        let lease = Lease { key: MessageKey::from_bits(u128::from(*number)), attempt: 1 };
        let message = Arc::new(Message { body: b"x"[..].into(), ..Message::default() });
        let delivery = Delivery { lease, until: at(LEASE_MS) };
        Received { delivery, attempts: 1, lease_left_ms: LEASE_MS, expires_in_ms: None, message }
    };
    Ok(Answer::Received(numbers.iter().map(received).collect()))
}

fn numbers_of(answer: Option<QueueAnswer>) -> Vec<u64> {
    match answer {
        Some(QueueAnswer::HandedOut(JOBS, deliveries)) => deliveries.iter().map(|delivery| delivery.number).collect(),
        other => panic!("{other:?}"),
    }
}

const DONE: QueueReply = Ok(Answer::Outcome(Outcome::Done));

#[test]
fn sends_are_answered_as_their_shard_answers() {
    let mut clients = clients();
    let mut send = |ticket, properties: &[u8]| {
        let sent = Sent { topic: "$queue-in/jobs", properties, expires_at: None, payload: b"x"[..].into() };
        clients.send(RequestTicket(ticket), None, sent, NOW);
    };
    (1..=5).for_each(|ticket| send(ticket, &[]));
    let mut block = Vec::new();
    tidegate_wire::mqtt::push_user_property(&mut block, "priority", "high");
    send(6, &block);
    assert_eq!(asked(&clients), ["send 1", "send 2", "send 3", "send 4", "send 5"]);
    assert_eq!(
        clients.take_answers(NOW),
        [QueueAnswer::Sent(RequestTicket(6), Err(refusal::PRIORITY_INVALID), Some("message_invalid"))]
    );
    let receipt = Receipt { key: MessageKey::from_bits(1), is_duplicate: true };
    let refused = |refusal| Ok(Answer::refused(refusal));
    for (ticket, answer, expected) in [
        (1, Ok(Answer::Outcome(Outcome::Sent(vec![receipt]))), (Ok(()), None)),
        (2, refused(Refusal::QueueNotFound("jobs".into())), (Err(refusal::NO_QUEUE_TO_SEND), Some("queue_not_found"))),
        (3, refused(Refusal::Full(Limit::Messages, 1)), (Err(refusal::FULL), Some("queue_full"))),
        (4, Err(Unavailable::DiskFull), (Err(refusal::DISK_FULL), Some("disk_full"))),
        (5, Err(Unavailable::Stopping), (Err(refusal::NOT_NOW), Some("stopping"))),
    ] {
        let answer = reply(&mut clients, answer, NOW);
        assert_eq!(answer, Some(QueueAnswer::Sent(RequestTicket(ticket), expected.0, expected.1)));
    }
    assert!(clients.asked.is_empty());
}

#[test]
fn what_is_acknowledged_is_told_together_until_the_shard_has_it() {
    let mut clients = receiving();
    let numbers = numbers_of(reply(&mut clients, messages(&[7, 8]), NOW));
    numbers.iter().for_each(|number| clients.settle(JOBS, *number, ReasonCode::SUCCESS, NOW));
    clients.end(JOBS, NOW);
    clients.tell_acknowledged(NOW);
    assert_eq!(asked(&clients), ["acknowledge jobs [7, 8]"], "nothing is given back that was acknowledged");
    assert!(reply(&mut clients, Err(Unavailable::Busy), NOW).is_none());
    clients.tick(at(AGAIN_MS - 1));
    assert_eq!(asked(&clients), [""; 0]);
    clients.tick(at(AGAIN_MS));
    assert_eq!(asked(&clients), ["acknowledge jobs [7, 8]"]);
    reply(&mut clients, DONE, NOW);
    clients.tick(at(10 * AGAIN_MS));
    assert_eq!(asked(&clients), [""; 0]);
}

#[test]
fn rejections_say_why() {
    let mut clients = receiving();
    let numbers = numbers_of(reply(&mut clients, messages(&[7, 8]), NOW));
    clients.settle(JOBS, numbers[0], ReasonCode(0x83), NOW);
    clients.settle(JOBS, numbers[1], ReasonCode::PACKET_TOO_LARGE, NOW);
    assert_eq!(
        asked(&clients),
        [
            "reject jobs [7] Retry(None): PUBACK with 0x83",
            "reject jobs [8] Retry(None): it is larger than the client's Maximum Packet Size"
        ]
    );
}

#[test]
fn leases_are_extended_while_their_receiver_is_there_and_given_back_when_it_ends() {
    let mut clients = receiving();
    numbers_of(reply(&mut clients, messages(&[7, 8]), NOW));
    clients.tick(at(LEASE_MS / 2 - 1));
    assert_eq!(asked(&clients), [""; 0]);
    clients.tick(at(LEASE_MS / 2));
    assert_eq!(asked(&clients), ["extend"]);
    reply(&mut clients, Err(Unavailable::Busy), at(LEASE_MS / 2));
    clients.tick(at(LEASE_MS / 2 + LEASE_MS / 8));
    assert_eq!(asked(&clients), ["extend"], "well before the end of the lease");
    reply(&mut clients, DONE, at(LEASE_MS));
    clients.end(JOBS, at(LEASE_MS));
    assert_eq!(asked(&clients), ["reject jobs [7, 8] Back(0): the connection of its receiver has ended"]);
    reply(&mut clients, DONE, at(LEASE_MS));
    clients.tick(at(10 * LEASE_MS));
    assert_eq!(asked(&clients), [""; 0], "nothing is extended for nobody");
}

#[test]
fn who_unsubscribes_keeps_what_they_have_seen() {
    let mut clients = receiving();
    let numbers = numbers_of(reply(&mut clients, messages(&[7, 8]), NOW));
    clients.stop(JOBS, &numbers[1..], NOW);
    assert_eq!(asked(&clients), ["reject jobs [8] Back(0): its receiver has unsubscribed"]);
    reply(&mut clients, DONE, NOW);
    clients.tick(at(LEASE_MS / 2));
    assert_eq!(asked(&clients), ["extend"]);
    reply(&mut clients, DONE, NOW);
    clients.settle(JOBS, numbers[0], ReasonCode::SUCCESS, NOW);
    clients.tell_acknowledged(NOW);
    assert_eq!(asked(&clients), ["acknowledge jobs [7]"]);
}

#[test]
fn who_gets_nothing_asks_again() {
    let mut clients = receiving();
    assert!(reply(&mut clients, messages(&[]), at(WAIT_MS_MAX)).is_none());
    clients.tick(at(WAIT_MS_MAX));
    assert_eq!(asked(&clients), ["receive"], "at once, when the wait is over");
    let refusal = Ok(Answer::refused(Refusal::QueueNotFound("jobs".into())));
    for answer in [messages(&[]), refusal, Err(Unavailable::Recovering)] {
        assert!(reply(&mut clients, answer, at(WAIT_MS_MAX)).is_none());
        clients.tick(at(WAIT_MS_MAX));
        assert_eq!(asked(&clients), [""; 0], "a shard that stops, or has no such queue, is not asked all the time");
        clients.tick(at(WAIT_MS_MAX + AGAIN_MS));
        assert_eq!(asked(&clients), ["receive"]);
    }
    assert_eq!(clients.waiting, 1);
    clients.end(JOBS, NOW);
    assert_eq!((asked(&clients).len(), clients.waiting), (0, 0));
}

#[test]
fn so_many_wait_at_the_shards() {
    let mut clients = clients();
    for key in (0..WAITING_MAX as u64 + 1).map(ReceiverKey) {
        clients.receive(key, "a client", "$queue-out/jobs");
        clients.receive_more(key, 1, NOW);
    }
    assert_eq!((clients.waiting, clients.asked.len()), (WAITING_MAX, WAITING_MAX));
    clients.end(ReceiverKey(7), NOW);
    clients.tick(at(AGAIN_MS));
    assert_eq!((clients.waiting, clients.asked.len()), (WAITING_MAX, WAITING_MAX), "the one that could not yet");
}
