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

impl Tally {
    /// Mean SSIM of the frames that it is known of. A missing one shows the picture held, and how alike that
    /// is to what was captured nobody has measured: it is none of them.
    pub fn mean_ssim(&self) -> Option<f64> {
        (self.rated > 0).then(|| rounded(self.ssim / self.rated as f64))
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
    pub total: Tally,
}

impl Listed {
    pub fn new(class: Class, playlist: Playlist, most: usize) -> Listed {
        let (tallies, total) = (VecDeque::new(), Tally::default());
        Listed { class, playlist, next: 0, last: None, tallies, most, total }
    }

    pub fn note(&mut self, tally: Tally) {
        self.total.frames += tally.frames;
        self.total.arrived += tally.arrived;
        self.total.repaired += tally.repaired;
        self.total.rated += tally.rated;
        self.total.ssim += tally.ssim;
        self.tallies.push_back(tally);
        if self.tallies.len() > self.most {
            self.tallies.pop_front();
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
