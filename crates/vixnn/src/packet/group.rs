//! Groups of consecutive pictures that share their packets: ViXNN8 of section 5.4.4 of the thesis.

use super::{HEADER, Header, Order, PacketError, Places};
use crate::Descriptors;

/// Pictures of a group at most.
pub const GROUP: usize = 8;
/// Bytes of what a packet says of its group, besides one for each picture but the last.
const COUNT_AND_INTERVAL: usize = 3;

/// The pictures of a group, 2 to [`GROUP`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    pictures: u8,
    /// Time between two frames, in units of 10 microseconds.
    interval: u16,
    /// How many frames before the group's own each picture but the last is; zeros behind those.
    backs: [u8; GROUP - 1],
}

impl Group {
    /// A group of pictures that are `backs` frames before the last one, the oldest first, at one frame per
    /// `interval` units of 10 microseconds.
    ///
    /// # Errors
    /// [`PacketError`] if they are none or too many, or not in order.
    ///
    /// ```
    /// use framewire_vixnn::packet::Group;
    ///
    /// let group = Group::new(3_333, &[7, 6, 4])?;
    /// assert_eq!((group.pictures(), group.interval_us()), (4, 33_330));
    /// assert!(Group::new(3_333, &[1, 2]).is_err());
    /// # Ok::<(), framewire_vixnn::packet::PacketError>(())
    /// ```
    pub fn new(interval: u16, backs: &[u8]) -> Result<Group, PacketError> {
        let pictures = backs.len() + 1;
        if !(2..=GROUP).contains(&pictures) {
            return Err(PacketError::Pictures(pictures.min(usize::from(u8::MAX)) as u8));
        }
        // The last one is none back.
        for (&one, &next) in backs.iter().zip(backs[1..].iter().chain(&[0])) {
            if one <= next {
                return Err(PacketError::Unordered(one, next));
            }
        }
        let mut all = [0; GROUP - 1];
        all[..backs.len()].copy_from_slice(backs);
        Ok(Group { pictures: pictures as u8, interval, backs: all })
    }

    /// How many pictures it has.
    pub fn pictures(&self) -> usize {
        usize::from(self.pictures)
    }

    /// Of each picture but the last, oldest first, how many frames it is before that one.
    pub fn backs(&self) -> &[u8] {
        &self.backs[..self.pictures() - 1]
    }

    /// Time between two frames in microseconds.
    pub fn interval_us(&self) -> u32 {
        u32::from(self.interval) * 10
    }

    /// Bytes of what its packets say of it.
    pub(super) fn len(&self) -> usize {
        COUNT_AND_INTERVAL + self.backs().len()
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        let [high, low] = self.interval.to_be_bytes();
        [self.pictures, high, low].into_iter().chain(self.backs().iter().copied())
    }

    /// What the bytes after a header say, and those that follow; none where they end before.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Group, &[u8])>, PacketError> {
        let Some((&[pictures, high, low], rest)) = bytes.split_first_chunk::<COUNT_AND_INTERVAL>() else {
            return Ok(None);
        };
        if !(2..=GROUP).contains(&usize::from(pictures)) {
            return Err(PacketError::Pictures(pictures));
        }
        let Some((backs, words)) = rest.split_at_checked(usize::from(pictures) - 1) else { return Ok(None) };
        Ok(Some((Group::new(u16::from_be_bytes([high, low]), backs)?, words)))
    }
}

/// As [`cut`](super::cut), of the pictures of a group, oldest first: a packet carries the same blocks of
/// each. A lost one costs each picture a little, and what is said about a packet is said once for all.
///
/// ```
/// use framewire_vixnn::{Descriptors, packet};
///
/// let bits = std::array::from_fn(|_| vec![0x1234; 22 * 18]);
/// let picture = Descriptors { width: 352, height: 288, bits };
/// let group = packet::Group::new(3_333, &[7, 6, 5, 4, 3, 2, 1])?;
/// let payloads = packet::cut_group(&vec![picture; 8], group, 7, 1, packet::Order::Rows, 1_100);
/// // 396 blocks of 16 bytes, at most 67 of them in a packet, behind 22 bytes.
/// assert_eq!(payloads.len(), 6);
/// assert_eq!(payloads.concat().len(), 396 * 16 + 6 * 22);
/// # Ok::<(), packet::PacketError>(())
/// ```
///
/// # Panics
/// If there are not as many pictures as the group has, all of one size.
pub fn cut_group(
    pictures: &[Descriptors],
    group: Group,
    fingerprint: u16,
    m: usize,
    order: Order,
    most: usize,
) -> Vec<Vec<u8>> {
    assert_eq!(pictures.len(), group.pictures(), "the pictures of the group");
    let (width, height) = (pictures[0].width as u16, pictures[0].height as u16);
    let head = HEADER + group.len();
    let blocks = pictures[0].bits[0].len();
    let packets = blocks.div_ceil((most.saturating_sub(head) / (2 * pictures.len())).max(1));
    let payload = |descriptor: usize, packet: usize| {
        let run = packet * blocks / packets..(packet + 1) * blocks / packets;
        let (first, descriptor_number) = (run.start as u32, descriptor as u8);
        let group = Some(group);
        let header =
            Header { fingerprint, width, height, descriptor: descriptor_number, order, first, group };
        let places = Places::new(blocks, descriptor, order);
        let mut payload = Vec::with_capacity(head + 2 * run.len() * pictures.len());
        payload.extend(header.bytes());
        payload.extend(group.iter().flat_map(Group::bytes));
        for picture in pictures {
            let words = &picture.bits[descriptor];
            payload.extend(run.clone().flat_map(|at| words[places.block(at)].to_be_bytes()));
        }
        payload
    };
    let numbers = (0..m.min(crate::DESCRIPTORS)).flat_map(|d| (0..packets).map(move |packet| (d, packet)));
    numbers.map(|(descriptor, packet)| payload(descriptor, packet)).collect()
}
