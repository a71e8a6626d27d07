//! Packets between hosts of one process, put down as plain numbers instead of being encoded and decoded:
//! what a simulated network carries.
//!
//! ```text
//! byte  0               8        16           24                      32      36         40
//! media |mark, flags, stream, version, session|packet|sent|feedback_seen, frame|age|reference|index, count, ...
//!                                                                     ^ padding ends here
//! report|mark, bytes of blob, arrivals, session|sequence, refused|sent, ranges|first number|the lists
//! ```
//!
//! Numbers are in this machine's order of bytes. Whoever reads gets what [`Native`] would have given, to the
//! same resolution, and whoever writes is told the length of `Native`'s packet: a link can't tell the two
//! apart. Debug builds write and read each packet both ways and compare. What is seldom sent, and reports
//! with gaps among their arrivals, with many ranges, which take fewer bytes there, or with numbers of more
//! than 32 bits are `Native`'s bytes; the first byte tells which.

use units::{RemoteTime, Span, likely, unlikely};

use crate::codec::{Kind, MASK_48, WireError, micros, truncated, varint_length, zigzag};
use crate::dialect::{Context, Dialect, Draft, Native, Written};
use crate::feedback::{Feedback, FeedbackWriter, ITEM_MAX, Plain, PlainArrivals, RANGES_RESERVE};
use crate::media::{Class, FrameId, KEY, Media};

/// In the high four bits of the first byte, where the wire format's packets have their version: one that
/// there never is.
const MARK: u8 = 0xf0;
const MEDIA: u8 = MARK | Kind::Media as u8;
const REPORT: u8 = MARK | Kind::Feedback as u8;

/// Bytes of padding.
const PADDING: usize = 32;
/// Bytes of a frame's packet.
const FRAME: usize = 48;
/// Bytes of a report before its lists: arrivals, ranges, blob.
const FIXED: usize = 32;
/// Bytes of an arrival and of a range there.
pub(crate) const ARRIVAL: usize = 4;
pub(crate) const RANGE: usize = 8;
/// Ranges at most: with what else a report of a backlog has, they fit into the simulator's shorter buffers.
const MOST_RANGES: u64 = 26;

/// Writes a word of eight bytes. Written for constants: it becomes one store.
#[inline(always)]
fn put(out: &mut [u8], at: usize, word: u64) {
    out[at..at + 8].copy_from_slice(&word.to_ne_bytes());
}

/// The word of eight bytes at `at`.
#[inline(always)]
fn get(head: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&head[at..at + 8]);
    u64::from_ne_bytes(word)
}

/// Four small numbers and a session's in one word, from the lowest bits up.
#[inline(always)]
fn opening(first: u8, second: u8, third: u16, session: u32) -> u64 {
    u64::from(first) | u64::from(second) << 8 | u64::from(third) << 16 | u64::from(session) << 32
}

/// A packet's kind and session.
///
/// # Errors
/// [`WireError`] if it is none, as from all that read one.
#[inline(always)]
pub(crate) fn peek(datagram: &[u8]) -> Result<(Kind, u32), WireError> {
    let Some(head) = datagram.first_chunk::<8>() else { return Native.peek(datagram) };
    let kind = match head[0] {
        MEDIA => Kind::Media,
        REPORT => Kind::Feedback,
        _ => return Native.peek(datagram),
    };
    Ok((kind, (get(head, 0) >> 32) as u32))
}

/// Reads a media packet's header into a blank one, and returns its length.
#[inline(always)]
pub(crate) fn media(datagram: &[u8], context: &Context, media: &mut Media) -> Result<usize, WireError> {
    match datagram.first_chunk() {
        Some(head) if likely(head[0] == MEDIA) => read_media(head, datagram, media),
        _ => Native.media(datagram, context, media),
    }
}

/// A packet of padding that was put down here, if it is one.
#[inline(always)]
pub(crate) fn padding(datagram: &[u8]) -> Option<Media> {
    let head = datagram.first_chunk::<PADDING>()?;
    if unlikely([head[0], head[1]] != [MEDIA, Class::Padding as u8]) {
        return None;
    }
    let (session, sent) = ((get(head, 0) >> 32) as u32, RemoteTime::from_nanos(get(head, 16) as i64));
    Some(Media::padding(session, get(head, 8), sent, get(head, 24) as u32))
}

