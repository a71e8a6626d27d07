//! One upload for viewers at every delay (Devdeep Ray's thesis, CMU-CS-22-143, chapter 3): the two captures
//! and the strategy of a [`session::Sender`] that sends frames of now, and better versions of frames of
//! before.
//!
//! ```text
//!   camera --> Camera --(capture 0, sent until its deadline)--> live encoder ---\
//!                 |  pictures                                                    >-- Sender -->
//!                 v                                                             /
//!              Archive --(capture 1, sent until it arrives)--> second encoder --
//!                 ^
//!              vantage::Engine: which frame, how large
//! ```
//!
//! The frames of capture 1 are numbered in the order they are sent, and each is predicted from the one sent
//! before it. What it shows is told by the time of its capture ([`wire::Media::captured`]), which is that of
//! the frame of capture 0.

pub mod journal;
mod source;
mod state;
mod strategy;

use std::sync::{Arc, Mutex, MutexGuard};

use media::{Archive, Packed, Source};
use session::Strategy;
use units::{Span, Time};
use wire::{Rated, Watchers};

use journal::{Frame, Journal};
use state::State;
pub use state::{LONGEST, Status};

/// The capture that is filmed now.
pub const LIVE: u8 = 0;
/// The capture that sends frames of before again.
pub const AGAIN: u8 = 1;

/// A handle to an upload, which outlives the senders that carry it: one after the other, if the endpoint goes
/// away and comes back.
///
/// ```
/// use framewire_upload::Upload;
/// use media::{Archive, Codec, CodecConfig, Encoder, Measuring, Source, SyntheticConfig, SyntheticGame};
/// use session::{SenderBuilder, Supply, Tracks};
/// use units::{Rate, Span};
///
/// let clip = SyntheticGame::new(SyntheticConfig::new(320, 180));
/// let (size, interval) = (clip.size(), clip.interval());
/// let settings = vantage::Settings { interval: interval.as_secs_f64(), ..vantage::Settings::default() };
/// let upload = Upload::new(settings, Archive::in_memory(64 << 20)).at_once();
/// let encoder = |interval| -> Result<Vec<Box<dyn Encoder>>, media::CodecError> {
///     let max = Rate::from_mbps(20);
///     let (width, height) = size;
///     let config = CodecConfig { width, height, interval, initial: max, max, slices: None, latency: None };
///     Ok(vec![Box::new(Measuring::new(Codec::H264.encoder(config)?, Codec::H264)?)])
/// };
/// let (camera, archive) = (upload.camera(Box::new(clip)), upload.archive(size, interval));
/// let again = archive.interval();
/// let sender = SenderBuilder::default()
///     .with_strategy(upload.strategy())
///     .supply(Supply::Tracks(Tracks { encoders: encoder(interval)?, source: Some(camera), interval }))
///     .supply(Supply::Tracks(Tracks { encoders: encoder(again)?, source: Some(archive), interval: again }))
///     .build()?;
/// assert!(!sender.is_finished());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Upload {
    state: Arc<Mutex<State>>,
    journal: Option<Arc<Mutex<Journal>>>,
    /// Pictures are packed and unpacked where they are asked for.
    at_once: bool,
}

impl Upload {
    /// An upload that plans by `settings` and keeps its pictures in `archive`. Somebody must call
    /// [`work`](Upload::work) again and again, or it is made one that does it [at once](Upload::at_once).
    pub fn new(settings: vantage::Settings, archive: Archive) -> Upload {
        let state = Arc::new(Mutex::new(State::new(settings, archive)));
        Upload { state, journal: None, at_once: false }
    }

    /// The same upload, which writes down in `journal` what another process needs to go on with it, in
    /// [`work`](Upload::work). `before` are the frames of one that was killed, one after the other, whose
    /// pictures are in the archive by the same numbers: those that the endpoint lacks are sent again.
    #[must_use]
    pub fn with_journal(self, journal: Journal, before: &[Frame]) -> Upload {
        self.lock().restore(before);
        Upload { journal: Some(Arc::new(Mutex::new(journal))), ..self }
    }

