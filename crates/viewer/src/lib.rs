//! The receiver of a page: [`session::Receiver`] and [`wire`], compiled for the browser.
//!
//! ```text
//!   WebTransport datagrams --> datagram() --> Receiver --> coded() --> WebCodecs --> decoded() --> shown() --> canvas
//!                          <-- transmit() <--    |                                            `-> discarded()
//!   control stream <-------> stream(), event(), open(), wish(), ask_clock(), seen()
//! ```
//!
//! A capture may come in several tracks, each with a decoder of the browser's. The page knows a picture by
//! the id that its coded frame had; which of them are shown is the receiver's to say. Frames of ViXNN, of
//! which any part may be lost, are handed out as the packets that came, for the page's other module
//! (`framewire-viewer-vixnn`).
//!
//! The page's code (`web/src/viewer.ts`) knows nothing of the wire: it carries bytes in and out. Everything
//! crosses as numbers and through three blocks of memory, so that no tool has to generate a line of either
//! side: bytes for us are written at [`input`], bytes and texts for the page stand at [`output`], and a call
//! that answers with more than one number leaves them at [`numbers`] in the order its comment says. A module
//! is one viewer. Times are the page's milliseconds (`performance.now()`).

mod annexb;
mod clock;
mod exchange;
mod viewer;

use std::cell::RefCell;

use media::RawFrame;
use session::strategy::TRACKS;
use units::{RemoteTime, Span, Time};
use wire::{MAX_DATAGRAM, Message, Offer, Role, SeenFrame, Viewing, Wish};

use exchange::{Coded, Due, Pictures};
use viewer::{News, Told, Viewer};

/// Pixels of a barcode, as RGBA: the largest thing a page hands in.
const PICTURE: usize = media::barcode::BARCODE_SIZE.0 * media::barcode::BARCODE_SIZE.1 * 4;
const OUTPUT: usize = 2 * Message::MAX_LEN;
const NUMBERS: usize = 32;
const _: () = assert!(OUTPUT >= MAX_DATAGRAM && PICTURE >= OUTPUT && Viewing::MAX_LEN <= OUTPUT);
const _: () = assert!(FIGURES.len() <= NUMBERS && 3 * TRACKS <= NUMBERS);

/// Names of what [`figures`] leaves at [`numbers`], in its order.
const FIGURES: [&str; 19] = [
    "session",
    "packets",
    "bytes",
    "feedback",
    "nacks",
    "keyRequests",
    "assembled",
    "displayed",
    "late",
    "passedOver",
    "abandoned",
    "decodeErrors",
    "refused",
    "duplicates",
    "expected",
    "queueMs",
    "clockErrorMs",
    "intervalMs",
    "finished",
];

struct Page {
    viewer: Viewer,
    coded: Option<Coded>,
    input: Box<[u8; PICTURE]>,
    output: Box<[u8; OUTPUT]>,
    numbers: Box<[f64; NUMBERS]>,
}

thread_local! {
    static PAGE: RefCell<Page> = RefCell::new(Page {
        viewer: Viewer::default(),
        coded: None,
        input: Box::new([0; PICTURE]),
        output: Box::new([0; OUTPUT]),
        numbers: Box::new([0.0; NUMBERS]),
    });
}

fn page<T>(f: impl FnOnce(&mut Page) -> T) -> T {
    PAGE.with_borrow_mut(f)
}

/// The page's time as ours: an hour on, since what was captured before the page was opened has a time too.
fn time(ms: f64) -> Time {
    Time::from_nanos((ms * 1e6) as u64) + PAGE_OPENED
}

/// The page's zero on our clock.
const PAGE_OPENED: Span = Span::from_secs(3_600);

impl Page {
    fn answer<const N: usize>(&mut self, numbers: [f64; N]) {
        self.numbers[..N].copy_from_slice(&numbers);
    }

