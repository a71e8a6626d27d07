//! Hints to the compiler: what seldom happens. What it knows to be seldom it puts out of the way, and what
//! usually happens then runs straight on, where else it would jump over the rest.
//!
//! They change nothing but the order of code. They are worth their place where every packet comes by;
//! `tools/profile` counts what they are for, the jumps of a packet.

/// Says that who comes here seldom does.
#[cold]
#[inline(never)]
pub const fn cold_path() {}

/// `value`, which whoever runs seldom has: an arm of a match that is put out of the way.
#[cold]
#[inline(never)]
pub fn seldom<T>(value: T) -> T {
    value
}

/// A copy of `value` in a place of its own, for the seldom call that takes a structure by reference: the
/// value itself can then stay in registers wherever else it goes. What is shown to anybody is put together
/// in memory, and a processor stalls where it then copies by sixteen bytes what was just written by eight.
#[inline(always)]
pub fn apart<T: Copy>(value: T) -> T {
    std::hint::black_box(value)
}

/// `condition`, which nearly always holds.
#[inline(always)]
pub const fn likely(condition: bool) -> bool {
    if !condition {
        cold_path();
    }
    condition
}

/// `condition`, which hardly ever holds.
///
/// ```
/// use framewire_units::unlikely;
///
/// let queued = [1500_u32; 8];
/// if unlikely(queued.len() > 1000) {
///     panic!("nobody empties this queue");
/// }
/// ```
#[inline(always)]
pub const fn unlikely(condition: bool) -> bool {
    if condition {
        cold_path();
    }
    condition
}
