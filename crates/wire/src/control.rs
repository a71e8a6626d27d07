//! Requests and session control: small packets of fixed length, each safe to send twice.
//!
//! Bytes beyond a packet's fields are ignored.

use crate::codec::{Kind, Reader, WireError, Writer};
use crate::media::FrameId;
use crate::message::{read_text, write_text};

/// Packets of one frame the receiver still wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nack {
    /// The session's number, which both sides agree on.
    pub session: u32,
    /// The frame's stream.
    pub stream: u8,
    /// The frame's capture index.
    pub frame: u32,
    /// Which coding of the frame.
    pub version: u8,
    /// Index of the first packet wanted.
    pub first: u16,
    /// Bit k set: packet `first + 1 + k` is wanted too (RFC 4585's generic NACK, with room for 64).
    pub more: u64,
}

/// The receiver can't decode on and wants a frame that needs no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFrameRequest {
    /// The session's number, which both sides agree on.
    pub session: u32,
    /// The stream's number within the session.
    pub stream: u8,
    /// Counts requests, so that one repeated for safety is answered once.
    pub sequence: u16,
    /// Frames up to this one are known to be lost to the receiver.
    pub after: u32,
}

/// What a receiver builds its half of the sender's controller from. Rates are in bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement<'a> {
    /// The controller with its options; not empty.
    pub controller: &'a str,
    /// The rate to start at.
    pub initial_bps: u64,
    /// The lowest rate of the session, in bit/s.
    pub min_bps: u64,
    /// The highest rate of the session, in bit/s.
    pub max_bps: u64,
}

/// Session set-up and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// Sender to receiver, repeated until welcomed: what is coming.
    Hello {
        /// The session proposed.
        session: u32,
        /// Picture width in pixels of stream 0; 0 where there are no pictures.
        width: u16,
        /// Picture height in pixels of stream 0; 0 where there are no pictures.
        height: u16,
        /// Frame interval of stream 0 in microseconds; 0 where there are no frames.
        interval_us: u32,
        /// The sender's controller, if the receiver is to know it.
        announcement: Option<Announcement<'a>>,
    },
    /// Receiver to sender: go on.
    Welcome {
        /// The session accepted.
        session: u32,
    },
    /// Either way: nothing more will come.
    Bye {
        /// The session ended.
        session: u32,
    },
}

impl Nack {
    /// Writes the packet to `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than 21 bytes.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let mut w = Writer::open(out, Kind::Nack, self.version, self.session);
        w.u8(self.stream);
        w.u32(self.frame);
        w.u16(self.first);
        w.u64(self.more);
        w.len()
    }

    /// Reads the packet.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no such packet.
    pub fn decode(datagram: &[u8]) -> Result<Nack, WireError> {
        let (mut r, version, session) = Reader::open(datagram, Kind::Nack)?;
        let (stream, frame) = (r.u8()?, r.u32()?);
        Ok(Nack { session, stream, frame, version, first: r.u16()?, more: r.u64()? })
    }

    /// The frame it asks for.
    pub fn id(&self) -> FrameId {
        FrameId { frame: self.frame, version: self.version }
    }

    /// The packet indices wanted, in increasing order.
    pub fn wanted(&self) -> impl Iterator<Item = u16> + use<> {
        let Nack { first, more, .. } = *self;
        let rest =
            (0..64u16).filter(move |k| more >> k & 1 == 1).filter_map(move |k| first.checked_add(1 + k));
        std::iter::once(first).chain(rest)
    }
}

impl KeyFrameRequest {
    /// Writes the packet to `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than 13 bytes.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let mut w = Writer::open(out, Kind::KeyFrameRequest, 0, self.session);
        w.u8(self.stream);
        w.u16(self.sequence);
        w.u32(self.after);
        w.len()
    }

    /// Reads the packet.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no such packet.
    pub fn decode(datagram: &[u8]) -> Result<KeyFrameRequest, WireError> {
        let (mut r, session) = Reader::open_plain(datagram, Kind::KeyFrameRequest)?;
        Ok(KeyFrameRequest { session, stream: r.u8()?, sequence: r.u16()?, after: r.u32()? })
    }
}

impl<'a> Control<'a> {
    /// The longest packet, in bytes: a hello with a controller of 255.
    pub const MAX_LEN: usize = 14 + 3 * 8 + 1 + 255;

