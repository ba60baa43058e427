//! The port over a real socket; the test itself answers for the shards.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use mio::{Events, Poll};
use tidegate_ledger::message::Unavailable;
use tidegate_ledger::operation::Operation;
use tidegate_ledger::router::CursorKey;
use tidegate_machines::ShardIndex;
use tidegate_runtime::threads::now_ms;
use tidegate_runtime::{Endpoint, Envelope, ShardAddresses, mesh, parcels};
use tidegate_telemetry::Registry as Metrics;
use tidegate_wire::limits::FRAME_BYTES_MAX as FRAME_MAX;
use tidegate_wire::proto::request_frame;
use tidegate_wire::{
    ReplyBodyRef, RoomRef, Split, TransferRef, TransfersEncoder, decode_reply, encode_request, encode_room, split,
};

use super::*;
use crate::auth::quota::QuotaLimits;
use crate::auth::{AuthSettings, LoginLimits, Rights, Secret, TopicAccess, UserSettings, hash_password};
use crate::binary::BINARY;

parcels! {
    enum Parcel { Ledger(Message) }
}

/// Where the port lives, and where the shard would.
const PORT: Address = Address::new(0, 0);
const SHARD: Address = Address::new(0, 1);

/// One worker's port and its poll.
struct Door {
    port: BinaryPort<Parcel>,
    endpoint: Endpoint<Parcel>,
    own: VecDeque<Envelope<Parcel>>,
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
            viewer_quota: QuotaLimits::NONE,
            service_quota: QuotaLimits::NONE,
        }));
        let metrics = BinaryMetrics::register(&Metrics::of(&[BinaryMetrics::ROWS]), BINARY, 0);
        let settings = BinarySettings { address: None, tls: None, connections_max: 10 };
        let router = Router::new(PORT, ShardAddresses::new([SHARD]), CursorKey([1, 2]));
        let mut port =
            BinaryPort::new(PORT, router, Some(listener), &settings, authenticator.clone(), metrics, Vec::new());
        let poll = Poll::new().unwrap();
        Port::<Parcel>::register(&mut port, PortSockets::new(poll.registry(), 0).unwrap()).unwrap();
        let endpoint = mesh(1, 0).pop().unwrap();
        Door { port, endpoint, own: VecDeque::new(), poll, address, authenticator }
    }

    fn token(&self) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.authenticator.log_in("dave", "dave")).unwrap().token
    }

    /// One turn. Returns how many frames were served to one client in it, at most.
    fn turn(&mut self) -> usize {
        let mut events = Events::with_capacity(16);
        self.poll.poll(&mut events, Some(Duration::from_millis(1))).unwrap();
        for event in &events {
            let (_, token) = PortSockets::owner(event.token());
            Port::<Parcel>::on_event(&mut self.port, token, event);
        }
        self.port.now_ms = now_ms().0;
        let mut most = 0;
        for key in std::mem::take(&mut self.port.ready) {
            most = most.max(self.port.serve_session(key).0);
        }
        self.port.write_sessions();
        most
    }

    /// Turns until the shard is asked something: the ticket of the question, and the question.
    fn question(&mut self) -> (u64, Operation) {
        while self.own.is_empty() {
            let mut events = Events::with_capacity(16);
            self.poll.poll(&mut events, Some(Duration::from_secs(20))).unwrap();
            assert!(!events.is_empty(), "the client's request does not come");
            for event in &events {
                let (_, token) = PortSockets::owner(event.token());
                Port::<Parcel>::on_event(&mut self.port, token, event);
            }
            let mut context = Context::new(PORT, now_ms(), &mut self.endpoint, &mut self.own);
            self.port.serve(&mut context);
            self.port.flush(&mut context);
        }
        let Envelope { from, to, body: Parcel::Ledger(message) } = self.own.pop_front().unwrap();
        assert!((from, to) == (PORT, SHARD.member) && self.own.is_empty());
        let Message::Call { ticket, operation, .. } = message else { panic!("{message:?}") };
        (ticket, operation)
    }

    fn turn_away(&mut self, ticket: u64, reason: Unavailable) {
        let answer = Message::Answer { ticket, shard: ShardIndex(0), answer: Err(reason) };
        let mut context = Context::new(PORT, now_ms(), &mut self.endpoint, &mut self.own);
        self.port.deliver(SHARD, Parcel::Ledger(answer), &mut context);
        self.port.flush(&mut context);
        assert!(self.own.is_empty(), "nothing else is asked");
    }
}

