//! Requests and session control.

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
        /// Picture width in pixels of stream 0.
        width: u16,
        /// Picture height in pixels of stream 0.
        height: u16,
        /// Frame interval of stream 0 in microseconds.
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
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let mut w = Writer::open(out, Kind::Nack, 0, self.session);
        w.u8(self.stream);
        w.u32(self.frame);
        w.u16(self.first);
        w.bytes(&self.more.to_be_bytes());
        w.len()
    }

    /// Reads the packet.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no such packet.
    pub fn decode(datagram: &[u8]) -> Result<Nack, WireError> {
        let (mut r, _, session) = Reader::open(datagram, Kind::Nack)?;
        let (stream, frame, first) = (r.u8()?, r.u32()?, r.u16()?);
        let more = u64::from(r.u32()?) << 32 | u64::from(r.u32()?);
        Ok(Nack { session, stream, frame, first, more })
    }

    /// The packet indices wanted.
    pub fn wanted(&self) -> impl Iterator<Item = u16> + use<> {
        let Nack { first, more, .. } = *self;
        let rest = (0..64u16).filter(move |k| more >> k & 1 == 1).filter_map(move |k| first.checked_add(1 + k));
        std::iter::once(first).chain(rest)
    }
}

impl KeyFrameRequest {
    /// Writes the packet to `out` and returns its length.
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
        let (mut r, _, session) = Reader::open(datagram, Kind::KeyFrameRequest)?;
        Ok(KeyFrameRequest { session, stream: r.u8()?, sequence: r.u16()?, after: r.u32()? })
    }
}

impl Control {
    /// Writes the packet to `out` and returns its length.
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
