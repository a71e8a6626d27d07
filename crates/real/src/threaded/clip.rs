//! A clip on a thread of its own.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use media::{RawFrame, Source};
use units::Span;

/// A clip read ahead on a thread of its own, so that reading (from a disk or an `ffmpeg` process) holds
/// nobody up.
pub struct Prefetched {
    size: (usize, usize),
    interval: Span,
    pictures: Receiver<Arc<RawFrame>>,
    /// The next one, if it was looked for.
    next: Option<Arc<RawFrame>>,
}

impl Prefetched {
    /// Reads `source` at most `ahead` pictures ahead.
    pub fn new(mut source: Box<dyn Source>, ahead: usize) -> Prefetched {
        let (size, interval) = (source.size(), source.interval());
        let (send, pictures) = sync_channel(ahead);
        std::thread::spawn(move || {
            while let Some(picture) = source.next_picture() {
                if send.send(picture).is_err() {
                    return;
                }
            }
        });
        Prefetched { size, interval, pictures, next: None }
    }
}

impl Source for Prefetched {
    fn size(&self) -> (usize, usize) {
        self.size
    }
    fn interval(&self) -> Span {
        self.interval
    }
    /// Whether reading has not fallen behind.
    fn is_ready(&mut self) -> bool {
        if self.next.is_none() {
            match self.pictures.try_recv() {
                Ok(picture) => self.next = Some(picture),
                Err(TryRecvError::Empty) => return false,
                // It has ended, which is told at once.
                Err(TryRecvError::Disconnected) => {}
            }
        }
        true
    }
    /// The next picture; waits where reading has fallen behind.
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        self.next.take().or_else(|| self.pictures.recv().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(u32);
    impl Source for Counting {
        fn size(&self) -> (usize, usize) {
            (2, 2)
        }
        fn interval(&self) -> Span {
            Span::from_millis(40)
        }
        fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
            self.0 = self.0.checked_sub(1)?;
            Some(Arc::new(RawFrame::filled(2, 2, self.0 as u8, 0, 0)))
        }
    }

    #[test]
    fn a_clip_that_is_slow_to_read_is_not_waited_for() {
        let (go, gate) = std::sync::mpsc::channel();
        struct Gated(Receiver<()>);
        impl Source for Gated {
            fn size(&self) -> (usize, usize) {
                (2, 2)
            }
            fn interval(&self) -> Span {
                Span::from_millis(40)
            }
            fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
                self.0.recv().ok().map(|()| Arc::new(RawFrame::filled(2, 2, 1, 0, 0)))
            }
        }
        let mut clip = Prefetched::new(Box::new(Gated(gate)), 3);
        assert!(!clip.is_ready());
        go.send(()).unwrap();
        while !clip.is_ready() {
            std::thread::yield_now();
        }
        assert!(clip.is_ready() && clip.next_picture().is_some() && !clip.is_ready());
        drop(go);
        while !clip.is_ready() {
            std::thread::yield_now();
        }
        assert!(clip.next_picture().is_none());
    }

    #[test]
    fn a_clip_read_ahead_is_the_same_clip() {
        let mut clip = Prefetched::new(Box::new(Counting(10)), 3);
        assert_eq!((clip.size(), clip.interval()), ((2, 2), Span::from_millis(40)));
        let values: Vec<u8> =
            std::iter::from_fn(|| clip.next_picture()).map(|picture| picture.y[0]).collect();
        assert_eq!(values, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        // A clip nobody reads on ends its thread instead of waiting for ever.
        drop(Prefetched::new(Box::new(Counting(u32::MAX)), 1));
    }
}
