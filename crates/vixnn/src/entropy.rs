//! Entropy coding of one packet's words, each packet by itself, so that any may be lost. The thesis sends
//! bits as they are (section 5.4.4); neighbouring blocks look alike, and so do their bits.
//!
//! A binary arithmetic coder with a probability for each bit: the mean of three that adapt, one for each
//! number of a bit, one also for its left neighbour (the same bit of the block to the left), one for four
//! neighbours: left, above, above left and above right. Neighbours in other packets count as unknown. Only
//! integers are used, so every machine decodes the same.

/// What a neighbour says: its bit, or that it is not in this packet.
const UNKNOWN: usize = 2;
/// A block's neighbours, and what they can say together.
const NEIGHBOURS: usize = 4;
const SAYINGS: usize = 3_usize.pow(NEIGHBOURS as u32);
/// Probabilities are in 1/65536; those used lie between 1/256 and 255/256.
const HALF: u32 = 1 << 15;
const LEAST: u32 = 1 << 8;
/// How far a probability moves towards what was seen, in 1/65536: after `n` bits 1 / (n + 1.6).
const RATES: [u32; 31] = {
    let mut rates = [0; 31];
    let mut n = 0;
    while n < rates.len() {
        rates[n] = 655_360 / (10 * n as u32 + 16);
        n += 1;
    }
    rates
};
/// Most words that a byte can stand for: 16 bits take at least 16 * log2(256 / 255) / 8 bytes.
const WORDS_PER_BYTE: usize = 89;

/// Bytes that can't stand for so many words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes can't hold {words} words")]
pub struct TooMany {
    /// Words that were asked for.
    pub words: usize,
    /// Bytes that were given.
    pub bytes: usize,
}

/// A probability that adapts, and how many bits it has seen.
#[derive(Clone, Copy)]
struct Adaptive {
    one: u32,
    seen: u8,
}

impl Adaptive {
    const NEW: Adaptive = Adaptive { one: HALF, seen: 0 };

    fn learn(&mut self, bit: bool) {
        let rate = RATES[usize::from(self.seen)];
        match bit {
            true => self.one += ((65_535 - self.one) * rate) >> 16,
            false => self.one -= (self.one * rate) >> 16,
        }
        self.seen = (self.seen + 1).min(RATES.len() as u8 - 1);
    }
}

/// What is known of a packet's bits so far.
struct Model {
    alone: [Adaptive; 16],
    left: [[Adaptive; 3]; 16],
    all: [[Adaptive; SAYINGS]; 16],
    columns: usize,
    first: usize,
}

impl Model {
    fn new(columns: usize, first: usize) -> Model {
        Model {
            alone: [Adaptive::NEW; 16],
            left: [[Adaptive::NEW; 3]; 16],
            all: [[Adaptive::NEW; SAYINGS]; 16],
            columns,
            first,
        }
    }

    /// The neighbours' words of the one that follows `words`.
    fn neighbours(&self, words: &[u16]) -> [Option<u16>; NEIGHBOURS] {
        if self.columns == 0 {
            return [None; NEIGHBOURS];
        }
        let x = (self.first + words.len()) % self.columns;
        let back = |by: usize, is_there: bool| {
            is_there.then(|| words.len().checked_sub(by)).flatten().and_then(|at| words.get(at)).copied()
        };
        let above = self.columns;
        [back(1, x > 0), back(above, true), back(above + 1, x > 0), back(above - 1, x + 1 < self.columns)]
    }

    /// One word, bit by bit: `code` is told the probability of a one and says what the bit is.
    fn word(&mut self, words: &[u16], mut code: impl FnMut(usize, u32) -> bool) -> u16 {
        let neighbours = self.neighbours(words);
        let mut word = 0;
        for bit in 0..16 {
            let say = |word: &Option<u16>| word.map_or(UNKNOWN, |word| usize::from(word >> bit & 1));
            let all = neighbours.iter().fold(0, |all, word| all * 3 + say(word));
            let alone = &mut self.alone[bit];
            let left = &mut self.left[bit][say(&neighbours[0])];
            let all = &mut self.all[bit][all];
            let one = ((alone.one + left.one + all.one) / 3).clamp(LEAST, 65_536 - LEAST);
            let is_one = code(bit, one);
            [alone, left, all].into_iter().for_each(|adaptive| adaptive.learn(is_one));
            word |= u16::from(is_one) << bit;
        }
        word
    }
}

