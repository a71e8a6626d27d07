//! What is said beside an upload's media: how good its frames are, and who watches it.

use std::sync::{Arc, Mutex};

use ingest::{Rating, Ratings};
use real::quic::{QuicChannel, Said};
use real::storage;
use session::Shown;
use tracing::warn;
use units::{RemoteTime, Span, Time};
use wire::{Uploading, Watchers};

use super::stream::Desk;

/// How often the uploader is told who watches: once a plan (`vantage::Settings::period`).
const TELL_EVERY: Span = Span::from_secs(2);

/// Frames of one uploader with what it says of them; over UDP it can't say anything.
#[derive(Clone, Default)]
pub struct Rated(Option<Arc<Mutex<Ratings>>>);

impl Rated {
    /// For an uploader that says how good its frames are.
    pub fn over_quic() -> Rated {
        Rated(Some(Arc::default()))
    }

    /// A frame is decoded.
    pub fn arrived(&self, shown: &Shown) -> Rating {
        match &self.0 {
            // Of a picture that is partly made up the uploader knows nothing.
            Some(ratings) if !shown.concealed => {
                let mut ratings = ratings.lock().expect("nothing panics while it holds this");
                ratings.arrived((shown.stream, shown.frame))
            }
            _ => Rating::default(),
        }
    }
}

/// The talk with one uploader.
pub struct Talk {
    desk: Arc<Desk>,
    rated: Rated,
    channel: Option<Arc<QuicChannel>>,
    next: Time,
    /// Who watched when that was shown last.
    shown: Option<Vec<Watchers>>,
    dropped: u64,
    /// When the camera captured its last frame, in microseconds on the uploader's clock, if it has just said
    /// so.
    filmed: Option<i64>,
}

impl Talk {
    /// With the one on `channel`; over UDP there is none, and only files say who watches.
    pub fn new(desk: &Arc<Desk>, rated: &Rated, channel: Option<Arc<QuicChannel>>) -> Talk {
        let (desk, rated) = (desk.clone(), rated.clone());
        Talk { desk, rated, channel, next: Time::ZERO, shown: None, dropped: 0, filmed: None }
    }

    /// Hears what was said, and tells who watches the stream, once it has a name.
    pub fn tick(&mut self, now: Time, stream: Option<&str>) {
        self.hear();
        let Some(stream) = stream.filter(|_| now >= self.next) else { return };
        self.next = now + TELL_EVERY;
        let watchers = self.desk.audience.of(now, stream);
        if let Some(channel) = &self.channel {
            // An uploader that does not read is told the next time.
            channel.say(Uploading::watching(&watchers));
        }
        if self.shown.as_ref() != Some(&watchers) {
            let listing = self.desk.audience.listing(&watchers);
            // A list is always taken.
            let path = format!("{stream}/viewers.json");
            let _ = self.desk.storage().put(&path, listing.into(), storage::Kind::Playlist);
            self.shown = Some(watchers);
        }
    }

    /// When the last frame was captured, if the uploader has said since that the camera has ended.
    pub fn filmed(&mut self) -> Option<RemoteTime> {
        let nanos = self.filmed.take()?.checked_mul(1_000)?;
        Some(RemoteTime::from_nanos(nanos))
    }

    /// Takes what the uploader has said.
    pub fn hear(&mut self) {
        let (Some(channel), Some(ratings)) = (&self.channel, &self.rated.0) else { return };
        let mut ratings = ratings.lock().expect("nothing panics while it holds this");
        for said in channel.heard() {
            match said {
                Said::Quality(frames) => {
                    frames.iter().for_each(|rated| ratings.said((rated.stream, rated.frame), rated.ssim()));
                }
                Said::Filmed(last_us) => self.filmed = i64::try_from(last_us).ok(),
                // Who watches is ours to say.
                Said::Watching(_) => {}
            }
        }
        self.desk.unrated(ratings.dropped() - self.dropped);
        self.dropped = ratings.dropped();
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let overflowed = self.channel.as_ref().map_or(0, |channel| channel.talked().overflowed);
        if overflowed > 0 {
            warn!("{overflowed} messages of the uploader were dropped, for they came too fast");
        }
    }
}
