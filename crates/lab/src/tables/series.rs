//! One Parquet file from columns whose names are known only when the program runs: a sweep's settings.

use std::io;
use std::path::Path;

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedColumnWriter;

use super::Origin;
use super::parquet_file::{Field, GROUP, Kind, open, write_values};
use crate::files::{WriteError, write_whole};

/// A column with its values, one a row; what is not known is `None`.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Whole numbers.
    Int(Vec<Option<i64>>),
    /// Real numbers.
    Real(Vec<Option<f64>>),
    /// Text, of any length.
    Text(Vec<Option<String>>),
}

impl Values {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        match self {
            Values::Int(values) => values.len(),
            Values::Real(values) => values.len(),
            Values::Text(values) => values.len(),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn kind(&self) -> Kind {
        match self {
            Values::Int(_) => Kind::Int,
            Values::Real(_) => Kind::Real,
            Values::Text(_) => Kind::Text,
        }
    }

    fn write(
        &self,
        out: &mut SerializedColumnWriter<'_>,
        from: usize,
        to: usize,
    ) -> Result<(), ParquetError> {
        match self {
            Values::Int(values) => write_values::<Int64Type>(out, values[from..to].iter().copied()),
            Values::Real(values) => write_values::<DoubleType>(out, values[from..to].iter().copied()),
            Values::Text(values) => {
                let texts = values[from..to].iter().map(|text| text.as_deref().map(ByteArray::from));
                write_values::<ByteArrayType>(out, texts)
            }
        }
    }
}

/// A named column with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the file.
    pub name: String,
    /// What it holds, with its unit.
    pub about: String,
    /// Its values, one a row.
    pub values: Values,
}

impl Series {
    fn field(&self) -> Field<'_> {
        Field { name: &self.name, about: &self.about, kind: self.values.kind() }
    }
}

/// Writes `columns`, all of the same length, to `path`, with `origin` in the file's metadata. The same
/// columns make the same bytes.
///
/// # Errors
/// [`WriteError`] naming the file; nothing is left half-written.
///
/// # Panics
/// If the columns differ in length.
pub fn write_series(path: &Path, columns: &[Series], origin: &Origin) -> Result<(), WriteError> {
    let rows = columns.first().map_or(0, |column| column.values.len());
    assert!(columns.iter().all(|column| column.values.len() == rows), "a table is a rectangle");
    let fields: Vec<Field<'_>> = columns.iter().map(Series::field).collect();
    write_whole(path, |file| {
        let mut writer = open(file, &fields, origin, WriterProperties::builder())?;
        for from in (0..rows).step_by(GROUP) {
            let to = rows.min(from + GROUP);
            let mut group = writer.next_row_group().map_err(io::Error::other)?;
            for column in columns {
                let mut out = group.next_column().map_err(io::Error::other)?.expect("one for each field");
                column.values.write(&mut out, from, to).map_err(io::Error::other)?;
                out.close().map_err(io::Error::other)?;
            }
            group.close().map_err(io::Error::other)?;
        }
        writer.close().map(drop).map_err(io::Error::other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn a_table_reads_as_it_was_written() {
        let path = std::env::temp_dir().join(format!("framewire-series-{}.parquet", std::process::id()));
        let series = |name: &str, values| Series { name: name.into(), about: String::new(), values };
        let columns = [
            series("run", Values::Int(vec![Some(7), None])),
            series("link.rate", Values::Text(vec![None, Some("1mbit".into())])),
            series("loss", Values::Real(vec![Some(0.1), Some(-0.0)])),
        ];
        write_series(&path, &columns, &vec![("commit".into(), "abc".into())]).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        write_series(&path, &columns, &vec![("commit".into(), "abc".into())]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let file = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].get_long(0).unwrap(), rows[0].get_double(2).unwrap()), (7, 0.1));
        assert!(rows[1].get_long(0).is_err() && rows[0].get_string(1).is_err());
        assert_eq!(rows[1].get_string(1).unwrap(), "1mbit");
        assert_eq!(rows[1].get_double(2).unwrap().to_bits(), (-0.0f64).to_bits());
        std::fs::remove_file(&path).unwrap();
    }
}
