//! What the journal costs by itself on this machine: appending, syncing, reading one record, replaying all.
//!
//! `cargo run --release -p tidegate-journal --example speed [-- RECORDS [RECORDS_PER_GROUP [FOLDER]]]`

use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tidegate_journal::directory::{Directory, ShardCount, Wanted};
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{
    Cursor, Family, JournalError, LocalLogs, LogReader, LogStore, Logs, Opened, Options, Position, Retention,
};

/// What the log is created as; the bytes are those of any family.
const FAMILY: Family = Family { number: 1, name: "speed", retention: Retention::Whole };

const RECORD_BYTES: usize = 70;

fn main() -> Result<(), JournalError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, otherwise: u64| {
        arguments.get(index).and_then(|argument| argument.parse().ok()).unwrap_or(otherwise)
    };
    let (records, per_group) = (number(0, 5_000_000), number(1, 8_190));
    let folder = arguments.get(2).map_or_else(std::env::temp_dir, Into::into);
    let data = folder.join(format!("tidegate-journal-speed-{}", std::process::id()));

    let wanted = Wanted { family: FAMILY, shards: 1, count: ShardCount::Kept };
    let directory = Directory::open_or_create(&data, &[wanted], 0)?;
    let (logs, id) = (LocalLogs::new(RealDisk, &data, &[FAMILY]), FAMILY.log(directory.id(), 0));
    let (wake_sender, woken) = channel();
    let wake = Arc::new(move || {
        // Nobody listens any more when the run is over.
        let _ = wake_sender.send(());
    });
    let Opened { mut log, .. } = logs.open(id, Cursor::START, Options::default())?;
    log.set_wake(wake);

    let (mut appending, mut positions) = (Duration::ZERO, Vec::new());
    let payload = [7; RECORD_BYTES];
    let start = Instant::now();
    let (mut batches, mut write_ns, mut sync_ns, mut longest_sync_ns) = (0u64, 0, 0, 0);
    while log.last_sequence().0 < records {
        while log.ready().is_err() {
            woken.recv().expect("the log is open");
            log.poll_durable()?;
        }
        let began = Instant::now();
        let mut group = log.begin_group();
        for _ in 0..per_group {
            let at = group.append(|buffer| buffer.extend_from_slice(black_box(&payload)));
            if at.0 % 97 == 0 {
                positions.push(at);
            }
        }
        log.submit(group)?;
        appending += began.elapsed();
        log.take_facts(&mut |batch| {
            batches += 1;
            write_ns += batch.write_ns;
            sync_ns += batch.sync_ns;
            longest_sync_ns = longest_sync_ns.max(batch.sync_ns);
        });
    }
    let written = log.last_sequence().0;
    while log.poll_durable()?.sequence().0 < written {
        woken.recv().expect("the log is open");
    }
    let all = start.elapsed();
    let per_record = |duration: Duration| duration.as_nanos() as f64 / written as f64;
    println!("append, on the shard's thread   {:8.1} ns a record", per_record(appending));
    println!(
        "durable                         {:8.0} records/s in {batches} batches",
        written as f64 / all.as_secs_f64()
    );
    println!("  checksum, hash, write         {:8.1} ns a record", write_ns as f64 / written as f64);
    println!(
        "  sync                          {:8.0} us a batch, longest {} us",
        sync_ns as f64 / 1e3 / batches as f64,
        longest_sync_ns / 1000
    );

    let reads = 200_000.min(positions.len() * 10);
    let (mut into, reader, began) = (Vec::new(), log.reader()?, Instant::now());
    for index in 0..reads {
        let at: Position = positions[index.wrapping_mul(7919) % positions.len()];
        reader.read(at, &mut into)?;
    }
    println!("read a record, page cache       {:8.0} ns", began.elapsed().as_nanos() as f64 / reads as f64);

    let began = Instant::now();
    let mut groups = reader.groups(Cursor::START, &log.poll_durable()?)?;
    let (mut seen, mut bytes) = (0u64, 0usize);
    while let Some(group) = groups.next_group()? {
        for (_, _, payload) in group.records() {
            seen += 1;
            bytes += black_box(payload).len();
        }
    }
    assert_eq!((seen, bytes as u64), (written, written * RECORD_BYTES as u64));
    println!("replay, verified                {:8.1} ns a record", per_record(began.elapsed()));

    log.close()?;
    let began = Instant::now();
    let Opened { log, report } = logs.open(id, Cursor::START, Options::default())?;
    println!(
        "open                            {:8.1} ms for {} segments",
        began.elapsed().as_secs_f64() * 1e3,
        report.segments
    );
    drop(log);
    std::fs::remove_dir_all(&data).map_err(|cause| JournalError::Directory { path: data, what: cause.to_string() })
}
