//! A packet's payload: bits of exactly one descriptor, for a run of blocks (section 5.4.4 of the thesis).
//!
//! ```text
//! 0       2             4       6        8                            9            12
//! | "VX"  | fingerprint | width | height | descriptor, order, flags   | first place | words of 16 bits ...
//! ```
//!
//! Numbers are big endian. Of the byte of flags, bits 0 to 2 name the descriptor, bit 3 the order, and bit 4
//! says whether the words are entropy coded ([`crate::entropy`]); the others are 0. The words are those of
//! the blocks at places `first`, `first + 1`, ... of that order. Coded words follow their number, of 16 bits.

use crate::entropy::{compress, expand};
use crate::picture::{blocks, is_size};
use crate::{DESCRIPTORS, Descriptors, Received};

const MAGIC: [u8; 2] = *b"VX";
/// Bytes of a header.
pub const HEADER: usize = 12;
/// Where the byte of flags lies.
const FLAGS: usize = 8;
const PERMUTED: u8 = 1 << 3;
const CODED: u8 = 1 << 4;
const KNOWN: u8 = 0x1f;

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
    /// They can't stand for as many words as they say.
    #[error("a packet of ViXNN of {1} bytes says that it holds {0} words")]
    TooMany(usize, usize),
    /// A flag is set that this version does not know.
    #[error("a packet of ViXNN has unknown flags: {0:#04x}; a later version may know them")]
    Flags(u8),
    /// A side is out of range.
    #[error("a packet of ViXNN is of a picture of {0}x{1} pixels; sides are 16 to 8192")]
    Size(u16, u16),
    /// Blocks beyond the picture's last.
    #[error("a packet of ViXNN has blocks up to {0} of {1}")]
    Beyond(usize, usize),
    /// There is no packet at all.
    #[error("a frame of ViXNN without packets")]
    Nothing,
    /// A picture of a size that the caller does not take.
    #[error("a picture of {0}x{1}, which is not decoded here")]
    Refused(u16, u16),
    /// The picture has another size.
    #[error("a packet of ViXNN is of a picture of {0}x{1} pixels, not this one")]
    OtherSize(u16, u16),
}

/// Whether bytes begin as a packet does.
pub fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Cuts descriptors `0..m` of a picture into payloads of at most `most` bytes, about equally long, in order
/// of descriptors. A payload carries at least one block, however small `most` is.
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
    payloads(descriptors, (fingerprint, m, order, most), false)
}

/// As [`cut`], with the words of each packet entropy coded where that makes it shorter. Packets carry the
/// same blocks.
pub fn cut_coded(
    descriptors: &Descriptors,
    fingerprint: u16,
    m: usize,
    order: Order,
    most: usize,
) -> Vec<Vec<u8>> {
    payloads(descriptors, (fingerprint, m, order, most), true)
}

fn payloads(
    descriptors: &Descriptors,
    (fingerprint, m, order, most): (u16, usize, Order, usize),
    is_coded: bool,
) -> Vec<Vec<u8>> {
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
            let words: Vec<_> = run.map(|at| words[place.block(at)]).collect();
            match is_coded.then(|| coded(&words, &header)).flatten() {
                Some(coded) => {
                    payload[FLAGS] |= CODED;
                    payload.extend(coded);
                }
                None => payload.extend(words.iter().flat_map(|word| word.to_be_bytes())),
            }
            payloads.push(payload);
        }
    }
    payloads
}

