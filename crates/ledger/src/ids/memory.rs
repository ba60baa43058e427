//! Large zeroed arrays on huge pages.
//!
//! Why not a `Vec`: a filter of 200 MiB on pages of 4 KiB misses the TLB at every probe, and zeroing it at once would stall
//! the shard for tens of milliseconds. Fresh mappings are zeroed by the kernel, page by page, as they are first touched.

use std::alloc::{Layout, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const HUGE_PAGE: usize = 2 << 20;

/// Integers for which all bits zero is a value and every bit pattern is one.
pub(super) trait Word: Copy + private::Sealed {}
impl Word for u32 {}
impl Word for u64 {}

mod private {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// A boxed slice of zeros to begin with. Aligned to a cache line at least.
pub(super) struct Zeroed<T: Word> {
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    words: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its memory alone, like a `Box<[T]>`, and `Word`s are plain integers.
unsafe impl<T: Word> Send for Zeroed<T> {}
// SAFETY: as above; shared access only reads.
unsafe impl<T: Word> Sync for Zeroed<T> {}

impl<T: Word> Zeroed<T> {
    /// `len` zeros. Aborts like any allocation when there is no memory.
    pub(super) fn new(len: usize) -> Zeroed<T> {
        let layout = Layout::array::<T>(len.max(1)).expect("a size below the address space");
        // Small ones are page-aligned by the kernel; large ones must begin on a huge page to use them from the start.
        let slack = if layout.size() >= HUGE_PAGE { HUGE_PAGE } else { 0 };
        let mapping_bytes = layout.size() + slack;
        // SAFETY: a fresh anonymous private mapping touches no memory that exists.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapping_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            handle_alloc_error(layout);
        }
        let mapping = NonNull::new(mapping.cast::<u8>()).expect("mmap does not return null");
        let skip = if slack == 0 { 0 } else { mapping.align_offset(HUGE_PAGE) };
        // SAFETY: `skip` is less than the slack, so the words stay within the mapping.
        let words = unsafe { mapping.add(skip) };
        #[cfg(target_os = "linux")]
        if slack > 0 {
            // SAFETY: the range lies in our mapping. The call is advice: its failure changes speed only.
            unsafe { libc::madvise(words.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        Zeroed { mapping, mapping_bytes, words: words.cast(), len }
    }
}

impl<T: Word> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `len` aligned words, zeroed by the kernel or written by us, until `drop`.
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

impl<T: Word> Drop for Zeroed<T> {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; no reference into it outlives `self`.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
    }
}

/// Asks for the cache line at `place`; does nothing where there is no such instruction.
#[inline]
pub(super) fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it cannot fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_and_small_arrays_are_zero_writable_and_aligned() {
        for len in [0, 1, 511, HUGE_PAGE / 8, HUGE_PAGE / 8 + 1] {
            let mut words = Zeroed::<u64>::new(len);
            assert_eq!(words.len(), len);
            assert!(words.iter().all(|word| *word == 0));
            words.fill(7);
            assert!(words.iter().all(|word| *word == 7));
            assert_eq!(words.as_ptr().align_offset(64), 0);
        }
    }
}
