//! Long work for Python: a thread of its own does it, without the interpreter's lock, and the thread that
//! called looks after signals and progress meanwhile, so that Ctrl-C is heard within a moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors::broken;

/// How long a signal waits, and a progress bar stands.
const LOOK: Duration = Duration::from_millis(50);

/// Does `work`, which ends early once `stop` is set. `look` is called as it goes on and once after its end;
/// what it raises sets `stop`, and is raised once the work has ended. Call it without the interpreter's lock.
pub fn attended<T: Send>(
    stop: &AtomicBool,
    mut look: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let mut looked = || Python::attach(|py| py.check_signals().and_then(|()| look(py)));
    let (result, asked) = thread::scope(|scope| {
        let (working, ended) = channel::<()>();
        let work = scope.spawn(|| {
            // Gone with the thread, however it ends.
            let _working = working;
            // Known to the interpreter from here on: otherwise each call into Python would make that anew.
            Python::attach(|py| py.detach(work))
        });
        let mut asked = Ok(());
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK) {
            if asked.is_ok() {
                asked = looked().inspect_err(|_| stop.store(true, Ordering::Relaxed));
            }
        }
        (work.join(), asked)
    });
    asked?;
    let result = result.map_err(|panic| broken(&*panic))?;
    looked()?;
    Ok(result)
}
