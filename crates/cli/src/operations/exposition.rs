//! The board that metrics are shown on, in the text format of Prometheus (OpenMetrics 1.0).
//!
//! Whoever has figures registers a function that shows them; it runs when somebody asks. Counters live where
//! the work is done and are copied from there: nothing that runs reads what is shown.

use std::fmt;
use std::sync::Mutex;

use bytes::Bytes;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use real::http::{File, Site};

/// As the specification of the format names it.
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels of one value.
pub type Labels = Vec<(&'static str, String)>;

type Source = Box<dyn Fn(&mut Exposition<'_>) + Send + Sync>;

/// Where metrics are shown.
pub struct Board(Registry, std::sync::Arc<Sources>);

struct Sources(Mutex<Vec<Source>>);

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sources(..)")
    }
}

impl Default for Board {
    fn default() -> Board {
        let sources = std::sync::Arc::new(Sources(Mutex::default()));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(sources.clone()));
        Board(registry, sources)
    }
}

impl Board {
    /// Shows what `source` shows, whenever somebody asks. Each name is to be shown by one source.
    pub fn show(&self, source: impl Fn(&mut Exposition<'_>) + Send + Sync + 'static) {
        self.1.0.lock().expect("no source panics").push(Box::new(source));
    }

    /// Everything that is shown, as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.0)
            .expect("a string takes all that is written");
        text
    }
}

impl Site for Board {
    fn file(&self, path: &str) -> Option<File> {
        (path == "/metrics").then(|| File::page(KIND, Bytes::from(self.text())))
    }
    fn directions(&self) -> &'static str {
        "metrics are at /metrics"
    }
}

impl Collector for Sources {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Exposition { encoder, outcome: Ok(()) };
        self.0.lock().expect("no source panics").iter().for_each(|source| source(&mut out));
        out.outcome
    }
}

/// Takes families of metrics. Units and, for counters, `_total` are added to their names.
pub struct Exposition<'a> {
    encoder: DescriptorEncoder<'a>,
    outcome: fmt::Result,
}

impl Exposition<'_> {
    /// Something that only grows, while the stream or process it belongs to lives.
    pub fn counter(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let values = values.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value)));
        self.family(name, help, unit, MetricType::Counter, values);
    }

    /// Seconds that only grow.
    pub fn seconds(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, f64)>) {
        let values = values.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value)));
        self.family(name, help, Some(Unit::Seconds), MetricType::Counter, values);
    }

    /// Something that goes up and down.
    pub fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let values = values.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value)));
        self.family(name, help, unit, MetricType::Gauge, values);
    }

    fn family<M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        kind: MetricType,
        values: impl Iterator<Item = (Labels, M)>,
    ) {
        let mut values = values.peekable();
        // A family without values would be a heading over nothing.
        if self.outcome.is_ok() && values.peek().is_some() {
            let family = self.encoder.encode_descriptor(name, help, unit.as_ref(), kind);
            self.outcome = family.and_then(|family| put(family, values));
        }
    }
}

fn put<M: EncodeMetric>(
    mut family: MetricEncoder<'_>,
    values: impl Iterator<Item = (Labels, M)>,
) -> fmt::Result {
    for (labels, value) in values {
        if labels.is_empty() {
            // A value without labels is the only one of its family.
            return value.encode(family);
        }
        value.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_units_and_counters_their_ending() {
        let board = Board::default();
        board.show(|out| {
            out.counter("framewire_sent", "Sent", Some(Unit::Bytes), [(vec![("stream", "0".to_owned())], 7)]);
            out.gauge("framewire_empty", "Nothing", None, []);
            out.gauge("framewire_round_trip", "There and back", Some(Unit::Seconds), [(vec![], 0.25)]);
        });
        let expected = "\
# HELP framewire_sent_bytes Sent
# TYPE framewire_sent_bytes counter
# UNIT framewire_sent_bytes bytes
framewire_sent_bytes_total{stream=\"0\"} 7
# HELP framewire_round_trip_seconds There and back
# TYPE framewire_round_trip_seconds gauge
# UNIT framewire_round_trip_seconds seconds
framewire_round_trip_seconds 0.25
# EOF
";
        assert_eq!(board.text(), expected);
        assert!(board.file("/").is_none());
        assert_eq!(board.file("/metrics").unwrap().kind, KIND);
    }
}
