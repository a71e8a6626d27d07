//! The border: nothing unwinds across it, null pointers and wrong lengths are refused, and each refusal
//! leaves a text.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fw_result::*;

/// What a call comes to. What is negative is an error, of which `fw_last_error` says more.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum fw_result {
    /// Done; what was asked for is there.
    FW_OK = 0,
    /// Nothing is there: no datagram to send, no frame, no time to wake at. No error.
    FW_NONE = 1,
    /// A pointer is null that must not be.
    FW_ERR_NULL = -1,
    /// A value can't be taken: an unknown name, a wrong size, a frame that was not asked for.
    FW_ERR_ARGUMENT = -2,
    /// The library broke a rule of its own. The handle is of no more use, but to be freed.
    FW_ERR_PANIC = -3,
    /// That has happened before.
    FW_ERR_POISONED = -4,
}

/// Why a call is refused.
#[derive(Debug)]
pub struct Refusal {
    pub code: fw_result,
    pub text: String,
}

/// What a call comes to, before it crosses the border.
pub type Answer = Result<fw_result, Refusal>;

/// A value can't be taken, for the reason in `text`.
pub fn wrong(text: impl Into<String>) -> Refusal {
    Refusal { code: FW_ERR_ARGUMENT, text: text.into() }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// What was wrong with the last call on this thread that came to an error, as text; empty if none has. It is
/// yours to read until the next call on this thread that comes to one.
#[unsafe(no_mangle)]
pub extern "C" fn fw_last_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

fn tell(Refusal { code, text }: Refusal) -> fw_result {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST.set(text);
    code
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("of an unknown kind")
}

/// Runs what belongs to no handle.
pub fn call(work: impl FnOnce() -> Answer) -> fw_result {
    // What a panic leaves half done is dropped with the closure, or is a handle that is not entered again.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| {
            let text = format!("a bug in libframewire: {}", words(&*panic));
            Err(Refusal { code: FW_ERR_PANIC, text })
        })
        .unwrap_or_else(tell)
}

/// What stands behind a handle.
pub trait Handle {
    /// Whether a call has panicked in it.
    fn poisoned(&mut self) -> &mut bool;
}

/// Runs a call on a handle. One in which something panicked is entered no more.
///
/// # Safety
/// `handle` is null, or came from [`create`], was not freed, and no other call on it runs.
pub unsafe fn enter<H: Handle>(handle: *mut H, work: impl FnOnce(&mut H) -> Answer) -> fw_result {
    // SAFETY: as the caller promises; `create` made it of a box.
    let Some(inside) = (unsafe { handle.as_mut() }) else {
        return tell(Refusal { code: FW_ERR_NULL, text: "the handle is null".to_owned() });
    };
    if *inside.poisoned() {
        let text = "a call before this one met a bug: free the handle and make a new one".to_owned();
        return tell(Refusal { code: FW_ERR_POISONED, text });
    }
    let result = call(|| work(inside));
    *inside.poisoned() = result == FW_ERR_PANIC;
    result
}

/// Makes a handle and leaves it at `out`; a null one where that fails, or there is none to make.
///
/// # Safety
/// `out` is null or room for a pointer.
pub unsafe fn create<H, M>(out: *mut *mut H, make: impl FnOnce() -> Result<M, Refusal>) -> fw_result
where
    H: Handle,
    M: Into<Option<H>>,
{
    call(|| {
        given("out", out)?;
        // SAFETY: there is room, as the caller promises.
        unsafe { out.write(std::ptr::null_mut()) };
        let Some(handle) = make()?.into() else { return Ok(FW_NONE) };
        // SAFETY: as above.
        unsafe { out.write(Box::into_raw(Box::new(handle))) };
        Ok(FW_OK)
    })
}

/// Frees a handle, or does nothing with a null one.
///
/// # Safety
/// As [`enter`]; the handle is of no more use afterwards.
pub unsafe fn free<H: Handle>(handle: *mut H) {
    if !handle.is_null() {
        // SAFETY: `create` made it of a box, and the caller gives it up.
        let handle = unsafe { Box::from_raw(handle) };
        call(|| {
            drop(handle);
            Ok(FW_OK)
        });
    }
}

