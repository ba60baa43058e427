//! The port over a real socket, with the test in the place of the shards.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use mio::{Events, Poll};
use tidegate_ledger::message::Unavailable;
use tidegate_telemetry::Registry as Metrics;
use tidegate_wire::limits::FRAME_BYTES_MAX as FRAME_MAX;
use tidegate_wire::proto::request_frame;
use tidegate_wire::{
    ReplyBodyRef, RoomRef, Split, TransferRef, TransfersEncoder, decode_reply, encode_request, encode_room, split,
};

use super::*;
use crate::auth::{AuthSettings, LoginLimits, Rights, Secret, TopicAccess, UserSettings, hash_password};
use crate::binary::BINARY;

/// One worker's port and its poll.
struct Door {
    port: BinaryPort,
    poll: Poll,
    address: SocketAddr,
    authenticator: Arc<Authenticator>,
}

impl Door {
    fn open() -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let authenticator = Arc::new(Authenticator::new(AuthSettings {
            users: vec![UserSettings {
                name: "dave".into(),
                password_hash: hash_password("dave"),
                rights: Rights::Viewer { wallets: vec!["wallet:dave".into()] },
            }],
            services: Vec::new(),
            secret: Secret::from_bytes(&[1; 32]).unwrap(),
            token_ttl: Duration::from_secs(100),
            login_limits: LoginLimits { concurrent_max: 1, waiting_max: 1 },
            topics: TopicAccess::default(),
        }));
        let metrics = BinaryMetrics::register(&Metrics::of(&[BinaryMetrics::ROWS]), BINARY, 0);
        let mut port = BinaryPort::new(Some(listener), None, authenticator.clone(), 10, metrics);
        let poll = Poll::new().unwrap();
        port.register(poll.registry()).unwrap();
        Door { port, poll, address, authenticator }
    }

    fn token(&self) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.authenticator.log_in("dave", "dave")).unwrap().token
    }

    /// Turns until a request for the shards is there.
    fn request(&mut self) -> (u64, Request) {
        let mut started = Vec::new();
        while started.is_empty() {
            let mut events = Events::with_capacity(16);
            self.poll.poll(&mut events, Some(Duration::from_secs(20))).unwrap();
            assert!(!events.is_empty(), "the client's request does not come");
            events.iter().for_each(|event| self.port.on_event(event));
            self.port.accept(self.poll.registry(), 0);
            self.port.serve(0, || true, |token, request| started.push((token, request)));
            self.port.flush(self.poll.registry());
        }
        assert_eq!(started.len(), 1, "{started:?}");
        started.remove(0)
    }

    fn reply(&mut self, token: u64, reply: Reply) {
        self.port.reply(token, reply, &mut |_, request| panic!("nothing is asked: {request:?}"));
        self.port.flush(self.poll.registry());
    }
}

/// Reads frames until the one with this correlation; its error's code.
fn error_code(stream: &mut TcpStream, correlation: u64) -> String {
    let mut said = Vec::new();
    loop {
        while let Split::Frame(range) = split(&said, FRAME_MAX).unwrap() {
            let end = range.end;
            let frame = said[range].to_vec();
            let reply = decode_reply(&frame).unwrap();
            match reply.body {
                ReplyBodyRef::Other(Body::Error(error)) if reply.correlation == correlation => return error.code,
                ReplyBodyRef::Other(Body::Welcome(_)) => {}
                other => panic!("{other:?}"),
            }
            said.drain(..end);
        }
        let mut some = [0; 4096];
        let count = stream.read(&mut some).unwrap();
        assert!(count > 0, "the port ended the connection");
        said.extend_from_slice(&some[..count]);
    }
}

#[test]
fn a_vote_whose_credit_cannot_be_looked_at_now_is_told_why_and_not_that_it_is_missing() {
    let mut door = Door::open();
    let mut client = TcpStream::connect(door.address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut frames = Vec::new();
    encode_request(&mut frames, 1, request_frame::Body::Hello(proto::Hello { token: door.token() }));
    client.write_all(&frames).unwrap();

    for (correlation, reply, code) in [
        (2, Reply::Unavailable(Unavailable::Busy), "busy"),
        (3, Reply::Unavailable(Unavailable::ShardFailed), "shard_failed"),
    ] {
        let mut frames = Vec::new();
        let mut votes = TransfersEncoder::begin(&mut frames, correlation, false);
        votes.push(&TransferRef { id: b"vote", debit: b"wallet:dave", credit: b"candidate:1", amount: 1, memo: b"" });
        votes.finish();
        client.write_all(&frames).unwrap();
        let (token, request) = door.request();
        assert!(matches!(&request, Request::ReadAccount { id } if &**id == "candidate:1"), "{request:?}");
        door.reply(token, reply);
        assert_eq!(error_code(&mut client, correlation), code);
    }
    assert!(door.port.is_quiet());
}

#[test]
fn a_room_that_nobody_registered_is_answered_and_the_connection_lives_on() {
    let mut door = Door::open();
    let mut client = TcpStream::connect(door.address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut frames = Vec::new();
    encode_request(&mut frames, 1, request_frame::Body::Hello(proto::Hello { token: door.token() }));
    encode_room(&mut frames, 2, RoomRef { family: 4_711, body: b"add" });
    encode_request(&mut frames, 3, request_frame::Body::ReadAccount(proto::ReadAccount { id: "wallet:dave".into() }));
    client.write_all(&frames).unwrap();
    let (_, request) = door.request();
    assert!(matches!(&request, Request::ReadAccount { id } if &**id == "wallet:dave"), "{request:?}");
    assert_eq!(error_code(&mut client, 2), "room_unknown");
}