/// The header of a frame's packet that was put down here, if it is one, and its length.
#[inline(always)]
pub(crate) fn frame(datagram: &[u8]) -> Option<(Media, usize)> {
    let head = datagram.first_chunk::<FRAME>()?;
    if unlikely(head[0] != MEDIA) {
        return None;
    }
    let mut media = Media::blank();
    read_opening(head, &mut media);
    read_frame(head, &mut media);
    Some((media, FRAME))
}

/// A report that was put down here, if it is one, and its arrivals.
#[inline(always)]
pub(crate) fn report(datagram: &[u8]) -> Option<(Feedback<'_>, PlainArrivals<'_>)> {
    let (head, lists) = datagram.split_first_chunk()?;
    if unlikely(head[0] != REPORT) {
        return None;
    }
    let plain = read_report(head, lists).ok()?;
    Some((Feedback::plain(&plain), plain.arrivals()))
}

/// Reads a report, whoever wrote it.
pub(crate) fn feedback(datagram: &[u8]) -> Result<Feedback<'_>, WireError> {
    match datagram.split_first_chunk() {
        Some((head, lists)) if head[0] == REPORT => Ok(Feedback::plain(&read_report(head, lists)?)),
        _ => Native.feedback(datagram),
    }
}

/// Writes a media packet's header to the front of `out`, and returns how many bytes it takes there.
///
/// # Panics
/// If `out` is shorter than that.
#[inline(always)]
pub(crate) fn write_media(media: &Media, out: &mut [u8]) -> usize {
    let us = micros(media.sent.as_nanos());
    let sent = (us as u64 & MASK_48) * 1_000;
    let versions = u16::from_le_bytes([media.stream, media.version]);
    let head = out.first_chunk_mut::<PADDING>().expect("room for a header");
    put(head, 0, opening(MEDIA, media.flags(), versions, media.session));
    put(head, 8, media.packet);
    put(head, 16, sent);
    put(head, 24, u64::from(media.feedback_seen) | u64::from(media.frame) << 32);
    let length = if media.class == Class::Padding { PADDING } else { write_frame(media, us, out) };
    #[cfg(debug_assertions)]
    checks::media(media, &out[..length]);
    length
}

/// Writes what is a frame's.
#[inline(always)]
fn write_frame(media: &Media, sent_us: i64, out: &mut [u8]) -> usize {
    let head = out.first_chunk_mut::<FRAME>().expect("room for a media header");
    let reference = media.reference.unwrap_or_default();
    put(head, 32, u64::from(media.age(sent_us)) | u64::from(reference.frame) << 32);
    let (index, count) = (u64::from(media.index), u64::from(media.count));
    let deadline = u64::from(media.deadline_ms());
    let rest = u64::from(media.part) << 48 | u64::from(reference.version) << 56;
    put(head, 40, index | count << 16 | deadline << 32 | rest);
    FRAME
}

#[inline(always)]
fn read_media(head: &[u8; PADDING], datagram: &[u8], media: &mut Media) -> Result<usize, WireError> {
    read_opening(head, media);
    media.captured = media.sent;
    if media.class == Class::Padding {
        return Ok(PADDING);
    }
    read_frame(datagram.first_chunk().ok_or_else(truncated)?, media);
    Ok(FRAME)
}

/// Reads what every transmission has.
#[inline(always)]
fn read_opening(head: &[u8], media: &mut Media) {
    media.session = (get(head, 0) >> 32) as u32;
    media.packet = get(head, 8);
    media.sent = RemoteTime::from_nanos(get(head, 16) as i64);
    media.feedback_seen = get(head, 24) as u32;
    media.set_flags(head[1]);
}

/// Reads what is a frame's.
#[inline(always)]
fn read_frame(head: &[u8; FRAME], media: &mut Media) {
    let [_, flags, stream, version, ..] = *head;
    (media.stream, media.version) = (stream, version);
    media.frame = (get(head, 24) >> 32) as u32;
    let (aged, rest) = (get(head, 32), get(head, 40));
    media.captured = media.sent + Span::from_micros(-i64::from(aged as u32));
    (media.index, media.count) = (rest as u16, (rest >> 16) as u16);
    media.deadline = Span::from_millis(i64::from((rest >> 32) as u16));
    media.part = (rest >> 48) as u8;
    let reference = FrameId { frame: (aged >> 32) as u32, version: (rest >> 56) as u8 };
    media.reference = (flags & KEY == 0).then_some(reference);
}

