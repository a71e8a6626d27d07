//! Everything that happened in a run as one table, a row an event.

use record::{Event, Fact, NodeId, Recorder};
use units::Time;

use super::series::{Series, Values};
use crate::collect::Layout;

/// A recorder that makes a table: time, place and name of each event, and a column for each field that
/// occurs, null where an event has none.
pub struct Events {
    layout: Layout,
    names: Vec<String>,
    at: Vec<Option<i64>>,
    place: Vec<Option<String>>,
    flow: Vec<Option<String>>,
    event: Vec<Option<String>>,
    /// In the order in which they first occurred; as long as the table by the last event that had them.
    fields: Vec<(&'static str, Values)>,
}

impl Events {
    /// Of a run of such a layout, whose flows are called so.
    pub fn new(layout: Layout, names: Vec<String>) -> Events {
        let (at, place, flow, event) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Events { layout, names, at, place, flow, event, fields: Vec::new() }
    }

    /// The table so far, a column each.
    pub fn columns(self) -> Vec<Series> {
        let rows = self.at.len();
        let column =
            |name: &str, about: &str, values| Series { name: name.into(), about: about.into(), values };
        let mut columns = vec![
            column("time_ns", "when, in the world's time", Values::Int(self.at)),
            column(
                "place",
                "sender, receiver, link (of several its name), or else the way back",
                Values::Text(self.place),
            ),
            column("flow", "name of the flow; null for cross traffic", Values::Text(self.flow)),
            column("event", "what happened", Values::Text(self.event)),
        ];
        for (name, mut values) in self.fields {
            fill(&mut values, rows);
            columns.push(column(name, about(name), values));
        }
        columns
    }

    /// Where a node is, and the flow whose end it is.
    fn place(&self, node: NodeId) -> (&str, Option<usize>) {
        let ends = usize::from(node.0) / 2;
        match self.layout.flows.get(ends) {
            Some((sender, _)) if *sender == node => ("sender", Some(ends)),
            Some((_, receiver)) if *receiver == node => ("receiver", Some(ends)),
            _ => (self.link(node), None),
        }
    }

    /// What a link is called, where there are several.
    fn link(&self, node: NodeId) -> &str {
        match self.layout.links.iter().find(|(link, _)| *link == node) {
            Some((_, name)) if self.layout.links.len() > 1 => name,
            Some(_) => "link",
            None => "way back",
        }
    }

    fn set(&mut self, name: &'static str, fact: Fact) {
        let row = self.at.len() - 1;
        let place = self.fields.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            let empty = match fact {
                Fact::Int(_) => Values::Int(Vec::new()),
                Fact::Real(_) => Values::Real(Vec::new()),
                Fact::Text(_) => Values::Text(Vec::new()),
            };
            self.fields.push((name, empty));
            self.fields.len() - 1
        });
        let values = &mut self.fields[place].1;
        fill(values, row);
        match (values, fact) {
            (Values::Int(values), Fact::Int(value)) => values.push(known(name, value)),
            (Values::Real(values), Fact::Real(value)) => values.push((!value.is_nan()).then_some(value)),
            (Values::Text(values), Fact::Text(value)) => values.push(Some(value.to_owned())),
            _ => unreachable!("fields of one name are of one kind"),
        }
    }
}

impl Recorder for Events {
    fn record(&mut self, at: Time, node: NodeId, event: &Event) {
        let (place, mut flow) = self.place(node);
        let place = Some(place.to_owned());
        let (name, facts) = event.facts();
        self.at.push(Some(at.as_nanos() as i64));
        for (field, fact) in facts {
            match (field, fact) {
                ("flow", Fact::Int(number)) => flow = usize::try_from(number).ok(),
                _ => self.set(field, fact),
            }
        }
        self.place.push(place);
        self.flow.push(flow.and_then(|flow| self.names.get(flow)).cloned());
        self.event.push(Some(name.to_owned()));
    }
}

/// Null where the number stands for none: no limit, or a packet of no frame.
fn known(name: &str, value: i64) -> Option<i64> {
    let none = if name == "frame" { i64::from(u32::MAX) } else { i64::MAX };
    (value != none).then_some(value)
}

fn fill(values: &mut Values, rows: usize) {
    match values {
        Values::Int(values) => values.resize(rows, None),
        Values::Real(values) => values.resize(rows, None),
        Values::Text(values) => values.resize(rows, None),
    }
}

/// What a field is.
fn about(name: &str) -> &'static str {
    match name {
        "size" => {
            "bytes: on the wire for links and deliveries, of the datagram for packets, of the frame for frames"
        }
        "packet" => "number of the transmission",
        "frame" => "capture index; null for packets of no frame",
        "version" => "which coding of the frame, 0 the first",
        "stream" => "the stream's number within the session",
        "window" => "bytes in flight at most; null for no limit",
        "pacing_bps" | "media_bps" => "rate asked for; null for no limit",
        "delay_ns" => "one way; of packet_received by the receiver's clock, less the least so far known",
        "retransmission" | "key" | "late" => "1 if so, else 0",
        "cause" => "why it was dropped",
        _ => "as docs/output.md names it",
    }
}