    /// The same upload, which packs pictures as they come and unpacks them as they are wanted: right in
    /// virtual time. In real time it would hold up the network for some milliseconds a frame.
    #[must_use]
    pub fn at_once(self) -> Upload {
        Upload { at_once: true, ..self }
    }

    /// The source of capture [`LIVE`]: `source`, of which each picture goes into the archive.
    pub fn camera(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(source::Camera { upload: self.clone(), source })
    }

    /// The source of capture [`AGAIN`]: pictures of this size that were captured `interval` apart, as the
    /// plan wants them. It has as many of before as there are of now (thesis section 3.5.2).
    pub fn archive(&self, size: (usize, usize), interval: Span) -> Box<dyn Source> {
        Box::new(source::Again { upload: self.clone(), size, interval, captured: None })
    }

    /// The strategy of the sender that carries the upload from now on, a new one with captures of their own:
    /// what an earlier one had on its way is taken for lost. If the endpoint `forgot` what it had, because it
    /// was started anew, all that the archive still has is missing there.
    pub fn strategy_after(&self, forgot: bool) -> Box<dyn Strategy> {
        self.lock().begin(forgot);
        Box::new(strategy::Vantage { upload: self.clone() })
    }

    /// The strategy of the first sender.
    pub fn strategy(&self) -> Box<dyn Strategy> {
        self.strategy_after(false)
    }

    /// Packs a picture that waits for it, or unpacks the one that is wanted. False if there is nothing to do.
    pub fn work(&self) -> bool {
        let wanted = self.lock().unpack();
        let waiting = self.lock().pictures.waiting();
        if let Some((frame, picture)) = &waiting {
            let packed = Packed::of(picture);
            self.lock().packed(*frame, packed);
        }
        let noted = self.journal.as_ref().is_some_and(|journal| self.note(journal));
        wanted || waiting.is_some() || noted
    }

    /// Writes down what has changed. False if nothing has.
    fn note(&self, journal: &Mutex<Journal>) -> bool {
        let frames = self.lock().noted();
        if !frames.is_empty() {
            journal.lock().expect("nothing panics while it holds this").write(&frames);
        }
        !frames.is_empty()
    }

    /// Films a picture at `now` though no sender carries the upload at present: it is sent again later, if it
    /// is still in the archive then.
    pub fn film_alone(&self, now: Time, source: &mut dyn Source) {
        // A source that has nothing yet is looked at again for the next picture.
        if !source.is_ready() {
            return;
        }
        let picture = source.next_picture();
        let mut state = self.lock();
        match picture {
            Some(picture) => state.filmed_alone(now, picture),
            None => state.camera_ended(),
        }
    }

    /// Goes on with what is to be sent again once the camera has ended, for no frame of now brings it about
    /// any more: to be called some ten times a second. False once nothing is missing that
    /// could be repaired.
    pub fn tick(&self, now: Time) -> bool {
        self.lock().tick_alone(now)
    }

    /// Hands the SSIMs of frames that were coded since to `take`, for the endpoint: as many at a time as one
    /// message has, for as long as it takes them. What it does not take waits, within a bound.
    pub fn tell(&self, take: impl FnMut(&[Rated]) -> bool) {
        self.lock().tell(take);
    }

    /// The endpoint says who watches at which delay. From the next plan on frames are worth what that makes
    /// them worth, if `planned`; with nobody watching, what the settings say.
    pub fn watched(&self, watchers: &[Watchers], planned: bool) {
        self.lock().watched(watchers, planned);
    }

    /// Who watches at which delay, as the endpoint said last; `None` if it never did.
    pub fn watchers(&self) -> Option<Vec<Watchers>> {
        self.lock().watchers()
    }

    /// When the last frame was captured, once the camera has ended.
    pub fn filmed(&self) -> Option<Time> {
        self.lock().last_filmed()
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        self.lock().status()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this")
    }
}