/// Writes a report to the front of `out`, if all of it is plain and [`Native`] would find room for all of it.
#[inline(always)]
pub(crate) fn write_report(
    draft: &Draft<'_>,
    ranges: impl Iterator<Item = (u64, u64)> + Clone,
    out: &mut [u8],
) -> Option<Written> {
    let written = try_report(draft, ranges.clone(), out)?;
    #[cfg(debug_assertions)]
    checks::report(draft, ranges, out, &written);
    Some(written)
}

#[inline(always)]
fn try_report(
    draft: &Draft<'_>,
    mut ranges: impl Iterator<Item = (u64, u64)>,
    out: &mut [u8],
) -> Option<Written> {
    let &Draft { session, sequence, sent, refused, blob, arrivals } = draft;
    let blob = &blob[..blob.len().min(Feedback::MAX_BLOB)];
    let sent_us = micros(sent.on_wire().as_nanos()) as u64 & MASK_48;
    let first = arrivals.first().map_or(0, |arrival| arrival.packet);
    let room = out.len();
    let (head, lists) = out.split_first_chunk_mut::<FIXED>()?;
    let (times, mut free) = lists.split_at_mut_checked(arrivals.len() * ARRIVAL)?;
    // What it takes on the wire: a count of two bytes is before each list.
    let mut length = FeedbackWriter::FIXED + blob.len() + 2 + varint_length(first);
    let (mut next, mut previous_us) = (first, sent_us as i64);
    for (slot, arrival) in times.as_chunks_mut().0.iter_mut().zip(arrivals) {
        let us = micros(arrival.at.as_nanos()) & MASK_48 as i64;
        let word = zigzag(us - previous_us) << 3 | arrival.ecn as u64;
        if unlikely((arrival.packet ^ next) | word >> 32 != 0) {
            return None;
        }
        *slot = (word as u32).to_ne_bytes();
        length += varint_length(word);
        (next, previous_us) = (next + 1, us);
    }
    if unlikely(room < length + ITEM_MAX + RANGES_RESERVE || arrivals.len() > Feedback::MAX_ITEMS) {
        return None;
    }
    length += 2;
    let mut count = 0;
    if let Some((low, high)) = ranges.next() {
        // Its end is counted from the first arrival here, and from nothing on the wire.
        let (down, long) = (high.wrapping_sub(first), high - low);
        let (slot, rest) = free.split_first_chunk_mut()?;
        *slot = range(down, long)?;
        length += varint_length(high) + varint_length(long);
        (free, count) = (rest, 1);
        // Of what comes in order there is one.
        if let Some(second) = ranges.next() {
            (free, length, count) = further(second, ranges, low, free, length)?;
        }
    } else {
        // Without any, the largest is zero.
        length += 1;
    }
    if unlikely(room < length + ITEM_MAX + 8) {
        return None;
    }
    if unlikely(!blob.is_empty()) {
        free = copied(free, blob)?;
    }
    let left = free.len();
    put(head, 0, opening(REPORT, blob.len() as u8, arrivals.len() as u16, session));
    put(head, 8, u64::from(sequence) | u64::from(refused) << 32);
    put(head, 16, sent_us | count << 48);
    put(head, 24, first);
    Some(Written { head: room - left, length, arrivals: arrivals.len() })
}

/// A range that ends so far below what is before it, and is so long, if both are small enough.
#[inline(always)]
fn range(down: u64, long: u64) -> Option<[u8; RANGE]> {
    likely((down | long) >> 32 == 0).then(|| (down | long << 32).to_ne_bytes())
}

/// Writes all ranges but the first, which begins `above` the `second`. Returns what is free behind them, how
/// long the report is on the wire and how many ranges there are.
// Apart, so that all else stays in registers.
#[inline(never)]
fn further(
    second: (u64, u64),
    others: impl Iterator<Item = (u64, u64)>,
    mut above: u64,
    mut free: &mut [u8],
    mut length: usize,
) -> Option<(&mut [u8], usize, u64)> {
    let mut count = 1;
    for (low, high) in std::iter::once(second).chain(others) {
        if count == MOST_RANGES {
            return None;
        }
        let (down, long) = (above - high - 2, high - low);
        let (slot, rest) = free.split_first_chunk_mut()?;
        *slot = range(down, long)?;
        length += varint_length(down) + varint_length(long);
        (free, above, count) = (rest, low, count + 1);
    }
    Some((free, length, count))
}

