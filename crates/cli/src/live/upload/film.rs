//! The camera, which goes on while no sender carries what it films.

use std::sync::{Arc, Mutex, MutexGuard};

use media::{RawFrame, Source};
use units::Span;

/// A source that one sender after the other takes its pictures from.
#[derive(Clone)]
pub struct Film {
    source: Arc<Mutex<Box<dyn Source>>>,
    size: (usize, usize),
    interval: Span,
}

impl Film {
    /// What `source` shows.
    pub fn new(source: Box<dyn Source>) -> Film {
        let (size, interval) = (source.size(), source.interval());
        Film { source: Arc::new(Mutex::new(source)), size, interval }
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    /// Time between two pictures.
    pub fn interval(&self) -> Span {
        self.interval
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Source>> {
        self.source.lock().expect("a clip does not panic")
    }
}

impl Source for Film {
    fn size(&self) -> (usize, usize) {
        self.size
    }
    fn interval(&self) -> Span {
        self.interval
    }
    fn is_ready(&mut self) -> bool {
        self.lock().is_ready()
    }
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        self.lock().next_picture()
    }
}