    /// Leaves a text at the output and says how long it is; what does not fit is cut off.
    fn say(&mut self, text: &str) -> usize {
        let length = text.len().min(OUTPUT);
        self.output[..length].copy_from_slice(&text.as_bytes()[..length]);
        length
    }

    /// What the page wrote, as text; what is no text says nothing.
    fn text(&self, length: usize) -> &str {
        let bytes = self.input.get(..length).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

/// Where the page writes bytes for a call that takes a length.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn input() -> *mut u8 {
    page(|page| page.input.as_mut_ptr())
}

/// How many bytes may be written there.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn input_length() -> usize {
    PICTURE
}

/// Where a call that returns a length has left as many bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn output() -> *const u8 {
    page(|page| page.output.as_ptr())
}

/// Where a call has left its numbers.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn numbers() -> *const f64 {
    page(|page| page.numbers.as_ptr())
}

/// A datagram of `length` bytes arrived.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn datagram(now: f64, length: usize) {
    page(|Page { viewer, input, .. }| {
        if let Some(datagram) = input.get(..length) {
            viewer.receive(time(now), datagram);
        }
    });
}

/// From the next session on, frames are shown when the policy says whose name, of `length` bytes, stands at
/// the input: 1, or 0 if there is no such policy.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn playout(length: usize) -> u32 {
    page(|page| {
        let name = page.text(length).to_owned();
        u32::from(page.viewer.set_playout(&name))
    })
}

/// Time has passed.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn wake(now: f64) {
    page(|page| page.viewer.wake(time(now)));
}

/// Milliseconds until [`wake`] is wanted; infinity if it is not.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn next_wake(now: f64) -> f64 {
    page(|page| page.viewer.next_wake().map_or(f64::INFINITY, |at| (at - time(now)).as_millis_f64().max(0.0)))
}

/// The next datagram to send: its length, or 0 if there is none.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn transmit(now: f64) -> usize {
    page(|Page { viewer, output, .. }| viewer.transmit(time(now), &mut output[..]).unwrap_or(0))
}

/// The next frame to decode: the length of its bytes, which stand at [`coded_at`] until the next call of
/// this, or 0 if there is none. Numbers: the id of its picture, its track (0 to 3), the frame's number, its
/// session, 1 if it is a key frame. Of a codec whose packets decode alone, as many as came, each behind its
/// length in two bytes, big endian.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn coded() -> usize {
    page(|page| {
        page.coded = page.viewer.exchange.take_coded();
        let &Some(Coded { id, track, frame, ref bytes, packets }) = &page.coded else { return 0 };
        let (length, key) = (bytes.len(), f64::from(u8::from(packets || annexb::is_key(bytes))));
        let session = page.viewer.session().map_or(0.0, f64::from);
        page.answer([f64::from(id), f64::from(track), f64::from(frame), session, key]);
        length
    })
}

/// Where the bytes of [`coded`] stand.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn coded_at() -> *const u8 {
    page(|page| page.coded.as_ref().map_or(std::ptr::null(), |coded| coded.bytes.as_ptr()))
}

/// The name of the codec of [`coded`]'s frame, as WebCodecs takes it, or `vixnn`: its length, or 0 if the
/// frame does not say.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn codec() -> usize {
    page(|page| {
        let name = page.coded.as_ref().and_then(|coded| match coded.packets {
            true => Some("vixnn".to_owned()),
            false => annexb::codec(&coded.bytes),
        });
        name.map_or(0, |name| page.say(&name))
    })
}

/// The browser has the picture `id`: 1, or 0 if nobody wants it and it can be freed.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn decoded(now: f64, id: u32) -> u32 {
    page(|page| {
        let wanted = page.viewer.exchange.decoded(id);
        page.viewer.wake(time(now));
        u32::from(wanted)
    })
}

/// The decoder of picture `id` made none of what it was given, and goes on with the next.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn undecodable(now: f64, id: u32) {
    page(|page| {
        page.viewer.exchange.undecodable(id);
        page.viewer.wake(time(now));
    });
}

