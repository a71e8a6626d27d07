//! Media and padding packets.
//!
//! One fixed header for every frame's packets, so that the hot path is straight-line code. Padding ends after
//! the fields that every transmission has: a packet of [`Class::Padding`] has a number, a send time and a
//! size like any other and is acknowledged like any other, but belongs to no frame. Its `frame`, `version`,
//! `captured` and `deadline` mean nothing; `index` is 0 and `count` 1.
//!
//! Two numbers travel as their low bits, as packet numbers do in QUIC (RFC 9000 section 17.1): `packet` with
//! 40, `feedback_seen` with 24. [`Near`] tells a receiver the rest.

use units::{RemoteTime, Span, unlikely};

use crate::codec::{Kind, WireError, first_byte, micros, out_of_range, peek, truncated};

/// How hard the session tries to deliver a stream's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// Repeated until it arrives or its deadline passes: the live stream.
    Deadline = 0,
    /// Sent once: a later packet makes it worthless.
    OneShot = 1,
    /// Repeated until it arrives, whenever that is: an archive's better version.
    Reliable = 2,
    /// Bytes for their own sake: probes, dummies, a backlogged flow. Never repeated, never assembled.
    Padding = 3,
}

impl Class {
    /// The class in the two low bits of `bits`.
    const fn from_bits(bits: u8) -> Class {
        match bits & 3 {
            0 => Class::Deadline,
            1 => Class::OneShot,
            2 => Class::Reliable,
            _ => Class::Padding,
        }
    }
}

/// One coding of one captured frame. Within a stream this names the frame for everybody: who keeps it, asks
/// for it, predicts from it or records it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId {
    /// The frame's capture index.
    pub frame: u32,
    /// Which coding of it: 0 the first, higher ones later and better.
    pub version: u8,
}

impl FrameId {
    /// The first coding of a frame.
    #[must_use]
    pub const fn first(frame: u32) -> FrameId {
        FrameId { frame, version: 0 }
    }
}

/// A media packet's header; its payload is the rest of the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    /// The session both sides agreed on; packets of another are foreign.
    pub session: u32,
    /// Number of this transmission, unique and increasing; below 2^48. As read from a header, its low 40 bits
    /// ([`Near::widen`]).
    pub packet: u64,
    /// When it was handed to the network, on the sender's clock, to 1 us, modulo 2^48 us (8.9 years).
    pub sent: RemoteTime,
    /// The largest feedback sequence the sender has seen; the receiver forgets what it acknowledged there. As
    /// read from a header, its low 24 bits.
    pub feedback_seen: u32,
    /// Which stream: a session may carry several encoders' output.
    pub stream: u8,
    /// The stream's reliability.
    pub class: Class,
    /// The frame's capture index.
    pub frame: u32,
    /// Which coding of the frame ([`FrameId`]).
    pub version: u8,
    /// This packet's index in the frame. From `count` on it is a parity packet ([`Media::parity`]).
    pub index: u16,
    /// Packets that the frame is cut into; at least 1.
    pub count: u16,
    /// Which of the encoder's pieces of the frame its payload begins in; pieces from number 255 on share it.
    /// Of a parity packet how many of those the frame has.
    pub part: u8,
    /// When the frame was captured, on the sender's clock, to 1 us; at most 2^32 us (71.6 minutes) before
    /// `sent`, and said to be that old if it is older.
    pub captured: RemoteTime,
    /// How long after its capture the frame is worth showing, to 1 ms, at most 65.5 s. A
    /// [`Class::Reliable`] one is worth it for good.
    pub deadline: Span,
    /// The frame that this one is predicted from; `None`: from no other (a key frame). The sender skips
    /// frames when it is behind: this tells a skipped frame from a lost one. Captured at most 32767 frames
    /// before or after this one.
    pub reference: Option<FrameId>,
    /// Sent before under another number.
    pub retransmission: bool,
    /// Its payload is useful without the frame's other packets: it is made of whole pieces (slices,
    /// descriptors).
    pub alone: bool,
}

