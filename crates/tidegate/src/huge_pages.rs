//! Gives pages of 2 MiB to memory that asks for them, and to no other.
//!
//! ```text
//!   /sys/kernel/mm/transparent_hugepage/enabled     this process                      ids, accounts      the rest
//!   madvise                                         changes nothing                   huge               4 KiB
//!   always, Linux 6.18 or newer                     takes them only where it asks     huge               4 KiB
//!   always, older                                   refuses them all                  4 KiB              4 KiB
//!   never                                           -                                 4 KiB              4 KiB
//! ```
//!
//! Why some: a look-up in the id filter (256 MiB, `tidegate_ledger::ids`) touches a cache line anywhere in it, and
//! misses the TLB on small pages; so does one for one of a million accounts. Why not all: the heap would grow by 2 MiB
//! at a time, and an idle MQTT client would take 330 to 800 bytes instead of 314 (decision 0007). For the same reason
//! the allocator is built not to ask (`no_thp` in `Cargo.toml`).

use std::fmt;
use std::fs;
use std::path::Path;

/// Where the kernel says to whom it gives huge pages.
const KERNEL: &str = "/sys/kernel/mm/transparent_hugepage";

/// Flag of `PR_SET_THP_DISABLE`, Linux 6.18: only for memory that does not ask.
const EXCEPT_ADVISED: libc::c_ulong = 1 << 1;

/// Arguments of `prctl` are of this width; the kernel refuses unused ones that are not zero.
const NONE: libc::c_ulong = 0;
const ON: libc::c_ulong = 1;

/// To whom the kernel gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    All,
    WhoAsks,
    Nobody,
    /// It does not say.
    Unknown,
}

/// What this process has of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Memory that asks has them, if there are any; other memory does not.
    WhereAsked,
    /// None, because the host has turned them off.
    OffByHost,
    /// None, because they were turned off for this process when it was started.
    OffByStarter,
    /// None, because on this host it could only be all memory.
    OffByUs,
    /// The host does not say.
    Unknown,
}

impl HugePages {
    /// Sees to it that only memory that asks has huge pages, for the life of this process; says what came of it.
    pub fn settle() -> HugePages {
        // SAFETY: asks for a number, changes nothing. Kernels that do not know the question return -1.
        let refused_before = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, NONE, NONE, NONE, NONE) };
        decide(given(Path::new(KERNEL)), refused_before, disable)
    }

    /// What the operator can do about it; `None` when all is well.
    pub fn advice(self) -> Option<&'static str> {
        match self {
            HugePages::WhereAsked | HugePages::Unknown => None,
            HugePages::OffByHost => Some(
                "look-ups of ids and accounts cost more with every million; \
                 echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            ),
            HugePages::OffByStarter => Some(
                "look-ups of ids and accounts cost more with every million; \
                 in a unit of systemd, MemoryTHP=inherit or madvise",
            ),
            HugePages::OffByUs => Some(
                "this kernel gives them to all memory or none, and idle connections would take more; \
                 echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or use Linux 6.18",
            ),
        }
    }
}

impl fmt::Display for HugePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HugePages::WhereAsked => "for ids and accounts, not for other memory",
            HugePages::OffByHost => "none: the host gives none",
            HugePages::OffByStarter => "none: turned off for this process by what started it",
            HugePages::OffByUs => "none: turned off, or all memory would have them",
            HugePages::Unknown => "unknown: the host does not say",
        })
    }
}

/// `disable` is given the flags of `PR_SET_THP_DISABLE`, and says whether the kernel knows them.
fn decide(given: Given, refused_before: i32, mut disable: impl FnMut(libc::c_ulong) -> bool) -> HugePages {
    let none_at_all = refused_before > 0 && refused_before as libc::c_ulong & EXCEPT_ADVISED == 0;
    match given {
        Given::Nobody => HugePages::OffByHost,
        _ if none_at_all => HugePages::OffByStarter,
        Given::WhoAsks => HugePages::WhereAsked,
        Given::All if disable(EXCEPT_ADVISED) => HugePages::WhereAsked,
        Given::All => {
            disable(0);
            HugePages::OffByUs
        }
        Given::Unknown => {
            let _ = disable(EXCEPT_ADVISED) || disable(0);
            HugePages::Unknown
        }
    }
}

fn disable(flags: libc::c_ulong) -> bool {
    // SAFETY: changes a property of this process and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, ON, flags, NONE, NONE) == 0 }
}

