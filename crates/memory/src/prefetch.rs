//! A hint to the processor. Everything that is looked up at random in more memory than caches hold is asked for some
//! steps ahead, so that many loads are under way at once.
//!
//! Why not a load whose result nobody uses: it must end before what follows can retire, and a core has room for some
//! hundred instructions behind it. A decision has more. With a million accounts such loads took two thirds of the
//! worker's time.

/// Asks for the cache line where `place` begins. Changes nothing; does nothing where there is no such instruction.
#[inline]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it neither faults nor writes, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
