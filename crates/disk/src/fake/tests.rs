use super::*;

fn path(name: &str) -> PathBuf {
    Path::new("data").join(name)
}

fn disk(seed: u64) -> FakeDisk {
    let disk = FakeDisk::new(seed);
    disk.create_dir_all(Path::new("data")).unwrap();
    disk
}

/// A file of `len` ones that is durable, name and all.
fn durable_file(disk: &FakeDisk, name: &str, len: usize) -> FakeFile {
    let file = disk.create_new(&path(name)).unwrap();
    file.write_all_at(&vec![1; len], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("data")).unwrap();
    file
}

#[test]
fn what_was_synced_survives_every_crash() {
    for seed in 0..100 {
        let disk = disk(seed);
        let file = durable_file(&disk, "a", 3000);
        file.write_all_at(&[2; 2000], 3000).unwrap();
        disk.crash();
        assert!(file.read_at(&mut [0], 0).is_err(), "the handle is from before the crash");
        let after = disk.contents(&path("a")).unwrap();
        assert_eq!(after[..3000], vec![1; 3000], "seed {seed}");
    }
}

#[test]
fn unsynced_sectors_are_lost_kept_torn_and_reordered() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let disk = disk(seed);
        let file = durable_file(&disk, "a", 4096);
        file.write_all_at(&[2; 2048], 512).unwrap();
        disk.crash();
        let after = disk.contents(&path("a")).unwrap();
        let sectors: Vec<&str> = after[512..2560]
            .chunks(512)
            .map(|sector| match (sector.contains(&1), sector.contains(&2)) {
                (true, true) => "torn",
                (true, false) => "lost",
                _ => "kept",
            })
            .collect();
        outcomes.insert(sectors.join(" "));
    }
    for expected in ["lost lost lost lost", "kept kept kept kept", "kept torn lost lost"] {
        assert!(outcomes.contains(expected), "{outcomes:?}");
    }
    assert!(outcomes.iter().any(|outcome| outcome.contains("lost kept")), "reordered: {outcomes:?}");
}