/// The largest numbers that a receiver has heard of a session's media packets: what the low bits in a header
/// are told apart by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Near {
    /// The largest packet number, once there is one.
    packet: Option<u64>,
}

impl Near {
    /// Where the largest packet number accepted is known already.
    pub fn at(packet: Option<u64>) -> Near {
        Near { packet }
    }

    /// A packet was accepted, its numbers widened already.
    #[inline]
    pub fn heard(&mut self, media: &Media) {
        self.packet = self.packet.max(Some(media.packet));
    }

    /// Makes a packet's numbers whole: those nearest to the ones heard before. `reported` is the receiver's
    /// own last feedback sequence, which no sender can have seen beyond.
    #[inline]
    pub fn widen(&self, media: &mut Media, reported: u32) {
        let behind = reported.wrapping_sub(media.feedback_seen) & Media::MASK_FEEDBACK;
        media.feedback_seen = reported.saturating_sub(behind);
        media.packet = self.packet.map_or(media.packet, |heard| {
            // How far the low bits lie ahead of, or behind, those heard before.
            let ahead = media.packet.wrapping_sub(heard) << Media::UNSENT_BITS;
            heard.saturating_add_signed(ahead as i64 >> Media::UNSENT_BITS)
        });
    }
}

/// Where the header's fields begin; `docs/wire.md` draws them.
mod at {
    pub const PACKET: usize = 6;
    pub const SENT: usize = 11;
    pub const FEEDBACK_SEEN: usize = 17;
    pub const STREAM: usize = 20;
    pub const VERSION: usize = 21;
    pub const FRAME: usize = 22;
    pub const INDEX: usize = 26;
    pub const COUNT: usize = 28;
    pub const PART: usize = 30;
    pub const AGE: usize = 31;
    pub const DEADLINE: usize = 35;
    pub const BACK: usize = 37;
    pub const REFERENCE_VERSION: usize = 39;
}

/// The big-endian number in the `N` bytes from `at` on, at most eight, none of which is before the seventh.
/// Written for constants: it becomes one load of eight bytes, one swap and a mask. Bytes put together first
/// would cost a failed store forwarding each.
#[inline(always)]
fn get<const N: usize>(head: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&head[at + N - 8..at + N]);
    u64::from_be_bytes(word) & (u64::MAX >> (64 - 8 * N))
}

/// Writes the low `N` bytes of `value` from `at` on.
#[inline(always)]
fn put<const N: usize>(head: &mut [u8], at: usize, value: u64) {
    head[at..at + N].copy_from_slice(&value.to_be_bytes()[8 - N..]);
}

/// The flag of a frame that is predicted from no other.
pub(crate) const KEY: u8 = 4;
const RETRANSMISSION: u8 = 8;
const ALONE: u8 = 16;

impl Media {
    /// Bytes of a frame's packet before its payload.
    pub const LEN: usize = 40;
    /// Bytes of the shortest packet of padding.
    pub const PADDING_LEN: usize = at::STREAM;
    /// How far away in order of capture a reference may lie.
    pub const MAX_BACK: u32 = i16::MAX as u32;
    /// The oldest a frame can be when sent; an older one is said to be this old.
    const MAX_AGE_US: i64 = u32::MAX as i64;
    const MASK_FEEDBACK: u32 = (1 << 24) - 1;
    /// Bits of a packet number that do not travel.
    const UNSENT_BITS: u32 = 24;

    /// The header of a packet of padding.
    #[inline]
    pub fn padding(session: u32, packet: u64, sent: RemoteTime, feedback_seen: u32) -> Media {
        Media {
            session,
            packet,
            sent,
            feedback_seen,
            stream: 0,
            class: Class::Padding,
            frame: 0,
            version: 0,
            index: 0,
            count: 1,
            part: 0,
            captured: sent,
            deadline: Span::ZERO,
            reference: None,
            retransmission: false,
            alone: false,
        }
    }

