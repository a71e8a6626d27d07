//! What a viewer and whoever sends to it tell each other beside the media, on the control stream.
//!
//! The frame is [`Message`](crate::Message)'s: a length, a kind, fields. Kinds from 32 on are these; a side
//! that does not know them passes them over.
//!
//! ```text
//!   viewer                          sender
//!     ClockAsk (t0)              ->            t0, when it was asked, on the viewer's clock
//!                                <- ClockTell (t0, t1, t2)   t1 heard, t2 told, on the sender's
//!     Wish (pause, cap, controller) ->         what the person at the screen wants
//!                                <- Status     several times a second: what the sender estimates and has done
//!     Seen (frames)              ->            what was shown, when, how late: for the sender's log
//! ```
//!
//! Times are microseconds on the clock of whoever wrote them, but for [`SeenFrame::shown`].

use crate::codec::{Reader, WireError, Writer};
use crate::message::{read_text, write_text};

/// Kinds, as written.
const CLOCK_ASK: u8 = 32;
const CLOCK_TELL: u8 = 33;
const WISH: u8 = 34;
const STATUS: u8 = 35;
const SEEN: u8 = 36;
/// Length and kind.
const HEAD: usize = 3;
/// Bytes of a [`SeenFrame`].
const SEEN_FRAME: usize = 20;

/// What the person at the screen wants. Each wish replaces the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish<'a> {
    /// Send no frames for now.
    pub paused: bool,
    /// Highest rate of the coded picture in bit/s; 0 leaves it to the sender.
    pub max_bps: u64,
    /// The congestion controller with its options; empty leaves it as it is.
    pub controller: &'a str,
}

/// What the sender estimates and has done for this viewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status<'a> {
    /// The session it speaks of.
    pub session: u32,
    /// No frames are sent for now, as wished.
    pub paused: bool,
    /// Highest rate of the coded picture in bit/s, as wished; 0 if there was no wish.
    pub max_bps: u64,
    /// The rate the controller advises in bit/s; 0 if it gives no advice.
    pub estimate_bps: u64,
    /// Smoothed round-trip time in microseconds; 0 before it was measured.
    pub srtt_us: u32,
    /// Packets of media and padding sent in this session.
    pub packets: u64,
    /// ... of which lost.
    pub lost: u64,
    /// Frames captured in this session.
    pub captured: u64,
    /// ... and of those not encoded, because the sender was behind.
    pub skipped: u64,
    /// The congestion controller at work, with its options.
    pub controller: &'a str,
    /// Why the last wish was not granted, or what does not go well with it, for people; empty if all is well.
    pub trouble: &'a str,
    /// What the sender's strategy is at, such as `recovery`; empty where the sender does not say, as those of
    /// an earlier program.
    pub mode: &'a str,
    /// How often that has changed in this session.
    pub mode_changes: u32,
}

/// One frame that was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenFrame {
    /// Its capture index.
    pub frame: u32,
    /// The number burnt into its picture, as read from what was drawn; `u32::MAX` if none was read.
    pub picture: u32,
    /// When it was shown, in microseconds since 1970 by the viewer's calendar.
    pub shown: u64,
    /// From its capture until then by the viewer's estimate of the clocks, in microseconds.
    pub delay_us: i32,
}

/// Frames that were shown: a view of the bytes they came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// The session they belong to.
    pub session: u32,
    frames: &'a [u8],
}

impl Seen<'_> {
    /// Most frames of one message: what fits the longest message there is.
    pub const MOST: usize = 48;

    /// The frames, in the order they were shown.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = SeenFrame> {
        self.frames.chunks_exact(SEEN_FRAME).map(|bytes| {
            let mut r = Reader(bytes);
            let mut read = || -> Result<SeenFrame, WireError> {
                let (frame, picture, shown) = (r.u32()?, r.u32()?, r.u64()?);
                Ok(SeenFrame { frame, picture, shown, delay_us: r.u32()? as i32 })
            };
            read().expect("a chunk is as long as a frame's fields")
        })
    }
}