#[test]
fn names_are_durable_only_after_the_directory_was_synced() {
    let (mut created, mut renamed, mut removed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for seed in 0..50 {
        let disk = disk(seed);
        durable_file(&disk, "old", 1);
        durable_file(&disk, "gone", 1);
        disk.create_new(&path("new")).unwrap();
        disk.rename(&path("old"), &path("renamed")).unwrap();
        disk.remove(&path("gone")).unwrap();
        disk.crash();
        created.insert(disk.exists(&path("new")).unwrap());
        renamed.insert(disk.exists(&path("renamed")).unwrap());
        removed.insert(!disk.exists(&path("gone")).unwrap());
        assert_ne!(disk.exists(&path("old")).unwrap(), disk.exists(&path("renamed")).unwrap(), "a rename is atomic");
    }
    for outcomes in [created, renamed, removed] {
        assert_eq!(outcomes.len(), 2, "each may be kept or lost");
    }
}

#[test]
fn a_failed_sync_may_lose_pages_that_still_can_be_read() {
    let mut lost = false;
    for seed in 0..50 {
        let disk = disk(seed);
        let file = durable_file(&disk, "a", 512);
        file.write_all_at(&[2; 512], 0).unwrap();
        disk.fail_next_sync();
        assert!(file.sync_data().is_err());
        file.sync_data().expect("asking again succeeds, and proves nothing");
        assert_eq!(disk.contents(&path("a")).unwrap(), vec![2; 512]);
        disk.crash();
        lost |= disk.contents(&path("a")).unwrap() == vec![1; 512];
    }
    assert!(lost);
}

#[test]
fn a_full_disk_refuses_room_and_extending_writes_but_not_what_it_has_promised() {
    let disk = disk(1);
    disk.set_capacity(10_000);
    let file = durable_file(&disk, "a", 1000);
    file.allocate(8000).unwrap();
    assert_eq!(file.allocate(12_000).unwrap_err().kind(), io::ErrorKind::StorageFull);
    let other = disk.create_new(&path("b")).unwrap();
    assert_eq!(other.write_all_at(&[0; 3000], 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.write_all_at(&[3; 7000], 1000).unwrap();
    disk.set_capacity(20_000);
    file.allocate(12_000).unwrap();
}

#[test]
fn the_machine_stops_in_the_middle_of_a_write_and_stays_stopped() {
    let mut lengths = BTreeSet::new();
    for seed in 0..50 {
        let disk = disk(seed);
        let file = durable_file(&disk, "a", 100);
        disk.crash_after_ops(1);
        file.write_all_at(&[2; 100], 100).unwrap();
        assert!(file.write_all_at(&[3; 100], 200).is_err());
        assert!(disk.has_stopped());
        assert!(file.sync_data().is_err() && disk.open(&path("a")).is_err() && file.read_at(&mut [0], 0).is_err());
        disk.kill();
        lengths.insert(disk.contents(&path("a")).unwrap().len());
    }
    assert!(lengths.len() > 5 && *lengths.last().unwrap() <= 300, "{lengths:?}");
}

#[test]
fn a_truncation_is_durable_after_a_sync_and_never_brings_old_bytes_back() {
    for seed in 0..50 {
        let disk = disk(seed);
        let file = durable_file(&disk, "a", 3000);
        file.set_len(700).unwrap();
        file.sync_data().unwrap();
        file.set_len(3000).unwrap();
        file.sync_data().unwrap();
        disk.crash();
        let after = disk.contents(&path("a")).unwrap();
        assert!(after[..700].iter().all(|byte| *byte == 1) && after[700..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let run = |seed| {
        let disk = disk(seed);
        let file = durable_file(&disk, "a", 4096);
        file.write_all_at(&[2; 4096], 0).unwrap();
        disk.crash();
        disk.contents(&path("a")).unwrap()
    };
    assert!((0..50).all(|seed| run(seed) == run(seed)));
    assert!((1..50).any(|seed| run(seed) != run(0)));
}

#[test]
fn a_bad_sector_fails_reads_that_touch_it_until_it_is_written_or_mended() {
    let disk = disk(1);
    let file = durable_file(&disk, "a", 2048);
    assert!(!disk.spoil_sector(&path("b"), 0));
    assert!(disk.spoil_sector(&path("a"), 700));
    let read = |from: u64, len: usize| file.read_exact_at(&mut vec![0; len], from).is_ok();
    assert!(read(0, 512) && read(1024, 1024) && !read(511, 2) && !read(1023, 1));
    assert_eq!(disk.counts().failed_reads, 2);
    assert_eq!(disk.contents(&path("a")).unwrap(), vec![1; 2048], "whoever looks from outside sees all");
    assert!(disk.has_bad_sector(&path("a")));
    file.write_all_at(&[2; 512], 512).unwrap();
    assert!(read(0, 2048) && !disk.has_bad_sector(&path("a")));
    disk.spoil_sector(&path("a"), 0);
    disk.kill();
    assert!(Disk::open(&disk, &path("a")).unwrap().read_at(&mut [0], 0).is_err(), "a restart mends no disk");
    disk.mend_sectors();
    assert!(Disk::open(&disk, &path("a")).unwrap().read_at(&mut [0], 0).is_ok());
}

#[test]
fn a_failed_write_fails_once_and_leaves_a_part() {
    let mut parts = BTreeSet::new();
    for seed in 0..50 {
        let disk = disk(seed);
        let file = durable_file(&disk, "a", 10);
        disk.fail_next_write();
        assert!(file.write_all_at(&[2; 10], 0).is_err());
        let bytes = disk.contents(&path("a")).unwrap();
        parts.insert(bytes.iter().filter(|byte| **byte == 2).count());
        assert!(file.write_all_at(&[3; 10], 0).is_ok());
        assert_eq!(disk.contents(&path("a")).unwrap(), [3; 10]);
        assert_eq!(disk.counts().failed_writes, 1);
    }
    assert!(parts.contains(&0) && parts.contains(&10) && parts.len() > 5, "{parts:?}");
}
