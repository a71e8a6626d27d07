//! What the two captures take their pictures from.

use std::sync::Arc;

use media::{RawFrame, Source};
use units::{Span, Time};

use crate::Upload;

/// The camera, which fills the archive.
pub struct Camera {
    pub upload: Upload,
    pub source: Box<dyn Source>,
}

impl Source for Camera {
    fn size(&self) -> (usize, usize) {
        self.source.size()
    }
    fn interval(&self) -> Span {
        self.source.interval()
    }
    fn is_ready(&mut self) -> bool {
        self.source.is_ready()
    }
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        let picture = self.source.next_picture();
        let mut state = self.upload.lock();
        match &picture {
            Some(picture) => state.filmed(picture.clone()),
            None => state.camera_ended(),
        }
        if self.upload.at_once {
            state.pictures.pack();
        }
        picture
    }
}

/// Pictures out of the archive, as the plan wants them.
pub struct Again {
    pub upload: Upload,
    pub size: (usize, usize),
    pub interval: Span,
    /// When the last one was captured. Before the first one, a time that says that this is an archive.
    pub captured: Option<Time>,
}

impl Source for Again {
    fn size(&self) -> (usize, usize) {
        self.size
    }
    fn interval(&self) -> Span {
        self.interval
    }
    fn is_ready(&mut self) -> bool {
        let mut state = self.upload.lock();
        if self.upload.at_once {
            state.unpack();
        }
        state.is_over() || state.has_picture()
    }
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        let (captured, picture) = self.upload.lock().take_picture()?;
        self.captured = Some(captured);
        Some(picture)
    }
    fn captured(&self) -> Option<Time> {
        Some(self.captured.unwrap_or(Time::ZERO))
    }
}
