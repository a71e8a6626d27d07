//! Impairments at a link's entry: random loss, duplication, blackouts, a largest packet size and a policer.
//!
//! ```text
//! Gilbert-Elliott:      p                    loss 1-k in Good, 1-h in Bad
//!               Good ------> Bad             mean loss   = pi_B (1-h) + (1-pi_B) (1-k),  pi_B = p / (p + r)
//!                    <------                 mean burst  = 1 / r packets (h = 0)
//!                      r
//! ```
//!
//! As netem's `loss gemodel` (tc-netem(8)). A packet is emitted with the current state, then the state may
//! change.

use std::fmt;
use std::str::FromStr;

use record::Dropped;
use units::{Bytes, Rate, Rng, Time};

use crate::bucket::Bucket;
use crate::text::{self, TextError};

/// A random loss process. Probabilities lie between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Every packet is lost with the same probability, independently.
    Bernoulli(f64),
    /// Loss in bursts.
    GilbertElliott(GilbertElliott),
}

/// Parameters of the two-state loss chain; its state starts Good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability per packet to go from Good to Bad.
    pub p: f64,
    /// Probability per packet to go from Bad to Good.
    pub r: f64,
    /// Probability that a packet survives in Bad.
    pub h: f64,
    /// Probability that a packet survives in Good.
    pub k: f64,
}

impl GilbertElliott {
    /// The chain (with `h = 0`, `k = 1`) whose mean loss is `loss` and whose mean burst is `burst` packets:
    /// `r = 1 / burst`, `p = loss r / (1 - loss)`.
    ///
    /// # Errors
    /// [`TextError`] if `loss` is not in `[0, 1)`, `burst` is below 1, or `p` would exceed 1.
    pub fn from_loss_and_burst(loss: f64, burst: f64) -> Result<GilbertElliott, TextError> {
        let r = 1.0 / burst;
        let p = loss * r / (1.0 - loss);
        if (0.0..1.0).contains(&loss) && burst >= 1.0 && p <= 1.0 {
            return Ok(GilbertElliott { p, r, h: 0.0, k: 1.0 });
        }
        let found = format!("loss={loss},burst={burst}");
        let accepted = "loss from 0 to below 100%, burst of 1 packet or more and at least loss/(1-loss)";
        Err(TextError::new(&found, "a bursty loss process", accepted))
    }

    /// Fraction of packets lost in the long run.
    pub fn mean_loss(&self) -> f64 {
        let bad = if self.p + self.r > 0.0 { self.p / (self.p + self.r) } else { 0.0 };
        bad * (1.0 - self.h) + (1.0 - bad) * (1.0 - self.k)
    }
}

const LOSS_FORMS: &str =
    "none, bernoulli:1%, ge:p=0.01,r=0.25 (with h= and k= if wanted), ge:loss=3%,burst=4";

impl FromStr for Loss {
    type Err = TextError;

    /// Reads `none`, `bernoulli:1%`, `ge:p=0.01,r=0.25,h=0,k=1` or `ge:loss=3%,burst=4`.
    fn from_str(text: &str) -> Result<Loss, TextError> {
        let (name, arguments) = text::split_name(text);
        match name {
            "none" if arguments.is_empty() => Ok(Loss::None),
            "bernoulli" => text::probability(arguments).map(Loss::Bernoulli),
            "ge" => read_gilbert_elliott(arguments).map(Loss::GilbertElliott),
            _ => Err(TextError::new(text, "a loss process", LOSS_FORMS)),
        }
    }
}

fn read_gilbert_elliott(arguments: &str) -> Result<GilbertElliott, TextError> {
    let refuse = |part: &str| TextError::new(part, "a Gilbert-Elliott process", LOSS_FORMS);
    let mut chain = GilbertElliott { p: f64::NAN, r: f64::NAN, h: 0.0, k: 1.0 };
    let (mut loss, mut burst) = (None, None);
    for (key, value) in text::parts(arguments) {
        match key {
            "p" => chain.p = text::probability(value)?,
            "r" => chain.r = text::probability(value)?,
            "h" => chain.h = text::probability(value)?,
            "k" => chain.k = text::probability(value)?,
            "loss" => loss = Some(text::probability(value)?),
            "burst" => burst = Some(value.parse::<f64>().map_err(|_| refuse(value))?),
            _ => return Err(refuse(arguments)),
        }
    }
    match (loss, burst) {
        (Some(loss), Some(burst)) if chain.p.is_nan() && chain.r.is_nan() => {
            let GilbertElliott { p, r, .. } = GilbertElliott::from_loss_and_burst(loss, burst)?;
            Ok(GilbertElliott { p, r, ..chain })
        }
        (None, None) if !chain.p.is_nan() && !chain.r.is_nan() => Ok(chain),
        _ => Err(refuse(arguments)),
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::None => f.write_str("none"),
            Loss::Bernoulli(p) => write!(f, "bernoulli:{p}"),
            Loss::GilbertElliott(GilbertElliott { p, r, h, k }) => write!(f, "ge:p={p},r={r},h={h},k={k}"),
        }
    }
}

