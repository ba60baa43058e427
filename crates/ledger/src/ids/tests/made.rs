//! An index that is made without requests has the same files.

use super::make::{MadeId, Maker};
use super::*;

fn files(disk: &FakeDisk) -> Vec<(PathBuf, Vec<u8>)> {
    disk.files().into_iter().map(|(path, _)| (path.clone(), disk.contents(&path).expect("it exists"))).collect()
}

#[test]
fn a_made_index_is_the_one_that_inserts_make() {
    // With as much memory for filters as they want, and with so little that runs must share it.
    for filter_bytes_max in [1 << 16, 1 << 13] {
        made_as_inserted(IdsOptions { freeze_at: 64, filter_bytes_max, ..small() });
    }
}

fn made_as_inserted(options: IdsOptions) {
    let id = |n: u64| match n % 3 {
        0 => format!("random-{n}"),
        1 => format!("till:19700102:1:{n:06}"),
        _ => format!("{:08x}-{:04x}-7000-8000-{n:012x}", 0u32, 1_000 * (n / 100) + 90_000),
    };
    let (records, end) = (5_000, Position(20_000));
    let mut world = World::new(1, options);
    let mut history = Vec::new();
    for n in 0..records {
        world.now = DAY + (n / 100) as u32;
        let hash = world.index.hash(id(n).as_bytes());
        world.insert(hash, n, 3);
        world.sync_journal();
        world.maintain(5).expect("the disk works");
        history.push((id(n), world.end(), world.now));
    }
    world.durable = end;
    world.index.cover(world.durable);
    world.maintain(20).expect("the disk works");

    let made = FakeDisk::new(2);
    let mut maker = Maker::begin(made.clone(), &dir(), options, records, place(end)).expect("the disk works");
    let stretches = maker.stretches();
    assert!(stretches.len() > 2 && stretches.iter().map(|stretch| stretch.end - stretch.start).sum::<u64>() == records);
    for stretch in stretches {
        // As two threads do it, that share a table.
        let middle = stretch.start + (stretch.end - stretch.start) / 2 + 7;
        let gathered = [stretch.start..middle.min(stretch.end), middle.min(stretch.end)..stretch.end].map(|part| {
            let mut gathering = maker.gather(stretch.clone());
            for n in part {
                let (id, position, now) = &history[n as usize];
                gathering.add(n, MadeId { id: id.as_bytes(), position: *position, now: *now });
            }
            gathering
        });
        for mut bucket in maker.begin_run(gathered.into()).expect("the disk works") {
            bucket.sort();
            maker.write(bucket).expect("the disk works");
        }
        maker.end_run().expect("the disk works");
    }
    let facts = maker.finish().expect("the disk works");
    assert_eq!((facts.entries, facts.runs), (records, world.index.facts().runs));
    assert_eq!(files(&made), files(&world.disk));
}

const DAY: u32 = 86_400;
