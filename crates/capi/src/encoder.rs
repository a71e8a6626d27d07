//! The host as a sender's camera and encoder.
//!
//! ```text
//!   host: a picture is there   -> HostCamera::capture -> Source -> Sender -> Encoder::submit -> asked
//!   host: what is to be coded? <- Encoding::take_ask  <------------------------------------------'
//!   host: here it is coded     -> Encoding::give      -> Encoder::poll -> Sender
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use media::{Ask, CodecError, Coded, Encoder, RawFrame, Source};
use session::{Sender, Video};
use units::{Span, Time};
use wire::Endpoint;

#[derive(Default)]
struct State {
    /// When the picture was captured that the host has, until the sender takes it.
    there: Option<Time>,
    /// When the one was captured that the sender took last.
    taken: Option<Time>,
    /// What the host has not asked for yet. The sender gives an encoder only a few frames at once.
    asked: VecDeque<Ask>,
    /// What it is coding.
    making: VecDeque<Ask>,
    /// What it has coded.
    coded: VecDeque<Coded>,
}

/// What a sender and its host exchange; clones share it.
#[derive(Clone, Default)]
pub struct Encoding(Arc<Mutex<State>>);

impl Encoding {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A video whose camera and encoder are the host, which has a picture every `interval`.
    pub fn video(&self, interval: Span) -> Video {
        // What pictures show is between the host and its encoder: one stands for all.
        let picture = Arc::new(RawFrame::filled(2, 2, 0, 128, 128));
        let source = HostCamera { encoding: self.clone(), interval, picture };
        Video { encoder: Box::new(HostEncoder(self.clone())), source: Some(Box::new(source)), interval }
    }

    /// The host has a picture, captured at `captured`: the number it gets, unless nothing is captured any
    /// more.
    pub fn capture(&self, sender: &mut Sender, now: Time, captured: Time) -> Option<u32> {
        {
            let mut state = self.state();
            (state.there, state.taken) = (Some(captured), None);
        }
        let before = sender.counters().captured;
        // After a pause a frame is due at once, whenever the sender expected the next one.
        sender.set_paused(now, true);
        sender.set_paused(now, false);
        sender.wake(now);
        self.state().there = None;
        let captured = sender.counters().captured;
        (captured > before).then_some(before as u32)
    }

    /// The next frame that the host is to code.
    pub fn take_ask(&self) -> Option<Ask> {
        let mut state = self.state();
        let ask = state.asked.pop_front()?;
        state.making.push_back(ask);
        Some(ask)
    }

    /// What was asked for frame `frame`, which the host was given to code. It will not code those before it
    /// any more.
    pub fn finish(&self, frame: u32) -> Option<Ask> {
        let mut state = self.state();
        let at = state.making.iter().position(|ask| ask.frame == frame)?;
        state.making.drain(..=at).next_back()
    }

    /// The host has coded a frame.
    pub fn give(&self, coded: Coded) {
        self.state().coded.push_back(coded);
    }
}

struct HostCamera {
    encoding: Encoding,
    interval: Span,
    picture: Arc<RawFrame>,
}

impl Source for HostCamera {
    fn size(&self) -> (usize, usize) {
        (self.picture.width, self.picture.height)
    }

    fn interval(&self) -> Span {
        self.interval
    }

    fn is_ready(&mut self) -> bool {
        self.encoding.state().there.is_some()
    }

    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        let mut state = self.encoding.state();
        state.taken = state.there.take();
        Some(self.picture.clone())
    }

    /// Between two pictures of the host's this is that of the last one, as of an archive: that no picture
    /// is there is then no lack of the camera's.
    fn captured(&self) -> Option<Time> {
        self.encoding.state().taken
    }
}

struct HostEncoder(Encoding);

impl Encoder for HostEncoder {
    fn submit(&mut self, _now: Time, _picture: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        self.0.state().asked.push_back(*ask);
        Ok(())
    }

    fn poll(&mut self, _now: Time) -> Option<Coded> {
        self.0.state().coded.pop_front()
    }

    fn next_ready(&self) -> Option<Time> {
        // While one is in the making nobody knows; the host wakes the sender when it has one.
        self.0.state().coded.front().map(|_| Time::ZERO)
    }
}