    /// The frame it belongs to.
    pub fn id(&self) -> FrameId {
        FrameId { frame: self.frame, version: self.version }
    }

    /// Part of a frame that decodes without any other.
    pub fn is_key(&self) -> bool {
        self.reference.is_none() && self.class != Class::Padding
    }

    /// Of a parity packet which one it is, and how many its frame has: any `count` of a frame's packets give
    /// all of it.
    #[inline]
    pub fn parity(&self) -> Option<(u16, u16)> {
        self.index.checked_sub(self.count).map(|number| (number, u16::from(self.part)))
    }

    /// Bytes of its header.
    #[inline]
    pub fn header(&self) -> usize {
        if self.class == Class::Padding { Media::PADDING_LEN } else { Media::LEN }
    }

    #[inline(always)]
    pub(crate) fn flags(&self) -> u8 {
        let set = |on: bool, flag: u8| if on { flag } else { 0 };
        self.class as u8
            | set(self.is_key(), KEY)
            | set(self.retransmission, RETRANSMISSION)
            | set(self.alone, ALONE)
    }

    /// Takes over class and marks from [`flags`](Media::flags).
    #[inline(always)]
    pub(crate) fn set_flags(&mut self, flags: u8) {
        self.class = Class::from_bits(flags);
        self.retransmission = flags & RETRANSMISSION != 0;
        self.alone = flags & ALONE != 0;
    }

    /// How old the frame is when the packet leaves, `sent_us` on the sender's clock: the capture time travels
    /// as an age, since it is seldom more than a second old, and never newer than the packet. Both times are
    /// rounded before they are subtracted, so that every packet of a frame names the same one.
    #[inline(always)]
    pub(crate) fn age(&self, sent_us: i64) -> u32 {
        (sent_us - micros(self.captured.as_nanos())).clamp(0, Media::MAX_AGE_US) as u32
    }

    /// The deadline as it travels.
    #[inline(always)]
    pub(crate) fn deadline_ms(&self) -> u16 {
        (self.deadline.as_nanos() / 1_000_000).clamp(0, 0xffff) as u16
    }

    /// Writes the header to the front of `out` and returns its length. Times are rounded down to their
    /// resolution.
    ///
    /// # Panics
    /// If `out` is shorter than [`Media::LEN`], or [`Media::PADDING_LEN`] for padding.
    #[inline(always)]
    pub fn encode(&self, out: &mut [u8]) -> usize {
        debug_assert!(self.parity().is_none_or(|(number, of)| number < of));
        let sent = micros(self.sent.as_nanos());
        let head = out.first_chunk_mut::<{ Media::PADDING_LEN }>().expect("room for a header");
        head[0] = first_byte(Kind::Media);
        head[1] = self.flags();
        put::<4>(head, 2, u64::from(self.session));
        put::<5>(head, at::PACKET, self.packet);
        put::<6>(head, at::SENT, sent as u64);
        put::<3>(head, at::FEEDBACK_SEEN, u64::from(self.feedback_seen));
        if self.class == Class::Padding { Media::PADDING_LEN } else { self.encode_frame(sent, out) }
    }

    /// Writes what is a frame's.
    #[inline(always)]
    fn encode_frame(&self, sent: i64, out: &mut [u8]) -> usize {
        let head = out.first_chunk_mut::<{ Media::LEN }>().expect("room for a media header");
        let (back, version) = self.reference.map_or((0, 0), |reference| {
            let back = i64::from(self.frame) - i64::from(reference.frame);
            debug_assert!(back.unsigned_abs() <= u64::from(Media::MAX_BACK), "{self:?}");
            (back, reference.version)
        });
        head[at::STREAM] = self.stream;
        head[at::VERSION] = self.version;
        put::<4>(head, at::FRAME, u64::from(self.frame));
        put::<2>(head, at::INDEX, u64::from(self.index));
        put::<2>(head, at::COUNT, u64::from(self.count));
        head[at::PART] = self.part;
        put::<4>(head, at::AGE, u64::from(self.age(sent)));
        put::<2>(head, at::DEADLINE, u64::from(self.deadline_ms()));
        put::<2>(head, at::BACK, back as u64);
        head[at::REFERENCE_VERSION] = version;
        Media::LEN
    }

