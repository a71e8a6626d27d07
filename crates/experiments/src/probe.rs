//! What formulas can ask of a run. Times in seconds of virtual time, rates in Mbit/s on the wire, delays in
//! ms, flows counted from 1.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use netsim::IP_UDP_OVERHEAD;
use units::{Span, Time};

use crate::pictures::Shown;
use prism::survey::Surveyed;

use lab::collect::{Decided, Departure, FlowRecord, FlowRows, FrameRow, PacketRow, Rows};
use lab::metrics::{
    SimulatedFrame, Spread, coefficient_of_variation, jain, jain_windows, nearest_place, nearest_rank,
    simulate, slots, spike_duration,
};
use lab::run::Run;
use lab::summary::activities;

/// Windows of Jain's index (seed 000, section 6.9).
const JAIN_WINDOW: Span = Span::from_millis(500);
/// Frames of equation 10: 60 a second, as in seed 000.
const FRAME: Span = Span::from_nanos(16_666_667);

/// A finished run, asked about. It remembers which rows it was asked for.
pub(crate) struct Probe {
    run: Run,
    asked: RefCell<Rows>,
    /// Wire bytes as they arrived, of each flow that was asked about.
    deliveries: Vec<OnceCell<Deliveries>>,
    /// Those of them that carried frames for the first time.
    video: Vec<OnceCell<Deliveries>>,
    /// Equation 10's frames as they were last asked for: several formulas ask for the same ones.
    simulated: RefCell<Option<(Slots, Rc<[SimulatedFrame]>)>>,
    /// Lists that were asked for: formulas want to know several things of each.
    lists: RefCell<BTreeMap<Listed, Vec<f64>>>,
}

/// Which quantity, of which flow, and bits of from when to when.
type Listed = (usize, usize, u64, u64);

/// Flow, slots that are smoothed over, and from when to when.
type Slots = (usize, usize, f64, f64);

type Deliveries = Vec<(Time, u32)>;

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds.max(0.0))
}

fn mbps(bytes: u64, from: f64, to: f64) -> f64 {
    if to > from { bytes as f64 * 8.0 / (to - from) / 1e6 } else { f64::NAN }
}

/// Wire bits a second of what arrived.
fn rate_of(all: &[(Time, u32)], from: f64, to: f64) -> f64 {
    let place = |seconds: f64| all.partition_point(|delivery| delivery.0 < at(seconds));
    let inside = &all[place(from)..place(to).max(place(from))];
    mbps(inside.iter().map(|delivery| u64::from(delivery.1)).sum(), from, to)
}

fn rise_of(all: &[(Time, u32)], from: f64, to: f64, least: f64, window: f64) -> f64 {
    let step = window / 10.0;
    let ends = (0..).map(|k| from + window + step * f64::from(k)).take_while(|&end| end <= to);
    let mut reached = ends.filter(|&end| rate_of(all, end - window, end) >= least);
    reached.next().map_or(f64::INFINITY, |end| end - from)
}

