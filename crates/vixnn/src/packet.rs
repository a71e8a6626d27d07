//! A packet's payload: bits of exactly one descriptor, for a run of blocks (section 5.4.4 of the thesis).
//!
//! ```text
//! 0       2             4       6        8                            9            12
//! | "VX"  | fingerprint | width | height | descriptor, order, flags   | first place | words of 16 bits ...
//! ```
//!
//! Numbers are big endian. Of the byte of flags, bits 0 to 2 name the descriptor and bit 3 the order; the
//! others are 0. The words are those of the blocks at places `first`, `first + 1`, ... of that order.

use crate::picture::{blocks, is_size};
use crate::{DESCRIPTORS, Descriptors, Received};

const MAGIC: [u8; 2] = *b"VX";
/// Bytes of a header.
pub const HEADER: usize = 12;
const PERMUTED: u8 = 1 << 3;
const KNOWN: u8 = 0x0f;

/// In which order blocks follow each other in a descriptor's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Row by row: a lost packet shows as a stripe.
    Rows,
    /// Pseudo-random, another for each descriptor: a lost packet spreads over the whole picture.
    Permuted,
}

/// What a packet says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Of the model that encoded ([`crate::Model::fingerprint`]).
    pub fingerprint: u16,
    /// Pixels of a row of the picture.
    pub width: u16,
    /// Rows of the picture, in pixels.
    pub height: u16,
    /// Which descriptor, below [`DESCRIPTORS`].
    pub descriptor: u8,
    /// Order of the blocks.
    pub order: Order,
    /// Place of the first block in that order.
    pub first: u32,
}

/// Why bytes are no packet, or none of this picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// They don't begin with "VX".
    #[error("no packet of ViXNN")]
    Foreign,
    /// They end within header or words, or carry none.
    #[error("a packet of ViXNN is torn: {0} bytes")]
    Torn(usize),
    /// A flag is set that this version does not know.
    #[error("a packet of ViXNN has unknown flags: {0:#04x}; a later version may know them")]
    Flags(u8),
    /// A side is out of range.
    #[error("a packet of ViXNN is of a picture of {0}x{1} pixels; sides are 16 to 8192")]
    Size(u16, u16),
    /// Blocks beyond the picture's last.
    #[error("a packet of ViXNN has blocks up to {0} of {1}")]
    Beyond(usize, usize),
    /// The picture has another size.
    #[error("a packet of ViXNN is of a picture of {0}x{1} pixels, not this one")]
    OtherSize(u16, u16),
}

/// Whether bytes begin as a packet does.
pub fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Cuts descriptors `0..m` of a picture into payloads of at most `most` bytes, about equally long, in order of
/// descriptors. A payload carries at least one block, however small `most` is.
///
/// ```
/// use framewire_vixnn::{Descriptors, packet};
///
/// let bits = std::array::from_fn(|_| vec![0x1234; 80 * 45]);
/// let descriptors = Descriptors { width: 1280, height: 720, bits };
/// let payloads = packet::cut(&descriptors, 7, 2, packet::Order::Rows, 1_200);
/// assert_eq!(payloads.len(), 2 * 7); // 3,600 blocks of 2 bytes, at most 594 of them in a packet.
/// assert!(payloads.iter().all(|payload| payload.len() <= 1_200));
/// ```
pub fn cut(descriptors: &Descriptors, fingerprint: u16, m: usize, order: Order, most: usize) -> Vec<Vec<u8>> {
    let (width, height) = (descriptors.width as u16, descriptors.height as u16);
    let mut payloads = Vec::new();
    for (descriptor, words) in descriptors.bits.iter().enumerate().take(m) {
        let place = Places::new(words.len(), descriptor, order);
        let packets = words.len().div_ceil((most.saturating_sub(HEADER) / 2).max(1));
        for packet in 0..packets {
            let run = packet * words.len() / packets..(packet + 1) * words.len() / packets;
            let first = run.start as u32;
            let header = Header { fingerprint, width, height, descriptor: descriptor as u8, order, first };
            let mut payload = Vec::with_capacity(HEADER + 2 * run.len());
            payload.extend(header.bytes());
            payload.extend(run.flat_map(|at| words[place.block(at)].to_be_bytes()));
            payloads.push(payload);
        }
    }
    payloads
}