/// Words with their number before them, entropy coded, if that is shorter.
fn coded(words: &[u16], header: &Header) -> Option<Vec<u8>> {
    let count = u16::try_from(words.len()).ok()?;
    let mut coded = count.to_be_bytes().to_vec();
    coded.extend(compress(words, header.columns(), header.first as usize));
    (coded.len() < 2 * words.len()).then_some(coded)
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
    let (coded, (words, rest)) = (words, words.as_chunks::<2>());
    let is_coded = flags & CODED != 0;
    if words.is_empty() || !rest.is_empty() && !is_coded {
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
    let count = if is_coded { usize::from(u16::from_be_bytes(words[0])) } else { words.len() };
    if count == 0 {
        return Err(PacketError::Torn(bytes.len()));
    }
    let (blocks, end) = (header.blocks(), header.first as usize + count);
    if end > blocks {
        return Err(PacketError::Beyond(end, blocks));
    }
    if is_coded {
        let expanded = expand(&coded[2..], count, header.columns(), header.first as usize);
        return Ok((header, expanded.map_err(|_| PacketError::TooMany(count, bytes.len()))?));
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

/// What came of one frame.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// Of the model that encoded.
    pub fingerprint: u16,
    /// The descriptors that came.
    pub received: Received,
    /// Packets that did not count: malformed ones, and those that say something else of the frame than the
    /// first that is well-formed.
    pub ignored: usize,
}

/// Puts the packets of one frame together, if `is_size` takes the sides of its picture: what they say of
/// them costs memory.
///
/// # Errors
/// What is wrong with the first packet, if none is well-formed; [`PacketError::Refused`] by `is_size`.
pub fn gather(packets: &[&[u8]], is_size: impl Fn(usize, usize) -> bool) -> Result<Gathered, PacketError> {
    let headers: Vec<_> = packets.iter().map(|packet| parse(packet).map(|(header, _)| header)).collect();
    let Some(of) = headers.iter().find_map(|header| header.as_ref().ok()) else {
        return Err(headers.into_iter().find_map(Result::err).unwrap_or(PacketError::Nothing));
    };
    let &Header { fingerprint, width, height, .. } = of;
    if !is_size(width.into(), height.into()) {
        return Err(PacketError::Refused(width, height));
    }
    let mut received = Received::none(width.into(), height.into());
    let mut ignored = 0;
    for (payload, header) in packets.iter().zip(&headers) {
        let fits = header.as_ref().is_ok_and(|header| header.is_of_the_frame_of(of));
        if !fits || place(&mut received, payload).is_err() {
            ignored += 1;
        }
    }
    Ok(Gathered { fingerprint, received, ignored })
}

impl Header {
    /// Whether both say the same of their frame.
    pub fn is_of_the_frame_of(&self, other: &Header) -> bool {
        let of = |header: &Header| (header.fingerprint, header.width, header.height);
        of(self) == of(other)
    }

    /// How many blocks the picture has.
    pub fn blocks(&self) -> usize {
        let (columns, rows) = blocks(self.width.into(), self.height.into());
        columns * rows
    }

    /// Columns of blocks where neighbours in the picture are neighbours in the packet, else 0.
    fn columns(&self) -> usize {
        match self.order {
            Order::Rows => blocks(self.width.into(), self.height.into()).0,
            Order::Permuted => 0,
        }
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
        // Mixing permutes the numbers of so many bits, of which at least half are blocks: whoever starts at
        // one comes to another (or the same) at last.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A picture of arbitrary bits.
    fn descriptors(width: usize, height: usize) -> Descriptors {
        let (columns, rows) = blocks(width, height);
        let word =
            |d: usize, block: usize| (block as u16).wrapping_mul(40_503).rotate_left(d as u32) ^ d as u16;
        let bits = std::array::from_fn(|d| (0..columns * rows).map(|block| word(d, block)).collect());
        Descriptors { width, height, bits }
    }

    fn order() -> impl Strategy<Value = Order> {
        prop_oneof![Just(Order::Rows), Just(Order::Permuted)]
    }

    #[test]
    fn an_order_has_every_block_once() {
        for blocks in [1, 2, 3, 64, 99, 3_600, 262_144] {
            let mut seen = vec![0_u8; blocks];
            let places = Places::new(blocks, 3, Order::Permuted);
            (0..blocks).for_each(|at| seen[places.block(at)] += 1);
            assert!(seen.iter().all(|&count| count == 1), "{blocks} blocks");
        }
    }

    #[test]
    fn a_permuted_packet_is_spread_over_the_picture() {
        // A tenth of 3,600 blocks: each fourth of the picture has its share, and few are neighbours.
        let places = Places::new(3_600, 0, Order::Permuted);
        let blocks: Vec<_> = (0..360).map(|at| places.block(at)).collect();
        for quarter in 0..4 {
            let there = blocks.iter().filter(|&&block| block / 900 == quarter).count();
            assert!((60..=120).contains(&there), "{there} of 360 in quarter {quarter}");
        }
        let neighbours = blocks.iter().filter(|&&block| blocks.contains(&(block + 1))).count();
        assert!(neighbours < 72, "{neighbours} of 360 have a neighbour; by chance it is 36");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let whole = cut(&descriptors(64, 48), 7, 1, Order::Rows, 1_200).remove(0);
        let with = |at: usize, value: u8| {
            let mut bytes = whole.clone();
            bytes[at] = value;
            parse(&bytes).unwrap_err()
        };
        assert_eq!(with(0, b'W'), PacketError::Foreign);
        assert_eq!(with(8, 0x40), PacketError::Flags(0x40));
        assert_eq!(with(5, 8), PacketError::Size(8, 48));
        assert_eq!(with(11, 1), PacketError::Beyond(13, 12));
        // The first word becomes the number of coded ones.
        let claims = [&whole[..8], &[CODED, 0, 0, 0, 0, 9], &[7; 3]].concat();
        assert_eq!(parse(&claims).unwrap().1.len(), 9);
        let large = cut(&descriptors(8_192, 8_192), 7, 1, Order::Rows, 1_200).remove(0);
        let claims = [&large[..8], &[CODED, 0, 0, 0, 0xff, 0xff], &[7; 3]].concat();
        assert_eq!(parse(&claims), Err(PacketError::TooMany(65_535, 17)));
        assert_eq!(parse(&whole[..13]).unwrap_err(), PacketError::Torn(13));
        assert_eq!(parse(&whole[..12]).unwrap_err(), PacketError::Torn(12));
        let mut other = Received::none(64, 64);
        assert_eq!(place(&mut other, &whole), Err(PacketError::OtherSize(64, 48)));
        assert_eq!(other, Received::none(64, 64));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_read_or_refused(
            head in proptest::collection::vec(any::<u8>(), 10),
            rest in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut bytes = b"VX".to_vec();
            bytes.extend(head.iter().chain(&rest));
            for bytes in [&bytes, &rest] {
                if let Ok((header, words)) = parse(bytes) {
                    let mut received = Received::none(header.width.into(), header.height.into());
                    prop_assert_eq!(place(&mut received, bytes), Ok(()));
                    prop_assert!(header.first as usize + words.len() <= header.blocks());
                }
            }
        }

        #[test]
        fn whatever_arrives_is_placed_where_it_was(
            (width, height, m) in (16_usize..200, 16_usize..200, 0_usize..9),
            (order, most, lost) in (order(), 0_usize..300, proptest::collection::vec(any::<bool>(), 64)),
            (is_coded, sparse) in (any::<bool>(), any::<u16>()),
        ) {
            let mut descriptors = descriptors(width, height);
            descriptors.bits.iter_mut().flatten().for_each(|word| *word &= sparse);
            let payloads = payloads(&descriptors, (0xf00d, m, order, most), is_coded);
            let mut received = Received::none(width, height);
            let mut blocks = 0;
            for (payload, _) in payloads.iter().zip(lost.iter().cycle()).filter(|(_, lost)| !**lost) {
                prop_assert!(payload.len() <= most.max(HEADER + 2));
                let (header, words) = parse(payload).unwrap();
                prop_assert_eq!(header.fingerprint, 0xf00d);
                blocks += words.len();
                place(&mut received, payload).unwrap();
            }
            let count = descriptors.bits[0].len();
            for (d, block) in (0..DESCRIPTORS).flat_map(|d| (0..count).map(move |block| (d, block))) {
                let found = received.present(d, block);
                prop_assert!(found.is_none_or(|bits| bits == descriptors.bits[d][block]));
                blocks -= usize::from(found.is_some());
            }
            prop_assert_eq!(blocks, 0);
        }

        #[test]
        fn m_descriptors_are_a_sixteenth_of_m_bits_a_pixel(
            (columns, rows, m) in (1_usize..40, 1_usize..40, 0_usize..=8),
            (order, most) in (order(), 14_usize..1_500),
        ) {
            let (width, height) = (columns * 16, rows * 16);
            let payloads = cut(&descriptors(width, height), 1, m, order, most);
            let bytes: usize = payloads.iter().map(|payload| payload.len() - HEADER).sum();
            prop_assert_eq!(8.0 * bytes as f64 / (width * height) as f64, 0.0625 * m as f64);
        }
    }
}
