//! The file of what the pacer has learned.
//!
//! The bytes are taken as a file, and as payloads with their lengths (u16) before them: the fuzzer does not find the
//! checksums that a file wants.

use tidegate_machines::TimeMs;
use tidegate_pacer::control::{DayCurve, LEARNED_HEAD, Learned, Point, Profile, read_learned};
use tidegate_pacer::strategy::{Horizon, Memory, QUARTERS};
use tidegate_pacer::units::BudgetMicros;

use crate::decisions::payloads;

/// What is read is written the same.
pub fn check(bytes: &[u8]) {
    if let Some((learned, _)) = read_learned(bytes) {
        check_learned(&learned);
    }
    let mut all = Vec::new();
    for payload in payloads(bytes) {
        let Ok(learned) = Learned::decode(payload) else { continue };
        let mut again = Vec::new();
        learned.encode(&mut again);
        assert_eq!(again, payload, "it has one form");
        all.push(learned);
    }
    check_learned(&all);
}

fn check_learned(all: &[Learned]) {
    let mut file = LEARNED_HEAD.to_vec();
    all.iter().for_each(|learned| learned.append(&mut file));
    let (read, unread_bytes) = read_learned(&file).expect("a file of this layout");
    assert!(read == all && unread_bytes == 0, "what was written is read");
}

/// A file and payloads to begin with, by name.
pub fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let mut curve = DayCurve::new(Horizon { begins: TimeMs(1_000), ends: TimeMs(86_401_000) });
    curve.put(0, Point { spent: BudgetMicros(0), planned: None, share: 1.0 });
    curve.put(144, Point { spent: BudgetMicros(70_000), planned: Some(BudgetMicros(80_000)), share: 0.25 });
    let profile = Profile { weights: std::array::from_fn(|quarter| quarter as f64), now: Some((QUARTERS - 1, 300.0)) };
    let with = Learned { number: 7, version: 2, memory: Memory([0.5, -1.0, 0.0, 3.0]), profile, curve: Some(curve) };
    let profile = Profile { weights: [1.0; QUARTERS], now: None };
    let without = Learned { number: 8, version: 1, memory: Memory::default(), profile, curve: None };
    let (mut file, mut payloads) = (LEARNED_HEAD.to_vec(), Vec::new());
    for learned in [&with, &without] {
        learned.append(&mut file);
        let mut payload = Vec::new();
        learned.encode(&mut payload);
        payloads.extend((payload.len() as u16).to_le_bytes());
        payloads.extend(payload);
    }
    vec![("file", file), ("payloads", payloads)]
}
