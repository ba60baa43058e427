//! The id filter of a serving process is on huge pages where the host gives them, and its other memory never is.

use std::fs;

use crate::votes::{connect, ids, open_show, votes};
use crate::{Server, Settings, folder};

const HUGE_PAGE: usize = 2 << 20;

/// Whether this process gets one when it asks.
fn one_is_free() -> bool {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a mapping of our own, which nobody else knows; the one byte written lies within it. It stays until the
    // test ends.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), 2 * HUGE_PAGE, access, kind, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        let aligned = start.cast::<u8>().add(start.cast::<u8>().align_offset(HUGE_PAGE));
        libc::madvise(aligned.cast(), HUGE_PAGE, libc::MADV_HUGEPAGE);
        aligned.write_volatile(1);
    }
    huge_kib(std::process::id()).0 > 0
}

/// KiB on huge pages of mappings that asked for them and of those that did not.
fn huge_kib(pid: u32) -> (u64, u64) {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).expect("the process is ours");
    let (mut asked, mut others, mut huge) = (0, 0, 0);
    for line in smaps.lines() {
        if let Some(kib) = line.strip_prefix("AnonHugePages:") {
            huge = kib.trim().trim_end_matches(" kB").parse().expect("a number of KiB");
        }
        // The last line of a mapping; `hg` is MADV_HUGEPAGE.
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            *if flags.split(' ').any(|flag| flag == "hg") { &mut asked } else { &mut others } += huge;
        }
    }
    (asked, others)
}

#[test]
fn the_id_filter_is_on_huge_pages_and_nothing_else_is() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    let said = server.log();
    let said = said.lines().find_map(|line| line.split_once("huge pages: ")).expect("the log tells the operator").1;
    let mut client = connect(&server);
    open_show(&mut client);
    client.transfers(&votes(&ids("vote", 1_000))).expect("the server serves");

    let (asked, others) = huge_kib(server.pid());
    assert_eq!(others, 0, "KiB on huge pages that nobody asked for; the server says: {said}");
    if !said.starts_with("for ids and accounts") {
        return println!("this host gives no huge pages: {said}");
    }
    if asked == 0 && !one_is_free() {
        return println!("this host has no huge page free now");
    }
    assert!(asked >= HUGE_PAGE as u64 / 1024, "{asked} KiB; the server says: {said}");
}
