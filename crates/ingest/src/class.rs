//! Viewers of one delay: their playlist, and what became of the frames in it.

use std::collections::VecDeque;
use std::sync::Arc;

use media::RawFrame;
use serde_json::{Value, json};
use units::Span;

use crate::playlist::Playlist;
use crate::store::Seen;

/// Below this delay a class is the live one.
const LIVE: Span = Span::from_secs(1);
/// The least delay: frames take a while until they are there.
const LEAST: Span = Span::from_millis(100);
/// Classes at most.
const MOST: usize = 8;

/// A delay at which an upload can be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// How it is called in paths: `live`, `5s`, `2500ms`.
    pub name: String,
    /// From the capture of a segment's last frame until the segment is listed.
    pub delay: Span,
}

/// Why there are no such classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    /// There are none, or more than eight.
    #[error("{0} delays; give 1 to 8, such as 0.5s,5s,15s,30s")]
    Number(usize),
    /// A delay is too small or too large.
    #[error("a delay of {0}; it must be 100ms to 1h")]
    Delay(Span),
    /// A delay does not exceed the one before.
    #[error("the delays must rise, and {0} follows one that is no smaller")]
    Order(Span),
}

impl Class {
    /// Classes of these delays, which must rise.
    ///
    /// # Errors
    /// [`ClassError`] if they do not, or are out of range.
    ///
    /// ```
    /// use framewire_ingest::Class;
    /// use units::Span;
    ///
    /// let classes = Class::list(&[500, 5_000, 30_000].map(Span::from_millis))?;
    /// let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
    /// assert_eq!(names, ["live", "5s", "30s"]);
    /// # Ok::<(), framewire_ingest::ClassError>(())
    /// ```
    pub fn list(delays: &[Span]) -> Result<Vec<Class>, ClassError> {
        if !(1..=MOST).contains(&delays.len()) {
            return Err(ClassError::Number(delays.len()));
        }
        if let Some(&delay) = delays.iter().find(|&&delay| !(LEAST..=Span::from_secs(3_600)).contains(&delay))
        {
            return Err(ClassError::Delay(delay));
        }
        if let Some(pair) = delays.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(ClassError::Order(pair[1]));
        }
        Ok(delays.iter().map(|&delay| Class { name: name(delay), delay }).collect())
    }
}

fn name(delay: Span) -> String {
    let ms = delay.as_millis_f64().round() as u64;
    match ms {
        _ if delay < LIVE => "live".to_owned(),
        ms if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        ms => format!("{ms}ms"),
    }
}

/// What became of a segment's frames in a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub number: u32,
    pub begins: Span,
    /// Frames captured, as far as is known.
    pub frames: usize,
    /// Shown as they were first sent.
    pub arrived: usize,
    /// Shown as they were sent again.
    pub repaired: usize,
    /// Of those shown, the ones whose SSIM is known, ...
    pub rated: usize,
    /// ... and the sum of it.
    pub ssim: f64,
}

/// Frames of a segment at most, for those who read histories back: hours of 60 Hz.
const MOST_FRAMES: u64 = 1 << 20;

impl Tally {
    /// Mean SSIM of the frames that it is known of. A missing one shows the picture held, and how alike that
    /// is to what was captured nobody has measured: it is none of them.
    pub fn mean_ssim(&self) -> Option<f64> {
        (self.rated > 0).then(|| rounded(self.ssim / self.rated as f64))
    }

    /// Of a segment that begins at a multiple of `segment`; `None` if it is none of
    /// [`to_json`](Self::to_json).
    fn from_json(value: &Value, segment: Span) -> Option<Tally> {
        let count = |key: &str| value.get(key)?.as_u64().filter(|count| *count < MOST_FRAMES);
        let number = value.get("number")?.as_u64().and_then(|number| u32::try_from(number).ok())?;
        let [frames, arrived, repaired] =
            [count("frames")?, count("arrived")?, count("repaired")?].map(|count| count as usize);
        let begins = segment * i64::from(number);
        let rated = value.get("rated").map_or(Some(0), Value::as_u64).filter(|count| *count < MOST_FRAMES)?;
        let mean = value.get("ssim").and_then(Value::as_f64).filter(|mean| (0.0..=1.0).contains(mean));
        let ssim = mean.unwrap_or(0.0) * rated as f64;
        let rated = if mean.is_some() { rated as usize } else { 0 };
        let tally = Tally { number, begins, frames, arrived, repaired, rated, ssim };
        (arrived + repaired <= frames && rated <= arrived + repaired).then_some(tally)
    }