/// Copies a blob to the front, and returns what is free behind it.
#[cold]
fn copied<'a>(free: &'a mut [u8], blob: &[u8]) -> Option<&'a mut [u8]> {
    let (front, free) = free.split_at_mut_checked(blob.len())?;
    front.copy_from_slice(blob);
    Some(free)
}

#[inline(always)]
fn read_report<'a>(head: &[u8; FIXED], lists: &'a [u8]) -> Result<Plain<'a>, WireError> {
    let (opening, dated, first) = (get(head, 0), get(head, 16), get(head, 24));
    let (count, ranges) = (usize::from((opening >> 16) as u16), usize::from((dated >> 48) as u16));
    let (arrivals, lists) = lists.split_at_checked(count * ARRIVAL).ok_or_else(truncated)?;
    let (ranges, blob) = lists.split_at_checked(ranges * RANGE).ok_or_else(truncated)?;
    let blob = blob.get(..usize::from(head[1])).ok_or_else(truncated)?;
    Ok(Plain {
        session: (opening >> 32) as u32,
        sequence: get(head, 8) as u32,
        refused: (get(head, 8) >> 32) as u32,
        sent_us: (dated & MASK_48) as i64,
        first,
        blob,
        arrivals: arrivals.as_chunks().0,
        ranges: ranges.as_chunks().0,
    })
}

/// That a packet is what [`Native`] would have made of it.
#[cfg(any(debug_assertions, test))]
mod checks {
    use super::*;
    use crate::MAX_DATAGRAM;

    pub fn media(said: &Media, plain: &[u8]) {
        let (mut bytes, mut read) = ([0; Media::LEN], Media::blank());
        let length = said.encode(&mut bytes);
        let native = Media::decode(&bytes[..length]).expect("what is encoded can be decoded");
        let head = super::media(plain, &Context::default(), &mut read).expect("what is put down can be read");
        // Native's numbers are the bits of them that travel.
        let travels =
            Media { packet: read.packet & PACKET, feedback_seen: read.feedback_seen & SEEN, ..read };
        assert_eq!((travels, read.header(), head), (native, length, plain.len()));
        assert_eq!((read.packet, read.feedback_seen), (said.packet, said.feedback_seen));
    }

    const PACKET: u64 = (1 << 40) - 1;
    const SEEN: u32 = (1 << 24) - 1;

