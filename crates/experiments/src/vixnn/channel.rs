//! What a network does to packets: losses, bit errors, and the code that is to make up for losses.

use units::Rng;

/// Packets of a group, data and parity, of which any [`DATA`] give all of its data (section 5.5.2).
pub(super) const GROUP: usize = 10;
/// Packets with data in a group.
pub(super) const DATA: usize = 7;
/// Frames before which nothing is lost, whatever codes them: a stream's first picture is sent until it is
/// there.
pub(super) const SAFE: usize = 8;
/// The VR profile (section 5.5.4): after every 50 frames 20 with losses of 5 %, ...
const QUIET: usize = 50;
const LOSSY: usize = 20;
const VR_LOSS: f64 = 0.05;
/// ... and bit errors of 1e-5, of 1e-4 in the middle hundred of 300 frames.
const VR_ERRORS: (f64, f64) = (1e-5, 1e-4);

/// What happens to packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Channel {
    /// Each packet is lost with this chance.
    Loss(f64),
    /// Each bit of a payload is wrong with this chance.
    Errors(f64),
    /// Losses and errors come and go.
    Vr,
    /// Each packet of this frame (of ViXNN8: of its eight frames) is lost with a chance of one half, and
    /// nothing else.
    Once(usize),
}

impl Channel {
    /// A channel that loses and spoils nothing.
    pub const PERFECT: Channel = Channel::Loss(0.0);

    /// Chance that a packet of this frame is lost.
    fn loss(self, frame: usize) -> f64 {
        match self {
            _ if frame < SAFE => 0.0,
            Channel::Loss(chance) => chance,
            Channel::Errors(_) => 0.0,
            Channel::Vr if frame % (QUIET + LOSSY) >= QUIET => VR_LOSS,
            Channel::Vr => 0.0,
            Channel::Once(struck) if frame == struck => 0.5,
            Channel::Once(_) => 0.0,
        }
    }

    /// Chance that a bit of a packet of this frame is wrong.
    pub fn errors(self, frame: usize) -> f64 {
        match self {
            Channel::Errors(chance) if frame >= SAFE => chance,
            Channel::Vr if (100..200).contains(&frame) => VR_ERRORS.1,
            Channel::Vr if frame >= SAFE => VR_ERRORS.0,
            _ => 0.0,
        }
    }

    /// Which packets arrive, given the frame of each, in the order they are sent.
    pub fn arrivals(self, frames: &[usize], rng: &mut Rng) -> Vec<bool> {
        frames.iter().map(|&frame| !rng.chance(self.loss(frame))).collect()
    }

    /// Which packets a receiver has in the end, if three packets of parity follow every seven.
    pub fn repaired(self, frames: &[usize], rng: &mut Rng) -> Vec<bool> {
        let mut there = Vec::with_capacity(frames.len());
        for group in frames.chunks(DATA) {
            let parity = [*group.last().expect("a group is not empty"); GROUP - DATA];
            let arrived = self.arrivals(&[group, &parity].concat(), rng);
            let lost = arrived.iter().filter(|arrived| !**arrived).count();
            let data = arrived[..group.len()].iter();
            there.extend(data.map(|&arrived| arrived || lost <= GROUP - DATA));
        }
        there
    }
}

/// Chance that a group loses more packets than its parity makes up for, at this chance of losing a packet:
/// equation 5.1.
pub(super) fn group_loss(p: f64) -> f64 {
    let q = 1.0 - p;
    // The terms of 1 - (q^10 + ...) that are left, which don't cancel where p is small.
    let choose = |k: usize| (0..k).fold(1.0, |all, i| all * (GROUP - i) as f64 / (i + 1) as f64);
    let term = |k: usize| choose(k) * p.powi(k as i32) * q.powi((GROUP - k) as i32);
    (GROUP - DATA + 1..=GROUP).map(term).sum()
}

