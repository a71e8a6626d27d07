//! What names a text or a file's content in few bytes, to tell whether it is still the same.

use std::fmt;

/// FNV-1a over 128 bits (draft-eastlake-fnv section 2): no two of some thousand texts will share one by
/// chance. It keeps nobody from forging one.
///
/// ```
/// use framewire_units::Fingerprint;
///
/// // Appendix C: nothing, and "a".
/// let mut print = Fingerprint::default();
/// assert_eq!(print.to_string(), "6c62272e07bb014262b821756295c58d");
/// print.add_bytes(b"a");
/// assert_eq!(print.to_string(), "d228cb696f1a8caf78912b704e4a8964");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub u128);

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Fingerprint {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

    /// Takes a text, and that it ends here.
    pub fn add(&mut self, text: &str) {
        self.add_bytes(text.as_bytes());
        self.add_bytes(&[0xff]);
    }

    /// Takes `bytes`, any number of them: handed over in one piece or in several, they count the same.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(Fingerprint::PRIME);
        }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