/// That a pointer is not null.
///
/// # Errors
/// [`Refusal`] naming `what` it should be.
pub fn given<T>(what: &str, pointer: *const T) -> Result<(), Refusal> {
    if pointer.is_null() {
        return Err(Refusal { code: FW_ERR_NULL, text: format!("{what} is null") });
    }
    Ok(())
}

/// The text at `pointer`; none where it is null or empty.
///
/// # Safety
/// It is null, or ends with a NUL and stays as it is for `'a`.
pub unsafe fn text<'a>(what: &str, pointer: *const c_char) -> Result<Option<&'a str>, Refusal> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(pointer) };
    let text = text.to_str().map_err(|_| wrong(format!("{what} is no UTF-8: {}", text.to_string_lossy())))?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// `count` values at `pointer`, which may be null where there are none.
///
/// # Safety
/// They are there, and stay as they are for `'a`.
pub unsafe fn slice<'a, T>(what: &str, pointer: *const T, count: usize) -> Result<&'a [T], Refusal> {
    if count == 0 {
        return Ok(&[]);
    }
    given(what, pointer)?;
    if !pointer.is_aligned() {
        return Err(wrong(format!("{what} is not aligned as its type must be")));
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(wrong(format!("{what} of {count} is more than any memory holds")));
    }
    // SAFETY: as the caller promises; it is aligned, and no longer than a slice may be.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(bool);

    impl Handle for Thing {
        fn poisoned(&mut self) -> &mut bool {
            &mut self.0
        }
    }

    fn last() -> String {
        // SAFETY: it is a text until the next error on this thread.
        unsafe { CStr::from_ptr(fw_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_ends_at_the_border_and_the_handle_is_entered_no_more() {
        let mut thing = std::ptr::null_mut();
        // SAFETY: what is made is used and freed once, from one thread.
        unsafe {
            assert_eq!(create(&raw mut thing, || Ok(Thing(false))), FW_OK);
            assert_eq!(enter(thing, |_| Err(wrong("size\0less"))), FW_ERR_ARGUMENT);
            assert_eq!((last(), enter(thing, |_| Ok(FW_NONE))), ("size less".to_owned(), FW_NONE));
            assert_eq!(enter(thing, |_| panic!("{} is odd", 4)), FW_ERR_PANIC);
            assert_eq!(last(), "a bug in libframewire: 4 is odd");
            assert_eq!(enter(thing, |_| unreachable!("it is poisoned")), FW_ERR_POISONED);
            free(thing);
            free(std::ptr::null_mut::<Thing>());
            assert_eq!(enter(std::ptr::null_mut::<Thing>(), |_| Ok(FW_OK)), FW_ERR_NULL);
            assert_eq!(create(std::ptr::null_mut(), || Ok(Thing(false))), FW_ERR_NULL);
            for (made, result) in [(Ok(None::<Thing>), FW_NONE), (Err(wrong("no")), FW_ERR_ARGUMENT)] {
                thing = std::ptr::dangling_mut();
                assert_eq!(create(&raw mut thing, || made), result);
                assert!(thing.is_null());
            }
        }
        assert_eq!(last(), "no");
    }

    #[test]
    fn texts_and_lengths_are_looked_at() {
        // SAFETY: texts end with a NUL, and slices are as long as they are said to be.
        unsafe {
            assert_eq!(text("name", std::ptr::null()).unwrap(), None);
            assert_eq!(text("name", c"".as_ptr()).unwrap(), None);
            assert_eq!(text("name", c"sqp".as_ptr()).unwrap(), Some("sqp"));
            assert!(text("name", c"\xff".as_ptr()).unwrap_err().text.starts_with("name is no UTF-8"));
            assert_eq!(slice("data", [1u8, 2].as_ptr(), 2).unwrap(), [1, 2]);
            assert!(slice::<u8>("data", std::ptr::null(), 0).unwrap().is_empty());
            assert_eq!(slice::<u8>("data", std::ptr::null(), 1).unwrap_err().code, FW_ERR_NULL);
            assert_eq!(slice("data", [0u64].as_ptr(), usize::MAX).unwrap_err().code, FW_ERR_ARGUMENT);
        }
    }
}
