//! The load against a small pacer that answers as Tidegate does, but has no money.

use super::*;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tidegate_wire::pacer::{
    BidsWriter, NoBidReason, NoticeOutcome, NoticeOutcomesWriter, PacerRequestRef, read_request,
};
use tidegate_wire::proto::{self, reply_frame};
use tidegate_wire::{BodyRef, Split, decode_request, encode_reply, limits, split};

const PAUSE: Duration = Duration::from_millis(200);

/// What the pacer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// It bids for all but each tenth campaign.
    Ready,
    /// It answers nothing for a while, once.
    Pausing,
    /// It never answers.
    Silent,
    /// It hangs up when it is asked.
    Leaving,
    /// It answers what nobody asked.
    Confused,
    /// It is too busy for all packets.
    Busy,
    /// It refuses to answer.
    Refusing,
}

fn pacer(manner: Manner) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let has_paused = Arc::new(AtomicBool::new(false));
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let has_paused = has_paused.clone();
            std::thread::spawn(move || serve(socket.unwrap(), manner, &has_paused));
        }
    });
    address
}

fn serve(mut socket: TcpStream, manner: Manner, has_paused: &AtomicBool) {
    let (mut inbox, mut filled, mut out) = (vec![0; 1 << 20], 0, Vec::new());
    loop {
        match socket.read(&mut inbox[filled..]) {
            Ok(0) => return,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        if manner == Manner::Pausing && !has_paused.swap(true, Ordering::Relaxed) {
            std::thread::sleep(PAUSE);
        }
        let mut taken = 0;
        while taken < filled
            && let Split::Frame(range) = split(&inbox[taken..filled], limits::FRAME_BYTES_MAX).unwrap()
        {
            if !answer(&inbox[taken..filled][range.clone()], manner, &mut out) {
                return;
            }
            taken += range.end;
        }
        if socket.write_all(&out).is_err() {
            return;
        }
        out.clear();
        inbox.copy_within(taken..filled, 0);
        filled -= taken;
    }
}

/// Answers a frame; `false` to hang up.
fn answer(frame: &[u8], manner: Manner, out: &mut Vec<u8>) -> bool {
    let request = decode_request(frame).unwrap();
    let room = match request.body {
        BodyRef::Hello { token: "secret" } => {
            encode_reply(out, request.correlation, reply_frame::Body::Welcome(proto::Welcome::default()));
            return true;
        }
        BodyRef::Hello { .. } => {
            let error = proto::Error { code: "unauthorized".into(), ..Default::default() };
            encode_reply(out, request.correlation, reply_frame::Body::Error(error));
            return true;
        }
        BodyRef::Room(room) => room,
        other => panic!("{other:?}"),
    };
    let error = |code: &str| proto::Error { code: code.into(), detail: "because".into(), retry_after_ms: 1 };
    let correlation = match manner {
        Manner::Silent => return true,
        Manner::Leaving => return false,
        Manner::Busy => {
            encode_reply(out, request.correlation, reply_frame::Body::Error(error("busy")));
            return true;
        }
        Manner::Refusing => {
            encode_reply(out, request.correlation, reply_frame::Body::Error(error("room_unknown")));
            return true;
        }
        Manner::Confused => request.correlation + 1_000,
        Manner::Ready | Manner::Pausing => request.correlation,
    };
    match read_request(room.body).unwrap() {
        PacerRequestRef::Bids(bids) => {
            let mut reply = BidsWriter::begin(out, correlation);
            for bid in bids {
                match bid.campaign % 10 {
                    0 => reply.no_bid(NoBidReason::Throttled),
                    _ => reply.bid(2_500, &[bid.campaign as u8; 32]),
                }
            }
            reply.finish();
        }
        PacerRequestRef::Wins(wins) => {
            let mut reply = NoticeOutcomesWriter::begin(out, correlation);
            wins.for_each(|win| {
                assert!((1_250..=2_500).contains(&win.price_micros) && !win.token[0].is_multiple_of(10));
                reply.push(NoticeOutcome::Taken);
            });
            reply.finish();
        }
        other => panic!("the load does not ask {other:?}"),
    }
    true
}

fn frames() -> Frames {
    Frames::new(&"1-20".parse().unwrap(), 10, 100, 0).winning(0.1)
}

fn run(manner: Manner, protocol: &mut Frames) -> Result<Measured> {
    let load = Load {
        connections: 3,
        bids_per_s: 50_000.0,
        burst: 4,
        warm_up: Duration::ZERO,
        measured: Duration::from_millis(500),
        ..Load::default()
    };
    let target = Target { address: pacer(manner), processor_time: &|| Ok(Duration::ZERO) };
    measure(&target, load, protocol)
}

#[test]
fn everything_that_is_due_is_asked_and_answered() {
    let measured = run(Manner::Ready, &mut frames().with_token(Some("secret".to_owned()))).unwrap();
    assert_eq!((measured.unsent, measured.unanswered, measured.answers.refusals()), (0, 0, 0));
    let (answers, packets) = (measured.answers, 2_500);
    assert!(answers.requests() <= packets * 10);
    // Two of twenty campaigns are throttled, whenever the measured stretch ended.
    let (bids, throttled) = (answers.bids, answers.no_bids[NoBidReason::Throttled as usize]);
    assert!(bids > 0 && bids.abs_diff(9 * throttled) <= 20, "{bids} bids, {throttled} throttled");
    assert!(answers.notices[NoticeOutcome::Taken as usize] * 10 <= bids);
    let summary = Summary::of(&measured);
    let table = summary.table();
    assert!(table.contains("no bid: throttled") && !table.contains("not answered"), "{table}");
    let json = summary.json();
    let share = json["no_bid_throttled_share"].as_f64().unwrap();
    assert!((share - 0.1).abs() < 0.01 && json["latency_p9999_ms"].is_number(), "{json}");
}

/// While the server pauses, packets are due all the same, and wait.
#[test]
fn a_pause_of_the_server_is_in_the_latency_of_all_that_was_due() {
    let measured = run(Manner::Pausing, &mut frames()).unwrap();
    // On one of three connections: a third of what was due within the pause had to wait.
    assert!(measured.latency_ms(1.0) >= PAUSE.as_secs_f64() * 1e3 * 0.9, "{}", measured.latency_ms(1.0));
    assert!(measured.latency_ms(0.95) >= 10.0, "{}", measured.latency_ms(0.95));
}

#[test]
fn a_server_that_is_too_busy_is_counted_and_not_fast() {
    let measured = run(Manner::Busy, &mut frames()).unwrap();
    let busy = measured.answers.refused[0];
    assert!(busy > 0 && busy == measured.answers.refusals(), "{:?}", measured.answers);
    assert_eq!(measured.answers.requests(), 0);
    assert!(Summary::of(&measured).table().contains("refused as busy"));
}

#[test]
fn what_is_wrong_is_said() {
    let error = |manner| format!("{:#}", run(manner, &mut frames()).err().expect("it fails"));
    assert!(error(Manner::Leaving).contains("the server closed the connection"), "{}", error(Manner::Leaving));
    assert!(error(Manner::Confused).contains("the correlation of no open request"));
    assert_eq!(error(Manner::Refusing), "the server said room_unknown: because");
    let wrong = run(Manner::Ready, &mut frames().with_token(Some("wrong".to_owned()))).err().expect("it fails");
    assert!(format!("{wrong:#}").contains("did not let us in"), "{wrong:#}");
    assert!(format!("{wrong:#}").contains("the server did not welcome us: unauthorized: "), "{wrong:#}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = Target { address: nobody, processor_time: &|| Ok(Duration::ZERO) };
    let error = measure(&target, Load::default(), &mut frames()).err().expect("nobody listens there");
    assert!(format!("{error:#}").contains("does a pacer listen there?"), "{error:#}");
}

#[test]
fn a_server_that_does_not_answer_ends_the_load() {
    let load = Load {
        bids_per_s: 5e6,
        connections: 2,
        warm_up: Duration::ZERO,
        give_up_after: Some(Duration::from_millis(1)),
        ..Load::default()
    };
    let target = Target { address: pacer(Manner::Silent), processor_time: &|| Ok(Duration::ZERO) };
    let measured = measure(&target, load, &mut frames()).unwrap();
    assert_eq!((measured.unanswered, measured.answers.requests()), (1 << 17, 0));
    assert!(measured.latency_ms(0.99).is_infinite() && measured.elapsed < load.measured);
    assert!(Summary::of(&measured).json()["latency_p99_ms"].is_null());
}

/// What an exchange of the tests sees of a connection.
#[derive(Default)]
struct SeenByBidder {
    requests: AtomicU64,
    notices: AtomicU64,
    most_waiting: AtomicU64,
}

/// A bidder that bids on every second request, and is too busy for every tenth.
fn bidder(seen: Arc<SeenByBidder>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let seen = seen.clone();
            std::thread::spawn(move || bid_over_http(socket.unwrap(), &seen));
        }
    });
    address
}