/// One message between a viewer and its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewing<'a> {
    /// What is the time?
    ClockAsk {
        /// When this was written, on the viewer's clock.
        asked: u64,
    },
    /// The answer, at once.
    ClockTell {
        /// As asked.
        asked: u64,
        /// When the question was read, on the sender's clock.
        heard: u64,
        /// When the answer was written, on the sender's clock.
        told: u64,
    },
    /// The person's wishes.
    Wish(Wish<'a>),
    /// The sender's figures.
    Status(Status<'a>),
    /// The viewer's frames.
    Seen(Seen<'a>),
}

impl<'a> Viewing<'a> {
    /// The longest of these messages, in bytes; it is no longer than
    /// [`Message::MAX_LEN`](crate::Message::MAX_LEN).
    pub const MAX_LEN: usize = HEAD + 5 + Seen::MOST * SEEN_FRAME;

    /// Writes the message, its length before it, to `out` and returns how many bytes it took. Texts beyond
    /// 255 bytes are cut.
    ///
    /// # Panics
    /// If `out` is too short; [`MAX_LEN`](Viewing::MAX_LEN) bytes never are.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let mut w = Writer::plain(out);
        w.u16(0);
        match *self {
            Viewing::ClockAsk { asked } => {
                w.u8(CLOCK_ASK);
                w.u64(asked);
            }
            Viewing::ClockTell { asked, heard, told } => {
                w.u8(CLOCK_TELL);
                [asked, heard, told].into_iter().for_each(|time| w.u64(time));
            }
            Viewing::Wish(wish) => {
                w.u8(WISH);
                w.u8(u8::from(wish.paused));
                w.u64(wish.max_bps);
                write_text(&mut w, wish.controller);
            }
            Viewing::Status(status) => write_status(&mut w, &status),
            Viewing::Seen(seen) => {
                w.u8(SEEN);
                w.u32(seen.session);
                w.u8((seen.frames.len() / SEEN_FRAME) as u8);
                w.bytes(seen.frames);
            }
        }
        let length = w.len();
        out[..2].copy_from_slice(&(length as u16 - 2).to_be_bytes());
        length
    }

    /// Writes a [`Seen`] of `frames` (at most [`Seen::MOST`]; more are left out) to `out` and returns how
    /// many bytes it took.
    ///
    /// # Panics
    /// As [`encode`](Viewing::encode).
    pub fn encode_seen(session: u32, frames: &[SeenFrame], out: &mut [u8]) -> usize {
        let mut bytes = [0; Seen::MOST * SEEN_FRAME];
        let mut w = Writer::plain(&mut bytes);
        for frame in frames.iter().take(Seen::MOST) {
            w.u32(frame.frame);
            w.u32(frame.picture);
            w.u64(frame.shown);
            w.u32(frame.delay_us as u32);
        }
        let length = w.len();
        Viewing::Seen(Seen { session, frames: &bytes[..length] }).encode(out)
    }

    /// Reads a whole message, its length before it, as [`Message::decode`](crate::Message::decode) has found
    /// one of a kind it does not know; `None` if it is of no kind known here either.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no such message.
    pub fn decode(message: &'a [u8]) -> Result<Option<Viewing<'a>>, WireError> {
        let mut r = Reader(message);
        r.take(2)?;
        Ok(Some(match r.u8()? {
            CLOCK_ASK => Viewing::ClockAsk { asked: r.u64()? },
            CLOCK_TELL => Viewing::ClockTell { asked: r.u64()?, heard: r.u64()?, told: r.u64()? },
            WISH => Viewing::Wish(Wish {
                paused: read_flag(&mut r)?,
                max_bps: r.u64()?,
                controller: read_text(&mut r)?,
            }),
            STATUS => Viewing::Status(read_status(&mut r)?),
            SEEN => {
                let (session, count) = (r.u32()?, r.u8()?);
                Viewing::Seen(Seen { session, frames: r.take(usize::from(count) * SEEN_FRAME)? })
            }
            _ => return Ok(None),
        }))
    }
}

fn write_status(w: &mut Writer<'_>, status: &Status<'_>) {
    w.u8(STATUS);
    w.u32(status.session);
    w.u8(u8::from(status.paused));
    w.u64(status.max_bps);
    w.u64(status.estimate_bps);
    w.u32(status.srtt_us);
    let counts = [status.packets, status.lost, status.captured, status.skipped];
    counts.into_iter().for_each(|count| w.u64(count));
    write_text(w, status.controller);
    write_text(w, status.trouble);
    // Who says nothing of it writes what an earlier program does.
    if !status.mode.is_empty() || status.mode_changes > 0 {
        write_text(w, status.mode);
        w.u32(status.mode_changes);
    }
}

fn read_status<'a>(r: &mut Reader<'a>) -> Result<Status<'a>, WireError> {
    let status = Status {
        session: r.u32()?,
        paused: read_flag(r)?,
        max_bps: r.u64()?,
        estimate_bps: r.u64()?,
        srtt_us: r.u32()?,
        packets: r.u64()?,
        lost: r.u64()?,
        captured: r.u64()?,
        skipped: r.u64()?,
        controller: read_text(r)?,
        trouble: read_text(r)?,
        ..Status::default()
    };
    // A sender of an earlier program ends here.
    if r.0.is_empty() {
        return Ok(status);
    }
    Ok(Status { mode: read_text(r)?, mode_changes: r.u32()?, ..status })
}

