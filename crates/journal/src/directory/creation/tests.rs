use std::path::Path;

use super::super::description::Description;
use super::super::tests::server;
use super::super::{DIRECTORY, DIRECTORY_NEW, LOCK, may_be_made};
use super::create;
use crate::JournalError;
use crate::disk::{Disk, FakeDisk};
use crate::key::Key;

const DATA: &str = "data";

/// What `Directory::open_or_create` does where there is no directory, in its order, but for the locks themselves.
fn begin(disk: &FakeDisk, created_at_ms: u64) -> Result<(), JournalError> {
    let data = Path::new(DATA);
    let failed = |cause| JournalError::io("begin", data, cause);
    may_be_made(disk, data)?;
    disk.create_dir_all(data).map_err(failed)?;
    if !disk.exists(&data.join(LOCK)).map_err(failed)? {
        disk.create_new(&data.join(LOCK)).map_err(failed)?;
    }
    if may_be_made(disk, data)? {
        create(disk, data, &server(2, 3), created_at_ms)?;
    }
    Key::read_or_create(disk, data).map(drop)
}

#[test]
fn a_creation_that_is_cut_short_between_any_two_steps_is_finished_by_the_next_start() {
    let data = Path::new(DATA);
    let operations = {
        let disk = FakeDisk::new(0);
        begin(&disk, 1).unwrap();
        disk.counts().operations
    };
    assert!(operations > 30, "each step is tried: {operations}");
    let (mut went_on, mut began_again) = (0, 0);
    for seed in 0..8 {
        for cut in 0..operations {
            let disk = FakeDisk::new(seed);
            disk.crash_after_ops(cut);
            let stopped = begin(&disk, 1).expect_err("the machine stops").to_string();
            assert!(stopped.contains("the machine has stopped"), "{stopped}");
            // Either the process is killed, or the power fails.
            if seed % 2 == 0 {
                disk.kill()
            } else {
                disk.crash()
            }
            let begun = [DIRECTORY, DIRECTORY_NEW].map(|name| Description::read(&disk, &data.join(name)).ok());
            let begun = begun.into_iter().flatten().next();
            begin(&disk, 2).unwrap_or_else(|refused| panic!("seed {seed}, cut before {cut}: {refused}"));
            let made = Description::read(&disk, &data.join(DIRECTORY)).unwrap();
            match begun {
                Some(begun) => {
                    assert_eq!(made, begun, "seed {seed}, cut before {cut}: it stays itself");
                    went_on += 1;
                }
                None => began_again += 1,
            }
            assert_eq!(disk.list(&data.join("journal")).unwrap().len(), 5, "seed {seed}, cut before {cut}");
            assert!(Key::read(&disk, data).unwrap().is_some());
            begin(&disk, 3).expect("it is whole");
        }
    }
    assert!(went_on > 100 && began_again > 10, "{went_on}, {began_again}");
}
