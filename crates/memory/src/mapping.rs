//! Memory from the kernel that two may own: whoever uses it, and whoever touches it ahead.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

use super::HUGE_PAGE;

/// What every size of a page is a multiple of, bytes. Where pages are larger, what does not begin on one is not
/// touched.
const SMALL_PAGE: usize = 4 << 10;

/// Memory from the kernel, given back when the last owner is gone.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address and a length; the code that uses the memory behind them is responsible for that.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeros for `layout`, and where they begin: on a huge page if they are as large as one, else on a small one.
    /// Aborts like any allocation when there are no addresses.
    pub(super) fn aligned(layout: Layout) -> (Mapping, NonNull<u8>) {
        // Small ones are page-aligned by the kernel; large ones must begin on a huge page to use them from the start.
        let slack = if layout.size() >= HUGE_PAGE { HUGE_PAGE } else { 0 };
        let mapping = Mapping::new(layout, layout.size() + slack);
        let skip = if slack == 0 { 0 } else { mapping.start.align_offset(HUGE_PAGE) };
        assert!(skip <= slack, "an offset within a huge page");
        // SAFETY: `skip` is at most the slack, so what begins there stays within the mapping.
        let start = unsafe { mapping.start.add(skip) };
        #[cfg(all(target_os = "linux", not(miri)))]
        if slack > 0 {
            // SAFETY: the range lies in our mapping. The call is advice: its failure changes speed only.
            unsafe { libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        (mapping, start)
    }

    fn new(layout: Layout, bytes: usize) -> Mapping {
        // SAFETY: a fresh anonymous private mapping touches no memory that exists.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            handle_alloc_error(layout);
        }
        Mapping { start: NonNull::new(start.cast::<u8>()).expect("mmap does not return null"), bytes }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; its owners hold no references into it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Memory that another thread may touch before its owner does.
pub struct Pages {
    mapping: Arc<Mapping>,
    start: usize,
    bytes: usize,
}

impl Pages {
    /// The pages of `bytes` from `first` on, which lie in `mapping`: all that they have a part of.
    pub(super) fn of(mapping: &Arc<Mapping>, first: NonNull<u8>, bytes: usize) -> Pages {
        let offset = first.as_ptr() as usize - mapping.start.as_ptr() as usize;
        assert!(offset + bytes <= mapping.bytes, "the memory lies in the mapping");
        // The kernel takes a start only at a page.
        let start = offset - offset % SMALL_PAGE;
        Pages { mapping: Arc::clone(mapping), start, bytes: offset + bytes - start }
    }

    /// Has the kernel allocate and zero all pages that were not written yet; written data stays. Takes long for many of
    /// them. A system that does not know how (Linux before 5.14) leaves that to the first write.
    pub fn touch(&self) {
        // In pieces, because each holds up all other threads that map or unmap memory.
        for start in (self.start..self.start + self.bytes).step_by(HUGE_PAGE) {
            let bytes = HUGE_PAGE.min(self.start + self.bytes - start);
            // SAFETY: the range lies in the mapping, which is ours until the end of this call. Contents do not change.
            #[cfg(all(target_os = "linux", not(miri)))]
            unsafe {
                libc::madvise(self.mapping.start.as_ptr().add(start).cast(), bytes, libc::MADV_POPULATE_WRITE)
            };
        }
    }
}
