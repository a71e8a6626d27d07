//! What the streams of this process look like, five times a second.
//!
//! Each stream has a slot, a small number that is used again when the stream has ended: as many labels as
//! there are streams at a time, however many come and go. A counter that falls means a new stream in its
//! slot, which Prometheus' `rate` understands.

use std::sync::{Arc, Mutex, MutexGuard};

use prometheus_client::registry::Unit;
use real::{ChannelStats, Counters, InboxCounters};
use session::{ModeCount, ReceiverCounters, Sender, SenderCounters};
use units::{Rate, Span};

use super::Exposition;

/// One stream as it was when its driver last looked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// What its driver did.
    pub driver: Counters,
    /// What QUIC knows of the path.
    pub transport: Option<ChannelStats>,
    /// What waited for the driver, and was dropped because it waited too long.
    pub inbox: Option<InboxCounters>,
    /// What a sender shows of itself.
    pub sending: Option<Sending>,
    /// What a receiver shows of itself.
    pub receiving: Option<ReceiverCounters>,
    /// From capture to display of the newest frame, above the smallest seen.
    pub frame_delay: Option<Span>,
}

/// Modes of a strategy that are shown; none has more.
const MODES: usize = 4;

/// What a sender is up to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sending {
    counters: SenderCounters,
    modes: [Option<ModeCount>; MODES],
    /// Both once there is a sample.
    srtt: Option<Span>,
    queue_delay: Option<Span>,
    estimate: Option<Rate>,
    target: Option<Rate>,
}

impl Sending {
    /// At this moment.
    pub fn of(sender: &Sender) -> Sending {
        let mut modes = [None; MODES];
        modes.iter_mut().zip(sender.modes()).for_each(|(shown, count)| *shown = Some(*count));
        Sending {
            counters: sender.counters(),
            modes,
            srtt: sender.measured_srtt(),
            queue_delay: sender.measured_srtt().map(|_| sender.queue_delay()),
            estimate: sender.decision().media,
            target: sender.target(),
        }
    }
}

/// The streams there are.
#[derive(Debug, Default)]
pub struct Streams(Mutex<Vec<Option<Figures>>>);

/// A stream's place among them, free again when it is dropped.
#[derive(Debug)]
pub struct Slot {
    streams: Arc<Streams>,
    number: usize,
}