    /// Reads a header from the front of `datagram`. Its numbers are the low bits that travelled:
    /// [`Near::widen`] makes them whole.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no media packet of this version.
    pub fn decode(datagram: &[u8]) -> Result<Media, WireError> {
        let mut media = Media::blank();
        media.read(datagram)?;
        Ok(media)
    }

    /// Nothing that was sent: where a header is to be [read](Media::read).
    #[inline]
    pub fn blank() -> Media {
        Media::padding(0, 0, RemoteTime::from_nanos(0), 0)
    }

    /// As [`decode`](Media::decode), into a [blank](Media::blank) header, in place: this runs for each
    /// packet, and a header that was just written field by field is slow to copy.
    ///
    /// # Errors
    /// As [`decode`](Media::decode); part of the header may have been read then.
    #[inline(always)]
    pub fn read(&mut self, datagram: &[u8]) -> Result<(), WireError> {
        let (kind, session) = peek(datagram)?;
        if unlikely(kind != Kind::Media) {
            return Err(WireError::Kind(kind as u8));
        }
        let head = datagram.first_chunk::<{ Media::PADDING_LEN }>().ok_or_else(truncated)?;
        let flags = head[1];
        self.session = session;
        self.packet = get::<5>(head, at::PACKET);
        self.sent = RemoteTime::from_nanos(get::<6>(head, at::SENT) as i64 * 1_000);
        self.feedback_seen = get::<3>(head, at::FEEDBACK_SEEN) as u32;
        match Class::from_bits(flags) {
            Class::Padding if flags == Class::Padding as u8 => {
                self.captured = self.sent;
                Ok(())
            }
            Class::Padding => Err(out_of_range("flags")),
            _ => self.read_frame(datagram),
        }
    }

    /// Reads what is a frame's.
    #[inline(always)]
    fn read_frame(&mut self, datagram: &[u8]) -> Result<(), WireError> {
        let head = datagram.first_chunk::<{ Media::LEN }>().ok_or_else(truncated)?;
        let flags = head[1];
        if flags >> 5 != 0 {
            return Err(out_of_range("flags"));
        }
        let (index, count) = (get::<2>(head, at::INDEX) as u16, get::<2>(head, at::COUNT) as u16);
        let last = if index < count { count } else { count.saturating_add(u16::from(head[at::PART])) };
        if count == 0 || index >= last || index >= count && flags & ALONE != 0 {
            return Err(out_of_range("index"));
        }
        let id = FrameId { frame: get::<4>(head, at::FRAME) as u32, version: head[at::VERSION] };
        self.reference = reference(head, id)?;
        self.stream = head[at::STREAM];
        self.set_flags(flags);
        (self.frame, self.version) = (id.frame, id.version);
        (self.index, self.count) = (index, count);
        self.part = head[at::PART];
        self.captured = self.sent + Span::from_micros(-(get::<4>(head, at::AGE) as i64));
        self.deadline = Span::from_millis(get::<2>(head, at::DEADLINE) as i64);
        Ok(())
    }
}

