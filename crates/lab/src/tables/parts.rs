//! A run's tables, written as its rows are complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use units::Time;

use super::columns::{self, DecisionRow, FrameOfFlow, LinkEvent, PacketOfFlow};
use super::parquet_file::{Column, Groups};
use super::{Origin, decision_columns, frame_columns, link_columns, packet_columns};
use crate::collect::{Coding, Collector, FrameRow, PacketRow};
use crate::files::WriteError;

/// Rows of a group: few enough to be held until they are written (5 MB), enough that what the end of a table
/// says of its groups stays small (some 300 bytes for each column of each, 13 MB for a day of 20 Mbit/s).
const GROUP: usize = 1 << 16;
/// The same of frames, whose rows are wide and come seldom.
const FRAME_GROUP: usize = 1 << 13;

/// The four tables of a run. They are written beside their places until [`place`](TableFiles::place) is
/// called; without it nothing of them stays.
pub struct TableFiles {
    folder: PathBuf,
    /// Whether the folder was made for the tables.
    made: bool,
    names: Vec<String>,
    /// Names of the links, where there are several.
    links: Vec<String>,
    packets: Part<(u16, PacketRow)>,
    frames: Part<(u16, Coding, u32, FrameRow)>,
    link: Part<LinkEvent>,
    decisions: Part<(u16, &'static str, Time, f64)>,
    /// The latest window, pace and media rate of each flow.
    decided: Vec<[Option<f64>; 3]>,
}

/// One table: what is written of it, and rows that are not.
struct Part<R> {
    name: &'static str,
    /// Rows of a group.
    group: usize,
    rows: Vec<R>,
    groups: Option<Groups<BufWriter<File>>>,
}

impl<R> Part<R> {
    fn new(name: &'static str, group: usize) -> Part<R> {
        Part { name, group, rows: Vec::new(), groups: None }
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        size_of_val(&self.rows[..]) + self.known()
    }

    /// Bytes held of what is known of the groups.
    #[cfg(test)]
    fn known(&self) -> usize {
        self.groups.as_ref().map_or(0, Groups::held)
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(self.name)
    }

    /// Takes a row; where that makes a group, `write` empties the part.
    fn push(
        &mut self,
        row: R,
        write: impl FnOnce(&mut Part<R>) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        self.rows.push(row);
        if self.rows.len() < self.group { Ok(()) } else { write(self) }
    }

    /// Writes the rows as a group, if there are any, into a table that is made for the first.
    fn write<'a, V>(
        &'a mut self,
        folder: &Path,
        columns: &[Column<V>],
        view: impl Fn(&'a R) -> V,
    ) -> Result<(), WriteError> {
        let Part { name, rows, groups, .. } = self;
        let partial = folder.join(format!("{name}.partial"));
        let written = write_group(groups, &partial, rows, columns, view);
        written.map_err(|source| WriteError { path: folder.join(*name), source })
    }

    fn finish(&mut self, folder: &Path, origin: &Origin) -> Result<(), WriteError> {
        let groups = self.groups.take().expect("the last rows were written");
        let file = groups.finish(origin).and_then(|mut file| file.flush());
        file.map_err(|source| WriteError { path: self.path(folder), source })
    }
}

fn write_group<'a, R, V>(
    groups: &mut Option<Groups<BufWriter<File>>>,
    path: &Path,
    rows: &'a [R],
    columns: &[Column<V>],
    view: impl Fn(&'a R) -> V,
) -> io::Result<()> {
    let groups = match groups {
        Some(groups) => groups,
        none => none.insert(Groups::of_many(BufWriter::new(File::create(path)?), columns)?),
    };
    let views = |rows: &'a [R]| rows.iter().map(&view).collect::<Vec<V>>();
    if rows.is_empty() { Ok(()) } else { groups.append(rows, columns, views) }
}

/// Where tables go, and what their flows are called.
struct Place<'a> {
    folder: &'a Path,
    names: &'a [String],
    links: &'a [String],
}

