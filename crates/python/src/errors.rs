//! What goes wrong, as Python's exceptions.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::{PyErr, PyResult};

/// Something given is not acceptable, in the command's own words.
pub fn refused(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A result could not be written.
pub fn unwritten(error: impl Display) -> PyErr {
    PyOSError::new_err(error.to_string())
}

/// Does `work`; a panic of it becomes an exception.
pub fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(broken(&*panic)))
}

/// The exception of a panic. PyO3's own derives from `BaseException`, which nobody catches.
pub fn broken(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for no known reason");
    PyRuntimeError::new_err(format!("Framewire broke down: {text}; please report it with the scenario"))
}
