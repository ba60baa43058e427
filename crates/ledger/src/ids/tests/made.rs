//! An index that is made without requests has the same files.

use super::make::{MadeId, Maker};
use super::*;

fn files(disk: &FakeDisk) -> Vec<(PathBuf, Vec<u8>)> {
    disk.files().into_iter().map(|(path, _)| (path.clone(), disk.contents(&path).expect("it exists"))).collect()
}

#[test]
fn a_made_index_is_the_one_that_inserts_make() {
    let options = IdsOptions { freeze_at: 64, filter_bytes_max: 1 << 16, ..small() };
    let id = |n: u64| match n % 3 {
        0 => format!("random-{n}"),
        1 => format!("till:19700102:1:{n:06}"),
        _ => format!("{:08x}-{:04x}-7000-8000-{n:012x}", 0u32, 1_000 * (n / 100) + 90_000),
    };
    let mut world = World::new(1, options);
    let made = FakeDisk::new(2);
    let mut maker = Maker::begin(made.clone(), &dir(), options, place(Position(20_000))).expect("the disk works");
    for n in 0..5_000u64 {
        world.now = DAY + (n / 100) as u32;
        let hash = world.index.hash(id(n).as_bytes());
        world.insert(hash, n, 3);
        world.sync_journal();
        world.maintain(5).expect("the disk works");
        let id = id(n);
        maker.add(MadeId { id: id.as_bytes(), position: world.end(), now: world.now }).expect("the disk works");
    }
    world.durable = Position(20_000);
    world.index.cover(world.durable);
    world.maintain(20).expect("the disk works");
    let facts = maker.finish().expect("the disk works");
    assert_eq!((facts.entries, facts.runs), (5_000, world.index.facts().runs));
    assert_eq!(files(&made), files(&world.disk));
}

const DAY: u32 = 86_400;
