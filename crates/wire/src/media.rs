//! Media and padding packets.
//!
//! One fixed header for every class, so that the hot path is straight-line code and padding costs what media
//! costs: a packet of [`Class::Padding`] has a number, a send time and a size like any other and is
//! acknowledged like any other, but belongs to no frame. Its `frame`, `version`, `captured` and `deadline`
//! mean nothing; `index` is 0 and `count` 1.

use units::{RemoteTime, Span};

use crate::codec::{Kind, MASK_48, WireError, first_byte, micros, peek};

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

/// A media packet's header; its payload is the rest of the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    /// The session both sides agreed on; packets of another are foreign.
    pub session: u32,
    /// Number of this transmission, unique and increasing; below 2^48.
    pub packet: u64,
    /// When it was handed to the network, on the sender's clock, to 1 us, modulo 2^48 us (8.9 years).
    pub sent: RemoteTime,
    /// The largest feedback sequence the sender has seen; the receiver forgets what it acknowledged there.
    pub feedback_seen: u32,
    /// Which stream: a session may carry several encoders' output.
    pub stream: u8,
    /// The stream's reliability.
    pub class: Class,
    /// The frame's capture index.
    pub frame: u32,
    /// Which version of the frame: an archive may send a better one later.
    pub version: u8,
    /// This packet's index in the frame; below `count`.
    pub index: u16,
    /// Packets in the frame; at least 1.
    pub count: u16,
    /// When the frame was captured, on the sender's clock, to 1 us; at most 2^40 us (12.7 days) before
    /// `sent`.
    pub captured: RemoteTime,
    /// How long after its capture the frame is worth showing, to 1 ms, at most 65.5 s.
    pub deadline: Span,
    /// How many frames back the frame lies that this one is predicted from; 0 for none (a key frame). The
    /// sender skips frames when it is behind: this tells a skipped frame from a lost one.
    pub reference: u8,
    /// Part of a frame that decodes without any other.
    pub key: bool,
    /// Sent before under another number.
    pub retransmission: bool,
    /// Useful without the frame's other packets (a slice, a descriptor).
    pub alone: bool,
}

/// Where the header's fields begin; `docs/wire.md` draws them.
mod at {
    pub const PACKET: usize = 6;
    pub const SENT: usize = 12;
    pub const FEEDBACK_SEEN: usize = 18;
    pub const STREAM: usize = 22;
    pub const VERSION: usize = 23;
    pub const FRAME: usize = 24;
    pub const INDEX: usize = 28;
    pub const COUNT: usize = 30;
    pub const AGE: usize = 32;
    pub const DEADLINE: usize = 37;
    pub const REFERENCE: usize = 39;
}

/// The big-endian number in the `N` bytes from `at` on. Written for constants: it becomes one load and one
/// swap.
#[inline(always)]
fn get<const N: usize>(head: &[u8; Media::LEN], at: usize) -> u64 {
    let mut word = [0; 8];
    word[8 - N..].copy_from_slice(&head[at..at + N]);
    u64::from_be_bytes(word)
}

/// Writes the low `N` bytes of `value` from `at` on.
#[inline(always)]
fn put<const N: usize>(head: &mut [u8; Media::LEN], at: usize, value: u64) {
    head[at..at + N].copy_from_slice(&value.to_be_bytes()[8 - N..]);
}

