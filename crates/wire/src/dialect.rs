//! The seam at which another encoding of the same meaning can be put: RTP and RTCP, say, towards a peer that
//! speaks nothing else.
//!
//! A sender and a receiver say what they mean with [`Media`], [`Feedback`], [`Nack`], [`KeyFrameRequest`] and
//! [`Control`], and leave the bytes to a [`Dialect`]. [`Native`] is the one of `docs/wire.md`.

use units::Time;

use crate::{
    Arrival, Control, Feedback, FeedbackWriter, KeyFrameRequest, Kind, Media, Nack, Near, WireError, peek,
};

/// A packet that was read.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// A frame's bytes or padding, its numbers whole, with its header's length; the payload follows that.
    Media(Media, usize),
    /// What arrived, and when.
    Feedback(Feedback<'a>),
    /// Packets wanted again.
    Nack(Nack),
    /// A key frame wanted.
    KeyFrameRequest(KeyFrameRequest),
    /// Session set-up and end.
    Control(Control<'a>),
    /// A packet that neither side of interactive video takes.
    Other,
}

/// A packet to be written, but for feedback.
#[derive(Clone, Copy, Debug)]
pub enum Outgoing<'a> {
    /// The header of a frame's packet or of padding.
    Media(&'a Media),
    /// Packets wanted again.
    Nack(&'a Nack),
    /// A key frame wanted.
    KeyFrameRequest(&'a KeyFrameRequest),
    /// Session set-up and end.
    Control(&'a Control<'a>),
}

/// A report of arrivals to be written ([`FeedbackWriter::write`]).
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// The session's number, which both sides agree on.
    pub session: u32,
    /// Counts feedback packets from 1.
    pub sequence: u32,
    /// When it leaves, on the receiver's clock.
    pub sent: Time,
    /// Packets dropped by the receiver as malformed, foreign or implausible so far.
    pub refused: u32,
    /// From the controller's receiver half to its sender half.
    pub blob: &'a [u8],
    /// In strictly increasing order of number.
    pub arrivals: &'a [Arrival],
}

/// What a receiver knows that helps to read the next media packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// The largest numbers heard.
    pub near: Near,
    /// The sequence of its own last report.
    pub reported: u32,
}

/// Reads and writes packets. Reading allocates nothing in proportion to what a packet claims, and refuses
/// with an error, never a panic, what is none.
pub trait Dialect: Send {
    /// Bytes of a frame's packet before its payload.
    fn header(&self) -> usize;
    /// Bytes of the shortest packet of padding.
    fn least_padding(&self) -> usize;
    /// The session of a packet, before anything else is read.
    ///
    /// # Errors
    /// [`WireError`] if it is no packet of this dialect.
    fn session(&self, datagram: &[u8]) -> Result<u32, WireError>;
    /// Reads a packet.
    ///
    /// # Errors
    /// [`WireError`] if it is no packet of this dialect.
    fn read<'a>(&mut self, datagram: &'a [u8], context: &Context) -> Result<Packet<'a>, WireError>;
    /// Writes a packet, a media packet's header only, to the front of `out`, and returns its length.
    fn write(&mut self, packet: Outgoing<'_>, out: &mut [u8]) -> usize;
    /// Writes a report and the `ranges` of numbers that arrived at all, from the largest down. Returns its
    /// length, and how many arrivals found room.
    fn write_feedback(
        &mut self,
        draft: &Draft<'_>,
        ranges: &mut dyn Iterator<Item = &(u64, u64)>,
        out: &mut [u8],
    ) -> (usize, usize);
}

/// The encoding of `docs/wire.md`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Dialect for Native {
    #[inline]
    fn header(&self) -> usize {
        Media::LEN
    }
    #[inline]
    fn least_padding(&self) -> usize {
        Media::PADDING_LEN
    }
    #[inline]
    fn session(&self, datagram: &[u8]) -> Result<u32, WireError> {
        peek(datagram).map(|(_, session)| session)
    }
    #[inline]
    fn read<'a>(&mut self, datagram: &'a [u8], context: &Context) -> Result<Packet<'a>, WireError> {
        let (kind, _) = peek(datagram)?;
        Ok(match kind {
            Kind::Media => {
                let media = context.near.widen(Media::decode(datagram)?, context.reported);
                Packet::Media(media, media.header())
            }
            Kind::Feedback => Packet::Feedback(Feedback::decode(datagram)?),
            Kind::Nack => Packet::Nack(Nack::decode(datagram)?),
            Kind::KeyFrameRequest => Packet::KeyFrameRequest(KeyFrameRequest::decode(datagram)?),
            Kind::Control => Packet::Control(Control::decode(datagram)?),
            Kind::Segment | Kind::SegmentAck | Kind::TimingProbe | Kind::TimingEcho => Packet::Other,
        })
    }
    #[inline]
    fn write(&mut self, packet: Outgoing<'_>, out: &mut [u8]) -> usize {
        match packet {
            Outgoing::Media(media) => media.encode(out),
            Outgoing::Nack(nack) => nack.encode(out),
            Outgoing::KeyFrameRequest(request) => request.encode(out),
            Outgoing::Control(control) => control.encode(out),
        }
    }
    fn write_feedback(
        &mut self,
        draft: &Draft<'_>,
        ranges: &mut dyn Iterator<Item = &(u64, u64)>,
        out: &mut [u8],
    ) -> (usize, usize) {
        FeedbackWriter::write(out, draft, ranges)
    }
}
