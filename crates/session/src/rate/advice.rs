//! Whether a controller and a rate policy go together, by what they are and not by their names.
//!
//! | the controller | the policy | what becomes of it |
//! |---|---|---|
//! | learns from frames' bursts ([`cc::registry::Entry::needs_frames`]) | paces packets evenly ([`Manner::even`](super::Manner::even)) | the controller sees its own pacing, and finds less of the link than there is |
//! | gives the encoder no rate ([`cc::Decision::media`]) | leaves frames out after a short wait ([`Plan::encode`](super::Plan::encode)) | frames are left out on a steady link too |
//!
//! A controller that gives no rate fills its window, so something always waits; one that does keeps the
//! encoder below what the link carries. docs/scenario.md has the figures.

use cc::{Options, Setup};
use units::{Bytes, Rate, Span, Time};

use super::{REGISTRY, RateControl, View, build};
use crate::config::SenderConfig;

/// How finely a policy's patience is looked for.
const STEP: Span = Span::from_millis(1);

/// What to know before `controller` is used under `policy`, as a sentence; `None` if they go together, or are
/// no controller and no policy.
///
/// ```
/// # use framewire_session as session;
/// let advice = |cc: &str, rate: &str| session::rate::advice(&cc.parse().unwrap(), &rate.parse().unwrap());
/// assert_eq!(advice("sqp", "live"), None);
/// assert!(advice("sqp", "vidaptive-paper").unwrap().contains("finds less of the link than there is"));
/// ```
pub fn advice(controller: &Options, policy: &Options) -> Option<String> {
    let setup = Setup::default();
    let entry = cc::REGISTRY.iter().find(|entry| entry.name == controller.name)?;
    let advises = cc::build(controller, &setup).ok()?.decision().media.is_some();
    let mut built = build(policy).ok()?;
    let manner = built.manner();
    let (controller, policy, usual) = (&controller.name, &policy.name, REGISTRY[0].name);
    if entry.needs_frames && manner.even {
        return Some(format!(
            "{controller} measures the link by bursts of whole frames, and {policy} sends packets one by one at the rate it has: it finds \
             less of the link than there is; rate policy {usual} leaves frames their bursts"
        ));
    }
    if advises {
        return None;
    }
    let wait = longest_wait(built.as_mut(), &setup)?;
    Some(format!(
        "{controller} fills its window, so packets always wait a little, and {policy} leaves out a frame whenever one has waited for more \
         than {wait}: frames are missing on a steady link too; rate policy {usual} leaves out fewer"
    ))
}

/// The longest that the oldest packet may have waited for the policy still to have a frame encoded, if that
/// is less than the session's patience.
fn longest_wait(policy: &mut dyn RateControl, setup: &Setup) -> Option<Span> {
    let patience = SenderConfig::default().patience;
    let mut encodes = |frame: u32, waited: Span| {
        let view = View {
            now: Time::ZERO + setup.frame_interval * i64::from(frame),
            stream: 0,
            frame,
            interval: setup.frame_interval,
            cc_rate: Some(setup.initial),
            queued: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            waited,
            cut: false,
            open: true,
            patience,
            limits: (Rate::from_bps(1), setup.max),
            height: 0,
            departed: &[],
        };
        policy.plan(&view).encode
    };
    let steps = patience.as_nanos() / STEP.as_nanos();
    let refused = (0..=steps as u32).find(|&step| !encodes(step, STEP * i64::from(step)))?;
    Some(STEP * i64::from(refused.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(controller: &str, policy: &str) -> Option<String> {
        advice(&controller.parse().unwrap(), &policy.parse().unwrap())
    }

    #[test]
    fn frames_without_their_bursts_teach_sqp_too_little() {
        let advice = of("sqp", "vidaptive-paper").unwrap();
        assert!(advice.starts_with("sqp measures the link by bursts"), "{advice}");
        assert_eq!(of("sqp", "vidaptive-paper:even=off"), None);
    }

    #[test]
    fn a_full_window_makes_an_impatient_policy_leave_frames_out() {
        for policy in ["vidaptive", "vidaptive-paper"] {
            let advice = of("copa", policy).unwrap();
            assert!(advice.contains("leaves out a frame whenever one has waited for more than"), "{advice}");
        }
        assert!(of("copa", "vidaptive:tau=20ms").unwrap().contains("more than 20ms"));
        assert_eq!(of("copa", "live"), None, "as patient as the session");
    }

    #[test]
    fn advice_keeps_the_encoder_below_what_the_policy_puts_up_with() {
        assert_eq!(of("gcc", "vidaptive"), None);
        assert_eq!(of("copa", "direct"), None, "it leaves no frame out for so little");
    }

    #[test]
    fn the_default_policy_suits_everybody_and_what_is_unknown_is_not_advised_on() {
        for entry in cc::REGISTRY {
            assert_eq!(of(entry.name, REGISTRY[0].name), None, "{}", entry.name);
        }
        assert_eq!(of("sqp", "nonsense"), None);
        assert_eq!(of("nonsense", "live"), None);
    }
}
