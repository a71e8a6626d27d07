//! Hints to the processor: what is wanted soon.

/// Bytes that caches move at once, on every processor that has the hint below.
const LINE: usize = 64;

/// Asks for the memory of `value` to be brought into the caches, and does not wait for it. What it does, or
/// whether it does anything, changes nothing but the time that others then take.
#[inline(always)]
pub(crate) fn fetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        for offset in (0..size_of_val(value)).step_by(LINE) {
            // SAFETY: a hint, which reads nothing and cannot fault, for addresses inside of `value`.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(offset)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