/// Reads a packet: its header, and its words in their order.
///
/// # Errors
/// [`PacketError`] where the bytes are no whole packet; none of them panics.
pub fn parse(bytes: &[u8]) -> Result<(Header, Vec<u16>), PacketError> {
    if !begins(bytes) {
        return Err(PacketError::Foreign);
    }
    let Some((head, words)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(PacketError::Torn(bytes.len()));
    };
    let &[_, _, f0, f1, w0, w1, h0, h1, flags, a, b, c] = head;
    if flags & !KNOWN != 0 {
        return Err(PacketError::Flags(flags & !KNOWN));
    }
    let (words, rest) = words.as_chunks::<2>();
    if words.is_empty() || !rest.is_empty() {
        return Err(PacketError::Torn(bytes.len()));
    }
    let header = Header {
        fingerprint: u16::from_be_bytes([f0, f1]),
        width: u16::from_be_bytes([w0, w1]),
        height: u16::from_be_bytes([h0, h1]),
        descriptor: flags & (DESCRIPTORS as u8 - 1),
        order: if flags & PERMUTED == 0 { Order::Rows } else { Order::Permuted },
        first: u32::from_be_bytes([0, a, b, c]),
    };
    if !is_size(header.width.into(), header.height.into()) {
        return Err(PacketError::Size(header.width, header.height));
    }
    let (blocks, end) = (header.blocks(), header.first as usize + words.len());
    if end > blocks {
        return Err(PacketError::Beyond(end, blocks));
    }
    Ok((header, words.iter().map(|&word| u16::from_be_bytes(word)).collect()))
}

/// Notes what a packet carries.
///
/// # Errors
/// As [`parse`], and where the packet is of a picture of another size.
pub fn place(received: &mut Received, bytes: &[u8]) -> Result<(), PacketError> {
    let (header, words) = parse(bytes)?;
    if (usize::from(header.width), usize::from(header.height)) != (received.width(), received.height()) {
        return Err(PacketError::OtherSize(header.width, header.height));
    }
    let descriptor = usize::from(header.descriptor);
    let places = Places::new(header.blocks(), descriptor, header.order);
    for (at, word) in (header.first as usize..).zip(words) {
        received.set(descriptor, places.block(at), word);
    }
    Ok(())
}

impl Header {
    /// How many blocks the picture has.
    pub fn blocks(&self) -> usize {
        let (columns, rows) = blocks(self.width.into(), self.height.into());
        columns * rows
    }

    fn bytes(&self) -> [u8; HEADER] {
        let [f0, f1] = self.fingerprint.to_be_bytes();
        let [w0, w1] = self.width.to_be_bytes();
        let [h0, h1] = self.height.to_be_bytes();
        let [_, a, b, c] = self.first.to_be_bytes();
        let order = if self.order == Order::Permuted { PERMUTED } else { 0 };
        [MAGIC[0], MAGIC[1], f0, f1, w0, w1, h0, h1, self.descriptor | order, a, b, c]
    }
}

/// Which block is at which place of an order: a bijection, computed for each place by itself.
struct Places {
    blocks: u32,
    /// Bits of a number of a block.
    width: u32,
    seed: u32,
    order: Order,
}

impl Places {
    fn new(blocks: usize, descriptor: usize, order: Order) -> Places {
        let blocks = blocks as u32;
        let width = (u32::BITS - blocks.saturating_sub(1).leading_zeros()).max(2);
        Places { blocks, width, seed: descriptor as u32 + 1, order }
    }

    fn block(&self, at: usize) -> usize {
        if self.order == Order::Rows {
            return at;
        }
        let mut number = at as u32;
        // Mixing permutes the numbers of so many bits, of which at least half are blocks: whoever starts at one
        // comes to another (or the same) at last.
        loop {
            number = self.mixed(number);
            if number < self.blocks {
                return number as usize;
            }
        }
    }

    /// A bijection of numbers of `width` bits: odd factors, sums and shifts, each of which can be undone.
    fn mixed(&self, number: u32) -> u32 {
        let mask = (1 << self.width) - 1;
        let mut mixed = number;
        for round in 1..=3_u32 {
            mixed = mixed.wrapping_add(self.seed.wrapping_mul(0x9e37_79b9).rotate_left(7 * round)) & mask;
            mixed = mixed.wrapping_mul(0x2c1b_3c6d) & mask;
            mixed ^= mixed >> (self.width / 2);
        }
        mixed
    }
}