fn read_flag(r: &mut Reader<'_>) -> Result<bool, WireError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(WireError::Field("flag")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;
    use proptest::prelude::*;

    /// The message as an earlier program wrote it, if it has grown since, and what is read of that.
    fn earlier<'a>(message: &Viewing<'a>) -> Option<(usize, Viewing<'a>)> {
        let Viewing::Status(status) = *message else { return None };
        let read = Viewing::Status(Status { mode: "", mode_changes: 0, ..status });
        Some((read.encode(&mut [0; Viewing::MAX_LEN]), read)).filter(|_| read != *message)
    }

    fn check(message: &Viewing<'_>) -> Result<(), TestCaseError> {
        let mut out = [0; Viewing::MAX_LEN];
        let length = message.encode(&mut out);
        let Ok(Some((Message::Unknown(_), taken))) = Message::decode(&out[..length]) else {
            return Err(TestCaseError::fail("the control stream frames it"));
        };
        prop_assert_eq!(taken, length);
        prop_assert_eq!(Viewing::decode(&out[..length]), Ok(Some(*message)));
        let earlier = earlier(message);
        for cut in 0..length {
            let wanted = match earlier {
                Some((length, read)) if length == cut => Ok(Some(read)),
                _ => Err(WireError::Truncated),
            };
            prop_assert_eq!(Viewing::decode(&out[..cut]), wanted);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            asked: u64, heard: u64, told: u64, paused: bool, session: u32, srtt_us: u32,
            counts: [u64; 4], controller in "\\PC{0,60}", trouble in "\\PC{0,60}", mode in "\\PC{0,20}",
            mode_changes: u32
        ) {
            let (controller, trouble) = (controller.as_str(), trouble.as_str());
            check(&Viewing::ClockAsk { asked })?;
            check(&Viewing::ClockTell { asked, heard, told })?;
            check(&Viewing::Wish(Wish { paused, max_bps: told, controller }))?;
            let [packets, lost, captured, skipped] = counts;
            check(&Viewing::Status(Status {
                session, paused, max_bps: asked, estimate_bps: heard, srtt_us, packets, lost, captured, skipped,
                controller, trouble, mode: &mode, mode_changes,
            }))?;
        }

        #[test]
        fn frames_seen_round_trip(session: u32, frames: Vec<(u32, u32, u64, i32)>) {
            let frame = |&(frame, picture, shown, delay_us): &_| SeenFrame { frame, picture, shown, delay_us };
            let frames: Vec<_> = frames.iter().map(frame).collect();
            let mut out = [0; Viewing::MAX_LEN];
            let length = Viewing::encode_seen(session, &frames, &mut out);
            let Ok(Some(Viewing::Seen(seen))) = Viewing::decode(&out[..length]) else {
                return Err(TestCaseError::fail("it decodes"));
            };
            prop_assert_eq!(seen.session, session);
            prop_assert!(seen.frames().eq(frames.iter().copied().take(Seen::MOST)));
            check(&Viewing::Seen(seen))?;
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            if let Ok(Some(Viewing::Seen(seen))) = Viewing::decode(&bytes) {
                prop_assert!(seen.frames().len() * SEEN_FRAME <= bytes.len());
            }
        }
    }

    #[test]
    fn the_longest_fits_the_control_stream_and_later_kinds_are_passed_over() {
        const { assert!(Viewing::MAX_LEN <= Message::MAX_LEN) };
        let long = "x".repeat(300);
        let status = Status { controller: &long, trouble: &long, mode: &long, ..Status::default() };
        assert!(Viewing::Status(status).encode(&mut [0; Viewing::MAX_LEN]) <= Viewing::MAX_LEN);
        assert_eq!(Viewing::decode(&[0, 1, 99]), Ok(None));
        assert_eq!(Viewing::decode(&[0, 11, WISH, 2]), Err(WireError::Field("flag")));
    }
}
