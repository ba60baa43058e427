//! Replay gives the live state, wherever the machine stops.

use super::*;

/// Works until the disk stops; returns the commands that became records of this life, in order.
fn live(shard: &mut Tested, disk: &FakeDisk, random: &mut u64, asked: &mut Vec<Command>, acknowledged: &mut u64) {
    while !disk.has_stopped() && shard.failure().is_none() {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let choice = *random >> 33;
        match choice % 8 {
            0..3 => {
                let command = nth(asked.len(), 1 + (choice >> 4) as usize % 600);
                shard.call(asked.len(), command.clone());
                asked.push(command);
            }
            3 => drop(shard.step(NOW)),
            4 if choice.is_multiple_of(5) => drop(compaction::compact_now(disk)),
            _ => drop(shard.log_mut().step()),
        }
        for (number, answer) in all_released(shard) {
            let Ok(answer) = answer else { continue };
            assert_eq!(number as u64, *acknowledged, "in order, and each once");
            match answer.into_inner() {
                Decided::Done { sequence, .. } => assert_eq!(sequence.0, number as u64 + 1),
                other => panic!("{other:?}"),
            }
            *acknowledged += 1;
        }
    }
}

#[test]
fn replay_gives_what_was_live_after_a_stop_at_any_operation() {
    let (mut acknowledged_in_all, mut from_snapshots) = (0, 0);
    for seed in 0..60 {
        let disk = FakeDisk::new(seed);
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (mut asked, mut acknowledged) = (Vec::new(), 0);
        for life in 0..12 {
            let opened = open(&disk);
            let Ok((mut shard, report)) = opened else {
                assert!(disk.has_stopped(), "seed {seed}: {:?}", opened.err());
                disk.crash();
                continue;
            };
            let recovered = shard.appended().0;
            assert!(recovered >= acknowledged, "seed {seed}, life {life}: {recovered} of {acknowledged}");
            asked.truncate(recovered as usize);
            assert_eq!(bytes_of(shard.state_ahead()), bytes_of(&model(&asked)), "seed {seed}, life {life}");
            from_snapshots += u32::from(report.snapshot_sequence > 0);
            // What was kept but never acknowledged: its client would ask again.
            acknowledged = recovered;
            disk.crash_after_ops(20 + (random >> 40) % 400);
            live(&mut shard, &disk, &mut random, &mut asked, &mut acknowledged);
            if random % 3 == 0 { disk.kill() } else { disk.crash() }
        }
        acknowledged_in_all += acknowledged;
    }
    assert!(acknowledged_in_all > 60 * 300, "the test must get somewhere: {acknowledged_in_all}");
    assert!(from_snapshots > 150, "and past its snapshots: {from_snapshots}");
}