impl Media {
    /// Bytes of the header.
    pub const LEN: usize = 40;
    /// The oldest a frame can be when sent, 2^40 us (12.7 days); an older one is said to be this old.
    const MAX_AGE_US: i64 = (1 << 40) - 1;

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
            captured: sent,
            deadline: Span::ZERO,
            reference: 0,
            key: false,
            retransmission: false,
            alone: false,
        }
    }

    fn flags(&self) -> u8 {
        self.class as u8
            | u8::from(self.key) << 2
            | u8::from(self.retransmission) << 3
            | u8::from(self.alone) << 4
    }

    /// Writes the header to the front of `out` and returns its length. Times are rounded down to their
    /// resolution.
    ///
    /// # Panics
    /// If `out` is shorter than [`Media::LEN`].
    #[inline]
    pub fn encode(&self, out: &mut [u8]) -> usize {
        debug_assert!(self.index < self.count && self.packet <= MASK_48);
        let head = out.first_chunk_mut::<{ Media::LEN }>().expect("room for a media header");
        let sent = micros(self.sent.as_nanos());
        // The capture time travels as an age: it is seldom more than a second old, and never newer than the
        // packet. Both times are rounded before they are subtracted, so that every packet of a frame names
        // the same one.
        let age = (sent - micros(self.captured.as_nanos())).clamp(0, Media::MAX_AGE_US);
        let deadline = (self.deadline.as_nanos() / 1_000_000).clamp(0, 0xffff);
        head[0] = first_byte(Kind::Media);
        head[1] = self.flags();
        put::<4>(head, 2, u64::from(self.session));
        put::<6>(head, at::PACKET, self.packet);
        put::<6>(head, at::SENT, sent as u64);
        put::<4>(head, at::FEEDBACK_SEEN, u64::from(self.feedback_seen));
        head[at::STREAM] = self.stream;
        head[at::VERSION] = self.version;
        put::<4>(head, at::FRAME, u64::from(self.frame));
        put::<2>(head, at::INDEX, u64::from(self.index));
        put::<2>(head, at::COUNT, u64::from(self.count));
        put::<5>(head, at::AGE, age as u64);
        put::<2>(head, at::DEADLINE, deadline as u64);
        head[at::REFERENCE] = self.reference;
        Media::LEN
    }

    /// Reads a header from the front of `datagram`.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no media packet of this version.
    #[inline]
    pub fn decode(datagram: &[u8]) -> Result<Media, WireError> {
        let (kind, session) = peek(datagram)?;
        if kind != Kind::Media {
            return Err(WireError::Kind(kind as u8));
        }
        let head = datagram.first_chunk::<{ Media::LEN }>().ok_or(WireError::Truncated)?;
        let flags = head[1];
        if flags >> 5 != 0 {
            return Err(WireError::Field("flags"));
        }
        let (index, count) = (get::<2>(head, at::INDEX) as u16, get::<2>(head, at::COUNT) as u16);
        if index >= count {
            return Err(WireError::Field("index"));
        }
        let sent = RemoteTime::from_nanos(get::<6>(head, at::SENT) as i64 * 1_000);
        Ok(Media {
            session,
            packet: get::<6>(head, at::PACKET),
            sent,
            feedback_seen: get::<4>(head, at::FEEDBACK_SEEN) as u32,
            stream: head[at::STREAM],
            class: Class::from_bits(flags),
            frame: get::<4>(head, at::FRAME) as u32,
            version: head[at::VERSION],
            index,
            count,
            captured: sent + Span::from_micros(-(get::<5>(head, at::AGE) as i64)),
            deadline: Span::from_millis(get::<2>(head, at::DEADLINE) as i64),
            reference: head[at::REFERENCE],
            key: flags & 4 != 0,
            retransmission: flags & 8 != 0,
            alone: flags & 16 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn media()(
            (session, feedback_seen, frame) in any::<(u32, u32, u32)>(),
            (stream, version, class, flags, reference) in any::<(u8, u8, u8, u8, u8)>(),
            packet in 0..=MASK_48,
            sent_ns in 0i64..1 << 57,
            age_ns in 0i64..1 << 49,
            deadline_ns in 0i64..65_536_000_000,
            count in 1u16..,
            index in any::<prop::sample::Index>(),
        ) -> Media {
            Media {
                session, packet, feedback_seen, stream, frame, version, count,
                reference,
                sent: RemoteTime::from_nanos(sent_ns),
                class: Class::from_bits(class),
                index: index.index(usize::from(count)) as u16,
                captured: RemoteTime::from_nanos(sent_ns - age_ns),
                deadline: Span::from_nanos(deadline_ns),
                key: flags & 1 != 0,
                retransmission: flags & 2 != 0,
                alone: flags & 4 != 0,
            }
        }
    }

    fn rounded(media: Media) -> Media {
        let us = |t: RemoteTime| RemoteTime::from_nanos(micros(t.as_nanos()) * 1_000);
        let deadline = Span::from_millis(media.deadline.as_nanos() / 1_000_000);
        Media { sent: us(media.sent), captured: us(media.captured), deadline, ..media }
    }

    proptest! {
        #[test]
        fn round_trips_at_its_resolution(media in media(), rest in 0usize..40) {
            let mut out = [0xaa; 80];
            prop_assert_eq!(media.encode(&mut out), Media::LEN);
            prop_assert_eq!(Media::decode(&out[..Media::LEN + rest]), Ok(rounded(media)));
            for length in 0..Media::LEN {
                prop_assert_eq!(Media::decode(&out[..length]), Err(WireError::Truncated));
            }
        }
    }

    fn example() -> Media {
        Media {
            session: 0x0102_0304,
            packet: 0x0506_0708_090a,
            sent: RemoteTime::from_nanos(0x0b0c_0d0e_0f10 * 1_000),
            feedback_seen: 0x1112_1314,
            stream: 0x15,
            class: Class::Reliable,
            frame: 0x1718_191a,
            version: 0x16,
            index: 0x1b1c,
            count: 0x1d1e,
            captured: RemoteTime::from_nanos((0x0b0c_0d0e_0f10 - 0x1f_2021_2223) * 1_000),
            deadline: Span::from_millis(0x2425),
            reference: 0x26,
            key: true,
            retransmission: false,
            alone: true,
        }
    }

    #[test]
    fn every_byte_has_its_place() {
        let mut out = [0; Media::LEN];
        example().encode(&mut out);
        assert_eq!(out[..2], [0x11, 0b1_0110]);
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
    fn unknown_flags_and_impossible_indices_are_refused() {
        let mut out = [0; Media::LEN];
        example().encode(&mut out);
        let refused = |at: usize, value: u8| {
            let mut bytes = out;
            bytes[at] = value;
            Media::decode(&bytes).unwrap_err()
        };
        assert_eq!(refused(1, 0x20), WireError::Field("flags"));
        assert_eq!(refused(28, 0x1e), WireError::Field("index"));
        assert_eq!(refused(0, 0x13), WireError::Kind(3));
        assert_eq!(refused(0, 0x01), WireError::Version(0));
    }
}
