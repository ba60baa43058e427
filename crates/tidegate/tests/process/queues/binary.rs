//! Queues on the binary port: who goes away while it waits gets nothing, and what other doors could not show is
//! refused.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use prost::Message as _;
use serde_json::json;
use tidegate_wire::proto::reply_frame::Body;
use tidegate_wire::queue::{self as wire, queue_reply, queue_request};
use tidegate_wire::{ReplyBodyRef, RoomRef, decode_reply, encode_room};

use super::waiting::{WAIT_MS, until_they_wait};
use super::*;
use crate::binary::Binary;

/// The family of the frames of queues.
const FAMILY: u32 = 4;

/// What queues are asked on the binary port.
impl Binary {
    fn ask(&mut self, request: queue_request::Request) {
        let body = wire::QueueRequest { request: Some(request) }.encode_to_vec();
        let mut frame = Vec::new();
        encode_room(&mut frame, 2, RoomRef { family: FAMILY, body: &body });
        self.send(&frame);
    }

    /// Asks for messages, and does not read the answer.
    pub(super) fn go_waiting(&mut self, queue: &str, wait_ms: u64) {
        let receive =
            wire::Receive { queue: queue.into(), max: 1, lease_ms: LONG_MS, wait_ms, consumer: "gone".into() };
        self.ask(queue_request::Request::Receive(receive));
    }

    /// The code with which the next answer refuses.
    pub(super) fn refused(&mut self) -> String {
        let frame = self.frame();
        match decode_reply(&frame).expect("a reply").body {
            ReplyBodyRef::Other(Body::Error(error)) => error.code,
            _ => panic!("it is refused"),
        }
    }

    /// The bodies that the next answer hands out.
    fn received(&mut self) -> Vec<Vec<u8>> {
        let frame = self.frame();
        let ReplyBodyRef::Room(RoomRef { body, .. }) = decode_reply(&frame).expect("a reply").body else {
            panic!("a queue answers")
        };
        match wire::QueueReply::decode(body).expect("a reply of a queue").reply {
            Some(queue_reply::Reply::Received(wire::Received { deliveries })) => {
                deliveries.into_iter().filter_map(|delivery| Some(delivery.message?.body)).collect()
            }
            other => panic!("messages are answered: {other:?}"),
        }
    }
}

/// Other doors show attributes, and would show none of those. Who relays may have such of before.
#[test]
fn attributes_that_are_no_json_object_are_refused() {
    const SENDER: &str = "sender-token-0123456789abcdef";
    let folder = folder();
    let sections = format!("[[service]]\nname = \"sender\"\ntoken = \"{SENDER}\"\ngrants = [\"send:orders\"]\n");
    let settings = Settings { sections, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    let mut sender = Binary::with(&server, SENDER);
    let send = |binary: &mut Binary, attributes: &[&[u8]]| {
        let message =
            |attributes: &&[u8]| wire::Message { attributes: attributes.to_vec(), ..wire::Message::default() };
        let messages = attributes.iter().map(message).collect();
        binary.ask(queue_request::Request::Send(wire::Send { queue: "orders".into(), messages }));
    };
    let is_taken = |binary: &mut Binary| {
        let frame = binary.frame();
        matches!(decode_reply(&frame).expect("a reply").body, ReplyBodyRef::Room(_))
    };
    send(&mut sender, &[b"{}", b"\x01\x02"]);
    assert_eq!(sender.refused(), "message_invalid");
    send(&mut sender, &[br#"{"to":"a"}"#, b""]);
    assert!(is_taken(&mut sender));
    let mut relay = Binary::connect(&server);
    send(&mut relay, &[b"\x01\x02"]);
    assert!(is_taken(&mut relay));
    let got = receive(&mut http, "orders", 10, 0);
    assert_eq!((got.len(), &got[0]["attributes"]["to"]), (3, &json!("a")));
    end(server, &settings);
}

#[test]
fn a_connection_that_is_closed_while_it_waits_gets_nothing() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    let mut gone = Binary::connect(&server);
    gone.go_waiting("orders", WAIT_MS);
    until_they_wait(&mut http, 1);
    drop(gone);
    until_they_wait(&mut http, 0);
    send_one(&mut http, "orders", &json!({"body": "a"}));
    let got = receive(&mut http, "orders", 1, 0);
    assert_eq!((bodies(&got), &got[0]["attempts"]), (vec!["a".to_owned()], &json!(1)), "nobody else had it");
    acknowledge(&mut http, "orders", &got);

    // The port need not have noticed when the message is sent: a lease lasts for hours, and the next one gets it.
    for round in 0..50 {
        let mut gone = Binary::connect(&server);
        gone.go_waiting("orders", WAIT_MS);
        until_they_wait(&mut http, 1);
        drop(gone);
        let body = round.to_string();
        let key = send_one(&mut http, "orders", &json!({"body": body}));
        let got = receive(&mut http, "orders", 1, WAIT_MS);
        assert_eq!(bodies(&got), [body], "a receiver that is not there has it: {}", look(&mut http, &key));
        assert_eq!(acknowledge(&mut http, "orders", &got), ["done"]);
        until_they_wait(&mut http, 0);
    }
    end(server, &settings);
}

#[test]
fn a_connection_whose_client_has_closed_its_side_is_answered_and_waits_no_longer() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    let mut waiting = Binary::connect(&server);
    waiting.go_waiting("orders", WAIT_MS);
    until_they_wait(&mut http, 1);
    let since = Instant::now();
    waiting.stream.shutdown(Shutdown::Write).expect("the connection is open");
    assert_eq!(waiting.received(), [b""; 0]);
    assert!(since.elapsed() < Duration::from_millis(WAIT_MS / 2), "{:?}", since.elapsed());
    until_they_wait(&mut http, 0);
    // Who stays gets what comes, and who does not wait gets what there is: it has only sent all its requests.
    let mut stays = Binary::connect(&server);
    stays.go_waiting("orders", WAIT_MS);
    until_they_wait(&mut http, 1);
    send_one(&mut http, "orders", &json!({"body": "a"}));
    assert_eq!(stays.received(), [b"a"]);
    send_one(&mut http, "orders", &json!({"body": "b"}));
    let mut last = Binary::connect(&server);
    last.go_waiting("orders", 0);
    last.stream.shutdown(Shutdown::Write).expect("the connection is open");
    assert_eq!(last.received(), [b"b"]);
    end(server, &settings);
}

#[test]
fn sigterm_does_not_wait_for_receivers_of_the_binary_port() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    let mut waiting = Binary::connect(&server);
    waiting.go_waiting("orders", WAIT_MS);
    until_they_wait(&mut http, 1);
    let since = Instant::now();
    end(server, &settings);
    assert!(since.elapsed() < Duration::from_millis(WAIT_MS / 2), "{:?}", since.elapsed());
    assert_eq!(waiting.received(), [b""; 0]);
}
