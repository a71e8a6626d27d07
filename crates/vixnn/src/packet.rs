//! A packet's payload: bits of exactly one descriptor, for a run of blocks (section 5.4.4 of the thesis).
//!
//! ```text
//! 0       2             4       6        8                            9            12
//! | "VX"  | fingerprint | width | height | descriptor, order, flags   | first place | words of 16 bits ...
//! ```
//!
//! Numbers are big endian. Of the byte of flags, bits 0 to 2 name the descriptor, bit 3 the order, bit 4
//! says whether the words are entropy coded ([`crate::entropy`]), and bit 5 whether they are of a group; the
//! others are 0. The words are those of the blocks at places `first`, `first + 1`, ... of that order. Coded
//! words follow their number, of 16 bits.
//!
//! A group is what ViXNN8 sends: the same descriptor and the same blocks of up to eight pictures. What it is
//! made of ([`Group`]) stands between header and words, the words picture after picture, oldest first.
//! ```text
//! 12      13            15                          14 + pictures
//! | count | 10 us units | back of each but the last | words of the first picture, of the second, ...
//! ```

mod group;

use crate::entropy::{compress, expand};
use crate::picture::{blocks, is_size};
use crate::{DESCRIPTORS, Descriptors, Received};

pub use group::{GROUP, Group, cut_group};

const MAGIC: [u8; 2] = *b"VX";
/// Bytes of a header.
pub const HEADER: usize = 12;
/// Where the byte of flags lies.
const FLAGS: usize = 8;
const PERMUTED: u8 = 1 << 3;
const CODED: u8 = 1 << 4;
const GROUPED: u8 = 1 << 5;
const KNOWN: u8 = 0x3f;

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
    /// The pictures that it carries words of, where they are several.
    pub group: Option<Group>,
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
    /// A group of so many pictures.
    #[error("a packet of ViXNN is of a group of {0} pictures; 2 to 8 are possible")]
    Pictures(u8),
    /// The pictures of a group do not follow each other.
    #[error("a packet of ViXNN is of a group whose pictures are not in order: {0} frames back, then {1}")]
    Unordered(u8, u8),
    /// A group whose words are said to be entropy coded.
    #[error("a packet of ViXNN is of a group and entropy coded, which never go together")]
    CodedGroup,
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
            let descriptor = descriptor as u8;
            let header = Header { fingerprint, width, height, descriptor, order, first, group: None };
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

