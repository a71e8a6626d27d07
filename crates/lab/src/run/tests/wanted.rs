//! Runs of which only some rows are wanted.

use super::*;
use crate::collect::{FlowRows, LinkRecord, PacketRow};

/// A call over a lossy queue that is too short, beside TCP, with a second link.
const MIXED: &str = "\
duration = \"5s\"
[[link]]
name = \"near\"
rate = \"6mbit\"
delay = \"20ms\"
queue = \"droptail:20ms\"
loss = 0.02
[[link]]
name = \"far\"
rate = \"8mbit\"
delay = \"5ms\"
[[flow]]
cc = \"sqp\"
[[flow]]
cc = \"cubic\"
source = \"tcp\"
";

/// The rows of a kind, and what a run has of them.
type Kind = (&'static str, fn(&mut Rows), fn(&Collector) -> String);

fn every_flow(rows: &mut Rows, change: fn(&mut FlowRows)) {
    rows.flows.iter_mut().for_each(change);
}

fn of_links(record: &Collector, of: fn(&LinkRecord) -> String) -> String {
    record.links().map(of).collect()
}

/// A packet as it is known where nobody asks what its sender learnt of it.
fn unsettled(row: &PacketRow) -> PacketRow {
    PacketRow { acked: None, lost: false, spurious: false, ..*row }
}

fn packets(record: &Collector, of: fn(&PacketRow) -> PacketRow) -> String {
    let rows = record.flows.iter().flat_map(|flow| &flow.packets).map(of);
    format!("{:?}", rows.collect::<Vec<_>>())
}

const KINDS: [Kind; 8] = [
    (
        "packets and frames",
        |rows| every_flow(rows, |flow| flow.packets = true),
        |record| {
            let streams: String = record.flows.iter().map(|flow| format!("{:?}", flow.streams)).collect();
            packets(record, unsettled) + &streams
        },
    ),
    (
        "packets and their fates",
        |rows| every_flow(rows, |flow| (flow.packets, flow.fates) = (true, true)),
        |record| packets(record, |row| *row),
    ),
    (
        "round trips",
        |rows| every_flow(rows, |flow| flow.rtt = true),
        |record| record.flows.iter().map(|flow| format!("{:?}", flow.rtt)).collect(),
    ),
    (
        "decisions",
        |rows| every_flow(rows, |flow| flow.decisions = true),
        |record| record.flows.iter().map(|flow| format!("{:?}", flow.decisions)).collect(),
    ),
    (
        "inner quantities",
        |rows| every_flow(rows, |flow| flow.observed = true),
        |record| record.flows.iter().map(|flow| format!("{:?}", flow.observed)).collect(),
    ),
    (
        "arrivals",
        |rows| rows.links.arrivals = true,
        |record| of_links(record, |link| format!("{:?}", link.arrivals)),
    ),
    (
        "departures",
        |rows| rows.links.departures = true,
        |record| of_links(record, |link| format!("{:?}", link.departures)),
    ),
    ("drops", |rows| rows.links.drops = true, |record| of_links(record, |link| format!("{:?}", link.drops))),
];

#[test]
fn rows_are_the_same_whatever_other_events_are_made() {
    let scenario = scenario(MIXED);
    let ran = |rows, hash| run_rows(&scenario, &RunOptions::default(), Wanted { rows, hash }).unwrap();
    let whole = ran(Rows::all(2), true);
    assert_eq!(whole.hash, Some(run(&scenario, &RunOptions::default()).unwrap().summary.hash));
    for (name, choose, shown) in KINDS {
        let mut rows = Rows::none(2);
        choose(&mut rows);
        let some = ran(rows, false);
        assert_eq!(some.hash, None);
        assert!(shown(&whole.record).len() > 100, "{name}: there are none");
        assert!(shown(&whole.record) == shown(&some.record), "{name}");
        // Fates are kept in packets' rows.
        let alike =
            |other: &str| other == name || [other, name].iter().all(|kind| kind.starts_with("packets"));
        for (other, _, shown) in KINDS.iter().filter(|kind| !alike(kind.0)) {
            assert!(shown(&some.record).len() < 100, "{other} beside {name}");
        }
    }
    let nothing = ran(Rows::none(2), false).record;
    assert_eq!(nothing.end, Time::ZERO, "no event was made");
}
