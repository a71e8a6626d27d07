//! The seam at which another encoding of the same meaning can be put: RTP and RTCP, say, towards a peer that
//! speaks nothing else.
//!
//! A sender and a receiver say what they mean with [`Media`], [`Feedback`], [`Nack`], [`KeyFrameRequest`] and
//! [`Control`], and leave the bytes to a [`Dialect`]. [`Native`] is the one of `docs/wire.md`.

use units::{Time, apart, seldom};

use crate::{
    Arrival, Control, Feedback, FeedbackWriter, KeyFrameRequest, Kind, Media, Nack, Near, PlainArrivals,
    WireError, peek, plain,
};

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
    /// A packet's kind and session, before anything else is read.
    ///
    /// # Errors
    /// [`WireError`] if it is no packet of this dialect, as from all that read one.
    fn peek(&self, datagram: &[u8]) -> Result<(Kind, u32), WireError>;
    /// Reads the header of a packet of [`Kind::Media`], its numbers whole, into a [blank](Media::blank) one.
    /// Returns its length: the payload follows.
    #[expect(clippy::missing_errors_doc, reason = "as peek")]
    fn media(&mut self, datagram: &[u8], context: &Context, media: &mut Media) -> Result<usize, WireError>;
    /// Reads a packet of [`Kind::Feedback`].
    #[expect(clippy::missing_errors_doc, reason = "as peek")]
    fn feedback<'a>(&mut self, datagram: &'a [u8]) -> Result<Feedback<'a>, WireError>;
    /// Reads a packet of [`Kind::Nack`].
    #[expect(clippy::missing_errors_doc, reason = "as peek")]
    fn nack(&mut self, datagram: &[u8]) -> Result<Nack, WireError>;
    /// Reads a packet of [`Kind::KeyFrameRequest`].
    #[expect(clippy::missing_errors_doc, reason = "as peek")]
    fn key_frame_request(&mut self, datagram: &[u8]) -> Result<KeyFrameRequest, WireError>;
    /// Reads a packet of [`Kind::Control`].
    #[expect(clippy::missing_errors_doc, reason = "as peek")]
    fn control<'a>(&mut self, datagram: &'a [u8]) -> Result<Control<'a>, WireError>;
    /// Writes a packet, a media packet's header only, to the front of `out`, and returns its length.
    fn write(&mut self, packet: Outgoing<'_>, out: &mut [u8]) -> usize;
    /// Writes a report and the `ranges` of numbers that arrived at all, from the largest down. Returns its
    /// length, and how many arrivals found room.
    fn write_feedback(
        &mut self,
        draft: &Draft<'_>,
        ranges: &mut dyn Iterator<Item = (u64, u64)>,
        out: &mut [u8],
    ) -> (usize, usize);
}

/// A report as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes of it in memory.
    pub head: usize,
    /// Bytes of it on the wire.
    pub length: usize,
    /// How many arrivals found room.
    pub arrivals: usize,
}

/// The dialect of an endpoint, with what a [`Dialect`] does. Those that sender and receiver read or write
/// with for each packet are called directly, not through a table of functions.
#[derive(Default)]
pub enum Spoken {
    /// The encoding of `docs/wire.md`.
    #[default]
    Native,
    /// Plain numbers, between hosts of one process: [`Native`] refuses them, and a link that goes by lengths
    /// carries them as it would carry `Native`'s packets.
    Plain,
    /// Any other, called through its trait.
    Other(Box<dyn Dialect>),
}

