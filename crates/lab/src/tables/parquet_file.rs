//! One Parquet file from rows and a list of columns.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
#[cfg(test)]
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::Origin;
use crate::files::{WriteError, write_whole};

/// Rows per row group of a table whose rows are all in memory.
pub(super) const GROUP: usize = 1 << 20;
/// Rows of a column whose values are in memory at a time, beside the rows and the finished pages.
const BATCH: usize = 1 << 12;

/// How a column's value comes out of a row.
#[derive(Clone, Copy)]
pub enum Get<R> {
    /// A whole number.
    Int(fn(&R) -> Option<i64>),
    /// A real number.
    Real(fn(&R) -> Option<f64>),
    /// Yes or no.
    Flag(fn(&R) -> Option<bool>),
    /// Text.
    Text(for<'r> fn(&'r R) -> Option<&'r str>),
}

impl<R> Get<R> {
    fn kind(&self) -> Kind {
        match self {
            Get::Int(_) => Kind::Int,
            Get::Real(_) => Kind::Real,
            Get::Flag(_) => Kind::Flag,
            Get::Text(_) => Kind::Text,
        }
    }
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers.
    Int,
    /// Real numbers.
    Real,
    /// Yes or no.
    Flag,
    /// Text.
    Text,
}

/// What a file's schema says of a column.
pub(super) struct Field<'a> {
    pub name: &'a str,
    pub about: &'a str,
    pub kind: Kind,
}

/// A column of a table of `R`.
#[derive(Clone, Copy)]
pub struct Column<R> {
    /// Its name in the file.
    pub name: &'static str,
    /// What it holds, with its unit.
    pub about: &'static str,
    /// How to read it from a row.
    pub get: Get<R>,
}

/// Writes `rows` to `path`, every column nullable, with `origin` in the file's metadata.
///
/// # Errors
/// [`WriteError`] naming the file; nothing is left half-written.
pub fn write_table<R>(
    path: &Path,
    rows: &[R],
    columns: &[Column<R>],
    origin: &Origin,
) -> Result<(), WriteError> {
    write_whole(path, |file| {
        let mut table = TableWriter::new(file, columns, origin)?;
        rows.chunks(GROUP).try_for_each(|group| table.append(group))?;
        table.finish()
    })
}

/// Writes a table whose rows come bit by bit.
pub struct TableWriter<'c, R, W: Write + Send> {
    columns: &'c [Column<R>],
    groups: Groups<W>,
}

impl<'c, R, W: Write + Send> TableWriter<'c, R, W> {
    /// A table into `out`, every column nullable, with `origin` in its metadata.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(out: W, columns: &'c [Column<R>], origin: &Origin) -> io::Result<TableWriter<'c, R, W>> {
        Ok(TableWriter { columns, groups: Groups::new(out, columns, origin)? })
    }

    /// Writes some rows, as a row group of their own.
    ///
    /// # Errors
    /// What the file system says.
    pub fn append(&mut self, rows: &[R]) -> io::Result<()> {
        self.groups.append(rows, self.columns, |rows| rows)
    }

    /// Writes what makes a table of the rows.
    ///
    /// # Errors
    /// What the file system says.
    pub fn finish(self) -> io::Result<()> {
        self.groups.finish(&Origin::new()).map(drop)
    }
}

/// A table of which only the file is held: rows and columns are lent to it group by group.
pub(super) struct Groups<W: Write + Send> {
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> Groups<W> {
    pub fn new<R>(out: W, columns: &[Column<R>], origin: &Origin) -> io::Result<Groups<W>> {
        Groups::with(out, columns, origin, WriterProperties::builder())
    }

    /// A table of so many groups that nothing is kept of the pages in them: their index stays in memory until
    /// the table is finished.
    pub fn of_many<R>(out: W, columns: &[Column<R>]) -> io::Result<Groups<W>> {
        let properties = WriterProperties::builder()
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true);
        Groups::with(out, columns, &Origin::new(), properties)
    }

    fn with<R>(
        out: W,
        columns: &[Column<R>],
        origin: &Origin,
        properties: WriterPropertiesBuilder,
    ) -> io::Result<Groups<W>> {
        let field = |c: &Column<R>| Field { name: c.name, about: c.about, kind: c.get.kind() };
        let fields: Vec<Field<'_>> = columns.iter().map(field).collect();
        Ok(Groups { writer: open(out, &fields, origin, properties)? })
    }

