//! What the pacer's frames cost: `cargo bench -p tidegate-wire --bench pacer`. Prints the best of many rounds, in
//! nanoseconds for each bid, for packets of ten and of one, and what prost costs for the same.

use prost::Message;
use std::hint::black_box;
use std::time::Instant;
use tidegate_wire::pacer::{
    BidRequestRef, BidsWriter, PacerReplyRef, PacerRequestRef, encode_bid_requests, proto, read_reply, read_request,
};
use tidegate_wire::{BodyRef, ReplyBodyRef, Split, decode_reply, decode_request, limits, split};

const PACKETS: usize = 64;

/// The best of `rounds` runs of `work`, in nanoseconds for each of `items`.
fn best(rounds: usize, items: usize, mut work: impl FnMut()) -> f64 {
    let run = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / items as f64
    };
    (0..rounds).map(|_| run(&mut work)).fold(f64::INFINITY, f64::min)
}

fn request(n: u64) -> BidRequestRef {
    let scattered = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    BidRequestRef {
        id: scattered,
        campaign: 1 + (scattered >> 40) as u32 % 1_000,
        user: scattered.rotate_left(17),
        key: scattered.rotate_left(31),
        price_micros: 2_000 + (scattered >> 50) as u32 % 1_000,
    }
}

/// Calls `visit` with each frame of `stream`.
fn for_each_frame(stream: &[u8], mut visit: impl FnMut(&[u8])) {
    let mut at = 0;
    while at < stream.len() {
        let Ok(Split::Frame(range)) = split(&stream[at..], limits::FRAME_BYTES_MAX) else { panic!("a frame") };
        visit(&stream[at..][range.clone()]);
        at += range.end;
    }
}

fn room_of(frame: &[u8]) -> &[u8] {
    let BodyRef::Room(room) = decode_request(frame).expect("a request").body else { panic!("a room") };
    room.body
}

fn packets_of(rounds: usize, packet: usize) {
    let bids = PACKETS * packet;
    let line = |what: &str, ns: f64| println!("{:<52}{ns:>8.1} ns", format!("{what}, packets of {packet}"));
    let requests: Vec<BidRequestRef> = (1..=bids as u64).map(request).collect();
    let mut stream = Vec::new();
    line(
        "encode a bid request",
        best(rounds, bids, || {
            stream.clear();
            for (n, packet) in black_box(&requests).chunks(packet).enumerate() {
                encode_bid_requests(&mut stream, n as u64, packet.iter().copied());
            }
        }),
    );
    println!("{:<52}{:>8} bytes", "  each", stream.len() / bids);
    let mut sum = 0u64;
    line(
        "split, check and decode a bid request",
        best(rounds, bids, || {
            for_each_frame(black_box(&stream), |frame| {
                let Ok(PacerRequestRef::Bids(bids)) = read_request(room_of(frame)) else { panic!("bids") };
                bids.for_each(|bid| {
                    sum ^= bid.id ^ bid.user ^ bid.key ^ u64::from(bid.campaign) ^ u64::from(bid.price_micros);
                });
            });
        }),
    );
    let mut kept = Vec::with_capacity(256);
    line(
        "  kept in a list, and read from there",
        best(rounds, bids, || {
            for_each_frame(black_box(&stream), |frame| {
                let Ok(PacerRequestRef::Bids(bids)) = read_request(room_of(frame)) else { panic!("bids") };
                kept.clear();
                kept.extend(bids);
                for bid in black_box(&kept) {
                    sum ^= bid.id ^ bid.user ^ bid.key ^ u64::from(bid.campaign) ^ u64::from(bid.price_micros);
                }
            });
        }),
    );
    line(
        "  only split and check",
        best(rounds, bids, || {
            for_each_frame(black_box(&stream), |frame| sum ^= u64::from(read_request(room_of(frame)).is_ok()));
        }),
    );
    line(
        "  only split, and find the room",
        best(rounds, bids, || for_each_frame(black_box(&stream), |frame| sum ^= room_of(frame).len() as u64)),
    );
    line(
        "  prost, the room's body",
        best(rounds, bids, || {
            for_each_frame(black_box(&stream), |frame| {
                black_box(proto::PacerRequest::decode(room_of(frame)).expect("a request"));
            });
        }),
    );

    let token = [7; 32];
    line(
        "encode a bid",
        best(rounds, bids, || {
            stream.clear();
            for (n, packet) in black_box(&requests).chunks(packet).enumerate() {
                let mut frame = BidsWriter::begin(&mut stream, n as u64);
                packet.iter().for_each(|request| frame.bid(request.price_micros, black_box(&token)));
                frame.finish();
            }
        }),
    );
    line(
        "split, check and decode a bid",
        best(rounds, bids, || {
            for_each_frame(black_box(&stream), |frame| {
                let ReplyBodyRef::Room(room) = decode_reply(frame).expect("a reply").body else { panic!("a room") };
                let Ok(PacerReplyRef::Bids(bids)) = read_reply(room.body) else { panic!("bids") };
                bids.for_each(|bid| sum ^= u64::from(bid.price_micros) ^ bid.token.len() as u64);
            });
        }),
    );
    black_box(sum);
}

fn main() {
    // Without `--bench` cargo only asks whether it runs.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { 3_000 } else { 1 };
    packets_of(rounds, 10);
    packets_of(rounds, 1);
}
