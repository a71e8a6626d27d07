//! The threads that QUIC runs on.

use std::io;

use tokio::runtime::{Builder, Handle};

use crate::prompt::Prompt;

/// One or two threads on which quinn's endpoints run, apart from the driver's. They wake as promptly as a
/// driver's: between a pacer's decision and the wire there is one of them.
pub struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    /// A runtime of `threads` threads, at least one.
    ///
    /// # Errors
    /// Where the system has no threads to give.
    pub fn new(threads: usize) -> io::Result<Runtime> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("quic")
            // Prompt for as long as the thread lives.
            .on_thread_start(|| std::mem::forget(Prompt::ask()))
            .enable_io()
            .enable_time()
            .build()?;
        Ok(Runtime(runtime))
    }

    /// One ordinary thread, for what need not be prompt and must not hold up what does: answering a scraper,
    /// say.
    ///
    /// # Errors
    /// As [`new`](Runtime::new).
    pub fn ordinary() -> io::Result<Runtime> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("errands")
            .enable_io()
            .enable_time()
            .build()?;
        Ok(Runtime(runtime))
    }

    /// To start tasks on it.
    pub fn handle(&self) -> &Handle {
        self.0.handle()
    }
}
