//! Where a frame's bytes are cut into packets.

/// The ends of a frame's packets. Worked out once: every packet asks for its own several times.
#[derive(Debug)]
pub(super) enum Cut {
    /// `count` packets of `bytes` each, the first `longer` of them a byte longer. They are of nearly equal
    /// size, for a short last packet would make the burst's end say less about the link.
    Evenly { count: u16, bytes: u32, longer: u32 },
    /// Packets that end where the encoder's pieces do.
    AtPieces(Vec<u32>),
}

impl Default for Cut {
    fn default() -> Cut {
        Cut::Evenly { count: 0, bytes: 0, longer: 0 }
    }
}

impl Cut {
    /// `size` bytes in packets of at most `room`, however many pieces they are; more than 65,535 packets
    /// there are not.
    pub fn evenly(size: u32, room: u32) -> Cut {
        let count = size.div_ceil(room).min(u32::from(u16::MAX));
        Cut::Evenly { count: count as u16, bytes: size / count, longer: size % count }
    }

    /// Whole pieces, which end at these bytes, in packets of at most `room` bytes, one each where they stay
    /// `apart`; a larger piece is cut. None if there are no pieces.
    pub fn at_pieces(pieces: &[u32], room: u32, apart: bool) -> Option<Cut> {
        let ends = pack(pieces, room, apart);
        (!ends.is_empty()).then_some(Cut::AtPieces(ends))
    }

    /// How many packets there are.
    pub fn count(&self) -> u16 {
        match self {
            Cut::Evenly { count, .. } => *count,
            Cut::AtPieces(ends) => ends.len() as u16,
        }
    }

    /// The first byte of a packet, and the one behind its last.
    #[inline(always)]
    pub fn span(&self, index: u16) -> (u32, u32) {
        match self {
            Cut::Evenly { bytes, longer, .. } => {
                let index = u32::from(index);
                let start = index * bytes + index.min(*longer);
                (start, start + bytes + u32::from(index < *longer))
            }
            Cut::AtPieces(ends) => {
                let start = index.checked_sub(1).map_or(0, |before| ends[usize::from(before)]);
                (start, ends[usize::from(index)])
            }
        }
    }

    /// Bytes from the first one of a packet to the end.
    pub fn after(&self, index: u16) -> u32 {
        self.span(self.count() - 1).1 - self.span(index).0
    }

    /// Bytes of the longest packet.
    pub fn longest(&self) -> u32 {
        match self {
            Cut::Evenly { bytes, longer, .. } => bytes + u32::from(*longer > 0),
            Cut::AtPieces(ends) => {
                let starts = std::iter::once(&0).chain(ends);
                ends.iter().zip(starts).map(|(end, start)| end - start).max().unwrap_or(0)
            }
        }
    }
}

fn pack(pieces: &[u32], room: u32, apart: bool) -> Vec<u32> {
    let mut ends = Vec::new();
    let (mut start, mut end) = (0, 0);
    for &piece in pieces {
        if (apart || piece - start > room) && end > start {
            ends.push(end);
            start = end;
        }
        while piece - start > room {
            start += room;
            ends.push(start);
        }
        end = piece;
    }
    if end > start {
        ends.push(end);
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_not_cut_when_they_fit() {
        assert_eq!(pack(&[400, 900, 1500, 2000], 1000, false), [900, 1500, 2000]);
        assert_eq!(pack(&[2500, 2600], 1000, false), [1000, 2000, 2600]);
    }

    #[test]
    fn pieces_that_stay_apart_share_no_packet() {
        assert_eq!(pack(&[400, 900, 1500, 2000], 1000, true), [400, 900, 1500, 2000]);
        assert_eq!(pack(&[100, 2600, 2700], 1000, true), [100, 1100, 2100, 2600, 2700]);
    }

    #[test]
    fn packets_follow_each_other_and_the_longest_is_known() {
        let pieces = [400, 900, 1500, 2000, 5_003];
        let cuts = [1, 7, 999, 5_003].map(|room| Cut::evenly(5_003, room));
        let cuts = cuts.into_iter().chain(Cut::at_pieces(&pieces, 1_000, false));
        for cut in cuts {
            let spans: Vec<(u32, u32)> = (0..cut.count()).map(|index| cut.span(index)).collect();
            assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "{cut:?}");
            assert_eq!((spans[0].0, spans[spans.len() - 1].1), (0, 5_003), "{cut:?}");
            assert_eq!(spans.iter().map(|span| span.1 - span.0).max(), Some(cut.longest()), "{cut:?}");
            assert!((0..).zip(&spans).all(|(index, span)| cut.after(index) == 5_003 - span.0), "{cut:?}");
        }
        assert!(Cut::at_pieces(&[], 1_000, false).is_none());
    }
}
