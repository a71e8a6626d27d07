//! A sender whose camera is off for a while: it captures nothing, and what was captured before still leaves.

use std::collections::VecDeque;

use session::Sender;
use units::{Span, Time};
use wire::{Endpoint, RxMeta, TxMeta};

/// A sender with its pauses to come.
pub(super) struct Pausing {
    sender: Sender,
    /// When it pauses (`true`) and goes on, in order.
    turns: VecDeque<(Time, bool)>,
}

impl Pausing {
    /// `sender` without the spans `pauses`, which are in order and don't overlap.
    pub fn new(sender: Sender, pauses: &[(Span, Span)]) -> Pausing {
        let turns = pauses.iter().flat_map(|(from, to)| [(*from, true), (*to, false)]);
        Pausing { sender, turns: turns.map(|(at, paused)| (Time::ZERO + at, paused)).collect() }
    }

    fn turn(&mut self, now: Time) {
        while let Some(&(at, paused)) = self.turns.front().filter(|(at, _)| *at <= now) {
            self.turns.pop_front();
            self.sender.set_paused(at, paused);
        }
    }
}

impl Endpoint for Pausing {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        self.turn(now);
        self.sender.receive(now, datagram, meta);
    }

    fn wake(&mut self, now: Time) {
        self.turn(now);
        self.sender.wake(now);
    }

    fn next_wake(&self) -> Option<Time> {
        let turn = self.turns.front().map(|(at, _)| *at);
        self.sender.next_wake().into_iter().chain(turn).min()
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        self.turn(now);
        self.sender.transmit(now, out)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::run::{RunOptions, run};
    use crate::scenario::Scenario;
    use crate::summary::FlowSummary;

    fn flow(cc: &str, duration: &str, pause: &str) -> FlowSummary {
        let text = format!(
            "duration = \"{duration}\"\n[link]\nrate = \"5mbit\"\ndelay = \"20ms\"\n\
             [[flow]]\ncc = \"{cc}\"\npause = {pause}\n[flow.encoder]\nfps = 30.0\n"
        );
        let scenario =
            Scenario::parse(&text, Path::new("pause.toml")).unwrap_or_else(|error| panic!("{error}"));
        run(&scenario, &RunOptions::default()).unwrap().summary.flows.remove(0)
    }

    #[test]
    fn nothing_is_sent_in_a_pause() {
        for cc in ["sqp", "gcc", "copa", "bbr", "scream", "cubic"] {
            let before = flow(cc, "2s", "[]").packets.sent;
            let paused = flow(cc, "12s", "[[\"2s\", \"30s\"]]").packets.sent;
            // The last frame's packets, and a probe for what of it was not acknowledged.
            assert!(
                paused < before + before / 10 + 10,
                "{cc}: {before} packets in 2 s, then {paused} in all"
            );
        }
    }

    #[test]
    fn a_flow_goes_on_after_a_pause_as_if_nothing_had_been() {
        for cc in ["sqp", "gcc", "copa", "bbr", "scream", "nimbus"] {
            let flow = flow(cc, "12s", "[[\"3s\", \"9s\"]]");
            // 30 a second, in six of twelve seconds.
            assert!((178..=182).contains(&flow.frames.captured), "{cc}: {:?}", flow.frames);
            // BBR leaves some out while it probes, with and without a pause.
            assert!(10 * flow.frames.displayed >= 9 * flow.frames.captured, "{cc}: {:?}", flow.frames);
            // What nobody wanted to send is no stall.
            let stalls = flow.stalls.expect("it has video");
            assert!(stalls.longest_ms < 500.0, "{cc}: {stalls:?}");
        }
    }
}
