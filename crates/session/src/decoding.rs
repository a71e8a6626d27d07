//! Frames on their way through the decoder.

use std::collections::VecDeque;

use bytes::Bytes;
use media::Decoder;
use units::Time;

use crate::display::Shown;

/// Frames handed to the decoder and not yet back, at most: further ones wait in the assembly, where they can
/// be given up.
const IN_DECODER: usize = 4;

#[derive(Debug)]
struct Pending {
    shown: Shown,
    deadline: Time,
    /// The decoder has it; otherwise there is nothing to decode.
    coded: bool,
}

/// A decoder, if there is any, and what it has not given back yet.
#[derive(Default)]
pub struct Decoding {
    decoder: Option<Box<dyn Decoder>>,
    pending: VecDeque<Pending>,
}

impl Decoding {
    pub fn new(decoder: Option<Box<dyn Decoder>>) -> Decoding {
        Decoding { decoder, pending: VecDeque::new() }
    }

    /// Whether anybody wants frames' bytes.
    pub fn is_real(&self) -> bool {
        self.decoder.is_some()
    }

    /// No further frame may be submitted for now.
    pub fn is_full(&self) -> bool {
        self.pending.len() >= IN_DECODER
    }

    /// Begins a frame. Without a decoder or bytes it is ready at once, and has no picture.
    pub fn submit(&mut self, now: Time, shown: Shown, deadline: Time, bytes: Option<Bytes>) {
        let coded = match (&mut self.decoder, bytes) {
            (Some(decoder), Some(bytes)) => {
                decoder.submit(now, shown.frame, bytes);
                true
            }
            _ => false,
        };
        self.pending.push_back(Pending { shown, deadline, coded });
    }

    /// The oldest frame that is ready, in order of submission; as an error if it would not decode.
    pub fn poll(&mut self, now: Time) -> Option<Result<Shown, Shown>> {
        let front = self.pending.front_mut()?;
        let mut decodes = true;
        if front.coded {
            let decoded = self.decoder.as_mut()?.poll(now)?;
            debug_assert_eq!(decoded.frame, front.shown.frame, "decoders keep the order");
            front.shown.picture = decoded.picture.ok();
            decodes = front.shown.picture.is_some();
        }
        front.shown.late = now > front.deadline;
        let shown = self.pending.pop_front()?.shown;
        Some(if decodes { Ok(shown) } else { Err(shown) })
    }

    /// When [`poll`](Decoding::poll) will next give something back, if that is known.
    pub fn next_ready(&self) -> Option<Time> {
        self.decoder.as_ref().filter(|_| !self.pending.is_empty())?.next_ready()
    }
}
