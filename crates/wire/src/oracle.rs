//! What must hold of every input, however hostile: the bodies of the fuzz targets, and of a test that runs
//! them on stable.
//!
//! Each function takes arbitrary bytes. Bytes that decode must encode again, and what was encoded must decode
//! to the same packet; bytes that do not decode must be refused without a panic. A broken property panics,
//! which is how a fuzzer sees it.

use units::Time;

use crate::{
    Arrival, Class, Context, Control, Draft, Feedback, FeedbackWriter, KeyFrameRequest, Media, Message, Nack,
    Segment, SegmentAck, Spoken, TimingEcho, TimingProbe, Uploading, Viewing, peek,
};

/// A packet's decoder.
type Oracle = fn(&[u8]);

/// Every oracle, with its fuzz target's name.
pub const ALL: [(&str, Oracle); 13] = [
    ("media", media),
    ("feedback", feedback),
    ("nack", nack),
    ("key_frame_request", key_frame_request),
    ("control", control),
    ("segment", segment),
    ("segment_ack", segment_ack),
    ("timing_probe", timing_probe),
    ("timing_echo", timing_echo),
    ("message", message),
    ("viewing", viewing),
    ("uploading", uploading),
    ("plain", plain),
];

/// [`Media::decode`] is stable under encoding, and writes only its header.
///
/// # Panics
/// If it is not.
pub fn media(bytes: &[u8]) {
    let Ok(media) = Media::decode(bytes) else { return };
    let mut out = [0; Media::LEN];
    let length = media.encode(&mut out);
    assert_eq!(out[..length], bytes[..length], "the header has one encoding");
    assert_eq!(Media::decode(&out[..length]), Ok(media));
}

/// [`Feedback::decode`] keeps its promises on order and range, and is stable under encoding.
///
/// # Panics
/// If it does not.
pub fn feedback(bytes: &[u8]) {
    let Ok(feedback) = Feedback::decode(bytes) else { return };
    let arrivals: Vec<Arrival> = feedback.arrivals().collect();
    let ranges: Vec<(u64, u64)> = feedback.ranges().collect();
    assert!(arrivals.len() <= bytes.len() && ranges.len() <= bytes.len(), "no more items than bytes");
    assert!(arrivals.windows(2).all(|pair| pair[0].packet < pair[1].packet), "arrivals increase");
    assert!(ranges.windows(2).all(|pair| pair[1].1 + 1 < pair[0].0), "ranges decrease and do not touch");
    assert!(ranges.iter().all(|(low, high)| low <= high));
    // Twice the bytes are enough however wastefully the integers were written: none of ours is longer than
    // theirs.
    let mut out = vec![0; bytes.len() + FeedbackWriter::MIN_ROOM];
    let sent = Time::from_nanos(feedback.sent.as_nanos() as u64);
    let Feedback { session, sequence, refused, blob, .. } = feedback;
    let (length, written) = FeedbackWriter::write(
        &mut out,
        &Draft { session, sequence, sent, refused, blob, arrivals: &arrivals },
        ranges.iter().copied(),
    );
    assert_eq!(written, arrivals.len());
    let again = Feedback::decode(&out[..length]).expect("what was written decodes");
    assert_eq!((again.session, again.sequence, again.sent), (session, sequence, feedback.sent));
    assert_eq!((again.refused, again.blob), (refused, blob));
    assert!(again.arrivals().eq(arrivals) && again.ranges().eq(ranges));
}

