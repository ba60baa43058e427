//! What the hot path of the codec costs: `cargo bench -p tidegate-wire`. Prints the best of many rounds, in nanoseconds
//! for each transfer or outcome, for requests of 8,190 and of one, and what prost costs for the same.

use prost::Message;
use std::hint::black_box;
use std::time::Instant;
use tidegate_wire::proto::RequestFrame;
use tidegate_wire::{
    BodyRef, OutcomesEncoder, ReplyBodyRef, Split, TransferRef, TransferSpans, TransfersEncoder, decode_reply,
    decode_request, limits, split,
};

const ITEMS: usize = limits::TRANSFERS_MAX;

/// The best of `rounds` runs of `work`, in nanoseconds for each of `items`.
fn best(rounds: usize, items: usize, mut work: impl FnMut()) -> f64 {
    let run = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / items as f64
    };
    (0..rounds).map(|_| run(&mut work)).fold(f64::INFINITY, f64::min)
}

fn encode(out: &mut Vec<u8>, texts: &[[String; 3]]) {
    out.clear();
    let mut frame = TransfersEncoder::begin(out, 77, false);
    for (index, [id, debit, credit]) in texts.iter().enumerate() {
        let (id, debit, credit) = (id.as_bytes(), debit.as_bytes(), credit.as_bytes());
        frame.push(&TransferRef {
            id,
            debit,
            credit,
            amount: 1 + index as u64 % 1_000,
            memo: b"",
            ..Default::default()
        });
    }
    frame.finish();
}

fn decode(frame: &[u8], items: &mut Vec<TransferSpans>) {
    items.clear();
    let request = decode_request(frame).expect("a request");
    let BodyRef::Transfers(transfers) = request.body else { panic!("transfers") };
    transfers.read(|item| items.push(item)).expect("transfers");
}

fn main() {
    // Without `--bench` cargo only asks whether it runs.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { 300 } else { 1 };
    let texts: Vec<[String; 3]> = (0..ITEMS)
        .map(|n| [format!("01J{n:023}"), format!("wallet:{:06}", n * 7 % 10_000), format!("candidate:{}", n % 7)])
        .collect();
    let (mut out, mut items) = (Vec::new(), Vec::with_capacity(ITEMS));
    let line = |what: &str, ns: f64| println!("{what:<44}{ns:>8.1} ns");

    line("encode a transfer, 8,190 a request", best(rounds, ITEMS, || encode(&mut out, black_box(&texts))));
    let Ok(Split::Frame(range)) = split(&out, limits::FRAME_BYTES_MAX) else { panic!("a frame") };
    let frame = out[range].to_vec();
    println!("{:<44}{:>8} bytes", "  frame", frame.len());
    line("decode a transfer, 8,190 a request", best(rounds, ITEMS, || decode(black_box(&frame), &mut items)));
    line(
        "  prost",
        best(rounds, ITEMS, || {
            black_box(RequestFrame::decode(black_box(&frame[..])).expect("a request"));
        }),
    );

    let singles = 1_000;
    line(
        "encode a request of one",
        best(rounds, singles, || (0..singles).for_each(|n| encode(&mut out, black_box(&texts[n..=n])))),
    );
    line(
        "split and decode a request of one",
        best(rounds, singles, || {
            for _ in 0..singles {
                let Ok(Split::Frame(range)) = split(black_box(&out), limits::FRAME_BYTES_MAX) else {
                    panic!("a frame")
                };
                decode(&out[range], &mut items);
            }
        }),
    );

    let mut reply = Vec::new();
    let mut applied = |count: usize| {
        reply.clear();
        let mut frame = OutcomesEncoder::begin(&mut reply, 77, count);
        (0..count).for_each(|_| frame.applied());
        frame.finish();
        black_box(reply.len())
    };
    line("encode an outcome, 8,190 a reply", best(rounds, ITEMS, || _ = applied(black_box(ITEMS))));
    line("encode a reply of one", best(rounds, singles, || (0..singles).for_each(|_| _ = applied(black_box(1)))));
    applied(ITEMS);
    let Ok(Split::Frame(range)) = split(&reply, limits::FRAME_BYTES_MAX) else { panic!("a frame") };
    line(
        "decode an outcome, 8,190 a reply",
        best(rounds, ITEMS, || {
            let decoded = decode_reply(black_box(&reply[range.clone()])).expect("a reply");
            let ReplyBodyRef::Outcomes(outcomes) = decoded.body else { panic!("outcomes") };
            black_box(outcomes.filter(|outcome| outcome.is_ok()).count());
        }),
    );
}