/// By nearest rank; of nothing it is no number.
fn percentile(mut values: Vec<f64>, p: f64) -> f64 {
    let Some(place) = nearest_place(values.len(), p) else { return f64::NAN };
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

impl Probe {
    pub fn new(run: Run) -> Probe {
        let flows = run.record.flows.len();
        let cells = || (0..flows).map(|_| OnceCell::new()).collect();
        Probe {
            run,
            asked: RefCell::new(Rows::none(flows)),
            deliveries: cells(),
            video: cells(),
            simulated: RefCell::default(),
            lists: RefCell::default(),
        }
    }

    pub fn flows(&self) -> usize {
        self.deliveries.len()
    }

    /// The rows that it was asked for: without them, what it said means nothing.
    pub fn asked(&self) -> Rows {
        self.asked.borrow().clone()
    }

    fn rows(&self, number: usize, ask: fn(&mut FlowRows)) -> &FlowRecord {
        ask(&mut self.asked.borrow_mut().flows[number - 1]);
        &self.run.record.flows[number - 1]
    }

    /// A flow's packets and frames.
    fn flow(&self, number: usize) -> &FlowRecord {
        self.rows(number, |rows| rows.packets = true)
    }

    fn decisions(&self, number: usize) -> &[Decided] {
        &self.rows(number, |rows| rows.decisions = true).decisions
    }

    fn deliveries(&self, number: usize) -> &Deliveries {
        self.deliveries[number - 1].get_or_init(|| self.flow(number).deliveries())
    }

    fn video_deliveries(&self, number: usize) -> &Deliveries {
        self.video[number - 1].get_or_init(|| self.flow(number).frame_deliveries())
    }

    fn sent_rows(&self, number: usize, from: f64, to: f64) -> &[PacketRow] {
        let all = &self.flow(number).packets;
        let place = |seconds: f64| all.partition_point(|packet| packet.sent < at(seconds));
        &all[place(from)..place(to).max(place(from))]
    }

    /// Delivered wire bits a second.
    pub fn rate(&self, flow: usize, from: f64, to: f64) -> f64 {
        rate_of(self.deliveries(flow), from, to)
    }

    /// Those of frames, sent for the first time: what is left of it is padding and repeats.
    pub fn video(&self, flow: usize, from: f64, to: f64) -> f64 {
        rate_of(self.video_deliveries(flow), from, to)
    }

    /// Sent wire bits a second.
    pub fn sent(&self, flow: usize, from: f64, to: f64) -> f64 {
        let bytes = |p: &PacketRow| u64::from(p.size + IP_UDP_OVERHEAD);
        mbps(self.sent_rows(flow, from, to).iter().map(bytes).sum(), from, to)
    }

    /// Every flow's rate.
    pub fn rates(&self, from: f64, to: f64) -> Vec<f64> {
        (1..=self.flows()).map(|flow| self.rate(flow, from, to)).collect()
    }

    /// Bits that left the bottleneck over bits it could have sent.
    pub fn utilization(&self, from: f64, to: f64) -> f64 {
        let capacity =
            self.run.rates[0].capacity(at(from), at(to)).map_or(f64::NAN, |bytes| bytes.get() as f64);
        self.departures(from, to).map(|d| f64::from(d.size)).sum::<f64>() / capacity
    }

    fn all_departures(&self) -> &[Departure] {
        self.asked.borrow_mut().links.departures = true;
        &self.run.record.link.departures
    }

    fn departures(&self, from: f64, to: f64) -> impl Iterator<Item = &Departure> {
        let all = self.all_departures();
        let place = |seconds: f64| all.partition_point(|d| d.at < at(seconds));
        all[place(from)..place(to).max(place(from))].iter()
    }

    /// Time in the bottleneck, waiting and being sent, of what left it.
    pub fn queue(&self, from: f64, to: f64) -> Vec<f64> {
        self.departures(from, to).map(|d| d.sojourn.as_millis_f64()).collect()
    }

    /// What a packet would wait in a first-in-first-out bottleneck that came at each millisecond: until what
    /// came before it has left.
    pub fn waiting(&self, from: f64, to: f64) -> Vec<f64> {
        let mut packets = self.all_departures().iter().map(|d| (d.at - d.sojourn, d.at)).peekable();
        let mut clear_at = Time::ZERO;
        let instants = (0..).map(|n| at(from) + Span::from_millis(n)).take_while(|instant| *instant < at(to));
        let wait = |instant: Time| {
            while let Some((_, left)) = packets.next_if(|packet| packet.0 <= instant) {
                clear_at = left;
            }
            (clear_at - instant).as_millis_f64().max(0.0)
        };
        instants.map(wait).collect()
    }

    /// One-way delays of what was sent.
    pub fn delays(&self, flow: usize, from: f64, to: f64) -> Vec<f64> {
        let rows = self.sent_rows(flow, from, to).iter();
        rows.filter_map(|p| Some((p.arrived? - p.sent).as_millis_f64())).collect()
    }

    /// The sender's round-trip samples.
    pub fn rtts(&self, flow: usize, from: f64, to: f64) -> Vec<f64> {
        let samples =
            self.rows(flow, |rows| rows.rtt = true).rtt.iter().filter(|s| s.at >= at(from) && s.at < at(to));
        samples.map(|s| s.latest.as_millis_f64()).collect()
    }

    /// Of the bytes sent, those that never arrived.
    pub fn loss(&self, flow: usize, from: f64, to: f64) -> f64 {
        let (mut sent, mut lost) = (0u64, 0u64);
        for packet in self.sent_rows(flow, from, to) {
            sent += u64::from(packet.size);
            lost += if packet.arrived.is_none() { u64::from(packet.size) } else { 0 };
        }
        lost as f64 / sent.max(1) as f64
    }

    /// Jain's index in each window in which two flows were on.
    pub fn jain_windows(&self, from: f64, to: f64) -> Vec<f64> {
        (1..=self.flows()).for_each(|flow| _ = self.flow(flow));
        let flows = activities(&self.run.record, &self.run.scenario);
        jain_windows(&flows, at(from), at(to), JAIN_WINDOW).into_iter().map(|(_, index)| index).collect()
    }

    /// Jain's index of the flows' mean rates.
    pub fn jain(&self, from: f64, to: f64) -> f64 {
        jain(&self.rates(from, to)).unwrap_or(f64::NAN)
    }

    /// Seconds from `from` until the rate over the last `window` seconds first reaches `least`; infinite if
    /// it does not by `to`.
    pub fn rise(&self, flow: usize, from: f64, to: f64, least: f64, window: f64) -> f64 {
        rise_of(self.deliveries(flow), from, to, least, window)
    }

    /// The same of the rate of frames.
    pub fn video_rise(&self, flow: usize, from: f64, to: f64, least: f64, window: f64) -> f64 {
        rise_of(self.video_deliveries(flow), from, to, least, window)
    }

    /// Seconds from `change` for which delays stay above twice the mean of the steady time from `from` to
    /// `to`.
    pub fn spike(&self, flow: usize, change: f64, from: f64, to: f64) -> f64 {
        let rows = self.sent_rows(flow, change, to).iter();
        let delays: Vec<(Time, f64)> =
            rows.filter_map(|p| Some((p.sent, (p.arrived? - p.sent).as_millis_f64()))).collect();
        spike_duration(&delays, at(change), mean(&self.delays(flow, from, to))).as_secs_f64()
    }

    /// The list of this name, which is made when it is asked for first.
    pub fn list(&self, name: Listed, made: impl FnOnce() -> Vec<f64>) -> Vec<f64> {
        if let Some(known) = self.lists.borrow().get(&name) {
            return known.clone();
        }
        let list = made();
        self.lists.borrow_mut().insert(name, list.clone());
        list
    }

    fn simulated(&self, slots: Slots) -> Rc<[SimulatedFrame]> {
        let (flow, n, from, to) = slots;
        let flow = self.flow(flow);
        let mut last = self.simulated.borrow_mut();
        if let Some((known, frames)) = &*last
            && *known == slots
        {
            return frames.clone();
        }
        let frames: Rc<[_]> = simulate(&flow.path_packets(), at(from), at(to), FRAME, n).into();
        *last = Some((slots, frames.clone()));
        frames
    }

    /// Bitrates of equation 10's frames, smoothed over `n`.
    pub fn simulated_rates(&self, flow: usize, n: usize, from: f64, to: f64) -> Vec<f64> {
        self.simulated((flow, n, from, to)).iter().map(|f| f.bitrate / 1e6).collect()
    }

    /// Delays of equation 10's frames, smoothed over `n`.
    pub fn simulated_delays(&self, flow: usize, n: usize, from: f64, to: f64) -> Vec<f64> {
        self.simulated((flow, n, from, to)).iter().map(|f| f.delay.as_millis_f64()).collect()
    }

    /// What the controller advised the encoder, every 20 ms.
    pub fn media(&self, flow: usize, from: f64, to: f64) -> Vec<f64> {
        const EVERY: f64 = 0.02;
        let decisions = self.decisions(flow);
        let times = (0..).map(|k| from + EVERY * f64::from(k)).take_while(|&time| time < to);
        times
            .filter_map(|time| {
                let after = decisions.partition_point(|decided| decided.at <= at(time));
                Some(decisions.get(after.checked_sub(1)?)?.media.as_bps() as f64 / 1e6)
            })
            .collect()
    }

    /// An inner quantity of the controller.
    pub fn observed(&self, flow: usize, name: &str, from: f64, to: f64) -> Vec<f64> {
        let of = self.rows(flow, |rows| rows.observed = true).observed.get(name);
        let inside = of.into_iter().flatten().filter(|(t, _)| *t >= at(from) && *t < at(to));
        inside.map(|(_, value)| *value).collect()
    }

    /// An inner quantity over time.
    pub fn observed_curve(&self, flow: usize, name: &str) -> Vec<(f64, f64)> {
        let seconds = |at: Time| (at - Time::ZERO).as_secs_f64();
        let of = self.rows(flow, |rows| rows.observed = true).observed.get(name);
        of.into_iter().flatten().map(|&(time, value)| (seconds(time), value)).collect()
    }

    /// Size of each coded frame over what was asked for, by when it was captured.
    pub fn frame_curve(&self, flow: usize, from: f64, to: f64) -> Vec<(f64, f64)> {
        let seconds = |at: Time| (at - Time::ZERO).as_secs_f64();
        let captured = self.flow(flow).captured().filter(|(t, _)| *t >= at(from) && *t < at(to));
        let coded = captured.filter(|(_, frame)| frame.encoded.is_some());
        let interval = self.run.intervals[flow - 1];
        let budget = |frame: &FrameRow| frame.target.bytes_in(interval).get().max(1) as f64;
        coded.map(|(captured, frame)| (seconds(captured), f64::from(frame.size) / budget(frame))).collect()
    }

    /// Rows of the pictures, every `step` seconds: of the frame that was coded last; 0 before the first, or
    /// where they are not known.
    pub fn heights(&self, flow: usize, from: f64, to: f64, step: f64) -> Vec<f64> {
        let coded = self.flow(flow).captured().filter_map(|(_, frame)| Some((frame.encoded?, frame.height)));
        let coded: Vec<(Time, u16)> = coded.collect();
        let last = |time: f64| coded[..coded.partition_point(|&(when, _)| when <= at(time))].last();
        let times = (0..).map(|k| from + step * f64::from(k)).take_while(|&time| time < to);
        times.map(|time| last(time).map_or(0.0, |&(_, height)| f64::from(height))).collect()
    }

    /// Variation of the wire bytes sent in slots of `width` seconds: standard deviation over mean.
    pub fn send_variation(&self, flow: usize, width: f64, from: f64, to: f64) -> f64 {
        let sent = self.sent_rows(flow, from, to).iter().map(|p| (p.sent, p.size + IP_UDP_OVERHEAD));
        let sent = slots(sent, at(from), at(to), Span::from_secs_f64(width));
        coefficient_of_variation(&sent).unwrap_or(f64::NAN)
    }

    /// Variation of the wire bytes sent per frame: standard deviation over mean.
    pub fn frame_variation(&self, flow: usize, from: f64, to: f64) -> f64 {
        let (all, later) =
            (self.flow(flow).bytes_per_frame(at(from)), self.flow(flow).bytes_per_frame(at(to)));
        coefficient_of_variation(&all[..all.len() - later.len()]).unwrap_or(f64::NAN)
    }

    /// Packets in the queue, that in service included, at each arrival.
    pub fn backlog(&self, from: f64, to: f64) -> Vec<f64> {
        self.asked.borrow_mut().links.arrivals = true;
        let arrivals = self.run.record.link.arrivals.iter();
        let inside = arrivals.filter(|a| a.at >= at(from) && a.at < at(to));
        inside.map(|a| f64::from(a.packets)).collect()
    }

    /// Places of lost packets within their frames, as the share of the frame's packets sent before.
    pub fn lost_places(&self, flow: usize, from: f64, to: f64) -> Vec<f64> {
        let frames = self.flow(flow).frames();
        let lost = self.sent_rows(flow, from, to).iter().filter(|p| p.arrived.is_none() && !p.retransmission);
        lost.filter_map(|p| {
            let packets = frames.get(p.frame as usize)?.packets;
            (packets > 0).then(|| f64::from(p.index) / f64::from(packets))
        })
        .collect()
    }

    /// Frame delays: capture to display, a frame that is not shown until the next that is
    /// ([`latencies`](lab::metrics::latencies)).
    pub fn frame_delays(&self, flow: usize, from: f64, to: f64) -> Vec<f64> {
        let captured = self.flow(flow).captured().filter(|(t, _)| *t >= at(from) && *t < at(to));
        let times: Vec<_> = captured.map(|(captured, frame)| (captured, frame.displayed)).collect();
        lab::metrics::latencies(&times, at(to)).of_frames.iter().map(|span| span.as_millis_f64()).collect()
    }

    /// Frames shown a second.
    pub fn frame_rate(&self, flow: usize, from: f64, to: f64) -> f64 {
        let shown = self.flow(flow).displays();
        let place = |seconds: f64| shown.partition_point(|time| *time < at(seconds));
        (place(to).max(place(from)) - place(from)) as f64 / (to - from)
    }

    /// Time between one shown frame and the next.
    pub fn spacings(&self, flow: usize, from: f64, to: f64) -> Vec<f64> {
        let shown = self.flow(flow).displays();
        let place = |seconds: f64| shown.partition_point(|time| *time < at(seconds));
        let inside = &shown[place(from)..place(to).max(place(from))];
        inside.windows(2).map(|pair| (pair[1] - pair[0]).as_millis_f64()).collect()
    }

    /// Of the frames captured and coded, those that were ever shown.
    pub fn shown(&self, flow: usize, from: f64, to: f64) -> f64 {
        let captured = self.flow(flow).captured().filter(|(t, _)| *t >= at(from) && *t < at(to));
        let coded: Vec<_> = captured.filter(|(_, frame)| frame.encoded.is_some()).collect();
        let shown = coded.iter().filter(|(_, frame)| frame.displayed.is_some()).count();
        shown as f64 / coded.len() as f64
    }

    /// The pictures that were shown, with quality by their measure or the encoder's word.
    pub fn pictures(&self, flow: usize, from: f64, to: f64) -> Shown<'_> {
        self.flow(flow);
        Shown::of(&self.run, flow, at(from), at(to))
    }

    /// The same with quality by Prism's black-box model of a clip.
    pub fn modelled(&self, flow: usize, seen: &Surveyed, from: f64, to: f64) -> Shown<'_> {
        self.flow(flow);
        Shown::modelled(&self.run, flow, at(from), at(to), seen)
    }

    /// Of the wire bytes sent, those of tracks beside the first, those sent again and those of parity, as a
    /// share.
    pub fn recovery_bytes(&self, flow: usize, from: f64, to: f64) -> f64 {
        let (mut all, mut extra) = (0u64, 0u64);
        for packet in self.sent_rows(flow, from, to) {
            all += u64::from(packet.size);
            let beside = packet.retransmission || packet.coding.stream >> 4 > 0;
            let is_extra = beside || self.flow(flow).is_parity(packet);
            extra += if is_extra { u64::from(packet.size) } else { 0 };
        }
        extra as f64 / all.max(1) as f64
    }

    /// Luma PSNR of shown frames.
    pub fn psnrs(&self, flow: usize, from: f64, to: f64) -> Vec<f64> {
        let captured = self.flow(flow).captured().filter(|(t, _)| *t >= at(from) && *t < at(to));
        captured.filter_map(|(_, frame)| frame.psnr()).collect()
    }

    /// SSIM of the frames captured in a time that were shown.
    pub fn ssims(&self, flow: usize, from: f64, to: f64) -> Vec<f64> {
        let captured = self.flow(flow).captured().filter(|(t, _)| *t >= at(from) && *t < at(to));
        captured.filter_map(|(_, frame)| frame.ssim()).collect()
    }

    /// Stretches in which the controller's window was at most `bytes`: when each began, and how long it was.
    pub fn narrow(&self, flow: usize, from: f64, to: f64, bytes: f64) -> Vec<(f64, f64)> {
        let seconds = |at: Time| (at - Time::ZERO).as_secs_f64();
        let decisions = self.decisions(flow).iter().filter(|d| d.at >= at(from) && d.at < at(to));
        let mut found = Vec::new();
        let mut begun = None;
        for decided in decisions {
            match (decided.window as f64 <= bytes, begun) {
                (true, None) => begun = Some(decided.at),
                (false, Some(start)) => {
                    found.push((seconds(start), seconds(decided.at) - seconds(start)));
                    begun = None;
                }
                _ => {}
            }
        }
        found
    }

    /// The bins of a curve: where each begins.
    fn bins(&self, width: f64) -> impl Iterator<Item = f64> + use<> {
        let end = self.end();
        (0..).map(move |k| width * f64::from(k)).take_while(move |t| t + width <= end + 1e-9)
    }

    /// Delivered rate over time.
    pub fn rate_curve(&self, flow: usize, width: f64) -> Vec<(f64, f64)> {
        self.bins(width).map(|t| (t + width / 2.0, self.rate(flow, t, t + width))).collect()
    }

    /// Delivered rate of frames over time.
    pub fn video_curve(&self, flow: usize, width: f64) -> Vec<(f64, f64)> {
        self.bins(width).map(|t| (t + width / 2.0, self.video(flow, t, t + width))).collect()
    }

    /// Mean one-way delay over time, by when packets were sent.
    pub fn delay_curve(&self, flow: usize, width: f64) -> Vec<(f64, f64)> {
        let points = self.bins(width).map(|t| (t + width / 2.0, mean(&self.delays(flow, t, t + width))));
        points.filter(|(_, delay)| delay.is_finite()).collect()
    }

    /// The distribution of values: their hundredths.
    pub fn distribution(mut values: Vec<f64>) -> Vec<(f64, f64)> {
        values.sort_unstable_by(f64::total_cmp);
        let shares = (1..=100).map(f64::from);
        shares.filter_map(|share| Some((nearest_rank(&values, share)?, share / 100.0))).collect()
    }

    /// The virtual length of the run in seconds.
    pub fn end(&self) -> f64 {
        self.run.scenario.duration.as_secs_f64()
    }

    pub fn mean_of(values: Vec<f64>) -> f64 {
        mean(&values)
    }

    pub fn deviation_of(values: Vec<f64>) -> f64 {
        deviation(&values)
    }

    pub fn percentile_of(values: Vec<f64>, p: f64) -> f64 {
        percentile(values, p)
    }

    pub fn least_of(values: Vec<f64>) -> f64 {
        Spread::of(values.iter().map(|v| -v)).map_or(f64::NAN, |spread| -spread.max)
    }

    pub fn most_of(values: Vec<f64>) -> f64 {
        Spread::of(values).map_or(f64::NAN, |spread| spread.max)
    }
}
