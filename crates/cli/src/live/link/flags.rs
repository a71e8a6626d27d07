//! What `framewire link` takes.

use std::ffi::OsString;
use std::path::PathBuf;

use netsim::{Loss, QueueSpec};
use units::{Rate, Span};

/// `framewire link`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire link --rate 12mbit --delay 20ms --queue droptail:100p -- sh -c 'iperf3 -c $FRAMEWIRE_OUTSIDE'
  framewire link --rate 12mbit --delay 20ms --queue codel:ecn -- bash
  framewire link --down-trace lte.trace --up-rate 5mbit --delay 25ms --loss ge:loss=1%,burst=4 -- firefox
  framewire link --delay 40ms -- framewire link --rate 5mbit --queue fq_codel -- ./client
  framewire link --rate 12mbit --log packets.parquet --mahimahi-log link -- ./client

The command runs in a network namespace of its own. It reaches servers of this machine under $FRAMEWIRE_OUTSIDE
(100.64.0.1 for the first link; $MAHIMAHI_BASE holds it too), and they reach it under $FRAMEWIRE_INSIDE.
`up` is from the command outwards, `down` is towards it. Without --rate or --trace a direction has no limit.
The command's exit code is passed on; figures go to standard error. Needs root, or `unshare --user --map-root-user --net`.")]
pub struct Link {
    /// Constant rate, both ways
    #[arg(long, conflicts_with = "trace")]
    pub rate: Option<Rate>,
    /// Capacity, both ways: a Mahimahi trace, plain or gzipped
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// One-way propagation delay, each way
    #[arg(long, default_value = "0ms")]
    pub delay: Span,
    /// Standard deviation of the delay's jitter, each way; packets keep their order
    #[arg(long, default_value = "0ms")]
    pub jitter: Span,
    /// Queue discipline and its limit, both ways; `framewire queues` lists them
    #[arg(long, default_value = "droptail:120ms")]
    pub queue: QueueSpec,
    /// Random loss, both ways: bernoulli:1%, ge:p=0.01,r=0.25 or ge:loss=3%,burst=4
    #[arg(long, default_value = "none")]
    pub loss: Loss,
    /// Stop after one pass of a trace instead of repeating it
    #[arg(long)]
    pub once: bool,
    /// Largest IP packet in bytes, from 1280 to 65535
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=65_535))]
    pub mtu: u32,
    /// Seed of the links' random streams
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=crate::args::MOST_SEED))]
    pub seed: u64,
    /// Give the command a way to the internet, by address translation (nft or iptables)
    #[arg(long)]
    pub nat: bool,
    /// Write every packet's way to this Parquet file; docs/link.md lists its columns
    #[arg(long, value_name = "FILE.parquet")]
    pub log: Option<PathBuf>,
    /// Write Mahimahi's logs to FILE.up and FILE.down
    #[arg(long, value_name = "FILE")]
    pub mahimahi_log: Option<PathBuf>,
    /// Print no figures at the end
    #[arg(long, short, conflicts_with = "json")]
    pub quiet: bool,
    /// One JSON object on standard error instead of a table there, for programs
    #[arg(long)]
    pub json: bool,
    /// What to run inside, after `--`; a shell if left out
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub up: Up,
    #[command(flatten)]
    pub down: Down,
    #[command(flatten)]
    pub metrics: crate::operations::Metrics,
}

/// What differs from inside to outside.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Only from inside to outside")]
pub struct Up {
    /// Constant rate
    #[arg(long, conflicts_with = "up_trace")]
    pub up_rate: Option<Rate>,
    /// Capacity: a Mahimahi trace
    #[arg(long, value_name = "FILE")]
    pub up_trace: Option<PathBuf>,
    /// Propagation delay
    #[arg(long)]
    pub up_delay: Option<Span>,
    /// Jitter
    #[arg(long)]
    pub up_jitter: Option<Span>,
    /// Queue discipline
    #[arg(long)]
    pub up_queue: Option<QueueSpec>,
    /// Random loss
    #[arg(long)]
    pub up_loss: Option<Loss>,
}

/// What differs from outside to inside.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Only from outside to inside")]
pub struct Down {
    /// Constant rate
    #[arg(long, conflicts_with = "down_trace")]
    pub down_rate: Option<Rate>,
    /// Capacity: a Mahimahi trace
    #[arg(long, value_name = "FILE")]
    pub down_trace: Option<PathBuf>,
    /// Propagation delay
    #[arg(long)]
    pub down_delay: Option<Span>,
    /// Jitter
    #[arg(long)]
    pub down_jitter: Option<Span>,
    /// Queue discipline
    #[arg(long)]
    pub down_queue: Option<QueueSpec>,
    /// Random loss
    #[arg(long)]
    pub down_loss: Option<Loss>,
}

/// One direction, with what is common to both filled in.
pub struct Direction<'a> {
    /// `up` or `down`.
    pub name: &'static str,
    pub rate: Option<Rate>,
    pub trace: Option<&'a PathBuf>,
    pub delay: Span,
    pub jitter: Span,
    pub queue: &'a QueueSpec,
    pub loss: Loss,
}

impl Link {
    /// From inside to outside.
    pub fn up(&self) -> Direction<'_> {
        let Up { up_rate, up_trace, up_delay, up_jitter, up_queue, up_loss } = &self.up;
        self.direction("up", (*up_rate, up_trace), *up_delay, *up_jitter, up_queue, *up_loss)
    }

    /// From outside to inside.
    pub fn down(&self) -> Direction<'_> {
        let Down { down_rate, down_trace, down_delay, down_jitter, down_queue, down_loss } = &self.down;
        self.direction("down", (*down_rate, down_trace), *down_delay, *down_jitter, down_queue, *down_loss)
    }

    fn direction<'a>(
        &'a self,
        name: &'static str,
        capacity: (Option<Rate>, &'a Option<PathBuf>),
        delay: Option<Span>,
        jitter: Option<Span>,
        queue: &'a Option<QueueSpec>,
        loss: Option<Loss>,
    ) -> Direction<'a> {
        let own = capacity.0.is_some() || capacity.1.is_some();
        let (rate, trace) = if own { capacity } else { (self.rate, &self.trace) };
        Direction {
            name,
            rate,
            trace: trace.as_ref(),
            delay: delay.unwrap_or(self.delay),
            jitter: jitter.unwrap_or(self.jitter),
            queue: queue.as_ref().unwrap_or(&self.queue),
            loss: loss.unwrap_or(self.loss),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    #[test]
    fn a_direction_takes_its_own_and_else_what_is_common() {
        let line = "framewire link --rate 12mbit --delay 20ms --up-trace x.trace --down-queue codel --down-loss bernoulli:1% -- true";
        let Command::Link(link) = Args::try_parse_from(line.split(' ')).unwrap().command else {
            unreachable!()
        };
        let (up, down) = (link.up(), link.down());
        assert_eq!((up.rate, up.trace), (None, Some(&PathBuf::from("x.trace"))));
        assert_eq!((down.rate, down.trace), (Some(Rate::from_mbps(12)), None));
        assert_eq!((up.delay, down.delay), (Span::from_millis(20), Span::from_millis(20)));
        assert_eq!((up.queue.to_string(), down.queue.to_string()), ("droptail:120ms".into(), "codel".into()));
        assert_eq!((up.loss, down.loss), (Loss::None, Loss::Bernoulli(0.01)));
    }
}
