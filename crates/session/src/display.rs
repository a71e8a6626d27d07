//! Which complete frames are decoded and shown, and when.

use media::{Decoder, RawFrame};
use units::{RemoteTime, Span, Time};

use crate::assembly::{Assembling, Assembly};

/// A frame as it is shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Stream.
    pub stream: u8,
    /// Capture index.
    pub frame: u32,
    /// Version.
    pub version: u8,
    /// When it was captured, on the sender's clock.
    pub captured: RemoteTime,
    /// After its deadline.
    pub late: bool,
    /// The picture, where there is a decoder.
    pub picture: Option<RawFrame>,
}

/// What the viewer looks at.
pub trait Screen: Send {
    /// Shows a frame; called in order, each frame at most once.
    fn show(&mut self, now: Time, shown: &Shown);
}

/// What one look at the assembly found.
#[derive(Debug, Default)]
pub struct Progress {
    /// The newest frame that became showable; older ones that became so at the same time are decoded but not shown: a
    /// screen could show each for no time at all.
    pub show: Option<Shown>,
    /// Frames that would not decode.
    pub decode_errors: u64,
    /// Frames given up.
    pub abandoned: Vec<u32>,
    /// The chain is broken: a key frame after this one is needed.
    pub need_key_after: Option<u32>,
}

/// The order of decoding.
#[derive(Debug, Default)]
pub struct Display {
    decoded: Option<u32>,
    /// The chain is broken and waits for a key frame.
    broken: bool,
}

impl Display {
    /// The last frame decoded.
    pub fn decoded(&self) -> Option<u32> {
        self.decoded
    }

    /// The chain waits for a key frame.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    fn decodable(&self, frame: &Assembling) -> bool {
        let predicted_from = || Some(frame.frame.wrapping_sub(u32::from(frame.reference)));
        frame.is_complete() && (frame.key || !self.broken && self.decoded == predicted_from())
    }

    /// Decodes what can be decoded and gives up what can't be any more.
    pub fn advance(
        &mut self,
        now: Time,
        stream: u8,
        assembly: &mut Assembly,
        decoder: &mut Option<Box<dyn Decoder>>,
    ) -> Progress {
        let mut progress = Progress::default();
        loop {
            let Some(frame) = assembly.frames().find(|frame| self.decodable(frame)) else { break };
            let number = frame.frame;
            let shown = decode(now, stream, frame, decoder);
            self.broken = shown.is_none();
            self.decoded = Some(number);
            match shown {
                Some(shown) => progress.show = Some(shown),
                None => {
                    progress.decode_errors += 1;
                    progress.need_key_after = Some(number);
                }
            }
            assembly.raise_floor(number + 1, |gone| {
                if gone.frame != number {
                    progress.abandoned.push(gone.frame);
                }
            });
        }
        self.give_up(now, assembly, &mut progress);
        progress
    }

    /// Frames whose deadline passed before they could be decoded break the chain. The newest is spared: a path may be slower
    /// than a deadline and still deliver everything in order.
    fn give_up(&mut self, now: Time, assembly: &mut Assembly, progress: &mut Progress) {
        let newest = assembly.newest();
        let expired = |frame: &&Assembling| frame.deadline < now && frame.frame < newest;
        let expired = assembly.frames().take_while(expired).last().map(|frame| frame.frame);
        if let Some(last) = expired {
            assembly.raise_floor(last + 1, |gone| progress.abandoned.push(gone.frame));
            self.broken = true;
            progress.need_key_after = Some(last);
        }
    }

    /// When [`advance`](Display::advance) will next give something up.
    pub fn next_expiry(&self, assembly: &Assembly) -> Option<Time> {
        let first = assembly.frames().next().filter(|frame| frame.frame < assembly.newest());
        first.map(|frame| frame.deadline + Span::from_nanos(1))
    }
}

fn decode(
    now: Time,
    stream: u8,
    frame: &Assembling,
    decoder: &mut Option<Box<dyn Decoder>>,
) -> Option<Shown> {
    let picture = match (decoder, frame.bytes()) {
        (Some(decoder), Some(bytes)) => Some(decoder.decode(&bytes).ok()??),
        _ => None,
    };
    Some(Shown {
        stream,
        frame: frame.frame,
        version: frame.version,
        captured: frame.captured,
        late: now > frame.deadline,
        picture,
    })
}