    /// Writes the packet to `out` and returns its length. A controller of more than 255 bytes is cut.
    ///
    /// # Panics
    /// If `out` is too short; [`MAX_LEN`](Control::MAX_LEN) bytes never are.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        match *self {
            Control::Hello { session, width, height, interval_us, announcement } => {
                let mut w = Writer::open(out, Kind::Control, 0, session);
                w.u16(width);
                w.u16(height);
                w.u32(interval_us);
                if let Some(Announcement { controller, initial_bps, min_bps, max_bps }) = announcement {
                    [initial_bps, min_bps, max_bps].into_iter().for_each(|rate| w.u64(rate));
                    write_text(&mut w, controller);
                }
                w.len()
            }
            Control::Welcome { session } => Writer::open(out, Kind::Control, 1, session).len(),
            Control::Bye { session } => Writer::open(out, Kind::Control, 2, session).len(),
        }
    }

    /// Reads the packet.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no such packet.
    pub fn decode(datagram: &'a [u8]) -> Result<Control<'a>, WireError> {
        let (mut r, flags, session) = Reader::open(datagram, Kind::Control)?;
        match flags {
            0 => Ok(Control::Hello {
                session,
                width: r.u16()?,
                height: r.u16()?,
                interval_us: r.u32()?,
                announcement: read_announcement(&mut r)?,
            }),
            1 => Ok(Control::Welcome { session }),
            2 => Ok(Control::Bye { session }),
            _ => Err(WireError::Field("control")),
        }
    }
}

/// What follows a hello's first fields, if anything does: senders of an earlier program say nothing of their
/// controller.
fn read_announcement<'a>(r: &mut Reader<'a>) -> Result<Option<Announcement<'a>>, WireError> {
    if r.0.is_empty() {
        return Ok(None);
    }
    let (initial_bps, min_bps, max_bps) = (r.u64()?, r.u64()?, r.u64()?);
    let controller = read_text(r)?;
    let announcement = Announcement { controller, initial_bps, min_bps, max_bps };
    Ok(Some(announcement).filter(|_| !controller.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_nack_round_trips_and_lists_what_it_wants(
            session: u32, stream: u8, frame: u32, version: u8, first: u16, more: u64
        ) {
            let nack = Nack { session, stream, frame, version, first, more };
            let mut out = [0; 32];
            let length = nack.encode(&mut out);
            prop_assert_eq!(Nack::decode(&out[..length]), Ok(nack));
            prop_assert_eq!(Nack::decode(&out[..length - 1]), Err(WireError::Truncated));
            let wanted: Vec<u16> = nack.wanted().collect();
            prop_assert_eq!(wanted[0], first);
            let bits = wanted[1..].iter().fold(0u64, |bits, index| bits | 1 << (index - first - 1));
            // Indices beyond 65535 do not exist, so their bits want nothing.
            let mask = if first > 65_471 { (1u64 << (65_535 - first)) - 1 } else { u64::MAX };
            prop_assert_eq!(bits, more & mask);
        }

        #[test]
        fn a_key_frame_request_round_trips(session: u32, stream: u8, sequence: u16, after: u32) {
            let request = KeyFrameRequest { session, stream, sequence, after };
            let mut out = [0; 32];
            let length = request.encode(&mut out);
            prop_assert_eq!(KeyFrameRequest::decode(&out[..length]), Ok(request));
            prop_assert_eq!(KeyFrameRequest::decode(&out[..length - 1]), Err(WireError::Truncated));
        }

        #[test]
        fn control_round_trips(
            session: u32, width: u16, height: u16, interval_us: u32, which in 0u8..4, rates: [u64; 3],
            controller in "\\PC{1,60}"
        ) {
            let [initial_bps, min_bps, max_bps] = rates;
            let announcement = Announcement { controller: &controller, initial_bps, min_bps, max_bps };
            let announcement = Some(announcement).filter(|_| which == 3);
            let control = match which {
                0 | 3 => Control::Hello { session, width, height, interval_us, announcement },
                1 => Control::Welcome { session },
                _ => Control::Bye { session },
            };
            let mut out = [0; Control::MAX_LEN];
            let length = control.encode(&mut out);
            prop_assert_eq!(Control::decode(&out[..length]), Ok(control));
            prop_assert_eq!(Control::decode(&out[..length - 1]), Err(WireError::Truncated));
        }
    }

    #[test]
    fn a_hello_may_say_nothing_of_its_controller() {
        let hello = Control::Hello { session: 7, width: 2, height: 2, interval_us: 1, announcement: None };
        let mut out = [0; Control::MAX_LEN];
        assert_eq!(hello.encode(&mut out), 14);
        // All zeros name no controller either.
        assert_eq!(Control::decode(&out[..14 + 25]), Ok(hello));
        let long = "x".repeat(300);
        let announcement = Some(Announcement { controller: &long, initial_bps: 1, min_bps: 2, max_bps: 3 });
        let hello = Control::Hello { session: 7, width: 2, height: 2, interval_us: 1, announcement };
        assert_eq!(hello.encode(&mut out), Control::MAX_LEN);
    }

    #[test]
    fn flags_not_defined_are_refused() {
        let mut out = [0; 32];
        let length = Control::Bye { session: 1 }.encode(&mut out);
        out[1] = 3;
        assert_eq!(Control::decode(&out[..length]), Err(WireError::Field("control")));
        let request = KeyFrameRequest { session: 1, stream: 0, sequence: 0, after: 0 };
        let length = request.encode(&mut out);
        out[1] = 1;
        assert_eq!(KeyFrameRequest::decode(&out[..length]), Err(WireError::Field("flags")));
    }
}