    pub fn report(
        draft: &Draft<'_>,
        ranges: impl Iterator<Item = (u64, u64)>,
        out: &[u8],
        written: &Written,
    ) {
        let &Written { head, length, arrivals } = written;
        let mut bytes = [0; MAX_DATAGRAM];
        let Some(bytes) = bytes.get_mut(..out.len()) else { return };
        assert_eq!(FeedbackWriter::write(bytes, draft, ranges), (length, arrivals));
        let native = Feedback::decode(&bytes[..length]).expect("what is encoded can be decoded");
        let read = feedback(&out[..head]).expect("what is put down can be read");
        let fixed = |report: &Feedback<'_>| (report.session, report.sequence, report.sent, report.refused);
        assert_eq!((fixed(&read), read.blob), (fixed(&native), native.blob));
        assert_eq!(read.newest(), native.newest());
        assert!(read.arrivals().eq(native.arrivals()) && read.ranges().eq(native.ranges()), "{draft:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feedback::tests::{arrivals, ranges};
    use crate::media::tests::media;
    use crate::{Arrival, MAX_DATAGRAM, Spoken};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use units::{Ecn, Time};

    proptest! {
        #[test]
        fn media_is_what_native_would_have_made_of_it(media in media()) {
            let mut out = [0xaa; 80];
            let length = write_media(&media, &mut out);
            checks::media(&media, &out[..length]);
            prop_assert_eq!(peek(&out[..length]), Ok((Kind::Media, media.session)));
            let mut read = Media::blank();
            super::media(&out[..length], &Context::default(), &mut read).unwrap();
            prop_assert_eq!(padding(&out[..length]), (media.class == Class::Padding).then_some(read));
            let glanced = frame(&out[..length]);
            let expected = (media.class != Class::Padding).then_some((read, length));
            prop_assert_eq!(glanced, expected);
            prop_assert!(Media::decode(&out[..length]).is_err(), "nothing but a host of this process reads it");
            for cut in 0..length {
                prop_assert!(super::media(&out[..cut], &Context::default(), &mut Media::blank()).is_err());
            }
        }

        /// Gaps, large numbers, long lists and little room included: written plainly or not, what is read is
        /// what was said.
        #[test]
        fn a_report_is_what_native_would_have_made_of_it(
            session: u32, sequence: u32, sent_us in 1_u64 << 20..=MASK_48, refused: u32,
            blob in prop_oneof![4 => Just(vec![]), 1 => vec(any::<u8>(), 0..300)],
            (first, together, timed) in (0_u64..1 << 46, any::<bool>(), arrivals()),
            (untimed, near) in (ranges(), any::<bool>()),
            room in FeedbackWriter::MIN_ROOM..MAX_DATAGRAM,
        ) {
            let sent = Time::from_nanos(sent_us * 1_000 + 999);
            let numbered = |(at, arrival): (u64, Arrival)| match together {
                true => Arrival { packet: first + at, at: sent.on_wire() + Span::from_micros(-37 * at as i64), ..arrival },
                false => arrival,
            };
            let timed: Vec<Arrival> = (0..).zip(timed).map(numbered).collect();
            let largest = timed.last().map_or(7, |last| last.packet + 7);
            let untimed = if near { vec![(largest.saturating_sub(900), largest)] } else { untimed };
            let draft = Draft { session, sequence, sent, refused, blob: &blob, arrivals: &timed };
            let (mut out, mut bytes) = (vec![0xaa; room], vec![0xbb; room]);
            let written = Spoken::Plain.write_feedback(&draft, || untimed.iter().copied(), &mut out);
            let native = Spoken::Native.write_feedback(&draft, || untimed.iter().copied(), &mut bytes);
            prop_assert_eq!((written.length, written.arrivals), (native.length, native.arrivals));
            let (plain, native) = (&out[..written.head], Feedback::decode(&bytes[..native.length]).unwrap());
            prop_assert_eq!(peek(plain), Ok((Kind::Feedback, session)));
            let read = feedback(plain).unwrap();
            prop_assert!(read.arrivals().eq(native.arrivals()) && read.ranges().eq(native.ranges()));
            prop_assert!(report(plain).is_none_or(|(_, arrivals)| arrivals.eq(native.arrivals())));
            prop_assert_eq!((read.newest(), read.sent, read.blob), (native.newest(), native.sent, native.blob));
            prop_assert_eq!((read.sequence, read.refused), (sequence, refused));
            for cut in 0..written.head {
                prop_assert!(feedback(&out[..cut]).is_err() && report(&out[..cut]).is_none());
            }
        }
    }

    #[test]
    fn what_a_backlog_reports_fits_into_a_slot_of_the_simulator() {
        let at = |ms| Time::from_millis(ms).on_wire();
        let arrivals = [1000, 1001].map(|packet| Arrival { packet, at: at(packet), ecn: Ecn::NotEct });
        let sent = Time::from_millis(1001);
        let draft = Draft { session: 1, sequence: 500, sent, refused: 0, blob: &[], arrivals: &arrivals };
        let mut out = [0; MAX_DATAGRAM];
        let written = write_report(&draft, [(0, 1001)].into_iter(), &mut out).unwrap();
        assert_eq!(written, Written { head: 48, length: 35, arrivals: 2 });
    }

    #[test]
    fn what_is_seldom_sent_is_natives() {
        let request = crate::KeyFrameRequest { session: 7, stream: 0, sequence: 1, after: 3 };
        let mut out = [0; 100];
        let length = Spoken::Plain.write(crate::Outgoing::KeyFrameRequest(&request), &mut out);
        assert_eq!(crate::KeyFrameRequest::decode(&out[..length]), Ok(request));
        assert_eq!(peek(&out[..length]), Ok((Kind::KeyFrameRequest, 7)));
    }
}