/// The browser's decoder of a track failed, or can't be had: what it held is lost.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn decoder_failed(now: f64, track: u32) {
    page(|page| {
        page.viewer.exchange.decoder_failed(u8::try_from(track).unwrap_or(u8::MAX));
        page.viewer.wake(time(now));
    });
}

/// The next frame to show: 1, or 0 if there is none. Numbers: the id of its picture, its track, the frame's
/// number, when it was captured on the sender's clock in microseconds, 1 if it is past its deadline.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn shown() -> u32 {
    page(|page| {
        let Some(Due { id, track, frame, captured, late }) = page.viewer.exchange.take_due() else {
            return 0;
        };
        let captured = captured.as_nanos() as f64 / 1e3;
        let late = f64::from(u8::from(late));
        page.answer([f64::from(id), f64::from(track), f64::from(frame), captured, late]);
        1
    })
}

/// The next picture that will never be shown, and can be freed: 1, or 0 if there is none. Numbers: its id.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn discarded() -> u32 {
    page(|page| {
        let Some(id) = page.viewer.exchange.take_discarded() else { return 0 };
        page.answer([f64::from(id)]);
        1
    })
}

/// How many tracks a capture may have, and how far each of them has come. Numbers: for each track, frames
/// handed out to be decoded, pictures decoded, pictures shown.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn tracks() -> usize {
    page(|page| {
        for track in 0..TRACKS {
            let Pictures { coded, decoded, shown } = page.viewer.exchange.pictures(track);
            let counts = [coded, decoded, shown].map(|count| count as f64);
            page.numbers[track * counts.len()..][..counts.len()].copy_from_slice(&counts);
        }
        TRACKS
    })
}

/// Milliseconds since the sender captured what it captured at `captured_us`, by the clocks' estimate; NaN
/// before there is one.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn age(now: f64, captured_us: f64) -> f64 {
    let captured = RemoteTime::from_nanos((captured_us * 1e3) as i64);
    page(|page| page.viewer.age(captured, time(now)).map_or(f64::NAN, Span::as_millis_f64))
}

/// The number burnt into the picture whose top left corner (96 x 32 pixels, RGBA) stands at the input; -1 if
/// there is none.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn barcode() -> f64 {
    page(|page| {
        let (width, height) = media::barcode::BARCODE_SIZE;
        let mut picture = RawFrame::filled(width, height, 0, 128, 128);
        for (luma, pixel) in picture.y.iter_mut().zip(page.input.chunks_exact(4)) {
            // A barcode is grey: green alone is its luma, from full to broadcast range.
            *luma = (16 + u32::from(pixel[1]) * 219 / 255) as u8;
        }
        media::barcode::read(&picture).map_or(-1.0, f64::from)
    })
}

/// `length` bytes of the control stream arrived; [`event`] says what they mean.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn stream(length: usize) {
    page(|Page { viewer, input, .. }| viewer.take_stream(input.get(..length).unwrap_or_default()));
}

/// The next message of the control stream: 0 none, 1 ready, 2 refused (numbers: the length of its text, the
/// refusal's number), 3 bye (the length of its text), 4 reload, 5 the clock is known better, 6 the sender's
/// figures (length of its controller's name, length of its trouble, session, paused, cap in bit/s, estimate
/// in bit/s, round trip in ms, packets sent, lost, frames captured, skipped, length of its mode's name,
/// changes of the mode), 7 the stream makes no sense. Texts stand at the output, one after another.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn event(now: f64) -> u32 {
    page(|page| match page.viewer.news(time(now)) {
        Ok(None) => 0,
        Ok(Some(news)) => tell(page, &news),
        Err(_) => 7,
    })
}

