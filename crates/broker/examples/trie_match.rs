//! Nanoseconds of one match, by number of subscriptions: `cargo run --release --example trie_match`.
//!
//! Topics are drawn at random from all that are subscribed to, so that with many subscriptions each match is at lines
//! that no cache holds; and from a thousand of them, as when few devices speak.

use std::hint::black_box;
use std::time::Instant;
use tidegate_broker::SessionIndex;
use tidegate_broker::subscriptions::{Entry, Matches, Subscriptions};

const COUNTS: [u32; 3] = [1_000, 200_000, 2_000_000];
const MATCHES: u32 = 1_000_000;

fn main() {
    println!("{:<58} {:>9} {:>9} {:>9}", "ns per match", COUNTS[0], COUNTS[1], COUNTS[2]);
    let sensor = |n: u32| (format!("site/+/dev-{n:06}/temp"), format!("site/hall/dev-{n:06}/temp"));
    row("site/+/dev-123456/temp, 1 matches, any", sensor, u32::MAX, 1);
    row("site/+/dev-123456/temp, 1 matches, of a thousand", sensor, 1_000, 1);
    let inbox = |n: u32| (format!("chat/inbox/user-{n:06}"), format!("chat/inbox/user-{n:06}"));
    row("chat/inbox/user-123456, 1 matches, any", inbox, u32::MAX, 1);
    row("chat/inbox/user-123456, 1 matches, of a thousand", inbox, 1_000, 1);
    let nobody = |n: u32| (format!("chat/inbox/user-{n:06}"), format!("chat/inbox/nobody-{n:06}"));
    row("chat/inbox/nobody-123456, 0 match, any", nobody, u32::MAX, 0);
    let mixed = |n: u32| {
        let filter = match n % 5 {
            0 => format!("site/+/dev-{n:06}/temp"),
            1 => format!("+/hall/dev-{n:06}/#"),
            2 => format!("site/hall/dev-{n:06}/+"),
            3 => format!("+/+/dev-{n:06}/temp"),
            _ => format!("site/hall/dev-{n:06}/temp"),
        };
        (filter, format!("site/hall/dev-{n:06}/temp"))
    };
    row("five shapes of filters, 1 matches, any", mixed, u32::MAX, 1);
    row("five shapes of filters, 1 matches, of a thousand", mixed, 1_000, 1);
    let rooms = |n: u32| (format!("room/{:06}", n / 1_000), format!("room/{:06}", n / 1_000));
    row("room/123456, 1,000 match, any", rooms, u32::MAX, 1_000);
}

/// Measures one kind of filter and topic, with topics of `hot` subscriptions.
fn row(what: &str, names: impl Fn(u32) -> (String, String), hot: u32, expected: usize) {
    let figures = COUNTS.map(|count| {
        let mut all = Subscriptions::new(1);
        for session in 0..count {
            all.insert(
                None,
                &names(session).0,
                Entry { session: SessionIndex::new(session), worker: (session % 2) as u8, ..Entry::default() },
            );
        }
        let mut dice = 0x2545_F491_4F6C_DD1D_u64;
        let topics: Vec<String> = (0..MATCHES.min(count * 20) / expected.max(1) as u32)
            .map(|_| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                names(((dice >> 33) % u64::from(count.min(hot))) as u32).1
            })
            .collect();
        let mut found = Matches::new();
        // The best of some runs: what else the machine does only adds.
        let mut best = f64::INFINITY;
        for _ in 0..7 {
            let begin = Instant::now();
            for topic in &topics {
                all.matches(black_box(topic), 0, &mut found);
                assert!(found.receivers(0).len() + found.receivers(1).len() == expected, "{topic}");
            }
            best = best.min(begin.elapsed().as_nanos() as f64 / topics.len() as f64);
        }
        best
    });
    println!("{what:<58} {:>9.0} {:>9.0} {:>9.0}", figures[0], figures[1], figures[2]);
}
