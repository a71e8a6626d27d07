//! `framewire relay`: the simulator's link between two sockets, in real time.

use std::sync::Arc;

use netsim::{Link, LinkConfig, MahimahiTrace, Opportunities, RateProcess, TUN_FRAMING};
use real::{Limits, Relay, RelaySettings};
use record::Tap;

use super::{catch_interrupts, go_on, refused, ticker};
use crate::args;
use crate::failure::Failure;
use crate::shipped;
use crate::table::Table;

/// Passes packets on until interrupted or the time is over.
pub fn relay(args: &args::Relay) -> Result<(), Failure> {
    let target = args.to.resolve().map_err(Failure::Input)?;
    let forward = LinkConfig::bottleneck(rate(args)?, args.queue.clone(), args.delay);
    let forward = Link::new(forward, args.seed, "link", Tap::default());
    let backward = Link::new(LinkConfig::delay(args.delay), args.seed, "feedback", Tap::default());
    let settings = RelaySettings::new(args.listen, target);
    let mut relay = Relay::open(&settings, forward, backward).map_err(refused)?;
    catch_interrupts();
    eprintln!("udp://{} -> link -> {}", relay.local(), args.to);
    let bar = ticker();
    let until = args.duration.map(|duration| relay.clock().now() + duration);
    let run = relay.run(&Limits { until, ..Limits::default() }, &mut |relay| {
        let (link, counters) = relay.forward();
        bar.set_message(format!(
            "{} in  {} out  {} waiting",
            counters.received,
            counters.sent,
            link.backlog().packets
        ));
        go_on()
    });
    bar.finish_and_clear();
    run.map_err(Failure::work)?;
    report(&relay);
    Ok(())
}

fn rate(args: &args::Relay) -> Result<RateProcess, Failure> {
    match (&args.trace, args.rate) {
        (Some(file), _) => {
            let trace = Arc::new(MahimahiTrace::open(&shipped::or_shipped(file)?).map_err(Failure::input)?);
            Ok(RateProcess::Trace(Opportunities { trace, once: false, framing: TUN_FRAMING }))
        }
        (None, Some(rate)) if rate.as_bps() > 0 => Ok(RateProcess::Constant(rate)),
        (None, _) => Err(Failure::input("--rate: a rate above zero, such as 5mbit, or a --trace")),
    }
}

fn report(relay: &Relay) {
    let mut table = Table::new(["direction", "in", "out", "dropped by the link", "not ours", "refused"]);
    for (name, (link, counters)) in [("there", relay.forward()), ("back", relay.backward())] {
        let dropped = link.stats().total().dropped.packets;
        let numbers =
            [counters.received, counters.sent, dropped, counters.foreign, counters.refused + counters.unsent];
        table.row(std::iter::once(name.to_owned()).chain(numbers.map(|number| number.to_string())));
    }
    print!("{table}");
}