/// What the frame `id` is predicted from.
#[inline(always)]
fn reference(head: &[u8; Media::LEN], id: FrameId) -> Result<Option<FrameId>, WireError> {
    let back = i32::from(get::<2>(head, at::BACK) as u16 as i16);
    let version = head[at::REFERENCE_VERSION];
    if head[1] & KEY != 0 {
        return if (back, version) == (0, 0) { Ok(None) } else { Err(out_of_range("reference")) };
    }
    let frame = i64::from(id.frame) - i64::from(back);
    let reference = u32::try_from(frame).ok().map(|frame| FrameId { frame, version });
    // No frame is predicted from itself.
    reference
        .filter(|&other| other != id && back != i32::from(i16::MIN))
        .map(Some)
        .ok_or_else(|| out_of_range("reference"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        pub(crate) fn media()(
            (session, feedback_seen, frame) in any::<(u32, u32, u32)>(),
            (stream, version, class, flags, part) in any::<(u8, u8, u8, u8, u8)>(),
            parity in any::<prop::sample::Index>(),
            packet in 0..1u64 << 48,
            sent_ns in 1i64 << 50..1 << 57,
            age_ns in 0i64..1 << 41,
            deadline_ns in 0i64..65_536_000_000,
            count in 1u16..,
            index in any::<prop::sample::Index>(),
            (back, reference_version) in (-32_767i64..32_768, any::<u8>()),
        ) -> Media {
            let sent = RemoteTime::from_nanos(sent_ns);
            let class = Class::from_bits(class);
            if class == Class::Padding {
                return Media::padding(session, packet, sent, feedback_seen);
            }
            let other = u32::try_from(i64::from(frame) - back).ok();
            let reference = other.map(|frame| FrameId { frame, version: reference_version });
            let is_parity = flags & 8 != 0 && part > 0 && count < u16::MAX - 255;
            let index = if is_parity {
                count + parity.index(usize::from(part)) as u16
            } else {
                index.index(usize::from(count)) as u16
            };
            Media {
                session, packet, sent, feedback_seen, stream, class, frame, version, count, part,
                index,
                captured: RemoteTime::from_nanos(sent_ns - age_ns),
                deadline: Span::from_nanos(deadline_ns),
                reference: reference.filter(|&other| other != FrameId { frame, version }),
                retransmission: flags & 2 != 0,
                alone: flags & 4 != 0 && !is_parity,
            }
        }
    }

    fn rounded(media: Media) -> Media {
        let us = |t: RemoteTime| RemoteTime::from_nanos(micros(t.as_nanos()) * 1_000);
        let deadline = Span::from_millis(media.deadline.as_nanos() / 1_000_000);
        Media { sent: us(media.sent), captured: us(media.captured), deadline, ..media }
    }

    proptest! {
        /// What was heard last may be older or newer by some 2^39 packets.
        #[test]
        fn round_trips_at_its_resolution(
            media in media(), rest in 0usize..40, ahead in -(1i64 << 39) + 1..1 << 39,
            unheard in 0u32..1 << 24
        ) {
            let mut out = [0xaa; 80];
            let length = media.encode(&mut out);
            prop_assert_eq!(length, if media.class == Class::Padding { Media::PADDING_LEN } else { Media::LEN });
            let mut widened = Media::decode(&out[..length + rest]).unwrap();
            let mut near = Near::default();
            let before = media.packet.saturating_add_signed(ahead);
            near.heard(&Media { packet: before, ..media });
            near.widen(&mut widened, media.feedback_seen.saturating_add(unheard));
            prop_assert_eq!(widened, rounded(media));
            for length in 0..length {
                prop_assert_eq!(Media::decode(&out[..length]), Err(WireError::Truncated));
            }
        }
    }

    fn example() -> Media {
        Media {
            session: 0x0102_0304,
            packet: 0x05_0607_0809,
            sent: RemoteTime::from_nanos(0x0a0b_0c0d_0e0f * 1_000),
            feedback_seen: 0x10_1112,
            stream: 0x13,
            version: 0x14,
            class: Class::Reliable,
            frame: 0x1516_1718,
            index: 0x191a,
            count: 0x1b1c,
            part: 0x1d,
            captured: RemoteTime::from_nanos((0x0a0b_0c0d_0e0f - 0x1e1f_2021) * 1_000),
            deadline: Span::from_millis(0x2223),
            reference: Some(FrameId { frame: 0x1516_1718 - 0x2425, version: 0x26 }),
            retransmission: false,
            alone: true,
        }
    }

    #[test]
    fn every_byte_has_its_place() {
        let mut out = [0; Media::LEN];
        example().encode(&mut out);
        assert_eq!(out[..2], [0x21, 0b1_0010]);
        let rest: Vec<u8> = (1..=0x26).collect();
        assert_eq!(out[2..], rest);
    }

    #[test]
    fn packets_of_a_frame_name_the_same_capture_time() {
        let captured = RemoteTime::from_nanos(1_000_000_999);
        let seen = |sent_ns| {
            let mut out = [0; Media::LEN];
            Media { sent: RemoteTime::from_nanos(sent_ns), captured, ..example() }.encode(&mut out);
            Media::decode(&out).unwrap().captured
        };
        assert_eq!(seen(1_000_000_999), RemoteTime::from_nanos(1_000_000_000));
        assert_eq!(seen(1_000_001_001), RemoteTime::from_nanos(1_000_000_000));
        assert_eq!(seen(1_016_001_998), RemoteTime::from_nanos(1_000_000_000));
    }

    #[test]
    fn numbers_go_on_where_their_low_bits_begin_again() {
        let mut near = Near::default();
        for packet in [(1u64 << 40) - 2, (1 << 40) - 1, 1 << 40, (1 << 40) + 1] {
            let sent = RemoteTime::from_nanos(5_000);
            let mut out = [0; Media::PADDING_LEN];
            Media::padding(1, packet, sent, 0x0100_0003).encode(&mut out);
            let mut media = Media::decode(&out).unwrap();
            near.widen(&mut media, 0x0100_0005);
            assert_eq!((media.packet, media.sent, media.feedback_seen), (packet, sent, 0x0100_0003));
            near.heard(&media);
        }
        let out = &mut [0; Media::PADDING_LEN];
        Media::padding(1, 5, RemoteTime::from_nanos(0), 9).encode(out);
        let mut media = Media::decode(out).unwrap();
        Near::default().widen(&mut media, 3);
        assert_eq!(media.feedback_seen, 0, "a report that was never written can't have been seen");
    }

    #[test]
    fn unknown_flags_and_impossible_fields_are_refused() {
        let mut out = [0; Media::LEN];
        example().encode(&mut out);
        let changed = |changes: &[(usize, u8)]| {
            let mut bytes = out;
            changes.iter().for_each(|&(at, value)| bytes[at] = value);
            bytes
        };
        let refused = |changes: &[(usize, u8)]| Media::decode(&changed(changes)).unwrap_err();
        assert_eq!(refused(&[(1, 0x20)]), WireError::Field("flags"));
        assert_eq!(refused(&[(1, 0x07)]), WireError::Field("flags"), "padding is of no frame");
        let parity = |number: u8| [(1, 2), (at::COUNT, 0x19), (at::COUNT + 1, 0x1a - number), (at::PART, 3)];
        assert_eq!(Media::decode(&changed(&parity(2))).unwrap().parity(), Some((2, 3)));
        assert_eq!(refused(&parity(3)), WireError::Field("index"), "there are three parity packets");
        assert_eq!(
            refused(&[(at::COUNT, 0x19), (at::COUNT + 1, 0x1a)]),
            WireError::Field("index"),
            "parity, and alone"
        );
        assert_eq!(refused(&[(at::COUNT, 0), (at::COUNT + 1, 0)]), WireError::Field("index"));
        assert_eq!(refused(&[(1, KEY)]), WireError::Field("reference"), "a key frame has none");
        let itself = [(at::BACK, 0), (at::BACK + 1, 0), (at::REFERENCE_VERSION, 0x14)];
        assert_eq!(refused(&itself), WireError::Field("reference"));
        assert_eq!(
            refused(&[(at::FRAME, 0), (at::FRAME + 1, 0), (at::FRAME + 2, 0)]),
            WireError::Field("reference")
        );
        assert_eq!(refused(&[(0, 0x23)]), WireError::Kind(3));
        assert_eq!(refused(&[(0, 0x11)]), WireError::Version(1));
    }
}