/// Since Linux 6.8 there is a choice for each size of page, which may refer to the one for all.
fn given(kernel: &Path) -> Given {
    let read = |path: &Path| fs::read_to_string(path.join("enabled")).ok();
    let Some(for_all) = read(kernel) else { return Given::Unknown };
    let entries = fs::read_dir(kernel).into_iter().flatten().filter_map(Result::ok);
    let of_sizes: Vec<String> = entries.filter_map(|entry| read(&entry.path())).collect();
    let choices = of_sizes.iter().map(|choice| chosen(choice)).map(|choice| match choice {
        "inherit" => chosen(&for_all),
        own => own,
    });
    let choices: Vec<&str> = if of_sizes.is_empty() { vec![chosen(&for_all)] } else { choices.collect() };
    let has = |choice| choices.contains(&choice);
    match () {
        () if has("always") => Given::All,
        () if has("madvise") => Given::WhoAsks,
        () if choices.iter().all(|choice| *choice == "never") => Given::Nobody,
        () => Given::Unknown,
    }
}

/// The word in brackets of `always [madvise] never`.
fn chosen(choices: &str) -> &str {
    choices.split(['[', ']']).nth(1).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it comes to, and what the kernel is asked for, if it knows flags up to `known`.
    fn settled(given: Given, refused_before: i32, known: libc::c_ulong) -> (HugePages, Vec<libc::c_ulong>) {
        let mut asked = Vec::new();
        let huge = decide(given, refused_before, |flags| {
            asked.push(flags);
            flags <= known
        });
        (huge, asked)
    }

    #[test]
    fn only_memory_that_asks_has_them_or_none() {
        assert_eq!(settled(Given::WhoAsks, 0, 0), (HugePages::WhereAsked, vec![]));
        assert_eq!(settled(Given::All, 0, EXCEPT_ADVISED), (HugePages::WhereAsked, vec![EXCEPT_ADVISED]));
        assert_eq!(settled(Given::All, 0, 0), (HugePages::OffByUs, vec![EXCEPT_ADVISED, 0]));
        assert_eq!(settled(Given::Nobody, 0, 0), (HugePages::OffByHost, vec![]));
        assert_eq!(settled(Given::Unknown, -1, 0), (HugePages::Unknown, vec![EXCEPT_ADVISED, 0]));
        assert_eq!(settled(Given::Unknown, 0, EXCEPT_ADVISED), (HugePages::Unknown, vec![EXCEPT_ADVISED]));
    }

    #[test]
    fn what_the_starter_refused_stays_refused() {
        for given in [Given::All, Given::WhoAsks, Given::Unknown] {
            assert_eq!(settled(given, 1, EXCEPT_ADVISED), (HugePages::OffByStarter, vec![]));
        }
        let only_except_advised = 1 | EXCEPT_ADVISED as i32;
        assert_eq!(settled(Given::WhoAsks, only_except_advised, EXCEPT_ADVISED), (HugePages::WhereAsked, vec![]));
    }

    #[test]
    fn the_kernels_choice_is_the_one_of_the_size_or_the_one_for_all() {
        let kernel = |for_all: &str, of_sizes: &[(&str, &str)]| {
            let folder = tempfile::tempdir().expect("a temporary directory");
            fs::write(folder.path().join("enabled"), for_all).expect("the folder takes a file");
            for (size, choice) in of_sizes {
                let size = folder.path().join(size);
                fs::create_dir(&size).expect("the folder takes a folder");
                fs::write(size.join("enabled"), choice).expect("the folder takes a file");
            }
            given(folder.path())
        };
        let (always, asks, never) =
            ("[always] madvise never\n", "always [madvise] never\n", "always madvise [never]\n");
        assert_eq!([kernel(always, &[]), kernel(asks, &[])], [Given::All, Given::WhoAsks]);
        assert_eq!([kernel(never, &[]), kernel("", &[])], [Given::Nobody, Given::Unknown]);

        let inherit = ("hugepages-2048kB", "always [inherit] madvise never\n");
        let small = |choice| ("hugepages-64kB", choice);
        assert_eq!(kernel(asks, &[inherit, small("always inherit madvise [never]\n")]), Given::WhoAsks);
        assert_eq!(kernel(asks, &[inherit, small("[always] inherit madvise never\n")]), Given::All);
        assert_eq!(kernel(always, &[("hugepages-2048kB", "always inherit [madvise] never\n")]), Given::WhoAsks);
        assert_eq!(given(Path::new("/no/such/folder")), Given::Unknown);
    }

    /// The flag is the kernel's number: where it is known, it is what the kernel says afterwards, and nothing is
    /// refused to who asks.
    #[test]
    fn the_kernel_takes_the_flag_or_refuses_it() {
        // On a thread it would be the whole process's: so in a child.
        // SAFETY: the child makes system calls only, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe {
                let known = disable(EXCEPT_ADVISED);
                let now = libc::prctl(libc::PR_GET_THP_DISABLE, NONE, NONE, NONE, NONE);
                libc::_exit(if known { i32::from(now != 3) } else { 2 });
            }
        }
        let mut status = 0;
        // SAFETY: waits for our child and writes to a live number.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        match libc::WEXITSTATUS(status) {
            0 => {}
            2 => println!("this kernel does not know the flag: before Linux 6.18"),
            code => panic!("the kernel took the flag for something else: {code}"),
        }
    }
}