/// Where an interval is divided: ones below, zeros above.
fn middle(low: u32, high: u32, one: u32) -> u32 {
    low + ((u64::from(high - low) * u64::from(one)) >> 16) as u32
}

/// Codes the words of blocks `first`, `first + 1`, ... of a picture with so many columns of blocks; 0 columns
/// where the blocks are in no order that makes neighbours. The result may be longer than the words.
///
/// ```
/// use framewire_vixnn::entropy::{compress, expand};
///
/// let words = vec![0x0f0f; 100];
/// let bytes = compress(&words, 20, 0);
/// assert!(bytes.len() < 50);
/// assert_eq!(expand(&bytes, 100, 20, 0)?, words);
/// # Ok::<(), framewire_vixnn::entropy::TooMany>(())
/// ```
pub fn compress(words: &[u16], columns: usize, first: usize) -> Vec<u8> {
    let mut model = Model::new(columns, first);
    let mut bytes = Vec::new();
    let (mut low, mut high) = (0, u32::MAX);
    for (at, &word) in words.iter().enumerate() {
        model.word(&words[..at], |bit, one| {
            let (middle, is_one) = (middle(low, high, one), word >> bit & 1 == 1);
            if is_one {
                high = middle
            } else {
                low = middle + 1
            }
            while (low ^ high) >> 24 == 0 {
                bytes.push((high >> 24) as u8);
                (low, high) = (low << 8, high << 8 | 0xff);
            }
            is_one
        });
    }
    // The first bytes differ, so that of `high` and zeros, which the reader adds by itself, lies between.
    bytes.push((high >> 24) as u8);
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

/// The `count` words that [`compress`] coded so. Other bytes give other words.
///
/// # Errors
/// [`TooMany`] where so few bytes never stand for so many words.
pub fn expand(bytes: &[u8], count: usize, columns: usize, first: usize) -> Result<Vec<u16>, TooMany> {
    if count > WORDS_PER_BYTE * (bytes.len() + 4) {
        return Err(TooMany { words: count, bytes: bytes.len() });
    }
    let mut model = Model::new(columns, first);
    let mut rest = bytes.iter();
    let mut next = || u32::from(rest.next().copied().unwrap_or(0));
    let mut value = (0..4).fold(0, |value, _| value << 8 | next());
    let (mut low, mut high) = (0, u32::MAX);
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let word = model.word(&words, |_, one| {
            let middle = middle(low, high, one);
            let is_one = value <= middle;
            if is_one {
                high = middle
            } else {
                low = middle + 1
            }
            while (low ^ high) >> 24 == 0 {
                (low, high, value) = (low << 8, high << 8 | 0xff, value << 8 | next());
            }
            is_one
        });
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_no_byte_can_hold_is_refused() {
        assert_eq!(expand(&[1, 2], 1_000_000, 40, 0), Err(TooMany { words: 1_000_000, bytes: 2 }));
    }

    #[test]
    fn the_most_that_bytes_hold_is_not_refused() {
        for word in [0, u16::MAX] {
            let words = vec![word; 60_000];
            assert_eq!(expand(&compress(&words, 200, 0), words.len(), 200, 0), Ok(words));
        }
    }

    #[test]
    fn chance_is_not_compressed_and_costs_little() {
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 48) as u16
        };
        let words: Vec<_> = (0..600).map(|_| draw()).collect();
        let bytes = compress(&words, 40, 0).len();
        assert!((1_200..1_300).contains(&bytes), "{bytes}");
    }

    proptest! {
        #[test]
        fn what_is_compressed_expands(
            words in proptest::collection::vec(any::<u16>().prop_map(|word| word & word >> 3), 0..200),
            (columns, first) in (0_usize..30, 0_usize..100),
        ) {
            let bytes = compress(&words, columns, first);
            prop_assert_eq!(expand(&bytes, words.len(), columns, first), Ok(words));
        }

        #[test]
        fn arbitrary_bytes_are_some_words_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            (count, columns, first) in (0_usize..2_000, 0_usize..30, 0_usize..100),
        ) {
            if let Ok(words) = expand(&bytes, count, columns, first) {
                prop_assert_eq!(words.len(), count);
            }
        }
    }
}