/// Flips each bit from byte `from` on with chance `rate`; says how many.
pub(super) fn spoil(bytes: &mut [u8], from: usize, rate: f64, rng: &mut Rng) -> usize {
    let Some(body) = bytes.get_mut(from..).filter(|_| rate > 0.0) else { return 0 };
    let bits = 8 * body.len();
    let (mut at, mut flipped) = (0usize, 0);
    loop {
        // Bits until the next wrong one have a geometric distribution.
        let gap = ((1.0 - rng.uniform()).ln() / (1.0 - rate).ln()).floor();
        at = at.saturating_add(gap as usize);
        if at >= bits {
            return flipped;
        }
        body[at / 8] ^= 1 << (at % 8);
        (at, flipped) = (at + 1, flipped + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rng(name: &str) -> Rng {
        Rng::stream(1, name)
    }

    #[test]
    fn groups_are_lost_as_equation_5_1_has_it() {
        // S3X-4, computed with a calculator of 50 digits.
        let known =
            [(0.01, 2.0e-6), (0.05, 0.001_028_4), (0.1, 0.012_795), (0.15, 0.049_970), (0.2, 0.120_874)];
        for (p, expected) in known {
            assert!((group_loss(p) / expected - 1.0).abs() < 2e-3, "{p}: {}", group_loss(p));
        }
        let q: f64 = 0.8;
        let printed =
            1.0 - (q.powi(10) + 10.0 * q.powi(9) * 0.2 + 45.0 * q.powi(8) * 0.04 + 120.0 * q.powi(7) * 0.008);
        assert!((group_loss(0.2) - printed).abs() < 1e-12);
        assert_eq!((group_loss(0.0), group_loss(1.0)), (0.0, 1.0));
    }

    #[test]
    fn what_repair_leaves_agrees_with_equation_5_1() {
        let frames = vec![SAFE; 7 * 20_000];
        let channel = Channel::Loss(0.15);
        let there = channel.repaired(&frames, &mut rng("fec"));
        assert_eq!(there.len(), frames.len());
        let spoilt = there.chunks(DATA).filter(|group| group.contains(&false)).count() as f64 / 20_000.0;
        // A group may lose four packets of which three are parity: then one of data is lost, never none.
        assert!((spoilt / group_loss(0.15) - 1.0).abs() < 0.07, "{spoilt}");
        let raw = channel.arrivals(&frames, &mut rng("plain"));
        let lost = raw.iter().filter(|arrived| !**arrived).count() as f64 / raw.len() as f64;
        assert!((lost - 0.15).abs() < 0.005, "{lost}");
        // A last group of two packets has three of parity, too.
        assert_eq!(Channel::Loss(1.0).repaired(&[SAFE, SAFE], &mut rng("short")), [false, false]);
        assert_eq!(Channel::Loss(1.0).repaired(&[0, 0], &mut rng("short")), [true, true]);
    }

    #[test]
    fn bits_are_wrong_as_often_as_said_and_headers_never() {
        let mut bytes = vec![0u8; 200_000];
        let flipped = spoil(&mut bytes, 1000, 1e-2, &mut rng("bits"));
        let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(ones as usize, flipped);
        assert!((flipped as f64 / (8.0 * 199_000.0) / 1e-2 - 1.0).abs() < 0.05, "{flipped}");
        assert!(bytes[..1000].iter().all(|&byte| byte == 0));
        assert_eq!(spoil(&mut bytes, 0, 0.0, &mut rng("none")), 0);
        assert_eq!(spoil(&mut [1, 2], 5, 0.5, &mut rng("none")), 0);
    }

    #[test]
    fn profiles_strike_when_they_should() {
        let frames: Vec<usize> = (0..300).flat_map(|frame| [frame; 200]).collect();
        let there = Channel::Vr.arrivals(&frames, &mut rng("vr"));
        let lost =
            |from: usize, to: usize| there[from * 200..to * 200].iter().filter(|there| !**there).count();
        assert_eq!((lost(0, 50), lost(70, 120)), (0, 0));
        assert!((150..250).contains(&lost(50, 70)) && lost(120, 140) > 0);
        assert_eq!(Channel::Vr.errors(150), 1e-4);
        assert_eq!((Channel::Vr.errors(250), Channel::Vr.errors(0)), (1e-5, 0.0));
        let once = Channel::Once(150).arrivals(&frames, &mut rng("once"));
        let struck = once.chunks(200).map(|of_frame| of_frame.iter().filter(|there| !**there).count());
        assert!(struck.enumerate().all(|(frame, lost)| if frame == 150 {
            (70..130).contains(&lost)
        } else {
            lost == 0
        }));
    }
}
