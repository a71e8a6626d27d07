//! Framewire for programs in C and C++: what stands behind `include/framewire.h`.
//!
//! ```text
//!   fw_sender     session::Sender, whose camera and encoder are the host's            (sender, encoder)
//!   fw_receiver   session::Receiver, whose decoder and screen are the host's          (receiver, decoder)
//!   fw_core       transport::Core under any controller, in a transport of the host's  (core)
//!   fw_half       what of a controller lives with the receiver, for a core            (half)
//! ```
//!
//! No clock, no socket, no thread and no state but that of handles: the host calls when a datagram arrives
//! or time has passed, and sends what it is given. `docs/embedding-c.md` is the host's page: who owns which
//! pointer for how long, threads, time, errors, versions. `examples/` has a host of each kind, in C.
//!
//! Nothing unwinds into the host ([`fw_result::FW_ERR_PANIC`]), and what a host hands in wrongly is refused
//! with a text ([`fw_last_error`]), as far as a pointer can be told from a wrong one.

#![allow(non_camel_case_types, reason = "types are called as a C program calls them")]
#![allow(clippy::missing_safety_doc, reason = "what a host promises is said once, in docs/embedding-c.md")]

mod core;
mod decoder;
mod driven;
mod encoder;
mod guard;
mod half;
mod receiver;
mod sender;
mod sized;

use std::ffi::c_char;

pub use core::*;
pub use guard::{fw_last_error, fw_result};
pub use half::*;
pub use receiver::*;
pub use sender::*;

/// The ABI that this header describes. It grows when a function or struct changes so that a program must be
/// compiled anew; functions and members that are added leave it as it is.
pub const FW_ABI_VERSION: u32 = 1;

/// The longest datagram (UDP payload) that is ever sent, in bytes: room for it is room for each.
pub const FW_MAX_DATAGRAM: usize = 1500;

/// The least room to hand to `fw_sender_transmit` and `fw_receiver_transmit`, in bytes.
pub const FW_LEAST_DATAGRAM: usize = 1150;

/// Stands where there is no limit: of a window, a rate or a size.
pub const FW_NO_LIMIT: u64 = u64::MAX;

/// Stands for a time that is not known or was not measured.
pub const FW_UNKNOWN: i64 = i64::MIN;

const _: () = assert!(FW_MAX_DATAGRAM == wire::MAX_DATAGRAM);

/// The release, as text (`"0.1.0"`). It stays valid.
#[unsafe(no_mangle)]
pub extern "C" fn fw_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The ABI of the library that was found at run time. Compare it with `FW_ABI_VERSION`, which the program was
/// compiled with.
#[unsafe(no_mangle)]
pub extern "C" fn fw_abi_version() -> u32 {
    FW_ABI_VERSION
}

/// Writes the name of controller number `index` (from 0) to `name`, cut off where `capacity` bytes with its
/// NUL do not hold it. `FW_NONE` if there are no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_controller_name(index: usize, name: *mut c_char, capacity: usize) -> fw_result {
    guard::call(|| {
        guard::given("name", name)?;
        let Some(entry) = cc::REGISTRY.get(index) else { return Ok(fw_result::FW_NONE) };
        let length = entry.name.len().min(capacity.saturating_sub(1));
        if capacity > 0 {
            // SAFETY: the host promises `capacity` bytes at `name`, and `length` is less than that.
            unsafe {
                name.cast::<u8>().copy_from_nonoverlapping(entry.name.as_ptr(), length);
                name.add(length).write(0);
            }
        }
        Ok(fw_result::FW_OK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn controllers_are_listed_by_number() {
        let mut name = [1; 32];
        let mut read = |index, capacity| {
            // SAFETY: there are as many bytes as are said.
            let result = unsafe { fw_controller_name(index, name.as_mut_ptr(), capacity) };
            // SAFETY: it was written with a NUL.
            (result, unsafe { CStr::from_ptr(name.as_ptr()) }.to_str().unwrap().to_owned())
        };
        assert_eq!(read(0, 32), (fw_result::FW_OK, "sqp".to_owned()));
        assert_eq!(read(2, 3), (fw_result::FW_OK, "gc".to_owned()));
        assert_eq!(read(cc::REGISTRY.len(), 32).0, fw_result::FW_NONE);
        // SAFETY: a null pointer is refused.
        assert_eq!(unsafe { fw_controller_name(0, std::ptr::null_mut(), 0) }, fw_result::FW_ERR_NULL);
    }

    #[test]
    fn versions_are_texts_and_numbers() {
        // SAFETY: it is a text that stays valid.
        let version = unsafe { CStr::from_ptr(fw_version()) };
        assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
        assert_eq!(fw_abi_version(), FW_ABI_VERSION);
    }
}