    /// Writes `rows` as a group. `views` says what the columns are read from, for a few rows at a time.
    pub fn append<'a, T, R, V: AsRef<[R]>>(
        &mut self,
        rows: &'a [T],
        columns: &[Column<R>],
        views: impl Fn(&'a [T]) -> V,
    ) -> io::Result<()> {
        self.append_group(rows, columns, views).map_err(io::Error::other)
    }

    fn append_group<'a, T, R, V: AsRef<[R]>>(
        &mut self,
        rows: &'a [T],
        columns: &[Column<R>],
        views: impl Fn(&'a [T]) -> V,
    ) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for column in columns {
            let mut out = group.next_column()?.expect("the schema has as many columns");
            rows.chunks(BATCH).try_for_each(|batch| write_column(&mut out, views(batch).as_ref(), column))?;
            out.close()?;
        }
        group.close().map(drop)
    }

    /// Bytes of memory that what is known of the groups takes: it stays until the table is finished.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        let columns = self.writer.flushed_row_groups().iter().flat_map(|group| group.columns());
        let bounds = |column: &ColumnChunkMetaData| {
            let bounds = column.statistics().map(|of| [of.min_bytes_opt(), of.max_bytes_opt()]);
            bounds.into_iter().flatten().flatten().map(<[u8]>::len).sum::<usize>()
        };
        columns.map(|column| size_of::<ColumnChunkMetaData>() + bounds(column)).sum()
    }

    /// Writes what makes a table of the rows, with more `origin` in its metadata.
    pub fn finish(mut self, origin: &Origin) -> io::Result<W> {
        pairs(origin).for_each(|pair| self.writer.append_key_value_metadata(pair));
        self.writer.into_inner().map_err(io::Error::other)
    }
}

fn pairs(origin: &Origin) -> impl Iterator<Item = KeyValue> + '_ {
    origin.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()))
}

/// A file with these columns, every one nullable, in which no row stands yet.
pub(super) fn open<W: Write + Send>(
    out: W,
    fields: &[Field<'_>],
    origin: &Origin,
    properties: WriterPropertiesBuilder,
) -> io::Result<SerializedFileWriter<W>> {
    let about = fields.iter().map(|f| KeyValue::new(format!("column.{}", f.name), f.about.to_owned()));
    let properties = properties
        .set_compression(Compression::SNAPPY)
        .set_created_by("framewire".to_owned())
        .set_key_value_metadata(Some(pairs(origin).chain(about).collect()))
        .build();
    let schema = schema(fields).map_err(io::Error::other)?;
    SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(io::Error::other)
}

fn schema(fields: &[Field<'_>]) -> Result<TypePtr, ParquetError> {
    let fields: Result<Vec<TypePtr>, ParquetError> = fields
        .iter()
        .map(|field| {
            let (physical, logical) = match field.kind {
                Kind::Int => (Physical::INT64, None),
                Kind::Real => (Physical::DOUBLE, None),
                Kind::Flag => (Physical::BOOLEAN, None),
                Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let field = Type::primitive_type_builder(field.name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical);
            field.build().map(Arc::new)
        })
        .collect();
    Type::group_type_builder("framewire").with_fields(fields?).build().map(Arc::new)
}

fn write_column<R>(
    out: &mut SerializedColumnWriter<'_>,
    rows: &[R],
    column: &Column<R>,
) -> Result<(), ParquetError> {
    match column.get {
        Get::Int(get) => write_values::<Int64Type>(out, rows.iter().map(get)),
        Get::Real(get) => write_values::<DoubleType>(out, rows.iter().map(get)),
        Get::Flag(get) => write_values::<BoolType>(out, rows.iter().map(get)),
        Get::Text(get) => {
            write_values::<ByteArrayType>(out, rows.iter().map(|r| get(r).map(ByteArray::from)))
        }
    }
}

/// Parquet keeps only values that are there, and a level of 0 or 1 for every row.
pub(super) fn write_values<T: DataType>(
    out: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for cell in cells {
        levels.push(i16::from(cell.is_some()));
        values.extend(cell);
    }
    out.typed::<T>().write_batch(&values, Some(&levels), None).map(drop)
}