fn tell(page: &mut Page, news: &News) -> u32 {
    match news {
        News::Ready => 1,
        News::Refused(why, text) => {
            let length = page.say(text) as f64;
            page.answer([length, f64::from(*why)]);
            2
        }
        News::Bye(text) => {
            let length = page.say(text) as f64;
            page.answer([length]);
            3
        }
        News::Reload => 4,
        News::Clock => 5,
        News::Status(told) => {
            let Told { figures: status, controller, trouble, mode } = &**told;
            page.say(&[controller.as_str(), trouble, mode].concat());
            page.answer([
                controller.len() as f64,
                trouble.len() as f64,
                f64::from(status.session),
                f64::from(u8::from(status.paused)),
                status.max_bps as f64,
                status.estimate_bps as f64,
                f64::from(status.srtt_us) / 1e3,
                status.packets as f64,
                status.lost as f64,
                status.captured as f64,
                status.skipped as f64,
                mode.len() as f64,
                f64::from(status.mode_changes),
            ]);
            6
        }
    }
}

/// Writes the first message of the control stream: who we are. The token's `length` bytes stand at the input.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn open(length: usize) -> usize {
    page(|page| {
        let token = page.text(length).to_owned();
        Message::open(Role::Watch, &token, "", Offer::default()).encode(&mut page.output[..])
    })
}

/// Writes a question for the sender's clock.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn ask_clock(now: f64) -> usize {
    page(|page| Viewing::ClockAsk { asked: time(now).as_micros() }.encode(&mut page.output[..]))
}

/// Writes what the person wants: pause, a cap of the bitrate in bit/s (0: none), a controller (`length` bytes
/// at the input; none: as it is).
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn wish(paused: u32, max_bps: f64, length: usize) -> usize {
    page(|page| {
        let controller = page.text(length).to_owned();
        let wish = Wish { paused: paused != 0, max_bps: max_bps as u64, controller: &controller };
        Viewing::Wish(wish).encode(&mut page.output[..])
    })
}

/// Notes a frame that was shown: the number burnt into it (-1: none), milliseconds since 1970, its delay in
/// milliseconds.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn saw(frame: u32, picture: f64, shown: f64, delay: f64) {
    let picture = if picture < 0.0 { u32::MAX } else { picture as u32 };
    let frame = SeenFrame { frame, picture, shown: (shown * 1e3) as u64, delay_us: (delay * 1e3) as i32 };
    page(|page| page.viewer.saw(frame));
}

/// Writes what was noted since the last time: the message's length, 0 if there was nothing.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn seen() -> usize {
    page(|Page { viewer, output, .. }| viewer.write_seen(&mut output[..]))
}

/// Leaves what was counted at the numbers; [`figure_names`] has their names. The mean queueing delay is that
/// since the last call, NaN if nothing came; the frame interval is NaN before the sender has said it.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn figures(now: f64) {
    page(|page| {
        let c = page.viewer.counters();
        let ms = |span: Option<Span>| span.map_or(f64::NAN, Span::as_millis_f64);
        let counts = [
            c.packets,
            c.bytes,
            c.feedback,
            c.nacks,
            c.key_requests,
            c.assembled,
            c.displayed,
            c.late,
            c.passed_over,
            page.viewer.exchange.abandoned(),
            c.decode_errors,
            u64::from(c.refused()),
            c.duplicates,
            page.viewer.exchange.expected(),
        ];
        let session = page.viewer.session().map_or(0.0, f64::from);
        let rest = [
            ms(page.viewer.exchange.take_queue()),
            ms(page.viewer.clock.error(time(now))),
            ms(page.viewer.interval()),
            f64::from(u8::from(page.viewer.is_finished())),
        ];
        let all = std::iter::once(session).chain(counts.map(|count| count as f64)).chain(rest);
        page.numbers.iter_mut().zip(all).for_each(|(number, figure)| *number = figure);
    });
}

/// The names of [`figures`], separated by commas: the text's length.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn figure_names() -> usize {
    page(|page| page.say(&FIGURES.join(",")))
}
