//! Limits on a server's connections, and what its admission control did.

use prometheus_client::registry::Unit;
use real::Ended;
use real::quic::{AdmissionWatch, Limits, Reason};
use units::{Bytes, Span};

use super::Exposition;
use crate::failure::Failure;

/// What a server does for its peers at most.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Limits on connections (docs/operations.md)")]
pub struct ConnectionLimits {
    /// Connections that have not shown the token yet, at a time, 32 if left out; half of them are for
    /// addresses that have been checked
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub max_opening: Option<u16>,
    /// Connections of one address (of one /64 with IPv6), with or without token; as many as are let in, and 8
    /// at least, if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub max_per_address: Option<u16>,
    /// Handshakes a second, and as many at once after a pause, 20 if left out; each costs a signature and a
    /// key exchange
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_handshakes: Option<u32>,
    /// Handshakes a second of one address, 5 if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_handshakes_per_address: Option<u32>,
    /// Memory that connections may take, 128 MB if left out, each up to 1.4 MB and 0.33 MB before it has
    /// shown the token; who would exceed it is refused
    #[arg(long, value_name = "SIZE")]
    pub max_memory: Option<Bytes>,
    /// A peer that is silent for this long is gone, from 1s to 10min, 10s if left out
    #[arg(long, value_name = "TIME")]
    pub idle: Option<Span>,
}

/// The shortest and longest silence: three signs of life must fit in, and a peer that is gone for longer than
/// any NAT remembers is not coming back.
const IDLE: [Span; 2] = [Span::from_secs(1), Span::from_secs(600)];

impl ConnectionLimits {
    /// Each flag, and whether it was given.
    pub fn given(&self) -> [(&'static str, bool); 6] {
        [
            ("--max-opening", self.max_opening.is_some()),
            ("--max-per-address", self.max_per_address.is_some()),
            ("--max-handshakes", self.max_handshakes.is_some()),
            ("--max-handshakes-per-address", self.max_handshakes_per_address.is_some()),
            ("--max-memory", self.max_memory.is_some()),
            ("--idle", self.idle.is_some()),
        ]
    }

    /// These, for a server that lets in `guests`.
    pub fn limits(&self, guests: usize) -> Result<Limits, Failure> {
        let usual = Limits::default();
        let idle = self.idle.unwrap_or(usual.idle);
        if !(IDLE[0]..=IDLE[1]).contains(&idle) {
            return Err(Failure::Input(format!("--idle {idle}: from 1s to 10min")));
        }
        let most = |memory: Bytes| usize::try_from(memory.get()).unwrap_or(usize::MAX);
        let memory = self.max_memory.map_or(usual.memory, most);
        if memory < Limits::MEMORY {
            let [given, least] = [memory, Limits::MEMORY].map(|bytes| bytes as f64 / 1e6);
            let text = format!(
                "--max-memory {given:.1}MB: one connection may take {least:.2} MB; give that at least"
            );
            return Err(Failure::Input(text));
        }
        Ok(Limits {
            guests,
            strangers: self.max_opening.map_or(usual.strangers, usize::from),
            per_address: self.max_per_address.map_or(guests.max(usual.per_address), usize::from),
            memory,
            handshakes: self.max_handshakes.unwrap_or(usual.handshakes),
            handshakes_per_address: self.max_handshakes_per_address.unwrap_or(usual.handshakes_per_address),
            idle,
            keep_alive: usual.keep_alive.min(idle / 3),
            ..usual
        })
    }
}

/// Shows what admission control did.
pub fn of_admission(watch: &AdmissionWatch, out: &mut Exposition<'_>) {
    let (counters, occupancy, limits) = (watch.counters(), watch.occupancy(), watch.limits());
    let state = |name: &str| vec![("state", name.to_owned())];
    let open = [(state("open"), occupancy.guests as f64), (state("opening"), occupancy.strangers as f64)];
    out.gauge("framewire_connections", "Connections, with the token and before it", None, open);
    let most = [(state("open"), limits.guests as f64), (state("opening"), limits.strangers as f64)];
    out.gauge("framewire_connections_limit", "As many as there may be", None, most);
    let memory = [(vec![], occupancy.memory as f64)];
    let help = "What these connections may make the server hold at most";
    out.gauge("framewire_connections_memory", help, Some(Unit::Bytes), memory);
    let help = "What all connections together may make the server hold";
    out.gauge(
        "framewire_connections_memory_limit",
        help,
        Some(Unit::Bytes),
        [(vec![], limits.memory as f64)],
    );
    out.counter("framewire_handshakes", "Handshakes begun", None, [(vec![], counters.handshakes)]);
    let help = "Attempts asked to show first that they receive what is sent to their address";
    out.counter("framewire_handshakes_retried", help, None, [(vec![], counters.retried)]);
    out.counter("framewire_connections_accepted", "Connections let in", None, [(vec![], counters.admitted)]);
    let refused =
        Reason::ALL.map(|reason| (vec![("reason", reason.label().to_owned())], counters.refused(reason)));
    let help =
        "Attempts and connections that were not let in; reasons that name a limit are the limit being hit";
    out.counter("framewire_connections_refused", help, None, refused);
    let ended = Ended::KINDS.iter().zip(counters.ended);
    let ended = ended.map(|(kind, count)| (vec![("how", (*kind).to_owned())], count));
    let help = "Connections that were let in and have ended; silent is the idle timeout";
    out.counter("framewire_connections_ended", help, None, ended);
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        limits: ConnectionLimits,
    }

    fn limits(line: &str, guests: usize) -> Result<Limits, Failure> {
        Line::try_parse_from(line.split(' ')).unwrap().limits.limits(guests)
    }

    #[test]
    fn defaults_are_the_librarys() {
        let usual = Limits::default();
        assert_eq!(limits("x", 8).unwrap(), usual);
        let help = <Line as clap::CommandFactory>::command().render_long_help().to_string();
        let said = [
            format!("at a time, {} if left out", usual.strangers),
            format!("after a pause, {} if left out", usual.handshakes),
            format!("of one address, {} if left out", usual.handshakes_per_address),
            format!("may take, {} MB if left out", usual.memory / 1_000_000),
            format!("10min, {} if left out", usual.idle),
        ];
        said.iter().for_each(|said| assert!(help.contains(said.as_str()), "{said}: {help}"));
        assert_eq!(limits("x", 64).unwrap().per_address, 64);
        assert_eq!(limits("x --max-per-address 2", 64).unwrap().per_address, 2);
    }

    #[test]
    fn what_can_not_work_is_refused_with_what_can() {
        let text = |line| match limits(line, 1) {
            Err(Failure::Input(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(
            text("x --max-memory 1MB").contains("one connection may take 1."),
            "{}",
            text("x --max-memory 1MB")
        );
        assert!(text("x --idle 1ms").contains("from 1s to 10min"));
        let quick = limits("x --idle 1500ms", 1).unwrap();
        assert!(quick.keep_alive * 3 <= quick.idle);
    }
}