#[expect(clippy::missing_errors_doc, missing_docs, reason = "as Dialect's functions of these names")]
impl Spoken {
    #[inline(always)]
    pub fn header(&self) -> usize {
        match self {
            Spoken::Native | Spoken::Plain => Native.header(),
            Spoken::Other(other) => seldom(other).header(),
        }
    }
    #[inline(always)]
    pub fn least_padding(&self) -> usize {
        match self {
            Spoken::Native | Spoken::Plain => Native.least_padding(),
            Spoken::Other(other) => seldom(other).least_padding(),
        }
    }
    #[inline(always)]
    pub fn peek(&self, datagram: &[u8]) -> Result<(Kind, u32), WireError> {
        match self {
            Spoken::Native => Native.peek(datagram),
            Spoken::Plain => plain::peek(datagram),
            Spoken::Other(other) => seldom(other).peek(datagram),
        }
    }
    #[inline(always)]
    pub fn media(
        &mut self,
        datagram: &[u8],
        context: &Context,
        media: &mut Media,
    ) -> Result<usize, WireError> {
        match self {
            Spoken::Native => Native.media(datagram, context, media),
            Spoken::Plain => plain::media(datagram, context, media),
            Spoken::Other(other) => seldom(other).media(datagram, context, media),
        }
    }
    /// A packet of padding, where its first bytes say so, as those of plain ones do. `None` says nothing:
    /// such a packet needs to be read in full.
    #[inline(always)]
    pub fn padding(&self, datagram: &[u8]) -> Option<Media> {
        matches!(self, Spoken::Plain).then(|| plain::padding(datagram)).flatten()
    }
    /// The same of the header of a frame's packet, with its length.
    #[inline(always)]
    pub fn frame(&self, datagram: &[u8]) -> Option<(Media, usize)> {
        matches!(self, Spoken::Plain).then(|| plain::frame(datagram)).flatten()
    }
    /// The same of a report, and its arrivals once more.
    #[inline(always)]
    pub fn report<'a>(&self, datagram: &'a [u8]) -> Option<(Feedback<'a>, PlainArrivals<'a>)> {
        matches!(self, Spoken::Plain).then(|| plain::report(datagram)).flatten()
    }
    #[inline(always)]
    pub fn feedback<'a>(&mut self, datagram: &'a [u8]) -> Result<Feedback<'a>, WireError> {
        match self {
            Spoken::Native => Native.feedback(datagram),
            Spoken::Plain => plain::feedback(datagram),
            Spoken::Other(other) => seldom(other).feedback(datagram),
        }
    }
    pub fn nack(&mut self, datagram: &[u8]) -> Result<Nack, WireError> {
        match self {
            Spoken::Native | Spoken::Plain => Native.nack(datagram),
            Spoken::Other(other) => other.nack(datagram),
        }
    }
    pub fn key_frame_request(&mut self, datagram: &[u8]) -> Result<KeyFrameRequest, WireError> {
        match self {
            Spoken::Native | Spoken::Plain => Native.key_frame_request(datagram),
            Spoken::Other(other) => other.key_frame_request(datagram),
        }
    }
    pub fn control<'a>(&mut self, datagram: &'a [u8]) -> Result<Control<'a>, WireError> {
        match self {
            Spoken::Native | Spoken::Plain => Native.control(datagram),
            Spoken::Other(other) => other.control(datagram),
        }
    }
    #[inline(always)]
    pub fn write(&mut self, packet: Outgoing<'_>, out: &mut [u8]) -> usize {
        match (self, packet) {
            (Spoken::Plain, Outgoing::Media(media)) => plain::write_media(media, out),
            (Spoken::Native | Spoken::Plain, packet) => Native.write(packet, out),
            (Spoken::Other(other), packet) => seldom(other).write(packet, out),
        }
    }
    /// As [`write`](Spoken::write), of the header of a media packet.
    // By value: one that is put down as plain numbers never lies in memory before that.
    #[inline(always)]
    pub fn write_media(&mut self, media: Media, out: &mut [u8]) -> usize {
        match self {
            Spoken::Plain => plain::write_media(&media, out),
            spoken => spoken.write(Outgoing::Media(&apart(media)), out),
        }
    }
    /// As [`write_feedback`](Spoken::write_feedback), where all of the report is put down as plain numbers.
    /// `None` says nothing: such a report needs to be written by that.
    #[inline(always)]
    pub fn write_plain_feedback(
        &self,
        draft: &Draft<'_>,
        ranges: impl Iterator<Item = (u64, u64)> + Clone,
        out: &mut [u8],
    ) -> Option<Written> {
        matches!(self, Spoken::Plain).then(|| plain::write_report(draft, ranges, out)).flatten()
    }
    /// `ranges` begins with the largest each time that it is called.
    #[inline(always)]
    pub fn write_feedback<R: Iterator<Item = (u64, u64)> + Clone>(
        &mut self,
        draft: &Draft<'_>,
        ranges: impl Fn() -> R,
        out: &mut [u8],
    ) -> Written {
        if let Some(written) = self.write_plain_feedback(draft, ranges(), out) {
            return written;
        }
        // Its lengths, too, stay in registers where they are not what this call puts into memory.
        apart(self.encode_feedback(apart(*draft), ranges(), out))
    }

    // Apart, and with a copy of the draft: the draft itself can stay in registers.
    #[inline(never)]
    fn encode_feedback(
        &mut self,
        draft: Draft<'_>,
        ranges: impl Iterator<Item = (u64, u64)>,
        out: &mut [u8],
    ) -> Written {
        let (length, arrivals) = match self {
            Spoken::Native | Spoken::Plain => FeedbackWriter::write(out, &draft, ranges),
            Spoken::Other(other) => seldom(other).write_feedback(&draft, &mut { ranges }, out),
        };
        Written { head: length, length, arrivals }
    }
}

/// The encoding of `docs/wire.md`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Dialect for Native {
    #[inline(always)]
    fn header(&self) -> usize {
        Media::LEN
    }
    #[inline(always)]
    fn least_padding(&self) -> usize {
        Media::PADDING_LEN
    }
    #[inline(always)]
    fn peek(&self, datagram: &[u8]) -> Result<(Kind, u32), WireError> {
        peek(datagram)
    }
    #[inline(always)]
    fn media(&mut self, datagram: &[u8], context: &Context, media: &mut Media) -> Result<usize, WireError> {
        media.read(datagram)?;
        context.near.widen(media, context.reported);
        Ok(media.header())
    }
    #[inline(always)]
    fn feedback<'a>(&mut self, datagram: &'a [u8]) -> Result<Feedback<'a>, WireError> {
        Feedback::decode(datagram)
    }
    #[inline(always)]
    fn nack(&mut self, datagram: &[u8]) -> Result<Nack, WireError> {
        Nack::decode(datagram)
    }
    #[inline(always)]
    fn key_frame_request(&mut self, datagram: &[u8]) -> Result<KeyFrameRequest, WireError> {
        KeyFrameRequest::decode(datagram)
    }
    #[inline(always)]
    fn control<'a>(&mut self, datagram: &'a [u8]) -> Result<Control<'a>, WireError> {
        Control::decode(datagram)
    }
    #[inline(always)]
    fn write(&mut self, packet: Outgoing<'_>, out: &mut [u8]) -> usize {
        match packet {
            Outgoing::Media(media) => media.encode(out),
            Outgoing::Nack(nack) => nack.encode(out),
            Outgoing::KeyFrameRequest(request) => request.encode(out),
            Outgoing::Control(control) => control.encode(out),
        }
    }
    #[inline(always)]
    fn write_feedback(
        &mut self,
        draft: &Draft<'_>,
        ranges: &mut dyn Iterator<Item = (u64, u64)>,
        out: &mut [u8],
    ) -> (usize, usize) {
        FeedbackWriter::write(out, draft, ranges)
    }
}
