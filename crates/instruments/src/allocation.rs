//! A counting allocator: how many heap allocations this thread has made.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with one addition to a thread's own counter per allocation.
pub struct Counting;

fn count() {
    // A thread that is being torn down has no counter left; what it still allocates is nobody's figure.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

/// Allocations (and reallocations) of the calling thread so far.
pub fn of_this_thread() -> u64 {
    COUNT.with(Cell::get)
}

// SAFETY: every call is passed on unchanged to the system's allocator; the counter neither allocates nor
// unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_counted_and_their_absence_too() {
        let before = of_this_thread();
        let kept = std::hint::black_box(vec![0u8; 4096]);
        assert_eq!(of_this_thread() - before, 1);
        let sum: u64 = kept.iter().map(|&byte| u64::from(byte)).sum();
        assert_eq!((sum, of_this_thread() - before), (0, 1));
    }
}
