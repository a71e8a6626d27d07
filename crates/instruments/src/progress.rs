//! How far an instrument is, for whoever watches it.

/// Whoever wants to know how far an instrument is: a terminal, or nobody (`()`).
pub trait Progress {
    /// Work of `steps` steps begins (0: of unknown length), called `what`. It is over when the bar is
    /// dropped.
    fn begin(&self, steps: u64, what: &str) -> Box<dyn Bar>;
}

/// One piece of work that goes on.
pub trait Bar: Send + Sync {
    /// One more step is done.
    fn advance(&self);
    /// So many steps are done in all.
    fn reach(&self, done: u64);
    /// What is done at present.
    fn say(&self, what: String);
}

impl Progress for () {
    fn begin(&self, _: u64, _: &str) -> Box<dyn Bar> {
        Box::new(())
    }
}

impl Bar for () {
    fn advance(&self) {}
    fn reach(&self, _: u64) {}
    fn say(&self, _: String) {}
}
