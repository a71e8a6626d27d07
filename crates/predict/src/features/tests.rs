use proptest::prelude::*;

use super::*;

/// What happens to a packet, or nothing but time.
#[derive(Clone, Copy, Debug)]
enum Step {
    Sent,
    Lost,
    Acked(u64),
    Pause,
}

/// One window from the whole history, by the definitions of [`Row`].
fn naive(history: &[(u64, Step)], end: u64) -> Row {
    let begin = end.saturating_sub(50_000);
    let within = |at: u64| (begin..end).contains(&at);
    let of = |wanted: fn(&Step) -> bool| {
        history.iter().filter(|(at, step)| within(*at) && wanted(step)).count() as f32
    };
    let (sent, lost) = (of(|step| matches!(step, Step::Sent)), of(|step| matches!(step, Step::Lost)));
    let trips = |until: u64, from: u64| {
        history.iter().filter_map(move |(at, step)| match step {
            Step::Acked(us) if (from..until).contains(at) => {
                Some((*at as f64, (*us).clamp(100, 10_000_000) as f64))
            }
            _ => None,
        })
    };
    let heard: Vec<(f64, f64)> = trips(end, begin).collect();
    if heard.is_empty() {
        return [0.0, 0.0, 0.0, 0.0, 0.0, sent, lost, 1.0];
    }
    let unit = trips(end, 0).map(|(_, us)| us).fold(f64::INFINITY, f64::min);
    let count = heard.len() as f64;
    let mean = heard.iter().map(|(_, us)| us).sum::<f64>() / count;
    let middle = heard.iter().map(|(at, _)| at).sum::<f64>() / count;
    let variance = heard.iter().map(|(_, us)| (us - mean).powi(2)).sum::<f64>() / count;
    let spread: f64 = heard.iter().map(|(at, _)| (at - middle).powi(2)).sum();
    let together: f64 = heard.iter().map(|(at, us)| (at - middle) * (us - mean)).sum();
    let slope = if spread > 0.0 { together / spread } else { 0.0 };
    let least = heard.iter().map(|(_, us)| *us).fold(f64::INFINITY, f64::min);
    let most = heard.iter().map(|(_, us)| *us).fold(0.0, f64::max);
    let figures = [least / unit, most / unit, mean / unit, variance / unit / unit, slope * 50_000.0 / unit];
    let [least, most, mean, variance, growth] = figures.map(|figure| figure as f32);
    [least, most, mean, variance, growth, sent, lost, 0.0]
}

fn near(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-4 * a.abs().max(b.abs()).max(1.0)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Sent),
        1 => Just(Step::Lost),
        4 => (0u64..400_000).prop_map(Step::Acked),
        1 => Just(Step::Pause),
    ]
}

fn feed(features: &mut Features, at: Time, step: Step) {
    match step {
        Step::Sent => features.sent(at),
        Step::Lost => features.lost(at),
        Step::Acked(us) => features.acked(at, Span::from_micros(us as i64)),
        Step::Pause => _ = features.input(at),
    }
}

proptest! {
    /// Whatever happens, whenever: the windows are those of the definitions.
    #[test]
    fn windows_are_those_of_the_whole_history(
        steps in prop::collection::vec((step(), prop_oneof![9 => 0u64..8_000, 1 => 0u64..500_000]), 1..150)
    ) {
        let (mut features, mut at, mut history) = (Features::default(), 0, Vec::new());
        for (step, after) in steps {
            at += after;
            feed(&mut features, Time::from_micros(at), step);
            history.push((at, step));
        }
        let end = at / 10_000 * 10_000;
        prop_assert_eq!(features.finished(), end / 10_000);
        let input = features.input(Time::from_micros(at)).0;
        for (index, row) in input.iter().enumerate() {
            let back = (WINDOWS - 1 - index) as u64 * 10_000;
            let Some(end) = end.checked_sub(back).filter(|end| *end > 0) else { continue };
            let expected = naive(&history, end);
            for (figure, wanted) in row.iter().zip(expected) {
                prop_assert!(near(*figure, wanted), "window {index}: {row:?}, not {expected:?}");
            }
        }
    }

    /// Times that go back and absurd round trips harm nothing.
    #[test]
    fn nothing_panics_and_all_is_finite(
        steps in prop::collection::vec((step(), any::<u64>(), any::<i64>()), 0..60)
    ) {
        let mut features = Features::default();
        for (step, at, span) in steps {
            // A century: beyond it the sender's clock does not count.
            let at = Time::from_nanos(at % (100 * 365 * 86_400 * 1_000_000_000));
            feed(&mut features, at, step);
            features.acked(at, Span::from_nanos(span));
            prop_assert!(features.input(at).0.iter().flatten().all(|figure| figure.is_finite()));
        }
    }
}

#[test]
fn a_wait_for_the_report_is_no_part_of_a_round_trip() {
    let ms = Time::from_millis;
    let passage = |sent: u64, arrived: u64| Passage { sent_at: ms(sent), arrived_at: ms(arrived).on_wire() };
    let mut features = Features::default();
    // Two packets that took 20 ms and 23 ms; the second one's report came 20 ms after it.
    let passages = [passage(0, 7_020), passage(10, 7_033)];
    features.heard(ms(53), Span::from_millis(43), passages.into_iter());
    let row = features.input(ms(60)).0[WINDOWS - 1];
    assert_eq!((row[0], row[7]), (1.0, 0.0));
    assert!(near(row[1], 43.0 / 40.0), "{row:?}");
}

#[test]
fn a_row_does_not_change_once_it_is_there() {
    let mut features = Features::default();
    (0..300).for_each(|k| features.acked(Time::from_millis(k), Span::from_micros(40_000 - 90 * k as i64)));
    let before = features.input(Time::from_millis(300)).0;
    (300..305).for_each(|k| features.acked(Time::from_millis(k), Span::from_millis(1)));
    assert_eq!(features.input(Time::from_millis(309)).0, before);
    assert_eq!(features.input(Time::from_millis(310)).0[..WINDOWS - 1], before[1..]);
}