/// What happens to a packet at a link's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Twice,
    Drop(Dropped),
}

/// A token bucket that drops what finds too few tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// How fast tokens come: what passes in the long run.
    pub rate: Rate,
    /// Most tokens kept: what passes at once after a pause. At most 1 GiB.
    pub burst: Bytes,
}

/// What a link does to packets before they reach its queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impairments {
    /// Random loss.
    pub loss: Loss,
    /// Probability that a packet is sent on twice, from 0 to 1.
    pub duplicate: f64,
    /// Times during which every arriving packet is lost, from the first (included) to the second (excluded).
    pub blackouts: Vec<(Time, Time)>,
    /// The largest IP packet (datagram and 28 bytes) the link carries, from given times on; times must
    /// increase. Empty: any size.
    pub mtu: Vec<(Time, u32)>,
    /// A policer, which what is not lost otherwise must pass.
    pub police: Option<Policer>,
}

/// The running process at one link's entry.
#[derive(Clone)]
pub(crate) struct Gate {
    /// Blackouts in the order in which they begin.
    impairments: Impairments,
    /// So many of them, the first ones, are over.
    over: usize,
    bad: bool,
    loss: Rng,
    duplicate: Rng,
    police: Option<Bucket>,
}

impl Gate {
    /// `None` where nothing is impaired.
    pub fn new(mut impairments: Impairments, seed: u64, link: &str) -> Option<Box<Gate>> {
        if impairments == Impairments::default() {
            return None;
        }
        impairments.blackouts.sort_unstable();
        let stream = |name: &str| Rng::stream(seed, &format!("{link}/{name}"));
        let (loss, duplicate) = (stream("loss"), stream("duplicate"));
        let police = impairments.police.map(|Policer { rate, burst }| Bucket::new(rate, burst));
        Some(Box::new(Gate { impairments, over: 0, bad: false, loss, duplicate, police }))
    }

    pub fn replace_blackouts(&mut self, mut blackouts: Vec<(Time, Time)>) {
        blackouts.sort_unstable();
        (self.impairments.blackouts, self.over) = (blackouts, 0);
    }

    /// Decides about a packet that arrives at `now`.
    pub fn judge(&mut self, now: Time, size: u32) -> Verdict {
        if size > self.mtu(now) {
            return Verdict::Drop(Dropped::Oversize);
        }
        // The loss process draws for every packet, blackout or not, so that a blackout does not shift later
        // draws.
        let lost = self.is_lost();
        if lost || self.is_dark(now) {
            return Verdict::Drop(Dropped::LinkLoss);
        }
        if self.police.as_mut().is_some_and(|bucket| !bucket.take(now, size)) {
            return Verdict::Drop(Dropped::Policed);
        }
        let twice = self.impairments.duplicate > 0.0 && self.duplicate.chance(self.impairments.duplicate);
        if twice { Verdict::Twice } else { Verdict::Pass }
    }

    fn is_dark(&mut self, now: Time) -> bool {
        let blackouts = &self.impairments.blackouts;
        while blackouts.get(self.over).is_some_and(|blackout| blackout.1 <= now) {
            self.over += 1;
        }
        let begun = blackouts[self.over..].iter().take_while(|blackout| blackout.0 <= now);
        begun.into_iter().any(|blackout| now < blackout.1)
    }

    fn mtu(&self, now: Time) -> u32 {
        let steps = &self.impairments.mtu;
        let begun = steps.partition_point(|step| step.0 <= now);
        if begun == 0 { u32::MAX } else { steps[begun - 1].1 }
    }