impl Place<'_> {
    fn name(&self, flow: u16) -> &str {
        self.names.get(usize::from(flow)).map_or("", String::as_str)
    }

    fn write_packets(&self, part: &mut Part<(u16, PacketRow)>) -> Result<(), WriteError> {
        part.write(self.folder, &packet_columns(), |(flow, packet)| PacketOfFlow {
            flow: self.name(*flow),
            packet,
        })?;
        part.rows.clear();
        Ok(())
    }

    fn write_frames(&self, part: &mut Part<(u16, Coding, u32, FrameRow)>) -> Result<(), WriteError> {
        part.write(self.folder, &frame_columns(), |(flow, coding, number, frame)| FrameOfFlow {
            flow: self.name(*flow),
            coding: *coding,
            number: *number,
            frame,
        })?;
        part.rows.clear();
        Ok(())
    }

    fn write_link(&self, part: &mut Part<LinkEvent>) -> Result<(), WriteError> {
        let link = |link| self.links.get(usize::from(link)).map_or("", String::as_str);
        let columns = link_columns(!self.links.is_empty());
        part.write(self.folder, &columns, |event| event.named(|flow| self.name(flow), link))?;
        part.rows.clear();
        Ok(())
    }

    fn write_decisions(&self, part: &mut Part<(u16, &'static str, Time, f64)>) -> Result<(), WriteError> {
        part.write(self.folder, &decision_columns(), |&(flow, what, at, value)| DecisionRow {
            at,
            flow: self.name(flow),
            name: what,
            value,
        })?;
        part.rows.clear();
        Ok(())
    }
}

impl TableFiles {
    /// Tables of flows with these names over one link or several with these `links` for names, to be written
    /// into `folder`, which is made with the first row.
    pub fn new(folder: PathBuf, names: Vec<String>, links: Vec<String>) -> TableFiles {
        TableFiles {
            made: !folder.exists(),
            decided: vec![[None; 3]; names.len()],
            folder,
            names,
            links,
            packets: Part::new("packets.parquet", GROUP),
            frames: Part::new("frames.parquet", FRAME_GROUP),
            link: Part::new("link.parquet", GROUP),
            decisions: Part::new("decisions.parquet", GROUP),
        }
    }

    /// Bytes held: rows that are not written, and what is known of those that are.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.packets.held() + self.frames.held() + self.link.held() + self.decisions.held()
    }

    /// Takes rows that are complete, which follow those taken before.
    ///
    /// # Errors
    /// [`WriteError`] naming the file that could not be written.
    pub fn take(&mut self, rows: &Collector) -> Result<(), WriteError> {
        let TableFiles { folder, names, links, packets, frames: of_frames, link, decisions, decided, .. } =
            self;
        fs::create_dir_all(&*folder).map_err(|source| WriteError { path: folder.clone(), source })?;
        let place = Place { folder, names, links };
        for ((flow, record), decided) in (0u16..).zip(&rows.flows).zip(decided) {
            for row in &record.packets {
                packets.push((flow, *row), |part| place.write_packets(part))?;
            }
            for (&coding, frames) in &record.streams {
                for (number, row) in frames.numbered() {
                    of_frames.push((flow, coding, number, row.clone()), |part| place.write_frames(part))?;
                }
            }
            let mut done = Ok(());
            columns::decisions_of(record, decided, &mut |name, at, value| {
                let pushed = decisions.push((flow, name, at, value), |part| place.write_decisions(part));
                if done.is_ok() {
                    done = pushed;
                }
            });
            done?;
        }
        for event in columns::link_events(rows) {
            link.push(event, |part| place.write_link(part))?;
        }
        Ok(())
    }

    /// Writes the last rows, and where the run came from.
    ///
    /// # Errors
    /// As [`take`](TableFiles::take).
    pub fn finish(mut self, origin: &Origin) -> Result<TableFiles, WriteError> {
        let TableFiles { folder, names, links, packets, frames, link, decisions, .. } = &mut self;
        let place = Place { folder, names, links };
        place.write_packets(packets)?;
        place.write_frames(frames)?;
        place.write_link(link)?;
        place.write_decisions(decisions)?;
        self.packets.finish(&self.folder, origin)?;
        self.frames.finish(&self.folder, origin)?;
        self.link.finish(&self.folder, origin)?;
        self.decisions.finish(&self.folder, origin)?;
        Ok(self)
    }

    fn files(&self) -> [(PathBuf, PathBuf); 4] {
        let folder = &self.folder;
        let of = |name: &str| (folder.join(format!("{name}.partial")), folder.join(name));
        [self.packets.name, self.frames.name, self.link.name, self.decisions.name].map(of)
    }

    /// Moves the tables into `folder`, which is on the disk of the one that they were begun for.
    ///
    /// # Errors
    /// [`WriteError`] naming the file that could not be moved.
    pub fn place(&self, folder: &Path) -> Result<(), WriteError> {
        for (partial, path) in self.files() {
            let path = folder.join(path.file_name().unwrap_or_default());
            fs::rename(&partial, &path).map_err(|source| WriteError { path, source })?;
        }
        Ok(())
    }
}

