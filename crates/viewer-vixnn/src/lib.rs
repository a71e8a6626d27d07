//! A page's decoder of ViXNN: [`vixnn::Decoder`], compiled for the browser, where WebCodecs has none.
//!
//! ```text
//!   /vixnn.safetensors --> open() -----.
//!   viewer.wasm --> a frame's packets --> decode() --> RGBA --> VideoFrame
//! ```
//!
//! A module of its own: a page that plays another codec loads nothing of it, and it runs in a worker of its
//! own, so that the receiver is never held up by a picture. `web/src/network.ts` is its typed face.
//! Everything crosses as numbers and through blocks of memory, as in `framewire-viewer`: bytes for us are
//! written where [`input`] says, pixels stand at [`output`], and words about what went wrong at [`said`]. A
//! module is one decoder.

mod player;

use std::cell::RefCell;

use player::Player;

/// The longest input in bytes: the largest file of weights that `vixnn::Model::parse` takes.
const MOST: usize = 16 << 20;

#[derive(Default)]
struct Page {
    player: Player,
    input: Vec<u8>,
    said: String,
}

thread_local! {
    static PAGE: RefCell<Page> = RefCell::default();
}

fn page<T>(f: impl FnOnce(&mut Page) -> T) -> T {
    PAGE.with_borrow_mut(f)
}

impl Page {
    /// Keeps why something did not work: 1 if it did, else 0.
    fn note(&mut self, outcome: Result<(), String>) -> u32 {
        self.said = outcome.err().unwrap_or_default();
        u32::from(self.said.is_empty())
    }
}

/// Where the page writes `length` bytes for [`open`] or [`decode`]; null if that is more than 16 MiB.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn input(length: usize) -> *mut u8 {
    page(|page| {
        if length > MOST {
            return std::ptr::null_mut();
        }
        page.input.resize(length, 0);
        page.input.as_mut_ptr()
    })
}

/// Takes the network whose file stands at the input: 1, or 0 if it is none.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn open() -> u32 {
    page(|page| {
        let outcome = page.player.open(&std::mem::take(&mut page.input));
        page.note(outcome)
    })
}

/// Decodes the packets of a frame that stand at the input, each behind its length in two bytes, big endian:
/// 1, or 0 if there is no picture.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn decode() -> u32 {
    page(|page| {
        let outcome = page.player.decode(&page.input);
        page.note(outcome)
    })
}

/// Pixels of a row of the last picture, 0 before the first.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn width() -> usize {
    page(|page| page.player.size().0)
}

/// Rows of the last picture.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn height() -> usize {
    page(|page| page.player.size().1)
}

/// Where the last picture stands: red, green, blue and 255 of each pixel, row by row. It is valid until the
/// next call of [`decode`].
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn output() -> *const u8 {
    page(|page| page.player.pixels().as_ptr())
}

/// Where the words stand that say why the last call failed, in UTF-8.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn said() -> *const u8 {
    page(|page| page.said.as_ptr())
}

/// How many bytes they have; 0 if it did not fail.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn said_length() -> usize {
    page(|page| page.said.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_the_input_is_not_written() {
        assert!(input(MOST + 1).is_null());
        assert!(!input(4).is_null());
        assert_eq!((open(), width(), height()), (0, 0, 0));
        assert!(said_length() > 0);
        let words = page(|page| page.said.clone());
        assert!(words.starts_with("weights of ViXNN: no whole safetensors file"), "{words}");
        assert_eq!((input(0).is_null(), decode()), (false, 0));
        assert!(page(|page| page.said.contains("no network")));
    }
}
