//! Which of a target's known faults a network shows: one without which it does no more than half the harm.
//!
//! ```text
//! harm = score without its cost - the same without any disturbance;   shown: harm(fixed) <= harm / 2
//! ```

use crate::genome::Genome;
use crate::target::{Target, TargetError};

/// A fault that takes away more than this share of the harm when it is fixed is what a network shows.
const EXPLAINED: f64 = 0.5;

/// A known fault of a target that comes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The name of the target that has it.
    pub target: &'static str,
    /// What it is called.
    pub name: &'static str,
    /// What the target's scenario says instead where it is fixed, and nothing else is.
    pub fix: &'static [(&'static str, &'static str)],
}

const CC: &str = "flow[1].cc";
const STACK: &str = "flow[1].stack";
/// Recovers as Linux does, and sends as the targets do.
const RECOVERS: &str = "linux-no-offload";

/// Faults whose fixes can be switched on one at a time. None was made up for a search:
///
/// * "slow start past ssthresh" is ns-3's, as the thesis found it (section 7.4.2);
/// * "lost retransmissions wait" is the timer's part in RFC 6675, which RFC 8985 names as a reason for RACK,
///   and what low-rate attacks live on (Kuzmanovic and Knightly 2003; thesis section 7.4.3);
/// * "round trip never seen" is the thesis' high delay of BBR (section 7.4.3); later BBRs look for it every
///   five seconds (draft-ietf-ccwg-bbr, ProbeRTTInterval), not every ten;
/// * "old rate never forgotten" is quinn's: its filter of delivery rates hears of larger samples only
///   (`docs/findings/quinn-bbr.md`), where BBR's forgets what is ten rounds old;
/// * "policer suspected" is Linux's `bbr_lt_bw_sampling`: two stretches of loss at about one rate, and that
///   rate is kept to for 48 rounds, whoever caused the loss.
pub const FAULTS: &[Fault] = &[
    Fault { target: "cubic-burst", name: "slow start past ssthresh", fix: &[(CC, "cubic")] },
    Fault { target: "cubic-burst", name: "lost retransmissions wait", fix: &[(STACK, RECOVERS)] },
    Fault { target: "reno-low-rate", name: "lost retransmissions wait", fix: &[(STACK, RECOVERS)] },
    Fault { target: "bbr-delay", name: "round trip never seen", fix: &[(CC, "bbr:min_rtt_window=2s")] },
    Fault { target: "bbr-faults", name: "old rate never forgotten", fix: &[(CC, "bbr")] },
    Fault {
        target: "bbr-faults",
        name: "round trip never seen",
        fix: &[(CC, "bbr:bw_rounds=100,min_rtt_window=5s")],
    },
    Fault { target: "bbr-faults", name: "policer suspected", fix: &[(CC, "bbr:bw_rounds=100,policer=off")] },
    Fault { target: "bbr-faults", name: "lost retransmissions wait", fix: &[(STACK, RECOVERS)] },
];

/// A target's known faults, each with the target without it.
///
/// # Errors
/// [`TargetError`] if a fix can't be made to what is tested.
pub fn of(target: &Target) -> Result<Vec<(Fault, Target)>, TargetError> {
    let known = FAULTS.iter().filter(|fault| fault.target == target.scenario.name);
    known.map(|fault| Ok((*fault, target.with_fields(fault.fix)?))).collect()
}

/// How many of the networks that show these faults no two share a fault: ways to fail that don't need each
/// other. Faults that a network shows together are links of one chain, each of which breaks it when mended.
pub fn independent(chains: &[Vec<&'static str>]) -> usize {
    let Some((first, rest)) = chains.split_first() else { return 0 };
    let apart = |chain: &&Vec<&'static str>| !chain.iter().any(|fault| first.contains(fault));
    let with = || 1 + independent(&rest.iter().filter(apart).cloned().collect::<Vec<_>>());
    let without = independent(rest);
    if first.is_empty() { without } else { without.max(with()) }
}

/// Names of the faults that a network shows; none if it does no harm.
pub fn shown(target: &Target, fixed: &[(Fault, Target)], genome: &Genome) -> Vec<&'static str> {
    let harm = |target: &Target| target.evaluate(genome).goal(&target.weights) - target.calm();
    let whole = harm(target);
    if whole <= 0.0 {
        return Vec::new();
    }
    let explains = |(_, fixed): &&(Fault, Target)| harm(fixed) <= EXPLAINED * whole;
    fixed.iter().filter(explains).map(|(fault, _)| fault.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Finding;
    use crate::preset::Preset;
    use std::path::Path;

    #[test]
    fn every_fault_has_a_target_and_a_fix_that_can_be_made() {
        for fault in FAULTS {
            let target = Preset::find(fault.target).expect(fault.target).target();
            assert!(of(&target).unwrap().iter().any(|(other, _)| other == fault), "{}", fault.name);
        }
        let other = Preset::find("bbr-stall").unwrap().target();
        assert!(of(&other).unwrap().is_empty());
    }

    #[test]
    fn networks_by_hand_show_faults_of_bbr() {
        let target = Preset::find("bbr-faults").unwrap().target();
        let fixed = of(&target).unwrap();
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../findings/bbr-delay");
        let cross = |from: u32, to: u32, gap: usize| (from..to).step_by(gap).collect::<Vec<u32>>();
        let networks = [
            Finding::read(&kept).unwrap().genome.cross,
            cross(3_000_000, 5_000_000, 1_333),
            cross(3_000_000, 3_300_000, 1_000),
        ];
        let of = |cross| shown(&target, &fixed, &Genome { cross, ..Genome::default() });
        let late = "lost retransmissions wait";
        assert_eq!(
            networks.map(of),
            [vec!["round trip never seen"], vec!["policer suspected", late], vec![late],]
        );
    }

    #[test]
    fn chains_that_share_a_link_are_one_way_to_fail() {
        let (all, one, other) = (vec!["a", "b", "c"], vec!["a"], vec!["b"]);
        assert_eq!(independent(&[]), 0);
        assert_eq!(independent(&[all.clone(), vec![]]), 1);
        assert_eq!(independent(&[all.clone(), one.clone(), all]), 1);
        assert_eq!(independent(&[vec!["a", "b", "c"], one, other]), 2);
    }

    #[test]
    fn a_kept_finding_shows_its_fault() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../findings/cubic-burst");
        let found = Finding::read(&folder).unwrap();
        let fixed = of(&found.target).unwrap();
        assert!(shown(&found.target, &fixed, &found.genome).contains(&"slow start past ssthresh"));
        assert!(shown(&found.target, &fixed, &Genome::default()).is_empty());
    }
}
