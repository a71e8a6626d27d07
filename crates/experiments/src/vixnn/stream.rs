//! H.264 as packets carry it: units out of an Annex B stream, a packet for each slice or for each piece of a
//! slice that was cut blindly, and frames again out of the packets that arrived.

/// Bytes of a packet's payload, at most: an MTU of 1,280 less headers.
pub(super) const PAYLOAD: usize = 1200;
/// Types of network abstraction layer units (H.264 table 7-1).
const SLICE: u8 = 1;
const KEY_SLICE: u8 = 5;
const SEQUENCE: u8 = 7;
const PICTURE: u8 = 8;
const DELIMITER: u8 = 9;

/// A coded clip: its parameter sets, and of each frame the slices, without start codes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stream {
    pub sequence: Vec<u8>,
    pub picture: Vec<u8>,
    pub frames: Vec<Vec<Vec<u8>>>,
}

/// A packet: a slice, or a piece of one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Packet {
    /// The frame it belongs to.
    pub frame: usize,
    /// The slice it belongs to.
    pub slice: usize,
    /// Bytes of a packet, without what a network adds.
    pub bytes: Vec<u8>,
}

/// The units of an Annex B stream (H.264 appendix B), without start codes and trailing zeros.
fn units(stream: &[u8]) -> Vec<&[u8]> {
    let starts: Vec<usize> =
        (0..stream.len().saturating_sub(2)).filter(|&at| stream[at..at + 3] == [0, 0, 1]).collect();
    let ends = starts.iter().skip(1).copied().chain([stream.len()]);
    let unit = |(&start, end): (&usize, usize)| {
        let unit = &stream[start + 3..end];
        let length = unit.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        &unit[..length]
    };
    starts.iter().zip(ends).map(unit).filter(|unit| !unit.is_empty()).collect()
}

impl Stream {
    /// Reads a stream that has a delimiter before each frame. Supplemental information is left out, as are
    /// parameter sets after the first.
    pub fn parse(annex_b: &[u8]) -> Result<Stream, String> {
        let mut stream = Stream::default();
        for unit in units(annex_b) {
            match unit[0] & 0x1f {
                DELIMITER => stream.frames.push(Vec::new()),
                SEQUENCE if stream.sequence.is_empty() => stream.sequence = unit.to_vec(),
                PICTURE if stream.picture.is_empty() => stream.picture = unit.to_vec(),
                SLICE | KEY_SLICE => {
                    let frame = stream.frames.last_mut().ok_or("a slice before the first delimiter")?;
                    frame.push(unit.to_vec());
                }
                _ => {}
            }
        }
        if stream.sequence.len() < 4 || stream.picture.is_empty() {
            return Err("a stream without parameter sets".into());
        }
        Ok(stream)
    }

    /// Bits of all slices.
    pub fn bits(&self) -> u64 {
        self.frames.iter().flatten().map(|slice| 8 * slice.len() as u64).sum()
    }

    /// The packets: a slice each, and of slices longer than a packet as many as it takes.
    pub fn packets(&self) -> Vec<Packet> {
        let mut packets = Vec::new();
        for (frame, slices) in self.frames.iter().enumerate() {
            for (slice, bytes) in slices.iter().enumerate() {
                let pieces = bytes.chunks(PAYLOAD);
                packets.extend(pieces.map(|piece| Packet { frame, slice, bytes: piece.to_vec() }));
            }
        }
        packets
    }

    /// The stream as a receiver has it, of packets in order, of which none stands for a lost one. Of a slice
    /// that was cut everything after its first missing piece is worthless: its code is of variable length.
    pub fn received(&self, packets: impl IntoIterator<Item = (Packet, bool)>) -> Stream {
        let frames = vec![Vec::new(); self.frames.len()];
        let mut received = Stream { frames, ..self.clone() };
        // The slice at hand, and whether all of it has arrived so far.
        let (mut current, mut whole) = (None, true);
        for (packet, arrived) in packets {
            let place = (packet.frame, packet.slice);
            let first = current != Some(place);
            (current, whole) = (Some(place), if first { arrived } else { whole && arrived });
            let Some(frame) = received.frames.get_mut(packet.frame).filter(|_| whole) else { continue };
            match frame.last_mut().filter(|_| !first) {
                Some(slice) => slice.extend_from_slice(&packet.bytes),
                None => frame.push(packet.bytes),
            }
        }
        received
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two frames of two slices each, with parameter sets and something to be left out.
    pub fn small() -> Vec<u8> {
        let units: [&[u8]; 9] = [
            &[9, 16],
            &[0x67, 66, 0, 30, 1],
            &[0x68, 2],
            &[6, 5, 5],
            &[0x65, 1, 1],
            &[0x65, 2, 2],
            &[9, 48],
            &[0x41, 3, 3],
            &[0x41, 4],
        ];
        units.iter().flat_map(|unit| [&[0, 0, 0, 1], *unit].concat()).collect()
    }

    #[test]
    fn a_stream_is_frames_of_slices() {
        let stream = Stream::parse(&small()).unwrap();
        assert_eq!(
            (stream.sequence.as_slice(), stream.picture.as_slice()),
            ([0x67, 66, 0, 30, 1].as_slice(), [0x68, 2].as_slice())
        );
        assert_eq!(stream.frames, [[vec![0x65, 1, 1], vec![0x65, 2, 2]], [vec![0x41, 3, 3], vec![0x41, 4]]]);
        assert_eq!(stream.bits(), 8 * 11);
        let packets = stream.packets();
        assert_eq!(
            packets.iter().map(|p| (p.frame, p.slice)).collect::<Vec<_>>(),
            [(0, 0), (0, 1), (1, 0), (1, 1)]
        );
        assert!(Stream::parse(&[0, 0, 1, 0x65, 1]).is_err() && Stream::parse(&[]).is_err());
    }

    #[test]
    fn of_a_slice_cut_blindly_what_follows_a_gap_is_worthless() {
        let long: Vec<u8> = [0x65].into_iter().chain((0..3 * PAYLOAD).map(|i| i as u8 | 1)).collect();
        let stream = Stream {
            sequence: vec![0; 4],
            picture: vec![0],
            frames: vec![vec![long.clone()], vec![vec![0x41, 1]]],
        };
        let packets = stream.packets();
        assert_eq!(
            packets.iter().map(|packet| packet.bytes.len()).collect::<Vec<_>>(),
            [1200, 1200, 1200, 1, 2]
        );
        let after = |lost: usize| {
            let marked = packets.iter().cloned().enumerate().map(|(at, packet)| (packet, at != lost));
            stream.received(marked).frames
        };
        assert_eq!(after(9), stream.frames);
        assert_eq!(after(0), [vec![], vec![vec![0x41, 1]]]);
        assert_eq!(after(2), [vec![long[..2400].to_vec()], vec![vec![0x41, 1]]]);
        assert_eq!(after(4), [vec![long], vec![]]);
    }
}
