//! A received H.264 stream in a container, so that ffmpeg knows which frame each slice belongs to, however
//! many are missing. As little of Matroska (RFC 9559) as its reader needs.
//!
//! ```text
//!   EBML header | Segment: Info, Tracks { avcC: parameter sets } | Cluster { time, block } for each frame
//! ```

use super::stream::Stream;

/// Milliseconds between frames.
pub(super) const INTERVAL: u64 = 40;

/// An element: its identifier, its size in eight bytes, what it holds.
fn element(id: u32, body: &[u8]) -> Vec<u8> {
    let id: Vec<u8> = id.to_be_bytes().into_iter().skip_while(|&byte| byte == 0).collect();
    let mut size = (body.len() as u64).to_be_bytes();
    size[0] = 0x01;
    [id.as_slice(), &size, body].concat()
}

fn number(id: u32, value: u64) -> Vec<u8> {
    element(id, &value.to_be_bytes())
}

/// Parameter sets as ISO/IEC 14496-15 section 5.3.3 has them, for units behind a length of four bytes.
fn configuration(stream: &Stream) -> Vec<u8> {
    let (sequence, picture) = (&stream.sequence, &stream.picture);
    let length = |unit: &[u8]| (unit.len() as u16).to_be_bytes();
    let head = [1, sequence[1], sequence[2], sequence[3], 0xff, 0xe1];
    [head.as_slice(), &length(sequence), sequence, &[1], &length(picture), picture].concat()
}

/// The stream as a file: frame `n` at `n` times [`INTERVAL`] milliseconds, none for a frame without a slice.
pub(super) fn file(stream: &Stream, (width, height): (usize, usize)) -> Vec<u8> {
    let header = [element(0x4282, b"matroska"), number(0x4287, 4), number(0x4285, 2)].concat();
    // Times are in units of a million nanoseconds.
    let info = element(0x1549_a966, &number(0x2a_d7b1, 1_000_000));
    let size = element(0xe0, &[number(0xb0, width as u64), number(0xba, height as u64)].concat());
    let codec = [element(0x86, b"V_MPEG4/ISO/AVC"), element(0x63a2, &configuration(stream))].concat();
    let entry = [number(0xd7, 1), number(0x73c5, 1), number(0x83, 1), codec, size].concat();
    let tracks = element(0x1654_ae6b, &element(0xae, &entry));
    let cluster = |(frame, slices): (usize, &Vec<Vec<u8>>)| {
        let units =
            slices.iter().flat_map(|slice| [&(slice.len() as u32).to_be_bytes(), slice.as_slice()].concat());
        // Track 1, no time after the cluster's, a frame that may be decoded alone or not.
        let block: Vec<u8> = [0x81, 0, 0, 0x80].into_iter().chain(units).collect();
        let time = number(0xe7, frame as u64 * INTERVAL);
        element(0x1f43_b675, &[time, element(0xa3, &block)].concat())
    };
    let there = stream.frames.iter().enumerate().filter(|(_, slices)| !slices.is_empty());
    let clusters: Vec<u8> = there.flat_map(cluster).collect();
    [element(0x1a45_dfa3, &header), element(0x1853_8067, &[info, tracks, clusters].concat())].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vixnn::stream::tests::small;

    #[test]
    fn frames_without_a_slice_have_no_block() {
        let mut stream = Stream::parse(&small()).unwrap();
        let clusters = |stream: &Stream| {
            file(stream, (16, 16)).windows(4).filter(|four| *four == [0x1f, 0x43, 0xb6, 0x75]).count()
        };
        assert_eq!(clusters(&stream), 2);
        stream.frames[0].clear();
        assert_eq!(clusters(&stream), 1);
        assert_eq!(element(0xa3, &[7, 8]), [0xa3, 1, 0, 0, 0, 0, 0, 0, 2, 7, 8]);
        assert_eq!(configuration(&stream)[..6], [1, 66, 0, 30, 0xff, 0xe1]);
    }
}