fn bid_over_http(mut socket: TcpStream, seen: &SeenByBidder) {
    const BURL: &str = "http://b.example/openrtb/2.6/billing?token=t&price=${AUCTION_PRICE}";
    let (mut unread, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    let mut is_asked = false;
    while let Ok(read @ 1..) = socket.read(&mut chunk) {
        unread.extend_from_slice(&chunk[..read]);
        let (mut waiting, mut out) = (0, Vec::new());
        while let Some((line, length)) = request_in(&unread) {
            unread.drain(..length);
            waiting += 1;
            let is_notice = line.starts_with("GET /openrtb/2.6/billing?token=t&price=");
            assert!(is_notice || line.starts_with("POST /openrtb/2.6/bids "), "{line}");
            assert!(!(is_notice && is_asked), "notices have connections of their own");
            is_asked |= !is_notice;
            let count = if is_notice { &seen.notices } else { &seen.requests };
            let (status, body) = match count.fetch_add(1, Ordering::Relaxed) {
                _ if is_notice => ("200 OK", r#"{"outcome":"taken"}"#.to_owned()),
                number if number % 10 == 9 => ("503 Service Unavailable", r#"{"code":"busy"}"#.to_owned()),
                number if number.is_multiple_of(2) => {
                    ("200 OK", format!(r#"{{"id":"a","price":2.5,"burl":"{BURL}"}}"#))
                }
                _ => ("204 No Content", String::new()),
            };
            write!(out, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
        seen.most_waiting.fetch_max(waiting, Ordering::Relaxed);
        if socket.write_all(&out).is_err() {
            return;
        }
    }
}

/// The first line of the request at the front, and the bytes of the whole.
fn request_in(bytes: &[u8]) -> Option<(String, usize)> {
    let head = bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).unwrap();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let whole = head + length.map_or(0, |length| length.parse::<usize>().unwrap());
    (bytes.len() >= whole).then(|| (text.lines().next().unwrap().to_owned(), whole))
}

#[test]
fn an_exchange_asks_one_at_a_time_and_bills_beside() {
    let seen = Arc::new(SeenByBidder::default());
    let target = Target { address: bidder(seen.clone()), processor_time: &|| Ok(Duration::ZERO) };
    let load = Load {
        connections: 4,
        bids_per_s: 4_000.0,
        pipeline: 1,
        warm_up: Duration::ZERO,
        measured: Duration::from_millis(500),
        ..Load::default()
    };
    let measured = measure(&target, load, &mut OpenRtb::new(100, None).winning(0.5)).unwrap();
    assert_eq!((measured.unanswered, measured.wins_untold), (0, 0));
    let (requests, notices) = (seen.requests.load(Ordering::Relaxed), seen.notices.load(Ordering::Relaxed));
    // Half of the requests are bid on, and half of the bids win.
    assert!(requests >= 10 && notices.abs_diff(requests / 4) <= 1, "{requests} requests, {notices} notices");
    assert_eq!(seen.most_waiting.load(Ordering::Relaxed), 1);
    assert!(measured.answers.refused[0] > 0 && measured.answers.bids > 0, "{:?}", measured.answers);
    assert!(Summary::of(&measured).table().contains("refused as busy"));
}