fn read_some(stream: &mut TcpStream, heard: &mut Vec<u8>) {
    let mut some = [0; 1 << 16];
    while let Ok(count) = stream.read(&mut some) {
        assert!(count > 0, "the port ended the connection");
        heard.extend_from_slice(&some[..count]);
    }
}

/// Whole frames in these bytes.
fn frames_in(bytes: &[u8]) -> u64 {
    let (mut rest, mut frames) = (bytes, 0);
    while let Ok(Split::Frame(range)) = split(rest, FRAME_MAX) {
        (rest, frames) = (&rest[range.end..], frames + 1);
    }
    frames
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

    for (correlation, reason, code) in [(2, Unavailable::Busy, "busy"), (3, Unavailable::ShardFailed, "shard_failed")] {
        let mut frames = Vec::new();
        let mut votes = TransfersEncoder::begin(&mut frames, correlation, false);
        votes.push(&TransferRef {
            id: b"vote",
            debit: b"wallet:dave",
            credit: b"candidate:1",
            amount: 1,
            memo: b"",
            ..Default::default()
        });
        votes.finish();
        client.write_all(&frames).unwrap();
        let (ticket, asked) = door.question();
        assert!(matches!(&asked, Operation::ReadAccount { id } if &**id == "candidate:1"), "{asked:?}");
        door.turn_away(ticket, reason);
        assert_eq!(error_code(&mut client, correlation), code);
    }
    assert!(Resident::<Parcel>::is_quiet(&door.port));
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
    let (_, asked) = door.question();
    assert!(matches!(&asked, Operation::ReadAccount { id } if &**id == "wallet:dave"), "{asked:?}");
    assert_eq!(error_code(&mut client, 2), "room_unknown");
}

#[test]
fn a_flood_of_small_frames_of_one_client_does_not_hold_up_the_next() {
    let mut door = Door::open();
    let (mut flooder, mut other) =
        (TcpStream::connect(door.address).unwrap(), TcpStream::connect(door.address).unwrap());
    let mut frames = Vec::new();
    encode_request(&mut frames, 1, request_frame::Body::Hello(proto::Hello { token: door.token() }));
    other.write_all(&frames).unwrap();
    let count = 2 * FRAMES_PER_TURN as u64;
    for number in 0..count {
        encode_request(&mut frames, 2 + number, request_frame::Body::Ping(proto::Ping {}));
    }
    flooder.write_all(&frames).unwrap();
    let mut most = 0;
    while door.port.sessions.iter().all(|(_, session)| session.identity().is_none()) || door.port.sessions.len() < 2 {
        most = most.max(door.turn());
    }
    while most < FRAMES_PER_TURN {
        most = most.max(door.turn());
    }
    assert_eq!(most, FRAMES_PER_TURN, "as many as one client may have served, and the rest in the next turn");
    // Both are served to the end, and the one that asked little waits for no more than a turn of the other.
    let mut ping = Vec::new();
    encode_request(&mut ping, 7, request_frame::Body::Ping(proto::Ping {}));
    other.write_all(&ping).unwrap();
    let mut pongs = 0;
    flooder.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    let (mut heard, mut heard_other) = (Vec::new(), Vec::new());
    while pongs < count || frames_in(&heard_other) < 2 {
        door.turn();
        read_some(&mut flooder, &mut heard);
        read_some(&mut other, &mut heard_other);
        pongs = frames_in(&heard).saturating_sub(1);
    }
    assert_eq!(pongs, count);
}