    fn add(&mut self, other: &Tally) {
        self.frames += other.frames;
        self.arrived += other.arrived;
        self.repaired += other.repaired;
        self.rated += other.rated;
        self.ssim += other.ssim;
    }

    fn to_json(self) -> Value {
        json!({
            "number": self.number, "begins_s": self.begins.as_secs_f64(), "frames": self.frames,
            "missing": self.frames - self.arrived - self.repaired,
            "repaired": self.repaired, "arrived": self.arrived,
            "ssim": self.mean_ssim(), "rated": self.rated,
        })
    }
}

/// An SSIM to the five digits that an uploader tells.
pub fn rounded(ssim: f64) -> f64 {
    (ssim * 1e5).round() / 1e5
}

/// A class at work.
pub struct Listed {
    pub class: Class,
    pub playlist: Playlist,
    /// The segment that it gets next.
    pub next: u32,
    /// The picture that it showed last, and of which version: shown on while nothing arrives.
    pub last: Option<(Seen, Arc<RawFrame>)>,
    tallies: VecDeque<Tally>,
    /// Segments that are told of at most.
    most: usize,
    /// Of the segments that are not told of any more, ...
    pub gone: Tally,
    /// ... and of all.
    pub total: Tally,
}

impl Listed {
    pub fn new(class: Class, playlist: Playlist, most: usize) -> Listed {
        let (tallies, gone, total) = (VecDeque::new(), Tally::default(), Tally::default());
        Listed { class, playlist, next: 0, last: None, tallies, most, gone, total }
    }

    /// The class whose playlist was read back, with what became of frames that are in no history any more,
    /// and the history, which may be damaged.
    pub fn resume(mut self, gone: Tally, history: &[u8], segment: Span) -> Listed {
        self.next = self.playlist.segments().last().map_or(0, |last| last.number + 1);
        (self.gone, self.total) = (gone, gone);
        let history: Value = serde_json::from_slice(history).unwrap_or_default();
        let segments = history.get("segments").and_then(Value::as_array).into_iter().flatten();
        for tally in segments.filter_map(|value| Tally::from_json(value, segment)) {
            let rises = self.tallies.back().is_none_or(|last| last.number < tally.number);
            if rises && tally.number < self.next {
                self.note(tally);
            }
        }
        self
    }

    pub fn note(&mut self, tally: Tally) {
        self.total.add(&tally);
        self.tallies.push_back(tally);
        if self.tallies.len() > self.most
            && let Some(first) = self.tallies.pop_front()
        {
            self.gone.add(&first);
        }
    }

    /// What became of the frames of each segment in the playlist.
    pub fn history(&self) -> String {
        let segments: Vec<Value> = self.tallies.iter().map(|tally| tally.to_json()).collect();
        json!({ "segments": segments }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_that_make_no_classes_are_refused() {
        let list = |ms: &[i64]| Class::list(&ms.iter().copied().map(Span::from_millis).collect::<Vec<_>>());
        let error = |ms: &[i64]| list(ms).unwrap_err().to_string();
        assert_eq!(error(&[]), "0 delays; give 1 to 8, such as 0.5s,5s,15s,30s");
        assert!(error(&[5_000, 5_000]).starts_with("the delays must rise, and 5s"));
        assert!(error(&[50]).ends_with("it must be 100ms to 1h") && list(&[1; 9]).is_err());
        let names: Vec<String> =
            list(&[300, 2_500, 60_000]).unwrap().into_iter().map(|class| class.name).collect();
        assert_eq!(names, ["live", "2500ms", "60s"]);
    }
}
