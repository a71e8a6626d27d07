//! What a link did, when its command has ended.

use std::net::Ipv4Addr;

use netsim::Link;
use real::link::{DirectionCounters, Outcome};
use record::Dropped;
use serde_json::{Value, json};

use crate::table::Table;

/// What there is to tell.
pub struct Figures<'a> {
    pub outcome: &'a Outcome,
    /// The link's addresses, outside and inside.
    pub addresses: (Ipv4Addr, Ipv4Addr),
    /// The date at which the links' time began, in ns since 1970.
    pub began: u64,
    /// Rows and bytes that the logs lack.
    pub unlogged: u64,
    /// The command's exit code.
    pub code: u8,
}

/// Why a link drops packets, and what that is called.
const CAUSES: [(Dropped, &str); 5] = [
    (Dropped::QueueFull, "queue_full"),
    (Dropped::QueuePolicy, "queue_policy"),
    (Dropped::LinkLoss, "link_loss"),
    (Dropped::Oversize, "oversize"),
    (Dropped::Policed, "policed"),
];

/// Prints the figures to standard error: standard output is the command's.
pub fn print(figures: &Figures<'_>, json: bool) {
    let Outcome { up, down } = figures.outcome;
    if json {
        let (outside, inside) = figures.addresses;
        let object = json!({
            "outside": outside.to_string(), "inside": inside.to_string(), "exit_code": figures.code,
            "began_ms": figures.began as f64 / 1e6,
            "up": object(up), "down": object(down), "unlogged": figures.unlogged,
        });
        eprintln!("{object:#}");
        return;
    }
    let mut table = Table::new([
        "link",
        "in",
        "out",
        "queue full",
        "AQM",
        "lost",
        "other",
        "out MB",
        "late p50 ms",
        "p99",
        "most",
    ]);
    table.row(row("up", up));
    table.row(row("down", down));
    eprint!("{table}");
    if figures.unlogged > 0 {
        eprintln!("the logs lack {} packets or bytes: the disk did not keep up", figures.unlogged);
    }
}

fn row(name: &str, (link, direction): &(Link, DirectionCounters)) -> [String; 11] {
    let stats = link.stats();
    let dropped = |cause| stats.dropped(cause).packets;
    let other = dropped(Dropped::Oversize) + dropped(Dropped::Policed) + outside_the_link(direction);
    let ms = |late: Option<units::Span>| {
        late.map_or("–".to_owned(), |late| format!("{:.3}", late.as_millis_f64()))
    };
    [
        name.to_owned(),
        direction.received.to_string(),
        direction.sent.to_string(),
        dropped(Dropped::QueueFull).to_string(),
        dropped(Dropped::QueuePolicy).to_string(),
        dropped(Dropped::LinkLoss).to_string(),
        other.to_string(),
        format!("{:.3}", stats.total().delivered.bytes as f64 / 1e6),
        ms(direction.late.quantile(0.5)),
        ms(direction.late.quantile(0.99)),
        ms(direction.late.most()),
    ]
}

/// Packets lost by the emulator and the kernel, not by the link.
fn outside_the_link(direction: &DirectionCounters) -> u64 {
    direction.overruns + direction.foreign + direction.refused + direction.unsent
}

fn object((link, direction): &(Link, DirectionCounters)) -> Value {
    let stats = link.stats();
    let total = stats.total();
    let ms = |late: Option<units::Span>| late.map(|late| late.as_millis_f64());
    let dropped: serde_json::Map<_, _> = CAUSES
        .iter()
        .map(|(cause, name)| ((*name).to_owned(), json!(stats.dropped(*cause).packets)))
        .collect();
    json!({
        "received": direction.received, "sent": direction.sent,
        "bytes": { "offered": total.offered.bytes, "delivered": total.delivered.bytes, "dropped": total.dropped.bytes },
        "dropped": dropped, "inside_at_the_end": link.inside(),
        "machine": { "overruns": direction.overruns, "foreign": direction.foreign, "refused": direction.refused, "unsent": direction.unsent },
        "peak_queue": { "packets": stats.peak_packets, "bytes": stats.peak_bytes },
        "late_ms": { "p50": ms(direction.late.quantile(0.5)), "p90": ms(direction.late.quantile(0.9)),
                     "p99": ms(direction.late.quantile(0.99)), "max": ms(direction.late.most()) },
    })
}
