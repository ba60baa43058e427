//! Large zeroed arrays on huge pages.
//!
//! ```text
//!   Zeroed::new   maps addresses, asks for huge pages: microseconds
//!   touched       the kernel finds a page of 2 MiB and zeroes it: 0.1 ms, several on a host that has to find it first
//!                 ├─ by whoever writes to it first, or before that
//!                 └─ by the builder's thread, through Pages::touch
//! ```
//!
//! Why not a `Vec`: a filter of 200 MiB on pages of 4 KiB misses the TLB at every probe. Why huge pages are touched
//! ahead: ids are spread evenly, so the first few hundred in a new generation of the filter touch all of its pages, and
//! the shard would be blocked while all of them are zeroed.
//!
//! Whether huge pages are available depends on the host and on the process: `tidegate doctor` reports it.

use std::alloc::Layout;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::mapping::{Mapping, Pages};

/// Integers for which all bits zero is a value and every bit pattern is one.
pub trait Word: Copy + private::Sealed {}
impl Word for u32 {}
impl Word for u64 {}

mod private {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// A boxed slice of zeros to begin with. Aligned to a cache line at least.
pub struct Zeroed<T: Word> {
    mapping: Arc<Mapping>,
    words: NonNull<T>,
    len: usize,
}

// SAFETY: it alone reads and writes its memory, like a `Box<[T]>`, and `Word`s are plain integers.
unsafe impl<T: Word> Send for Zeroed<T> {}
// SAFETY: as above; shared access only reads.
unsafe impl<T: Word> Sync for Zeroed<T> {}

impl<T: Word> Zeroed<T> {
    /// `len` zeros. Aborts like any allocation when there is no memory.
    pub fn new(len: usize) -> Zeroed<T> {
        let layout = Layout::array::<T>(len.max(1)).expect("a size below the address space");
        let (mapping, words) = Mapping::aligned(layout);
        Zeroed { mapping: Arc::new(mapping), words: words.cast(), len }
    }

    /// Its memory, to be touched before it is used.
    pub fn pages(&self) -> Pages {
        Pages::of(&self.mapping, self.words.cast(), self.len * size_of::<T>())
    }
}

impl<T: Word> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `len` aligned words, zeroed by the kernel or written by us, as long as it is owned.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.len) }
    }
}

impl<T: Word> DerefMut for Zeroed<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HUGE_PAGE;

    #[test]
    fn large_and_small_arrays_are_zero_writable_and_aligned() {
        for len in [0, 1, 511, HUGE_PAGE / 8, HUGE_PAGE / 8 + 1] {
            let mut words = Zeroed::<u64>::new(len);
            assert_eq!(words.len(), len);
            assert!(words.iter().all(|word| *word == 0));
            words.fill(7);
            words.pages().touch();
            assert!(words.iter().all(|word| *word == 7));
            assert_eq!(words.as_ptr().align_offset(64), 0);
        }
    }

    #[test]
    fn pages_may_outlive_what_they_are_of() {
        let words = Zeroed::<u64>::new(HUGE_PAGE / 8);
        let pages = words.pages();
        drop(words);
        pages.touch();
    }

    /// A field of `/proc/self/smaps`, in KiB, of the mapping that `words` is in.
    #[cfg(target_os = "linux")]
    fn smaps_kib(words: &Zeroed<u64>, field: &str) -> usize {
        let address = words.as_ptr() as usize;
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has it");
        let mut ours = false;
        for line in smaps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |text| usize::from_str_radix(text, 16).ok();
            if let Some((first, end)) = range.and_then(|(first, end)| number(first).zip(number(end))) {
                ours = (first..end).contains(&address);
            }
            if ours && line.starts_with(field) {
                return line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number of KiB");
            }
        }
        panic!("no {field} at {address:x}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn large_arrays_are_on_huge_pages_where_the_host_gives_them() {
        const LEN: usize = 3 * HUGE_PAGE / 8;
        let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        // SAFETY: asks for a number.
        let refused = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) };
        if enabled.is_empty() || enabled.contains("[never]") || refused == 1 {
            return println!("this host gives no huge pages: {enabled:?}, refused {refused}");
        }
        let words = Zeroed::<u64>::new(LEN);
        assert_eq!(smaps_kib(&words, "Rss:"), 0, "nothing is touched by asking");
        words.pages().touch();
        let (huge, resident) = (smaps_kib(&words, "AnonHugePages:"), smaps_kib(&words, "Rss:"));
        // SAFETY: the range is ours; contents do not change.
        let found_none =
            huge == 0 && unsafe { libc::madvise(words.as_ptr() as *mut _, HUGE_PAGE, libc::MADV_COLLAPSE) } != 0;
        if resident == 0 || found_none {
            return println!(
                "this host has no huge page left, or is before Linux 5.14: {resident} KiB, {huge} KiB huge"
            );
        }
        assert_eq!((resident, huge), (LEN * 8 / 1024, LEN * 8 / 1024));
    }
}
