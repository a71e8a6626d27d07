//! Which packet goes next, when one may.

/// What waits, as a policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Packets waiting to be sent again, those of captures of lower number first.
    pub repairs: usize,
    /// The capture that the first of them is of.
    pub repair_of: Option<u8>,
    /// Per stream, packets of frames waiting to be sent for the first time; a backlogged stream always has
    /// some.
    pub fresh: &'a [usize],
    /// Bytes of probe padding still wanted.
    pub padding: u64,
}

/// What to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The oldest repair.
    Repair,
    /// The next packet of this stream (an index into [`View::fresh`]).
    Fresh(usize),
    /// A packet of padding, for a probe.
    Padding,
    /// Nothing: no packet waits.
    Nothing,
}

/// Decides what leaves next.
pub trait Schedule: Send {
    /// Chooses the next packet, among waiting repairs, fresh packets of each stream, and padding.
    fn pick(&mut self, view: &View<'_>) -> Pick;
}

/// The live schedule: repairs first (their frame is the oldest), then streams in order, then padding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live;

impl Schedule for Live {
    #[inline]
    fn pick(&mut self, view: &View<'_>) -> Pick {
        if view.repairs > 0 {
            return Pick::Repair;
        }
        match view.fresh.iter().position(|&waiting| waiting > 0) {
            Some(stream) => Pick::Fresh(stream),
            None if view.padding > 0 => Pick::Padding,
            None => Pick::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_then_streams_then_padding() {
        let pick =
            |repairs, fresh: &[usize], padding| Live.pick(&View { repairs, repair_of: None, fresh, padding });
        assert_eq!(pick(1, &[3], 9), Pick::Repair);
        assert_eq!(pick(0, &[0, 3], 9), Pick::Fresh(1));
        assert_eq!(pick(0, &[0, 0], 9), Pick::Padding);
        assert_eq!(pick(0, &[], 0), Pick::Nothing);
    }
}