    fn is_lost(&mut self) -> bool {
        match self.impairments.loss {
            Loss::None => false,
            Loss::Bernoulli(p) => self.loss.chance(p),
            Loss::GilbertElliott(chain) => {
                let (survives, leaves) = if self.bad { (chain.h, chain.r) } else { (chain.k, chain.p) };
                // A certain outcome takes no draw: the simple Gilbert chain draws once a packet.
                let lost = survives <= 0.0 || (survives < 1.0 && !self.loss.chance(survives));
                self.bad ^= self.loss.chance(leaves);
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(loss: &str) -> Gate {
        let impairments = Impairments { loss: loss.parse().unwrap(), ..Impairments::default() };
        *Gate::new(impairments, 1, "link").unwrap()
    }

    #[test]
    fn gilbert_elliott_vectors() {
        for (p, r, loss, burst) in
            [(0.01, 0.25, 0.03846, 4.0), (0.005, 0.1, 0.04762, 10.0), (0.02, 0.5, 0.03846, 2.0)]
        {
            let chain = GilbertElliott { p, r, h: 0.0, k: 1.0 };
            assert!((chain.mean_loss() - loss).abs() < 5e-6);
            let built = GilbertElliott::from_loss_and_burst(chain.mean_loss(), burst).unwrap();
            assert!((built.p - p).abs() < 1e-12 && (built.r - r).abs() < 1e-12);
        }
        let general = GilbertElliott { p: 0.01, r: 0.25, h: 0.5, k: 0.99 };
        assert!((general.mean_loss() - (0.5 / 26.0 + 0.01 * 25.0 / 26.0)).abs() < 1e-12);
    }

    #[test]
    fn monte_carlo_of_a_million_packets() {
        // The specification's generator gives 0.038217; the standard error of the estimate (bursts of 4) is
        // 0.0005.
        let mut gate = gate("ge:p=0.01,r=0.25");
        let lost: Vec<bool> = (0..1_000_000).map(|_| gate.is_lost()).collect();
        let losses = lost.iter().filter(|&&lost| lost).count();
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        assert!((losses as f64 / 1e6 - 0.03846).abs() < 0.0015, "{losses}");
        let burst = losses as f64 / bursts as f64;
        assert!((burst - 4.0).abs() < 0.1, "{burst}");
    }

    #[test]
    fn bernoulli_and_duplication_happen_as_often_as_asked() {
        let impairments =
            Impairments { loss: Loss::Bernoulli(0.02), duplicate: 0.1, ..Impairments::default() };
        let mut gate = Gate::new(impairments, 1, "link").unwrap();
        let verdicts: Vec<_> = (0..100_000).map(|_| gate.judge(Time::ZERO, 1500)).collect();
        let count = |verdict| verdicts.iter().filter(|&&v| v == verdict).count();
        assert!((1_850..2_150).contains(&count(Verdict::Drop(Dropped::LinkLoss))));
        assert!((9_500..10_100).contains(&count(Verdict::Twice)));
    }

    #[test]
    fn blackouts_and_mtu_follow_the_clock() {
        let impairments = Impairments {
            blackouts: vec![(Time::from_secs(1), Time::from_secs(2))],
            mtu: vec![(Time::from_secs(3), 1000), (Time::from_secs(4), 1500)],
            ..Impairments::default()
        };
        let mut gate = Gate::new(impairments, 1, "link").unwrap();
        let mut at = |ms| gate.judge(Time::from_millis(ms), 1500);
        assert_eq!(at(999), Verdict::Pass);
        assert_eq!(at(1_000), Verdict::Drop(Dropped::LinkLoss));
        assert_eq!(at(1_999), Verdict::Drop(Dropped::LinkLoss));
        assert_eq!(at(2_000), Verdict::Pass);
        assert_eq!(at(3_000), Verdict::Drop(Dropped::Oversize));
        assert_eq!(at(4_000), Verdict::Pass);
    }

    #[test]
    fn text_forms_round_trip_and_errors_list_them() {
        for text in ["none", "bernoulli:0.01", "ge:p=0.01,r=0.25,h=0,k=1"] {
            assert_eq!(text.parse::<Loss>().unwrap().to_string(), text);
        }
        assert_eq!("bernoulli:1%".parse::<Loss>().unwrap(), Loss::Bernoulli(0.01));
        let chain = "ge:loss=50%,burst=4,h=10%".parse::<Loss>().unwrap();
        assert_eq!(chain, Loss::GilbertElliott(GilbertElliott { p: 0.25, r: 0.25, h: 0.1, k: 1.0 }));
        for bad in [
            "",
            "1%",
            "bernoulli",
            "ge:p=1",
            "ge:loss=3%",
            "ge:p=0,r=1,loss=1%,burst=2",
            "ge:loss=100%,burst=2",
        ] {
            assert!(bad.parse::<Loss>().is_err(), "{bad}");
        }
        let error = "burst:3".parse::<Loss>().unwrap_err().to_string();
        assert!(error.contains("accepted: none, bernoulli:1%"), "{error}");
    }
}
