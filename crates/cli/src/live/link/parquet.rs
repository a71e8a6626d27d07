//! Every packet's way through a link as a Parquet table; `docs/link.md` lists the columns.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::Receiver;

use lab::tables::{Column, Get, TableWriter};
use real::link::{End, Log, MahimahiLog, Passage, Spool};
use record::Dropped;
use units::{Ecn, Time};

use crate::failure::Failure;

/// Packets handed to the writer at once.
const BATCH: usize = 1 << 12;
/// Rows in a row group: about a second at 1 Gbit/s.
const GROUP: usize = 1 << 17;

/// A row: a packet's way, the direction it went, and its addresses as text.
struct Row {
    direction: &'static str,
    passage: Passage,
    source: String,
    destination: String,
}

impl Row {
    fn new(direction: &'static str, passage: Passage) -> Row {
        let flow = &passage.flow;
        Row { direction, source: flow.source.to_string(), destination: flow.destination.to_string(), passage }
    }

    fn passed(&self) -> Option<(Time, Time, Ecn)> {
        match self.passage.end {
            End::Passed { due, left, ecn } => Some((due, left, ecn)),
            End::Dropped { .. } => None,
        }
    }
}

const fn int(name: &'static str, about: &'static str, get: fn(&Row) -> Option<i64>) -> Column<Row> {
    Column { name, about, get: Get::Int(get) }
}
const fn text(
    name: &'static str,
    about: &'static str,
    get: for<'r> fn(&'r Row) -> Option<&'r str>,
) -> Column<Row> {
    Column { name, about, get: Get::Text(get) }
}

fn ns(at: Time) -> Option<i64> {
    Some(at.as_nanos() as i64)
}

/// The columns: one row per packet, in the order in which their ways ended.
const COLUMNS: [Column<Row>; 16] = [
    text("direction", "up: from inside to outside; down", |r| Some(r.direction)),
    int("packet", "counts the packets of a direction from 0", |r| Some(r.passage.number as i64)),
    int("arrived_ns", "read from the device at the link's entry; the clock starts with the link", |r| {
        ns(r.passage.arrived)
    }),
    int("due_ns", "when the link let it out; null if it was dropped", |r| {
        r.passed().and_then(|(due, ..)| ns(due))
    }),
    int("left_ns", "when it was written to the device at the exit; null if it was dropped", |r| {
        r.passed().and_then(|(_, left, _)| ns(left))
    }),
    int("dropped_ns", "when it was dropped; null if it was not", |r| match r.passage.end {
        End::Dropped { at, .. } => ns(at),
        End::Passed { .. } => None,
    }),
    text(
        "cause",
        "why it was dropped: queue_full, queue_policy, link_loss, oversize, policed, no_room",
        |r| match r.passage.end {
            End::Dropped { cause, .. } => Some(cause_name(cause)),
            End::Passed { .. } => None,
        },
    ),
    int("size", "bytes of the IP packet", |r| Some(i64::from(r.passage.size))),
    int("protocol", "IP protocol number: 6 TCP, 17 UDP", |r| Some(i64::from(r.passage.flow.protocol))),
    text("source", "address it comes from", |r| Some(&r.source)),
    int("source_port", "0 where there is none, and for fragments", |r| {
        Some(i64::from(r.passage.flow.ports.0))
    }),
    text("destination", "address it goes to", |r| Some(&r.destination)),
    int("destination_port", "0 where there is none, and for fragments", |r| {
        Some(i64::from(r.passage.flow.ports.1))
    }),
    int("flow", "hash of these five, which queues know the flow by", |r| {
        Some(i64::from(r.passage.flow.number()))
    }),
    text("ecn_in", "its ECN bits when it came: not_ect, ect0, ect1, ce", |r| Some(ecn_name(r.passage.ecn))),
    text("ecn_out", "its ECN bits when it left; null if it was dropped", |r| {
        r.passed().map(|(_, _, ecn)| ecn_name(ecn))
    }),
];

fn ecn_name(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotEct => "not_ect",
        Ecn::Ect0 => "ect0",
        Ecn::Ect1 => "ect1",
        Ecn::Ce => "ce",
    }
}

/// What the cause of a drop is called in tables and metrics.
pub fn cause_name(cause: Dropped) -> &'static str {
    match cause {
        Dropped::QueueFull => "queue_full",
        Dropped::QueuePolicy => "queue_policy",
        Dropped::LinkLoss => "link_loss",
        Dropped::Oversize => "oversize",
        Dropped::Policed => "policed",
        _ => "no_room",
    }
}

/// The file while it is written.
pub struct PacketFile(Spool<(&'static str, Passage)>);

impl PacketFile {
    /// Creates the file.
    pub fn create(path: &Path) -> Result<PacketFile, Failure> {
        let (file, path) = (create("--log", path)?, path.display().to_string());
        let write = move |batches| write(file, batches).map_err(|error| format!("{path}: {error}"));
        Ok(PacketFile(Spool::start(BATCH, write)))
    }

    /// Follows one direction.
    pub fn log(&self, direction: &'static str) -> PacketLog {
        PacketLog { direction, spool: self.0.second() }
    }

    /// Waits until everything is written; how many packets were lost to the log.
    pub fn finish(mut self) -> Result<u64, String> {
        self.0.finish()
    }
}

/// One direction's packets on their way to the file.
pub struct PacketLog {
    direction: &'static str,
    spool: Spool<(&'static str, Passage)>,
}

impl Log for PacketLog {
    fn ends(&mut self, passage: &Passage) {
        self.spool.take([(self.direction, *passage)]);
    }

    fn closes(&mut self, _: Time) {
        // The file itself says what it could not write.
        let _ = self.spool.finish();
    }
}

fn write(file: File, batches: Receiver<Vec<(&'static str, Passage)>>) -> std::io::Result<()> {
    let origin = vec![("framewire.table".to_owned(), "link".to_owned())];
    let mut table = TableWriter::new(BufWriter::new(file), &COLUMNS, &origin)?;
    let mut group = Vec::with_capacity(GROUP);
    for batch in batches {
        group.extend(batch.into_iter().map(|(direction, passage)| Row::new(direction, passage)));
        if group.len() >= GROUP {
            table.append(&group)?;
            group.clear();
        }
    }
    if !group.is_empty() {
        table.append(&group)?;
    }
    table.finish()
}

/// A text file behind a thread of its own.
pub fn text_file(path: &Path) -> Result<Spool<u8>, Failure> {
    let (mut file, path) = (create("--mahimahi-log", path)?, path.display().to_string());
    Ok(Spool::start(MahimahiLog::CHUNK, move |batches| {
        let mut batches = batches.into_iter();
        batches.try_for_each(|text| file.write_all(&text)).map_err(|error| format!("{path}: {error}"))
    }))
}

fn create(flag: &str, path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| Failure::Input(format!("{flag} {}: {error}", path.display())))
}
