//! What holds a sender or a receiver up on its own machine, told a person once per change.

use real::CodecTimes;
use session::{Remedy, Sender};
use units::{Span, Time};

/// Input and decoder are judged over this long.
const WINDOW: Span = Span::from_secs(3);
/// An input that keeps more than this share of pictures waiting is too slow.
const STARVED: f64 = 0.1;
/// A decoder that is at work for more than this share of the time falls behind: what is left is the jitter of
/// what arrives.
const BUSY: f64 = 0.95;
/// Lines that are kept for the end: an encoder that goes back and forth does so every five minutes in the
/// end.
const TOLD: usize = 100;

/// Looks at a sender's encoder and input.
#[derive(Default)]
pub struct Watch {
    remedy: Option<Remedy>,
    /// The window's beginning, with the pictures captured and missed by then.
    since: Option<(Time, u64, u64)>,
    /// The input was found too slow.
    starved: bool,
    told: Vec<String>,
}

impl Watch {
    /// What there is to say that was not said before.
    pub fn look(&mut self, now: Time, sender: &Sender) -> Vec<String> {
        let lines = Vec::from_iter(self.encoder(sender).into_iter().chain(self.input(now, sender)));
        let room = TOLD - self.told.len();
        self.told.extend(lines.iter().take(room).cloned());
        lines
    }

    /// All that was said.
    pub fn told(self) -> Vec<String> {
        self.told
    }

    fn encoder(&mut self, sender: &Sender) -> Option<String> {
        let slow = sender.slow_encoder();
        let remedy = slow.map(|slow| slow.remedy);
        if remedy == std::mem::replace(&mut self.remedy, remedy) {
            return None;
        }
        Some(slow.map_or_else(|| "the encoder keeps up again".to_owned(), |slow| slow.to_string()))
    }

    fn input(&mut self, now: Time, sender: &Sender) -> Option<String> {
        let counters = sender.counters();
        let (since, captured, starved) =
            *self.since.get_or_insert((now, counters.captured, counters.starved));
        if now - since < WINDOW || self.starved {
            return None;
        }
        self.since = None;
        let (captured, starved) = (counters.captured - captured, counters.starved - starved);
        self.starved = starved as f64 > STARVED * captured as f64;
        self.starved.then(|| {
            let rate = captured as f64 / (now - since).as_secs_f64();
            format!("the input is too slow: it gives {rate:.1} pictures a second, fewer than are to be sent; `--fps` can ask for fewer")
        })
    }
}

/// Looks at a receiver's decoder.
pub struct DecoderWatch {
    times: CodecTimes,
    since: Option<Time>,
    /// Pictures since then, and how long the decoder was at them.
    pictures: u32,
    busy: Span,
    told: Option<String>,
}

impl DecoderWatch {
    /// Of a decoder that keeps these times.
    pub fn new(times: CodecTimes) -> DecoderWatch {
        DecoderWatch { times, since: None, pictures: 0, busy: Span::ZERO, told: None }
    }

    /// What there is to say that was not said before.
    pub fn look(&mut self, now: Time) -> Option<String> {
        for (_, took) in self.times.take() {
            self.pictures += 1;
            self.busy += took;
        }
        let window = now - *self.since.get_or_insert(now);
        if window < WINDOW || self.told.is_some() {
            return None;
        }
        let (pictures, busy) = (std::mem::take(&mut self.pictures), std::mem::take(&mut self.busy));
        self.since = Some(now);
        if busy < window.mul_f64(BUSY) {
            return None;
        }
        let each = busy.as_millis_f64() / f64::from(pictures.max(1));
        self.told = Some(format!(
            "the decoder is too slow: a picture costs it {each:.0} ms, and it is at work all the time, so that pictures come late; \
             ask the sender for smaller ones (`--size`) or fewer (`--fps`)"
        ));
        self.told.clone()
    }

    /// What was said.
    pub fn told(self) -> Option<String> {
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_is_too_slow_when_it_has_no_rest() {
        let at = |seconds: f64| Time::ZERO + Span::from_secs_f64(seconds);
        let mut watch = DecoderWatch::new(CodecTimes::default());
        assert_eq!(watch.look(at(0.0)), None);
        (watch.pictures, watch.busy) = (30, Span::from_millis(2_700));
        assert_eq!(watch.look(at(3.0)), None, "at work for nine tenths of the time");
        (watch.pictures, watch.busy) = (30, Span::from_millis(2_990));
        assert_eq!(watch.look(at(5.0)), None, "not for long enough");
        let told = watch.look(at(6.0)).expect("it has no rest");
        assert!(told.contains("a picture costs it 100 ms"), "{told}");
        watch.busy = Span::from_secs(3);
        assert_eq!(watch.look(at(9.0)), None, "it is said once");
    }
}
