//! Forward error correction within a frame: parity packets, of which each stands in for any lost one.
//!
//! A systematic Reed-Solomon code over the packets of one frame: any `count` of its `count + parity` packets
//! give all of it. The packets that carry the frame travel as they are. Packets need not be equally long:
//! each is coded as a shard of its length (2 bytes), its payload, and zeros.

use bytes::{BufMut, Bytes, BytesMut};
use reed_solomon_simd::{decode, encode};

/// Parity packets of a frame at most: their number travels in a byte.
pub const MAX: u16 = 255;
/// Bytes of a shard that say how long the payload is.
const LENGTH: u32 = 2;

/// Bytes of a shard for payloads of at most `longest` bytes: an even number, as the code wants.
pub fn shard(longest: u32) -> u32 {
    (longest + LENGTH).next_multiple_of(2)
}

/// The longest payload whose shard has at most `room` bytes; 0 where there is no room for any.
pub fn longest(room: u32) -> u32 {
    (room / 2 * 2).saturating_sub(LENGTH)
}

/// Whether so many bytes are a shard of any payload.
pub fn is_shard(length: usize) -> bool {
    length.is_multiple_of(2) && length > LENGTH as usize
}

/// How many parity packets protect `count` packets, for so many as a `share` of those: rounded up, so that a
/// share above zero always gives one.
pub fn packets(count: u16, share: f64) -> u16 {
    let most = MAX.min(u16::MAX - count);
    (f64::from(count) * share).ceil().min(f64::from(most)) as u16
}

fn padded(payload: &Bytes, shard: usize) -> BytesMut {
    let mut padded = BytesMut::with_capacity(shard);
    padded.put_u16(payload.len() as u16);
    padded.extend_from_slice(payload);
    padded.resize(shard, 0);
    padded
}

/// The `parity` parity packets of a frame cut into `parts`.
///
/// # Panics
/// If there are no parts, no parity packets, or more of either than a frame can have.
pub fn protect(parts: &[Bytes], parity: u16) -> Vec<Bytes> {
    let longest = parts.iter().map(Bytes::len).max().unwrap_or(0);
    let shard = shard(longest as u32) as usize;
    let shards = parts.iter().map(|part| padded(part, shard));
    let coded = encode(parts.len(), usize::from(parity), shards).expect("counts that a frame can have");
    coded.into_iter().map(Bytes::from).collect()
}

/// The payloads at the indices `missing` of a frame that was cut into `count` packets and has `of` parity
/// packets, in that order: from what `arrived` and from `parity`, both with their numbers. `None` if these
/// are too few, or don't fit together: whoever sends may have written anything.
pub fn recover<'a>(
    count: u16,
    of: u16,
    missing: &[u16],
    arrived: impl Iterator<Item = (u16, &'a Bytes)>,
    parity: &[(u16, Bytes)],
) -> Option<Vec<Bytes>> {
    let shard = parity.first()?.1.len();
    let mut originals = Vec::new();
    for (index, payload) in arrived {
        if payload.len() + LENGTH as usize > shard {
            return None;
        }
        originals.push((usize::from(index), padded(payload, shard)));
    }
    let parity = parity.iter().map(|(index, bytes)| (usize::from(*index), bytes));
    let restored = decode(usize::from(count), usize::from(of), originals, parity).ok()?;
    let payload = |index: &u16| {
        let (length, rest) =
            restored.get(&usize::from(*index))?.split_first_chunk::<{ LENGTH as usize }>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        rest.get(..length).map(Bytes::copy_from_slice)
    };
    missing.iter().map(payload).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts() -> impl Strategy<Value = Vec<Bytes>> {
        let part = prop::collection::vec(any::<u8>(), 1..40).prop_map(Bytes::from);
        prop::collection::vec(part, 1..40)
    }

    proptest! {
        /// Whichever packets are lost, as many as there are parity packets: all of them come back.
        #[test]
        fn any_packets_as_many_as_the_frame_has_give_all_of_it(
            parts in parts(), parity in 1u16..20, order in any::<prop::sample::Index>()
        ) {
            let (count, all) = (parts.len(), parts.len() + usize::from(parity));
            let coded = protect(&parts, parity);
            // `count` of all, from anywhere on.
            let first = order.index(all);
            let arrived: Vec<usize> = (first..first + count).map(|index| index % all).collect();
            let missing: Vec<u16> =
                (0..count).filter(|index| !arrived.contains(index)).map(|index| index as u16).collect();
            let originals = (0..count).filter(|index| arrived.contains(index));
            let kept: Vec<_> = (0..usize::from(parity))
                .filter(|index| arrived.contains(&(count + index)))
                .map(|index| (index as u16, coded[index].clone()))
                .collect();
            prop_assume!(!kept.is_empty());
            let originals = originals.map(|index| (index as u16, &parts[index]));
            let restored = recover(count as u16, parity, &missing, originals, &kept).unwrap();
            for (index, payload) in missing.iter().zip(restored) {
                prop_assert_eq!(&payload, &parts[usize::from(*index)]);
            }
        }

        /// Shards of any bytes and lengths give payloads or nothing, and never a panic.
        #[test]
        fn whatever_parity_says_it_is_taken_or_refused(
            parts in parts(), bytes in prop::collection::vec(any::<u8>(), 0..80), of in 1u16..4, index in 0u16..5
        ) {
            let missing = [0];
            let arrived = parts.iter().enumerate().skip(1).map(|(index, part)| (index as u16, part));
            let parity = [(index, Bytes::from(bytes))];
            let _ = recover(parts.len() as u16, of, &missing, arrived, &parity);
        }
    }

    #[test]
    fn a_share_is_rounded_up_and_shards_fit_into_packets() {
        assert_eq!([1, 4, 5, 6, 60].map(|count| packets(count, 0.2)), [1, 1, 1, 2, 12]);
        assert_eq!((packets(5, 0.0), packets(8_000, 0.5)), (0, MAX));
        assert_eq!([0, 1, 2, 3, 4].map(longest), [0, 0, 0, 0, 2]);
        assert_eq!([0, 1, 2, 3, 4, 5].map(is_shard), [false, false, false, false, true, false]);
        for room in [1_159, 1_160] {
            assert!(shard(longest(room)) <= room && longest(room) >= room - 3);
        }
    }
}
