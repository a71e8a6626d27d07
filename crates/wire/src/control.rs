//! Requests and session control: small packets of fixed length, each safe to send twice.
//!
//! Bytes beyond a packet's fields are ignored.

use crate::codec::{Kind, Reader, WireError, Writer};

/// Packets of one frame the receiver still wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nack {
    /// The session.
    pub session: u32,
    /// The frame's stream.
    pub stream: u8,
    /// The frame.
    pub frame: u32,
    /// Index of the first packet wanted.
    pub first: u16,
    /// Bit k set: packet `first + 1 + k` is wanted too (RFC 4585's generic NACK, with room for 64).
    pub more: u64,
}

/// The receiver can't decode on and wants a frame that needs no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFrameRequest {
    /// The session.
    pub session: u32,
    /// The stream.
    pub stream: u8,
    /// Counts requests, so that one repeated for safety is answered once.
    pub sequence: u16,
    /// Frames up to this one are known to be lost to the receiver.
    pub after: u32,
}

/// Session set-up and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
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
        let mut w = Writer::open(out, Kind::Nack, 0, self.session);
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
        let (mut r, session) = Reader::open_plain(datagram, Kind::Nack)?;
        Ok(Nack { session, stream: r.u8()?, frame: r.u32()?, first: r.u16()?, more: r.u64()? })
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

impl Control {
    /// Writes the packet to `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than 14 bytes.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        match *self {
            Control::Hello { session, width, height, interval_us } => {
                let mut w = Writer::open(out, Kind::Control, 0, session);
                w.u16(width);
                w.u16(height);
                w.u32(interval_us);
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
    pub fn decode(datagram: &[u8]) -> Result<Control, WireError> {
        let (mut r, flags, session) = Reader::open(datagram, Kind::Control)?;
        match flags {
            0 => Ok(Control::Hello { session, width: r.u16()?, height: r.u16()?, interval_us: r.u32()? }),
            1 => Ok(Control::Welcome { session }),
            2 => Ok(Control::Bye { session }),
            _ => Err(WireError::Field("control")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_nack_round_trips_and_lists_what_it_wants(
            session: u32, stream: u8, frame: u32, first: u16, more: u64
        ) {
            let nack = Nack { session, stream, frame, first, more };
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
        fn control_round_trips(session: u32, width: u16, height: u16, interval_us: u32, which in 0u8..3) {
            let control = match which {
                0 => Control::Hello { session, width, height, interval_us },
                1 => Control::Welcome { session },
                _ => Control::Bye { session },
            };
            let mut out = [0; 32];
            let length = control.encode(&mut out);
            prop_assert_eq!(Control::decode(&out[..length]), Ok(control));
            prop_assert_eq!(Control::decode(&out[..length - 1]), Err(WireError::Truncated));
        }
    }

    #[test]
    fn flags_not_defined_are_refused() {
        let mut out = [0; 32];
        let length = Control::Bye { session: 1 }.encode(&mut out);
        out[1] = 3;
        assert_eq!(Control::decode(&out[..length]), Err(WireError::Field("control")));
        let length = Nack { session: 1, stream: 0, frame: 0, first: 0, more: 0 }.encode(&mut out);
        out[1] = 1;
        assert_eq!(Nack::decode(&out[..length]), Err(WireError::Field("flags")));
    }
}