/// What hosts of one process say to each other ([`Spoken::Plain`]) is read the same whichever way it is asked
/// for, and the lists of a report keep the promises of [`Feedback::decode`].
///
/// # Panics
/// If it is not.
pub fn plain(bytes: &[u8]) {
    let (mut spoken, mut whole) = (Spoken::Plain, Media::blank());
    let read = spoken.media(bytes, &Context::default(), &mut whole);
    if let Some(padding) = spoken.padding(bytes) {
        assert!(read.is_ok() && padding == whole, "{padding:?} and {whole:?}");
    } else if let Some((glanced, head)) = spoken.frame(bytes)
        && glanced.class != Class::Padding
    {
        assert!(read == Ok(head) && glanced == whole, "{glanced:?} and {whole:?}");
    }
    let Some((report, plain)) = spoken.report(bytes) else { return };
    let again = spoken.feedback(bytes).expect("what is read at a glance is read");
    assert!(plain.eq(again.arrivals()) && report.arrivals().eq(again.arrivals()));
    assert!(report.ranges().eq(again.ranges()));
    let arrivals: Vec<Arrival> = report.arrivals().collect();
    assert!(arrivals.len() <= bytes.len() && report.ranges().count() <= bytes.len());
    assert!(arrivals.windows(2).all(|pair| pair[0].packet < pair[1].packet), "arrivals increase");
    assert!(report.ranges().all(|(low, high)| low <= high));
}

/// [`Nack::decode`] is stable under encoding, and wants at most 65 packets.
///
/// # Panics
/// If it is not.
pub fn nack(bytes: &[u8]) {
    let Ok(nack) = Nack::decode(bytes) else { return };
    assert!((1..=65).contains(&nack.wanted().count()));
    assert!(nack.wanted().is_sorted());
    let mut out = [0; 32];
    let length = nack.encode(&mut out);
    assert_eq!(Nack::decode(&out[..length]), Ok(nack));
}

/// [`KeyFrameRequest::decode`] is stable under encoding.
///
/// # Panics
/// If it is not.
pub fn key_frame_request(bytes: &[u8]) {
    let Ok(request) = KeyFrameRequest::decode(bytes) else { return };
    let mut out = [0; 32];
    let length = request.encode(&mut out);
    assert_eq!(KeyFrameRequest::decode(&out[..length]), Ok(request));
}

/// [`Control::decode`] is stable under encoding.
///
/// # Panics
/// If it is not.
pub fn control(bytes: &[u8]) {
    let Ok(control) = Control::decode(bytes) else { return };
    let mut out = [0; Control::MAX_LEN];
    let length = control.encode(&mut out);
    assert_eq!(Control::decode(&out[..length]), Ok(control));
    assert!(peek(bytes).is_ok(), "what decodes can be peeked at");
}

/// [`Segment::decode`] is stable under encoding, and writes only its header.
///
/// # Panics
/// If it is not.
pub fn segment(bytes: &[u8]) {
    let Ok(segment) = Segment::decode(bytes) else { return };
    let mut out = [0; Segment::LEN];
    assert_eq!(segment.encode(&mut out), Segment::LEN);
    assert_eq!(out, bytes[..Segment::LEN], "the header has one encoding");
}

/// [`SegmentAck::decode`] keeps its promises on order and range, and is stable under encoding.
///
/// # Panics
/// If it does not.
pub fn segment_ack(bytes: &[u8]) {
    let Ok(ack) = SegmentAck::decode(bytes) else { return };
    assert!(ack.arrivals().windows(2).all(|pair| pair[0].at <= pair[1].at), "arrivals come in order");
    assert!(ack.blocks().iter().all(|(from, to)| from < to));
    let mut out = [0; SegmentAck::MAX_LEN];
    let length = ack.encode(&mut out);
    assert_eq!(SegmentAck::decode(&out[..length]), Ok(ack));
}

/// [`TimingProbe::decode`] is stable under encoding.
///
/// # Panics
/// If it is not.
pub fn timing_probe(bytes: &[u8]) {
    let Ok(probe) = TimingProbe::decode(bytes) else { return };
    let mut out = [0; TimingProbe::MAX_LEN];
    let length = probe.encode(&mut out);
    assert_eq!(TimingProbe::decode(&out[..length]), Ok(probe));
}

