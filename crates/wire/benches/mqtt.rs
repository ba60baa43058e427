//! What an MQTT packet costs: `cargo bench -p tidegate-wire --bench mqtt`. Prints the best of many rounds, in
//! nanoseconds for each packet, and fails if any of it allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use tidegate_wire::mqtt::*;
use tidegate_wire::websocket::{Event, FrameDecoder, Opcode, encode_client_frame};

const PACKETS: usize = 10_000;

/// Counts what is allocated, for the promise that nothing is.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The best of `rounds` runs of 10,000 times `work`.
fn line(what: &str, rounds: usize, mut work: impl FnMut()) {
    let before = ALLOCATIONS.load(Relaxed);
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        (0..PACKETS).for_each(|_| work());
        best = best.min(start.elapsed().as_nanos() as f64 / PACKETS as f64);
    }
    assert_eq!(ALLOCATIONS.load(Relaxed), before, "{what} allocates");
    println!("{what:<56}{best:>8.1} ns");
}

fn decode(version: Version, packet: &[u8]) {
    let Ok(Split::Packet(len)) = split(black_box(packet), 1 << 20) else { panic!("a packet") };
    black_box(decode_client(&packet[..len], version).expect("a right packet"));
}

fn main() {
    // Without `--bench` cargo only asks whether it runs.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { 300 } else { 1 };
    let mut user = Vec::new();
    push_user_property(&mut user, "trace", "0af7651916cd43dd8448eb211c80319c");
    push_user_property(&mut user, "origin", "bench");
    let publish = PublishOut {
        qos: QoS::AtLeastOnce,
        topic: "chat/rooms/0042/messages",
        packet_id: 7,
        payload: &[b'x'; 64],
        ..PublishOut::default()
    };
    let mut out = Vec::with_capacity(4_096);
    for version in [Version::V311, Version::V5] {
        out.clear();
        encode_publish(&mut out, version, &publish);
        line(&format!("split and decode PUBLISH, 64 B, QoS 1, {version:?}"), rounds, || decode(version, &out));
    }
    out.clear();
    encode_publish(&mut out, Version::V5, &PublishOut { properties: &user, message_expiry_s: Some(60), ..publish });
    line("  with an expiry and two user properties", rounds, || decode(Version::V5, &out));
    out.clear();
    encode_ack(&mut out, Version::V5, AckKind::PubAck, 7, ReasonCode::SUCCESS, None);
    line("split and decode PUBACK", rounds, || decode(Version::V5, &out));
    out.clear();
    let filters: Vec<String> = (0..10).map(|index| format!("chat/rooms/{index}/+/messages")).collect();
    let wanted: Vec<_> =
        filters.iter().map(|filter| SubscriptionOut { filter, ..SubscriptionOut::default() }).collect();
    encode_subscribe(&mut out, Version::V5, 7, Some(5), &wanted);
    line("split and decode SUBSCRIBE, 10 filters, and go through it", rounds, || {
        let Ok(Packet::Subscribe(subscribe)) = decode_client(black_box(&out), Version::V5) else { panic!("SUBSCRIBE") };
        subscribe.subscriptions().for_each(|wanted| _ = black_box(wanted));
    });
    out.clear();
    let connect =
        ConnectOut { client_id: "client-000001", keep_alive_s: 60, user_name: Some("user"), ..Default::default() };
    encode_connect(&mut out, Version::V5, &connect);
    line("split and decode CONNECT", rounds, || _ = black_box(decode_connect(black_box(&out)).expect("CONNECT")));
    for version in [Version::V311, Version::V5] {
        line(&format!("encode PUBLISH, 64 B, QoS 1, {version:?}"), rounds, || {
            out.clear();
            black_box(encode_publish(&mut out, version, black_box(&publish)));
        });
    }
    line("encode PUBACK", rounds, || {
        out.clear();
        encode_ack(&mut out, Version::V5, AckKind::PubAck, black_box(7), ReasonCode::SUCCESS, None);
    });
    out.clear();
    let topic = "chat/rooms/0042/messages";
    line("match a filter", rounds, || {
        _ = black_box(filter_matches(black_box("chat/rooms/+/messages"), black_box(topic)))
    });

    let (mut frame, mut copy) = (Vec::with_capacity(256), Vec::with_capacity(256));
    encode_client_frame(Opcode::Binary, [1, 2, 3, 4], &[b'x'; 100], &mut frame);
    let mut decoder = FrameDecoder::server();
    line("copy and unmask a WebSocket frame of 100 B", rounds, || {
        copy.clear();
        copy.extend_from_slice(black_box(&frame));
        let step = decoder.next(&mut copy).expect("a frame");
        assert!(matches!(step.event, Some(Event::Data(_))));
    });
}
