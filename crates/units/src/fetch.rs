//! Hints to the processor: what is wanted soon.

/// Bytes that caches move at once, on the processors that [`fetch`] knows how to ask.
const LINE: usize = 64;

/// Asks for the memory of `value` to be brought into the caches, and does not wait for it. What it does, or
/// whether it does anything, changes nothing but how long others then take.
#[inline(always)]
pub fn fetch<T: ?Sized>(value: &T) {
    fetch_front(value, size_of_val(value));
}

/// The same of the first `length` bytes of `value`, where what is often wanted lies in front.
#[inline(always)]
pub fn fetch_front<T: ?Sized>(value: &T, length: usize) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for offset in (0..length).step_by(LINE) {
        fetch_line(start.wrapping_add(offset));
    }
}

/// The same of the cache line at an address, of which nothing need be known: nothing is read, so nothing can
/// go wrong.
#[inline(always)]
pub fn fetch_line<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which neither reads nor faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_for_memory_changes_none_and_any_address_will_do() {
        let values = [7_u8; 1000];
        fetch(&values);
        fetch(&values[..0]);
        fetch_front(&values, 65);
        fetch::<dyn std::fmt::Debug>(&values);
        fetch_line(values.as_ptr().wrapping_add(1 << 40));
        fetch_line(std::ptr::null::<u8>());
        assert_eq!(values, [7; 1000]);
    }
}