/// [`TimingEcho::decode`] keeps its promise on numbers, and is stable under encoding.
///
/// # Panics
/// If it does not.
pub fn timing_echo(bytes: &[u8]) {
    let Ok(echo) = TimingEcho::decode(bytes) else { return };
    assert!(
        echo.arrivals().windows(2).all(|pair| pair[0].sequence > pair[1].sequence),
        "the newest comes first"
    );
    let mut out = [0; TimingEcho::MAX_LEN];
    let length = echo.encode(&mut out);
    assert_eq!(TimingEcho::decode(&out[..length]), Ok(echo));
}

/// [`Message::decode`] takes no more than it is given or a message may have, and is stable under encoding.
///
/// # Panics
/// If it is not.
pub fn message(bytes: &[u8]) {
    let Ok(Some((message, taken))) = Message::decode(bytes) else { return };
    assert!(taken <= bytes.len() && taken <= Message::MAX_LEN);
    let again = message.to_vec();
    assert!(again.len() <= taken, "fields of a later version may be missing, nothing else");
    assert_eq!(Message::decode(&again), Ok(Some((message, again.len()))));
}

/// [`Viewing::decode`] takes no more than it is given, and is stable under encoding.
///
/// # Panics
/// If it is not.
pub fn viewing(bytes: &[u8]) {
    let Ok(Some(viewing)) = Viewing::decode(bytes) else { return };
    // A count beyond what is ever written would not fit the control stream, which such a message can't have
    // come from.
    let mut again = vec![0; bytes.len().max(Viewing::MAX_LEN)];
    let length = viewing.encode(&mut again);
    assert!(length <= bytes.len(), "fields of a later version may be missing, nothing else");
    assert_eq!(Viewing::decode(&again[..length]), Ok(Some(viewing)));
}

