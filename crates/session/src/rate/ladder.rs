//! The heights that a policy chooses from when it changes the size of pictures.

/// Most rungs of a ladder.
const RUNGS: usize = 12;

/// Heights that pictures may be coded with, below the source's own, in rows, descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    rungs: [u16; RUNGS],
    count: usize,
}

impl Ladder {
    /// What video calls use; the paper's own is in its figure 12 only.
    pub const CALLS: Ladder = Ladder { rungs: [1080, 720, 540, 360, 270, 180, 0, 0, 0, 0, 0, 0], count: 6 };

    /// A ladder of these heights, `None` unless there are 1 to 12, all 16 or more, descending.
    pub fn new(heights: &[u16]) -> Option<Ladder> {
        let descends = heights.windows(2).all(|pair| pair[0] > pair[1]);
        let possible =
            (1..=RUNGS).contains(&heights.len()) && heights.last().is_some_and(|&least| least >= 16);
        let mut rungs = [0; RUNGS];
        (descends && possible).then(|| {
            rungs[..heights.len()].copy_from_slice(heights);
            Ladder { rungs, count: heights.len() }
        })
    }

    /// The rungs, highest first.
    pub fn heights(&self) -> &[u16] {
        &self.rungs[..self.count]
    }

    /// The next rung below a height.
    pub fn below(&self, height: u16) -> Option<u16> {
        self.heights().iter().copied().find(|&rung| rung < height)
    }

    /// The next rung above a height, the topmost being the source's own height.
    pub fn above(&self, height: u16, source: u16) -> Option<u16> {
        let rung = self.heights().iter().rev().copied().find(|&rung| rung > height);
        (height < source).then(|| rung.map_or(source, |rung| rung.min(source)))
    }
}

impl std::str::FromStr for Ladder {
    type Err = ();

    /// `720/360/180`.
    fn from_str(text: &str) -> Result<Ladder, ()> {
        let heights: Result<Vec<u16>, _> = text.split('/').map(|height| height.trim().parse()).collect();
        Ladder::new(&heights.map_err(drop)?).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladders_are_read_and_impossible_ones_refused() {
        assert_eq!("1080/720/540/360/270/180".parse(), Ok(Ladder::CALLS));
        assert_eq!("720/360".parse::<Ladder>().unwrap().heights(), [720, 360]);
        for wrong in ["", "360/720", "720/720", "720/15", "big", "13/12/11/10/9/8/7/6/5/4/3/2/1"] {
            assert!(wrong.parse::<Ladder>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_step_is_one_rung_and_the_source_is_the_top() {
        let calls = Ladder::CALLS;
        assert_eq!([720, 600, 180].map(|height| calls.below(height)), [Some(540), Some(540), None]);
        assert_eq!([540, 720, 360].map(|height| calls.above(height, 720)), [Some(720), None, Some(540)]);
        assert_eq!((calls.above(360, 480), calls.above(1080, 2160)), (Some(480), Some(2160)));
    }
}
