//! Structs that may grow: each begins with its size, as the program that hands it in was compiled.

use std::mem::MaybeUninit;

use crate::guard::{Refusal, given, wrong};

/// A struct that begins with its size in bytes.
///
/// # Safety
/// It is `repr(C)`, begins with a `u32` for its size, has no padding at its end, and any bytes are a value
/// of it, so that zeros are one, too.
pub unsafe trait Growing: Copy {}

/// No struct of this header will ever be longer, in bytes: what says so was never set.
const LONGEST: u32 = 4096;

fn size_at<T: Growing>(what: &str, pointer: *const T) -> Result<usize, Refusal> {
    given(what, pointer)?;
    // SAFETY: the host promises a struct there, which begins with its size.
    let size = unsafe { pointer.cast::<u32>().read_unaligned() };
    if size < size_of::<u32>() as u32 || size > LONGEST {
        return Err(wrong(format!("{what}.size is {size}: set it to sizeof the struct, {}", size_of::<T>())));
    }
    Ok(size as usize)
}

/// Reads what the host set: what a shorter, older struct lacks is zero, and what a longer, newer one has
/// must be.
///
/// # Safety
/// `pointer` is null or points to a struct that begins with its size and is at least so long.
pub unsafe fn read<T: Growing>(what: &str, pointer: *const T) -> Result<T, Refusal> {
    let size = size_at(what, pointer)?;
    let mut value = MaybeUninit::<T>::zeroed();
    let bytes = pointer.cast::<u8>();
    // SAFETY: `size` bytes are there, as the caller promises, and `value` has room for as many as are copied.
    unsafe { bytes.copy_to_nonoverlapping(value.as_mut_ptr().cast(), size.min(size_of::<T>())) };
    for at in size_of::<T>()..size {
        // SAFETY: as above.
        if unsafe { bytes.add(at).read() } != 0 {
            return Err(wrong(format!(
                "{what} sets a member that this libframewire does not know; use a newer one"
            )));
        }
    }
    // SAFETY: any bytes are a value.
    Ok(unsafe { value.assume_init() })
}

/// Writes as much of `value` as the host has room for, and says how much that is in its size.
///
/// # Safety
/// As [`read`].
pub unsafe fn write<T: Growing>(what: &str, pointer: *mut T, value: &T) -> Result<(), Refusal> {
    let size = size_at(what, pointer)?.min(size_of::<T>());
    // SAFETY: `size` bytes are there, as the caller promises, and `value` has as many.
    unsafe {
        pointer.cast::<u8>().copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), size);
        pointer.cast::<u32>().write_unaligned(size as u32);
    }
    Ok(())
}

/// That [`write`] will succeed.
pub fn has_room<T: Growing>(what: &str, pointer: *const T) -> Result<(), Refusal> {
    size_at(what, pointer).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fw_result;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Old {
        size: u32,
        first: u32,
    }

    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct New {
        size: u32,
        first: u32,
        second: u64,
    }

    // SAFETY: integers without padding, of which the first is the size.
    unsafe impl Growing for Old {}
    // SAFETY: as above.
    unsafe impl Growing for New {}

    #[test]
    fn older_and_newer_programs_are_understood() {
        let (mut old, mut new) = (Old { size: 8, first: 3 }, New { size: 16, first: 3, second: 0 });
        // SAFETY: each points to a struct that is as long as its size says.
        unsafe {
            let read_as_new = read("options", (&raw const old).cast::<New>()).unwrap();
            assert_eq!(read_as_new, New { size: 8, first: 3, second: 0 });
            assert_eq!(read("options", (&raw const new).cast::<Old>()).unwrap().first, 3);
            new.second = 1;
            let refused = read("options", (&raw const new).cast::<Old>()).unwrap_err();
            assert!(refused.text.contains("use a newer one"), "{}", refused.text);
            write("stats", (&raw mut old).cast::<New>(), &New { size: 0, first: 7, second: 9 }).unwrap();
            assert_eq!(old, Old { size: 8, first: 7 });
            write("stats", (&raw mut new).cast::<Old>(), &Old { size: 0, first: 5 }).unwrap();
            assert_eq!(new, New { size: 8, first: 5, second: 1 });
        }
    }

    #[test]
    fn a_size_that_was_never_set_is_refused() {
        for size in [0, 3, LONGEST + 1, u32::MAX] {
            let old = Old { size, first: 0 };
            // SAFETY: nothing beyond the size is read where that is no size.
            let refused = unsafe { read("options", &raw const old) }.unwrap_err();
            assert!(refused.text.ends_with("set it to sizeof the struct, 8"), "{}", refused.text);
        }
        assert_eq!(has_room::<Old>("stats", std::ptr::null()).unwrap_err().code, fw_result::FW_ERR_NULL);
    }
}
