//! `kill -9` under load, again and again: what was answered is there, and nothing is there that nobody asked.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use support::{FAMILY, SERVICE, Server, audit};
use tidegate_client::Client;

const THREADS: usize = 4;
/// Answers in one life before the kill.
const ANSWERS: u64 = 400;

/// What one thread knows of its counter, over all lives.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The last value that was answered.
    answered: u64,
    /// That, and all that was asked since and not answered.
    asked: u64,
}

#[test]
fn what_was_answered_survives_kills() {
    let kills: u64 = std::env::var("TIDEGATE_KILLS").map_or(10, |text| text.parse().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut known = [Known::default(); THREADS];
    for life in 0..=kills {
        let server = Server::start(&data, "shards = 2");
        for (thread, known) in known.iter_mut().enumerate() {
            let value = server.read(&name(thread)).unwrap_or(0);
            assert!(
                known.answered <= value && value <= known.asked,
                "life {life}: {} <= {value} <= {}",
                known.answered,
                known.asked
            );
            *known = Known { answered: value, asked: value };
        }
        if life == kills {
            assert!(server.stop());
            break;
        }
        let told = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = known
            .into_iter()
            .enumerate()
            .map(|(thread, known)| {
                let (told, binary) = (told.clone(), server.binary);
                std::thread::spawn(move || count(thread, known, binary, &told))
            })
            .collect();
        while told.load(Ordering::Relaxed) < ANSWERS * (1 + life % 3) {
            std::thread::yield_now();
        }
        server.kill();
        for (known, thread) in known.iter_mut().zip(threads) {
            *known = thread.join().unwrap();
        }
    }
    let (agrees, said) = audit(&data);
    assert!(agrees, "{said}");
}

fn name(thread: usize) -> String {
    format!("thread-{thread}")
}

/// Adds until the server is gone.
fn count(thread: usize, mut known: Known, binary: std::net::SocketAddr, told: &AtomicU64) -> Known {
    let mut client = Client::connect(binary, SERVICE).unwrap();
    for amount in (1..=7).cycle() {
        known.asked += amount;
        let body = format!(r#"{{"add":{{"name":"{}","amount":{amount}}}}}"#, name(thread));
        let Ok(answer) = client.room(FAMILY, body.as_bytes()) else { return known };
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["value"], known.asked, "one writer, so each answer is the sum of all that was asked");
        known.answered = known.asked;
        told.fetch_add(1, Ordering::Relaxed);
    }
    unreachable!("a cycle has no end")
}
