//! The load against a small pacer that answers as Tidegate does, but has no money.

use super::*;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    assert_eq!((measured.unsent, measured.unanswered, measured.answers.busy), (0, 0, 0));
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
    assert!(measured.answers.busy > 0 && measured.answers.requests() == 0, "{:?}", measured.answers);
    assert!(Summary::of(&measured).table().contains("packets refused as busy"));
}

#[test]
fn what_is_wrong_is_said() {
    let error = |manner| format!("{:#}", run(manner, &mut frames()).err().expect("it fails"));
    assert!(error(Manner::Leaving).contains("the server closed the connection"), "{}", error(Manner::Leaving));
    assert!(error(Manner::Confused).contains("the correlation of no open request"));
    assert_eq!(error(Manner::Refusing), "the server said room_unknown: because");
    let wrong = run(Manner::Ready, &mut frames().with_token(Some("wrong".to_owned()))).err().expect("it fails");
    assert!(format!("{wrong:#}").contains("did not let us in: the server did not welcome us"), "{wrong:#}");
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
