//! The packets of a frame or a group: how large they are follows from the sides of the picture, the room in a
//! packet and the budget alone.

use bytes::Bytes;
use vixnn::packet::{self, Group};
use vixnn::{BLOCK, DESCRIPTORS, Descriptors};

use super::VixnnConfig;

/// A parity packet is as long as the longest packet that it protects, its length in two bytes and one to make
/// it even.
const PARITY: usize = 3;

/// All eight descriptors, in packets.
#[derive(Clone)]
pub(super) struct Cut {
    /// One packet behind the other.
    bytes: Bytes,
    /// Where each ends.
    ends: Vec<u32>,
}

impl Cut {
    /// Cuts the pictures of a group, or one.
    pub fn of(pictures: &[Descriptors], group: Option<Group>, fingerprint: u16, config: &VixnnConfig) -> Cut {
        let (order, most) = (config.order.into(), config.payload - PARITY);
        let packets = match group {
            Some(group) => packet::cut_group(pictures, group, fingerprint, DESCRIPTORS, order, most),
            None if config.entropy => packet::cut_coded(&pictures[0], fingerprint, DESCRIPTORS, order, most),
            None => packet::cut(&pictures[0], fingerprint, DESCRIPTORS, order, most),
        };
        let end = |end: &mut u32, packet: &Vec<u8>| {
            *end += packet.len() as u32;
            Some(*end)
        };
        Cut { ends: packets.iter().scan(0, end).collect(), bytes: packets.concat().into() }
    }

    /// As many descriptors as the budget has room for, and where their packets end: one at least, since a
    /// picture has no smaller coding.
    pub fn within(mut self, budget: u64) -> (Bytes, Vec<u32>) {
        // Each descriptor has as many packets.
        let each = self.ends.len() / DESCRIPTORS;
        let has_room = |count: &usize| u64::from(self.ends[count * each - 1]) <= budget;
        let count = (1..=DESCRIPTORS).take_while(has_room).last().unwrap_or(1);
        self.ends.truncate(count * each);
        let size = self.ends.last().map_or(0, |&end| end as usize);
        (self.bytes.slice(..size), self.ends)
    }
}

/// A picture of whose bits nothing is known.
pub(super) fn blank(width: usize, height: usize) -> Descriptors {
    let blocks = width.div_ceil(BLOCK) * height.div_ceil(BLOCK);
    Descriptors { width, height, bits: std::array::from_fn(|_| vec![0; blocks]) }
}
