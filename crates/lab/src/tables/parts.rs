//! A run's tables, written as its rows are complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use units::Time;

use super::columns::{self, DecisionRow, FrameOfFlow, LinkEvent, PacketOfFlow};
use super::parquet_file::{Column, Groups};
use super::{Origin, decision_columns, frame_columns, link_columns, packet_columns};
use crate::collect::{Collector, FrameRow, PacketRow};
use crate::files::WriteError;

/// Rows of a group: few enough to be held until they are written (5 MB), enough that what the end of a table says
/// of its groups stays small (some 300 bytes for each column of each, 13 MB for a day of 20 Mbit/s).
const GROUP: usize = 1 << 16;
/// The same of frames, whose rows are wide and come seldom.
const FRAME_GROUP: usize = 1 << 13;

/// The four tables of a run. They are written beside their places until [`place`](TableFiles::place) is called;
/// without it nothing of them stays.
pub struct TableFiles {
    folder: PathBuf,
    /// Whether the folder was made for the tables.
    made: bool,
    names: Vec<String>,
    packets: Part<(u16, PacketRow)>,
    frames: Part<(u16, u8, u32, FrameRow)>,
    link: Part<LinkEvent>,
    decisions: Part<(u16, &'static str, Time, f64)>,
    /// The latest window, pace and media rate of each flow.
    decided: Vec<[Option<f64>; 3]>,
}

/// One table: what is written of it, and rows that are not.
struct Part<R> {
    name: &'static str,
    rows: Vec<R>,
    groups: Option<Groups<BufWriter<File>>>,
}

impl<R> Part<R> {
    fn new(name: &'static str) -> Part<R> {
        Part { name, rows: Vec::new(), groups: None }
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(self.name)
    }

    /// Writes rows, `group` at a time, until fewer than `left` remain; how many that were.
    fn write<'a, V>(
        &'a mut self,
        folder: &Path,
        sizes: (usize, usize),
        columns: &[Column<V>],
        view: impl Fn(&'a R) -> V,
    ) -> Result<usize, WriteError> {
        let Part { name, rows, groups } = self;
        let written =
            write_groups(groups, &folder.join(format!("{name}.partial")), rows, sizes, columns, view);
        written.map_err(|source| WriteError { path: folder.join(*name), source })
    }

    fn finish(&mut self, folder: &Path, origin: &Origin) -> Result<(), WriteError> {
        let groups = self.groups.take().expect("the last rows were written");
        let file = groups.finish(origin).and_then(|mut file| file.flush());
        file.map_err(|source| WriteError { path: self.path(folder), source })
    }
}

fn write_groups<'a, R, V>(
    groups: &mut Option<Groups<BufWriter<File>>>,
    path: &Path,
    rows: &'a [R],
    (group, left): (usize, usize),
    columns: &[Column<V>],
    view: impl Fn(&'a R) -> V,
) -> io::Result<usize> {
    let groups = match groups {
        Some(groups) => groups,
        none => none.insert(Groups::of_many(BufWriter::new(File::create(path)?), columns)?),
    };
    let mut written = 0;
    while rows.len() - written >= left {
        let until = rows.len().min(written + group);
        let views: Vec<V> = rows[written..until].iter().map(&view).collect();
        groups.append(&views, columns)?;
        written = until;
    }
    Ok(written)
}

impl TableFiles {
    /// Tables of flows with these names, to be written into `folder`, which is made with the first row.
    pub fn new(folder: PathBuf, names: Vec<String>) -> TableFiles {
        TableFiles {
            made: !folder.exists(),
            decided: vec![[None; 3]; names.len()],
            folder,
            names,
            packets: Part::new("packets.parquet"),
            frames: Part::new("frames.parquet"),
            link: Part::new("link.parquet"),
            decisions: Part::new("decisions.parquet"),
        }
    }

    /// Bytes of rows held.
    pub fn held(&self) -> usize {
        size_of_val(&self.packets.rows[..])
            + size_of_val(&self.frames.rows[..])
            + size_of_val(&self.link.rows[..])
            + size_of_val(&self.decisions.rows[..])
    }

    /// Takes rows that are complete, which follow those taken before.
    ///
    /// # Errors
    /// [`WriteError`] naming the file that could not be written.
    pub fn take(&mut self, rows: &Collector) -> Result<(), WriteError> {
        for (flow, record) in (0u16..).zip(&rows.flows) {
            self.packets.rows.extend(record.packets.iter().map(|row| (flow, *row)));
            for (&stream, frames) in &record.streams {
                let numbered = frames.numbered();
                self.frames.rows.extend(numbered.map(|(number, row)| (flow, stream, number, row.clone())));
            }
            let decided = &mut self.decided[usize::from(flow)];
            columns::decisions_of(record, decided, &mut |name, at, value| {
                self.decisions.rows.push((flow, name, at, value));
            });
        }
        self.link.rows.extend(columns::link_events(&rows.link));
        self.write(GROUP, FRAME_GROUP)
    }

    /// Writes whole groups of at least so many rows and so many frames.
    fn write(&mut self, rows: usize, frames: usize) -> Result<(), WriteError> {
        let TableFiles { folder, names, packets, frames: of_frames, link, decisions, .. } = self;
        fs::create_dir_all(&*folder).map_err(|source| WriteError { path: folder.clone(), source })?;
        let name = |flow: u16| names.get(usize::from(flow)).map_or("", String::as_str);
        let done = packets.write(folder, (GROUP, rows), &packet_columns(), |(flow, packet)| {
            PacketOfFlow { flow: name(*flow), packet }
        })?;
        packets.rows.drain(..done);
        let done = of_frames.write(
            folder,
            (FRAME_GROUP, frames),
            &frame_columns(),
            |(flow, stream, number, frame)| FrameOfFlow {
                flow: name(*flow),
                stream: *stream,
                number: *number,
                frame,
            },
        )?;
        of_frames.rows.drain(..done);
        let done = link.write(folder, (GROUP, rows), &link_columns(), |event| event.named(name))?;
        link.rows.drain(..done);
        let done =
            decisions.write(folder, (GROUP, rows), &decision_columns(), |&(flow, what, at, value)| {
                DecisionRow { at, flow: name(flow), name: what, value }
            })?;
        decisions.rows.drain(..done);
        Ok(())
    }

    /// Writes the last rows, and where the run came from.
    ///
    /// # Errors
    /// As [`take`](TableFiles::take).
    pub fn finish(mut self, origin: &Origin) -> Result<TableFiles, WriteError> {
        self.write(1, 1)?;
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
