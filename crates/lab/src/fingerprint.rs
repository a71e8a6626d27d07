//! What names a text or a file's content in few bytes, to tell whether it is still the same.

/// FNV-1a over 128 bits: no two of some thousand texts will share one by chance.
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

    /// Takes bytes.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(Fingerprint::PRIME);
        }
    }
}