impl Streams {
    /// A place for one more.
    pub fn begin(self: &Arc<Streams>) -> Slot {
        let mut slots = self.slots();
        let number = slots.iter().position(Option::is_none).unwrap_or(slots.len());
        if number == slots.len() {
            slots.push(None);
        }
        slots[number] = Some(Figures::default());
        Slot { streams: self.clone(), number }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Option<Figures>>> {
        self.0.lock().expect("nothing panics while it holds this")
    }

    /// Shows them all.
    pub fn show(&self, out: &mut Exposition<'_>) {
        let slots: Vec<(usize, Figures)> = self
            .slots()
            .iter()
            .enumerate()
            .filter_map(|(number, figures)| Some((number, (*figures)?)))
            .collect();
        show_datagrams(&slots, out);
        show_paths(&slots, out);
        show_senders(&slots, out);
        show_receivers(&slots, out);
    }
}

impl Slot {
    /// What is shown of the stream from now on.
    pub fn post(&self, figures: Figures) {
        self.streams.slots()[self.number] = Some(figures);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.streams.slots()[self.number] = None;
    }
}

type Slots = [(usize, Figures)];

fn stream(number: usize) -> Vec<(&'static str, String)> {
    vec![("stream", number.to_string())]
}

/// Counts under several causes, of those that have them.
fn by<const N: usize>(
    slots: &Slots,
    label: &'static str,
    counts: impl Fn(&Figures) -> Option<[(&'static str, u64); N]>,
) -> Vec<(Vec<(&'static str, String)>, u64)> {
    let mut values = Vec::new();
    for (number, figures) in slots {
        for (name, count) in counts(figures).into_iter().flatten() {
            values.push((vec![("stream", number.to_string()), (label, name.to_owned())], count));
        }
    }
    values
}

/// One count of those that have it.
fn each<T>(slots: &Slots, value: impl Fn(&Figures) -> Option<T>) -> Vec<(Vec<(&'static str, String)>, T)> {
    slots.iter().filter_map(|(number, figures)| Some((stream(*number), value(figures)?))).collect()
}

fn bytes_per_second(rate: Rate) -> f64 {
    rate.as_f64() / 8.0
}

fn show_datagrams(slots: &Slots, out: &mut Exposition<'_>) {
    let ways = |f: &Figures| Some([("in", f.driver.received), ("out", f.driver.sent)]);
    out.counter("framewire_datagrams", "Datagrams of streams", None, by(slots, "direction", ways));
    let ways = |f: &Figures| Some([("in", f.driver.received_bytes), ("out", f.driver.sent_bytes)]);
    out.counter("framewire_datagrams", "Bytes in them", Some(Unit::Bytes), by(slots, "direction", ways));
    let dropped = |f: &Figures| {
        let (inbox, heard) = (f.inbox.unwrap_or_default(), f.receiving.unwrap_or_default());
        let said = f.sending.unwrap_or_default().counters;
        Some([
            ("inbox_full", inbox.overflowed),
            ("oversize", f.driver.oversize + inbox.unfit),
            ("unsent", f.driver.unsent),
            ("malformed", heard.malformed + said.malformed),
            ("foreign", f.driver.foreign + heard.foreign + said.foreign),
            ("implausible", said.implausible),
            ("duplicate", heard.duplicates),
            ("stale", heard.stale),
            ("far_future", heard.far_future),
            ("buffer_full", heard.buffer_full),
        ])
    };
    let help = "Datagrams dropped; inbox_full and buffer_full are bounds on memory";
    out.counter("framewire_datagrams_dropped", help, None, by(slots, "reason", dropped));
    let help = "Times the system or QUIC had no room for a datagram and the driver waited";
    out.counter("framewire_blocked", help, None, each(slots, |f| Some(f.driver.blocked)));
}

fn show_paths(slots: &Slots, out: &mut Exposition<'_>) {
    let seconds = Some(Unit::Seconds);
    // A sender's own estimate comes from the same packets that carry media; QUIC's from its acknowledgements.
    let rtt = |f: &Figures| {
        let quic = f.transport.map(|stats| stats.rtt);
        Some(f.sending.map_or(quic, |sending| sending.srtt)?.as_secs_f64())
    };
    out.gauge("framewire_round_trip", "Smoothed round trip", seconds, each(slots, rtt));
    let lost = |f: &Figures| Some(f.transport?.lost);
    out.counter("framewire_quic_packets_lost", "QUIC packets given up for lost", None, each(slots, lost));
    let mtu = |f: &Figures| Some(f64::from(f.transport?.mtu));
    out.gauge("framewire_quic_mtu", "UDP payload that the path carries", Some(Unit::Bytes), each(slots, mtu));
}

fn show_senders(slots: &Slots, out: &mut Exposition<'_>) {
    let per_second = || Some(Unit::Other("bytes_per_second".to_owned()));
    let estimate = |f: &Figures| f.sending?.estimate.map(bytes_per_second);
    out.gauge(
        "framewire_estimate",
        "What the congestion controller advises",
        per_second(),
        each(slots, estimate),
    );
    let target = |f: &Figures| f.sending?.target.map(bytes_per_second);
    out.gauge("framewire_encoder_target", "What the encoder is asked for", per_second(), each(slots, target));
    let queue = |f: &Figures| Some(f.sending?.queue_delay?.as_secs_f64());
    let help = "Smoothed round trip above the smallest of the session";
    out.gauge("framewire_queue_delay", help, Some(Unit::Seconds), each(slots, queue));
    let frames = |f: &Figures| {
        let counters = f.sending?.counters;
        Some([
            ("captured", counters.captured),
            ("encoded", counters.encoded),
            ("skipped", counters.skipped),
            ("shed", counters.shed),
            ("expired", counters.expired),
        ])
    };
    out.counter(
        "framewire_frames_sent",
        "Frames of senders, by what became of them",
        None,
        by(slots, "outcome", frames),
    );
    show_modes(slots, out);
    let packets = |f: &Figures| {
        let counters = f.sending?.counters;
        Some([
            ("sent", counters.packets),
            ("lost", counters.lost),
            ("spurious", counters.spurious),
            ("retransmitted", counters.retransmissions),
        ])
    };
    let help = "Media packets of senders; loss is lost less spurious, of sent";
    out.counter("framewire_packets", help, None, by(slots, "outcome", packets));
}

/// A strategy that has one mode has nothing to show.
fn show_modes(slots: &Slots, out: &mut Exposition<'_>) {
    let mut show = |name, help, value: fn(&ModeCount) -> u64| {
        let mut values = Vec::new();
        for (number, figures) in slots {
            let modes = figures.sending.map(|sending| sending.modes).unwrap_or_default();
            for count in modes.iter().flatten().filter(|_| modes[1].is_some()) {
                let labels = vec![("stream", number.to_string()), ("mode", count.mode.to_owned())];
                values.push((labels, value(count)));
            }
        }
        out.counter(name, help, None, values);
    };
    show("framewire_mode_frames", "Frames captured in each mode of the strategy", |count| count.frames);
    show("framewire_mode_entered", "Times that each mode of the strategy began", |count| count.entered);
}

fn show_receivers(slots: &Slots, out: &mut Exposition<'_>) {
    let frames = |f: &Figures| {
        let counters = f.receiving?;
        Some([
            ("shown", counters.displayed),
            ("late", counters.late),
            ("passed_over", counters.passed_over),
            ("abandoned", counters.abandoned),
            ("broken", counters.decode_errors),
        ])
    };
    let help = "Frames of receivers; late ones are among those shown";
    out.counter("framewire_frames_received", help, None, by(slots, "outcome", frames));
    let delay = |f: &Figures| Some(f.frame_delay?.as_secs_f64());
    let help = "From capture to display of the newest frame, above the smallest seen";
    out.gauge("framewire_frame_delay", help, Some(Unit::Seconds), each(slots, delay));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::Board;

    #[test]
    fn slots_are_used_again_and_show_what_is_posted() {
        let streams = Arc::new(Streams::default());
        let (first, second) = (streams.begin(), streams.begin());
        drop(first);
        let third = streams.begin();
        assert_eq!((third.number, second.number), (0, 1));
        let driver = Counters { received: 5, ..Counters::default() };
        let receiving = Some(ReceiverCounters { displayed: 4, late: 1, ..ReceiverCounters::default() });
        let mode = |mode, frames, entered| Some(ModeCount { mode, frames, entered });
        let modes = [mode("normal", 40, 2), mode("recovery", 3, 1), None, None];
        let sending = Some(Sending { modes, ..Sending::default() });
        third.post(Figures { driver, receiving, ..Figures::default() });
        let fourth = streams.begin();
        fourth.post(Figures { sending, ..Figures::default() });
        let fifth = streams.begin();
        let sending = Some(Sending { modes: [mode("live", 9, 1), None, None, None], ..Sending::default() });
        fifth.post(Figures { sending, ..Figures::default() });
        let board = Board::default();
        board.show(move |out| streams.show(out));
        let text = board.text();
        assert!(text.contains("framewire_datagrams_total{stream=\"0\",direction=\"in\"} 5\n"), "{text}");
        assert!(
            text.contains("framewire_frames_received_total{stream=\"0\",outcome=\"late\"} 1\n"),
            "{text}"
        );
        assert!(!text.contains("framewire_frames_sent_total{stream=\"0\""), "it does not send: {text}");
        let recovery = "framewire_mode_frames_total{stream=\"2\",mode=\"recovery\"} 3\n";
        assert!(text.contains(recovery) && !text.contains("mode=\"live\""), "{text}");
        drop((second, third, fourth, fifth));
        assert!(!board.text().contains("stream="));
    }
}