/// [`Uploading::decode`] takes no more than it is given, and is stable under encoding.
///
/// # Panics
/// If it is not.
pub fn uploading(bytes: &[u8]) {
    let Ok(Some(uploading)) = Uploading::decode(bytes) else { return };
    let mut again = [0; Uploading::MAX_LEN];
    let length = uploading.encode(&mut again);
    assert!(length <= bytes.len(), "fields of a later version may be missing, nothing else");
    assert_eq!(Uploading::decode(&again[..length]), Ok(Some(uploading)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Announcement, Class, FrameId, Offer, Outgoing, Rated, Refusal, Role, SeenFrame, SegmentArrival,
        Status, TimedArrival, VERSION, Watchers, Wish,
    };
    use units::{Ecn, RemoteTime, Rng, Span};

    /// One valid packet of each kind, to be mutated.
    fn seeds() -> Vec<Vec<u8>> {
        let mut seeds = Vec::new();
        let mut add = |write: &dyn Fn(&mut [u8]) -> usize| {
            let mut out = vec![0; 1500];
            let length = write(&mut out);
            out.truncate(length);
            seeds.push(out);
        };
        let at = |ms| Time::from_millis(ms).on_wire();
        let arrival = |packet| Arrival { packet, at: at(900 + packet), ecn: Ecn::from_bits(packet as u8) };
        let arrivals: Vec<Arrival> = [3, 4, 5, 9, 10, 40, 41].map(arrival).to_vec();
        let ranges = [(40u64, 41u64), (9, 10), (1, 5)];
        add(&|out| example_media().encode(out));
        add(&|out| {
            FeedbackWriter::write(
                out,
                &Draft {
                    session: 7,
                    sequence: 1,
                    sent: Time::from_secs(1),
                    refused: 0,
                    blob: b"abc",
                    arrivals: &arrivals,
                },
                ranges.iter().copied(),
            )
            .0
        });
        add(&|out| Nack { session: 7, stream: 0, frame: 9, version: 1, first: 3, more: 0b1011 }.encode(out));
        add(&|out| KeyFrameRequest { session: 7, stream: 0, sequence: 2, after: 9 }.encode(out));
        let hello =
            Control::Hello { session: 7, width: 1280, height: 720, interval_us: 16_667, announcement: None };
        add(&|out| hello.encode(out));
        add(&|out| Control::Welcome { session: 7 }.encode(out));
        add(&|out| Control::Bye { session: 7 }.encode(out));
        add(&|out| Segment { session: 7, sequence: 2896, packet: 3, sent: at(40), last: true }.encode(out));
        let arrivals = [3, 4, 9].map(|packet| SegmentArrival { packet, at: at(900 + packet) });
        let blocks = [(5000, 6000), (1000, 2000), (8000, 9000)];
        add(&|out| SegmentAck::new(7, 4344, true, &arrivals, &blocks).encode(out));
        add(&|out| TimingProbe { session: 7, sequence: 300 }.encode(out));
        let timed = [300, 298, 20].map(|sequence| TimedArrival { sequence, at: at(900 - sequence) });
        add(&|out| TimingEcho::new(7, &timed).encode(out));
        seeds
    }

    fn messages() -> Vec<Vec<u8>> {
        let offer = Offer { codec: "avc1.42E01F", controller: "sqp:target=0.8" };
        let messages = [
            Message::open(Role::Publish, "secret", "camera", offer),
            Message::ready(offer),
            Message::Refused { why: Refusal::Token, text: "no" },
            Message::Bye { text: "done" },
            Message::Reload,
        ];
        messages.iter().map(Message::to_vec).collect()
    }

    fn viewings() -> Vec<Vec<u8>> {
        let frame = SeenFrame { frame: 9, picture: 9, shown: 1_700_000_000_000_000, delay_us: 48_000 };
        let status = Status {
            session: 7,
            controller: "sqp",
            trouble: "no such",
            mode: "recovery",
            mode_changes: 3,
            ..Status::default()
        };
        let wish = Wish { paused: true, max_bps: 8_000_000, controller: "copa" };
        let mut out = [0; Viewing::MAX_LEN];
        let length = Viewing::encode_seen(7, &[frame; 3], &mut out);
        let mut all = vec![out[..length].to_vec()];
        let plain = [
            Viewing::ClockAsk { asked: 5 },
            Viewing::ClockTell { asked: 5, heard: 6, told: 7 },
            Viewing::Wish(wish),
            Viewing::Status(status),
        ];
        all.extend(plain.iter().map(|viewing| {
            let length = viewing.encode(&mut out);
            out[..length].to_vec()
        }));
        all
    }

    fn uploadings() -> Vec<Vec<u8>> {
        let rated = |frame| Rated::new(1, frame, 0.97).expect("a number");
        let delays = [500, 30_000].map(|delay_ms| Watchers { delay_ms, viewers: 3 });
        vec![Uploading::quality(&[rated(8), rated(9)]), Uploading::watching(&delays)]
    }

    fn example_media() -> Media {
        Media {
            session: 7,
            packet: 1234,
            sent: RemoteTime::from_nanos(2_000_000_000),
            feedback_seen: 3,
            stream: 0,
            class: Class::Deadline,
            frame: 60,
            version: 0,
            index: 2,
            count: 11,
            part: 0,
            captured: RemoteTime::from_nanos(1_990_000_000),
            deadline: Span::from_millis(200),
            reference: Some(FrameId::first(59)),
            retransmission: false,
            alone: false,
        }
    }

    /// Flips, overwrites, cuts, doubles or appends.
    fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(5) {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << rng.below(8)),
            1 => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|b| *b = [0, 0x3f, 0x7f, 0xbf, 0xff][rng.below(5) as usize]),
            2 => bytes.truncate(at),
            3 => bytes.extend_from_within(at..),
            _ => bytes.extend((0..rng.below(20)).map(|_| rng.next_u64() as u8)),
        }
        bytes.truncate(2000);
    }

    /// A hello that says under which controller it sends. Its first fields alone are a hello too.
    fn announcing() -> Vec<u8> {
        let announcement =
            Announcement { controller: "sprout", initial_bps: 2_000_000, min_bps: 0, max_bps: u64::MAX };
        let announcement = Some(announcement);
        let hello = Control::Hello { session: 7, width: 0, height: 0, interval_us: 0, announcement };
        let mut out = vec![0; Control::MAX_LEN];
        let length = hello.encode(&mut out);
        out.truncate(length);
        out
    }

    fn random(rng: &mut Rng) -> Vec<u8> {
        let kind = rng.below(11) as u8;
        let mut bytes = vec![VERSION << 4 | kind, 0];
        bytes.extend((0..rng.below(200)).map(|_| rng.next_u64() as u8 >> rng.below(8)));
        bytes
    }

    /// Padding, a frame's packet and a report, as hosts of one process say them.
    fn plains() -> Vec<Vec<u8>> {
        let at = |ms| Time::from_millis(ms).on_wire();
        let arrival = |packet| Arrival { packet, at: at(900 + packet), ecn: Ecn::from_bits(packet as u8) };
        let arrivals: Vec<Arrival> = (3..9).map(arrival).collect();
        let sent = Time::from_secs(1);
        let draft = Draft { session: 7, sequence: 1, sent, refused: 0, blob: b"abc", arrivals: &arrivals };
        let write = |write: &dyn Fn(&mut [u8]) -> usize| {
            let mut out = vec![0; 1500];
            let length = write(&mut out);
            out.truncate(length);
            out
        };
        vec![
            write(&|out| Spoken::Plain.write(Outgoing::Media(&Media::padding(7, 3, at(40), 2)), out)),
            write(&|out| Spoken::Plain.write(Outgoing::Media(&example_media()), out)),
            write(&|out| Spoken::Plain.write_feedback(&draft, || [(3, 8), (0, 1)].into_iter(), out).head),
        ]
    }

    #[test]
    fn seeds_decode() {
        let decodes = |bytes: &[u8]| {
            [
                Media::decode(bytes).is_ok(),
                Feedback::decode(bytes).is_ok(),
                Nack::decode(bytes).is_ok(),
                KeyFrameRequest::decode(bytes).is_ok(),
                Control::decode(bytes).is_ok(),
                Segment::decode(bytes).is_ok(),
                SegmentAck::decode(bytes).is_ok(),
                TimingProbe::decode(bytes).is_ok(),
                TimingEcho::decode(bytes).is_ok(),
            ]
        };
        for seed in seeds() {
            assert_eq!(decodes(&seed).iter().filter(|ok| **ok).count(), 1, "{seed:02x?}");
        }
    }

    #[test]
    fn tens_of_thousands_of_random_and_mutated_inputs_break_nothing() {
        let mut rng = Rng::stream(1, "wire/oracle");
        let seeds = [seeds(), vec![announcing()], messages(), viewings(), uploadings(), plains()].concat();
        for _ in 0..30_000 {
            let mut bytes = if rng.chance(0.2) {
                random(&mut rng)
            } else {
                seeds[rng.below(seeds.len() as u64) as usize].clone()
            };
            (0..rng.below(4)).for_each(|_| mutate(&mut rng, &mut bytes));
            ALL.iter().for_each(|(_, oracle)| oracle(&bytes));
        }
    }

    #[test]
    fn every_truncation_is_refused() {
        for seed in seeds() {
            for length in 0..seed.len() {
                let bytes = &seed[..length];
                assert!(Media::decode(bytes).is_err() && Feedback::decode(bytes).is_err());
                assert!(Nack::decode(bytes).is_err() && KeyFrameRequest::decode(bytes).is_err());
                assert!(Segment::decode(bytes).is_err() && SegmentAck::decode(bytes).is_err());
                assert!(TimingProbe::decode(bytes).is_err() && TimingEcho::decode(bytes).is_err());
                assert!(Control::decode(bytes).is_err(), "{bytes:02x?}");
            }
        }
        let hello = announcing();
        let whole: Vec<usize> =
            (0..=hello.len()).filter(|&end| Control::decode(&hello[..end]).is_ok()).collect();
        assert_eq!(whole, [14, hello.len()]);
    }
}