/// Reads a packet: its header, and its words in their order; of a group all words of its first picture, then
/// those of the second, and so on, as many of each.
///
/// # Errors
/// [`PacketError`] where the bytes are no whole packet; none of them panics.
pub fn parse(bytes: &[u8]) -> Result<(Header, Vec<u16>), PacketError> {
    let (header, is_coded, coded) = head(bytes)?;
    let (words, rest) = coded.as_chunks::<2>();
    let torn = Err(PacketError::Torn(bytes.len()));
    if words.is_empty() || !rest.is_empty() && !is_coded || !words.len().is_multiple_of(header.pictures()) {
        return torn;
    }
    let count = match is_coded {
        true => usize::from(u16::from_be_bytes(words[0])),
        false => words.len() / header.pictures(),
    };
    if count == 0 {
        return torn;
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

/// What stands before a packet's words, whether those are entropy coded, and they themselves.
fn head(bytes: &[u8]) -> Result<(Header, bool, &[u8]), PacketError> {
    if !begins(bytes) {
        return Err(PacketError::Foreign);
    }
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(PacketError::Torn(bytes.len()));
    };
    let &[_, _, f0, f1, w0, w1, h0, h1, flags, a, b, c] = head;
    if flags & !KNOWN != 0 {
        return Err(PacketError::Flags(flags & !KNOWN));
    }
    let is_coded = flags & CODED != 0;
    let mut header = Header {
        fingerprint: u16::from_be_bytes([f0, f1]),
        width: u16::from_be_bytes([w0, w1]),
        height: u16::from_be_bytes([h0, h1]),
        descriptor: flags & (DESCRIPTORS as u8 - 1),
        order: if flags & PERMUTED == 0 { Order::Rows } else { Order::Permuted },
        first: u32::from_be_bytes([0, a, b, c]),
        group: None,
    };
    if !is_size(header.width.into(), header.height.into()) {
        return Err(PacketError::Size(header.width, header.height));
    }
    if flags & GROUPED == 0 {
        return Ok((header, is_coded, rest));
    }
    if is_coded {
        return Err(PacketError::CodedGroup);
    }
    let (group, words) = Group::parse(rest)?.ok_or(PacketError::Torn(bytes.len()))?;
    header.group = Some(group);
    Ok((header, false, words))
}

/// Cuts whole packets that stand one behind the other, none of them entropy coded, apart. A packet ends where
/// another begins that says the same of the frame and goes on where it ends: with its descriptor's next
/// blocks, or after its last one with another descriptor's first. What is no packet is left at the end.
pub fn split(packets: &[u8]) -> Vec<&[u8]> {
    // The header of what begins at a place, if that is at least one block of a packet, and its length.
    let header = |at: usize| {
        let bytes = packets.get(at..)?;
        let (header, is_coded, words) = head(bytes).ok()?;
        let fits = !is_coded && words.len() >= 2 * header.pictures();
        (fits && (header.first as usize) < header.blocks()).then_some((header, bytes.len() - words.len()))
    };
    let mut whole = Vec::new();
    let mut start = 0;
    while let Some((this, length)) = header(start) {
        let left = this.blocks() - this.first as usize;
        let (words, block) = (start + length, 2 * this.pictures());
        let follows = |&end: &usize| {
            let count = (end - words) / block;
            header(end).is_some_and(|(next, _)| {
                let goes_on =
                    next.descriptor == this.descriptor && next.first as usize == this.first as usize + count;
                let another = next.descriptor != this.descriptor && next.first == 0 && count == left;
                next.is_of_the_frame_of(&this) && (goes_on || another)
            })
        };
        let most = (words + block * left).min(packets.len());
        let end = (words + block..=most).step_by(block).find(follows).unwrap_or(packets.len());
        whole.push(&packets[start..end]);
        start = end;
    }
    if start < packets.len() {
        whole.push(&packets[start..]);
    }
    whole
}

/// Notes what a packet carries; of a group, what it carries of the last picture.
///
/// # Errors
/// As [`parse`], and where the packet is of a picture of another size.
pub fn place(received: &mut Received, bytes: &[u8]) -> Result<(), PacketError> {
    let (header, words) = parse(bytes)?;
    let of_each = words.len() / header.pictures();
    place_words(received, &header, &words[words.len() - of_each..])
}

fn place_words(received: &mut Received, header: &Header, words: &[u16]) -> Result<(), PacketError> {
    if (usize::from(header.width), usize::from(header.height)) != (received.width(), received.height()) {
        return Err(PacketError::OtherSize(header.width, header.height));
    }
    let descriptor = usize::from(header.descriptor);
    let places = Places::new(header.blocks(), descriptor, header.order);
    for (at, &word) in (header.first as usize..).zip(words) {
        received.set(descriptor, places.block(at), word);
    }
    Ok(())
}

/// What came of one frame, or of a group.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// Of the model that encoded.
    pub fingerprint: u16,
    /// The descriptors that came; of a group, those of its last picture.
    pub received: Received,
    /// The descriptors that came of the pictures before the last one of a group, oldest first.
    pub earlier: Vec<Received>,
    /// Which pictures those are; none of a frame by itself.
    pub group: Option<Group>,
    /// Packets that did not count: malformed ones, and those that say something else of the frame than the
    /// first that is well-formed.
    pub ignored: usize,
}

/// Puts the packets of one frame, or of one group, together, if `is_size` takes the sides of its pictures:
/// what they say of them costs memory, eight pictures' at most.
///
/// # Errors
/// What is wrong with the first packet, if none is well-formed; [`PacketError::Refused`] by `is_size`.
pub fn gather(packets: &[&[u8]], is_size: impl Fn(usize, usize) -> bool) -> Result<Gathered, PacketError> {
    let parsed: Vec<_> = packets.iter().map(|packet| parse(packet)).collect();
    let Some(of) = parsed.iter().find_map(|packet| packet.as_ref().ok()).map(|(header, _)| *header) else {
        return Err(parsed.into_iter().find_map(Result::err).unwrap_or(PacketError::Nothing));
    };
    let Header { fingerprint, width, height, group, .. } = of;
    if !is_size(width.into(), height.into()) {
        return Err(PacketError::Refused(width, height));
    }
    let mut earlier = vec![Received::none(width.into(), height.into()); of.pictures()];
    let mut ignored = 0;
    for packet in &parsed {
        match packet {
            Ok((header, words)) if header.is_of_the_frame_of(&of) => {
                let of_each = words.len() / header.pictures();
                for (received, words) in earlier.iter_mut().zip(words.chunks(of_each)) {
                    place_words(received, header, words)?;
                }
            }
            _ => ignored += 1,
        }
    }
    let received = earlier.pop().ok_or(PacketError::Nothing)?;
    Ok(Gathered { fingerprint, received, earlier, group, ignored })
}

impl Header {
    /// Whether both say the same of their frame.
    pub fn is_of_the_frame_of(&self, other: &Header) -> bool {
        let of = |header: &Header| (header.fingerprint, header.width, header.height, header.group);
        of(self) == of(other)
    }

    /// How many pictures it carries words of.
    pub fn pictures(&self) -> usize {
        self.group.map_or(1, |group| group.pictures())
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
        let flags = self.descriptor | order | if self.group.is_some() { GROUPED } else { 0 };
        [MAGIC[0], MAGIC[1], f0, f1, w0, w1, h0, h1, flags, a, b, c]
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
mod tests;
