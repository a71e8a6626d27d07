//! A table as data frames take it.

use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};

use crate::arrow::{self, Frame};

/// Columns in memory, lent out through Arrow's C interface without a copy.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct Table(Arc<Frame>);

impl Table {
    /// Of columns that are whole.
    pub fn new(frame: Frame) -> Table {
        Table(Arc::new(frame))
    }
}

#[pymethods]
impl Table {
    /// Arrow's PyCapsule interface. A schema that is wished for is not heeded, which the interface permits.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        PyCapsule::new_with_value(py, arrow::stream(&self.0), c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, arrow::schema(&self.0), c"arrow_schema")
    }

    /// Each column's name and what it holds.
    fn columns(&self) -> Vec<(String, String)> {
        self.0.columns()
    }

    fn rows(&self) -> usize {
        self.0.rows()
    }

    /// A column's kind (`int`, `real`, `flag`) with eight bytes a value (a flag: one) and one byte a row that
    /// says whether it is there; of text (`text`) a list.
    fn values<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let column = self.0.column(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        if let Some(texts) = self.0.texts(column) {
            return ("text", texts).into_pyobject(py).map(Bound::into_any);
        }
        let (kind, values, there) = self.0.numbers(column);
        (kind, PyBytes::new(py, &values), PyBytes::new(py, &there)).into_pyobject(py).map(Bound::into_any)
    }
}
