//! What the file system of this machine does while the process has as many files open as it may. Alone in its process,
//! because the bound is one of the whole process.

#![allow(missing_docs, reason = "tests")]

use std::fs::File;
use std::io;
use std::time::Duration;

use tidegate_disk::{Disk, RealDisk};

/// The bound for this test: few, so that using them up takes no time.
const OPEN_FILES_MAX: u64 = 128;
/// How long they are used up. Longer than a file waits to be opened.
const USED_UP: Duration = Duration::from_millis(900);

fn use_up() -> Vec<File> {
    let files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).take(10_000).collect();
    assert!(files.len() < 10_000, "the bound holds");
    files
}

#[test]
fn what_must_be_durable_waits_for_a_descriptor_and_files_do_not_wait_for_long() {
    let folder = std::env::temp_dir().join(format!("tidegate-descriptors-{}", std::process::id()));
    RealDisk.create_dir_all(&folder).unwrap();
    let limit = libc::rlimit { rlim_cur: OPEN_FILES_MAX, rlim_max: OPEN_FILES_MAX };
    // SAFETY: the call takes a pointer to a live struct.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0, "{}", io::Error::last_os_error());

    let held = use_up();
    let opened = RealDisk.create_new(&folder.join("file"));
    assert_eq!(opened.err().and_then(|cause| cause.raw_os_error()), Some(libc::EMFILE), "it is said, in the end");
    let freed = std::thread::spawn(move || {
        std::thread::sleep(USED_UP);
        drop(held);
    });
    RealDisk.sync_dir(&folder).unwrap();
    freed.join().unwrap();
    RealDisk.create_new(&folder.join("file")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