impl Drop for TableFiles {
    /// What did not come to its place goes; a folder made for it, too, if nothing else is in it.
    fn drop(&mut self) {
        for (partial, _) in self.files() {
            let _ = fs::remove_file(partial);
        }
        if self.made {
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use units::{Rate, Span};

    use super::*;
    use crate::collect::{Decided, Departure, FlowRecord, NO_FRAME, StreamFrames};

    /// A group of each table but of decisions, with values that differ from row to row where a run's do.
    fn a_group_of_each() -> Collector {
        let at = |row: usize| Time::from_millis(10_000_000 + row as u64);
        let packet = |row: usize| PacketRow {
            packet: row as u64,
            sent: at(row),
            arrived: Some(at(row + 20)),
            acked: Some(at(row + 40)),
            size: 1_200,
            frame: if row.is_multiple_of(2) { row as u32 } else { NO_FRAME },
            index: 3,
            coding: Coding::first(0),
            retransmission: false,
            lost: false,
            spurious: false,
        };
        let frame = |row: usize| FrameRow {
            captured: Some(at(row)),
            encoded: Some(at(row + 4)),
            first_sent: Some(at(row + 4)),
            sent: Some(at(row + 8)),
            assembled: Some(at(row + 20)),
            displayed: Some(at(row + 21)),
            encoder_quality: (Some(40.0 + row as f64 * 1e-4), Some(0.9)),
            ..FrameRow::default()
        };
        let decided = |row: usize| Decided {
            at: at(row),
            window: row as u64,
            pacing: Rate::from_bps(row as u64),
            media: Rate::from_bps(row as u64),
        };
        let mut flow = FlowRecord { packets: (0..GROUP).map(packet).collect(), ..FlowRecord::default() };
        flow.decisions = (0..GROUP / 4).map(decided).collect();
        flow.streams
            .insert(Coding::first(0), StreamFrames { rows: (0..FRAME_GROUP).map(frame).collect(), first: 0 });
        let mut rows = Collector::default();
        rows.flows = vec![flow];
        let sojourn = |row: usize| Span::from_nanos(row as i64);
        let departed = |row| Departure { at: at(row), flow: 0, size: 1_228, sojourn: sojourn(row) };
        rows.link.departures = (0..GROUP).map(departed).collect();
        rows
    }

    #[test]
    fn what_is_known_of_a_days_groups_fits_into_memory() {
        let folder = std::env::temp_dir().join(format!("framewire-groups-{}", std::process::id()));
        let mut tables = TableFiles::new(folder.clone(), vec!["sqp".to_owned()], Vec::new());
        let rows = a_group_of_each();
        let rest = size_of::<(u16, &'static str, Time, f64)>() * tables.decisions.group;
        let mut known = || {
            tables.take(&rows).unwrap();
            assert!(tables.held() < rest, "rows that were written stay in memory");
            [tables.packets.known(), tables.frames.known(), tables.link.known()]
        };
        let (one, two) = (known(), known());
        assert_eq!(one.map(|bytes| bytes * 2), two);
        // 20 Mbit/s of packets as long as these, each of which comes to the link and leaves it, and 60
        // frames/s.
        let packets = 20_000_000 / 8 / 1_228 * 86_400;
        let groups = [packets / GROUP, 60 * 86_400 / FRAME_GROUP, 2 * packets / GROUP];
        let day: usize = one.iter().zip(groups).map(|(bytes, groups)| bytes * groups).sum();
        println!("{one:?} bytes a group, {day} a day");
        assert!(day < 48_000_000, "{day} bytes for a day");
        // Nor is there anything of single pages.
        let tables = tables.finish(&Origin::new()).unwrap();
        for (partial, _) in tables.files() {
            let table = SerializedFileReader::new(File::open(partial).unwrap()).unwrap();
            let mut columns = table.metadata().row_groups().iter().flat_map(|group| group.columns());
            assert!(columns.all(|column| column.offset_index_offset().is_none()));
        }
        drop(tables);
        assert!(!folder.exists());
    }
}
