//! A camera on a thread of its own.

use std::sync::{Arc, Mutex};

use media::{RawFrame, Source};
use units::Span;

/// A source that goes at its own pace, read on a thread of its own; who asks is given the newest picture at
/// once.
///
/// A camera's clock is not ours. Where it is slower a picture is sent twice, which costs an encoder next to
/// nothing; where it is faster one is left out. Waiting for its next picture would hold up the network, and a
/// queue would only grow old.
pub struct Newest {
    size: (usize, usize),
    interval: Span,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    picture: Option<Arc<RawFrame>>,
    ended: bool,
    /// Nobody asks any more.
    dropped: bool,
}

impl Newest {
    /// Reads `source` as fast as it comes. Waits for its first picture.
    pub fn new(mut source: Box<dyn Source>) -> Newest {
        let (size, interval) = (source.size(), source.interval());
        let first = source.next_picture();
        let ended = first.is_none();
        let state = Arc::new(Mutex::new(State { picture: first, ended, dropped: false }));
        let theirs = state.clone();
        std::thread::spawn(move || {
            loop {
                let next = source.next_picture();
                let mut state = theirs.lock().expect("nothing panics while it holds this");
                state.ended = next.is_none();
                state.picture = next.or(state.picture.take());
                if state.ended || state.dropped {
                    return;
                }
            }
        });
        Newest { size, interval, state }
    }
}

impl Source for Newest {
    fn size(&self) -> (usize, usize) {
        self.size
    }
    fn interval(&self) -> Span {
        self.interval
    }
    /// The newest picture, which may be the one before; `None` once the source has ended.
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        let state = self.state.lock().expect("nothing panics while it holds this");
        state.picture.clone().filter(|_| !state.ended)
    }
}

impl Drop for Newest {
    fn drop(&mut self) {
        self.state.lock().expect("nothing panics while it holds this").dropped = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    struct Camera(Receiver<u8>);
    impl Source for Camera {
        fn size(&self) -> (usize, usize) {
            (2, 2)
        }
        fn interval(&self) -> Span {
            Span::from_millis(33)
        }
        fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
            Some(Arc::new(RawFrame::filled(2, 2, self.0.recv().ok()?, 0, 0)))
        }
    }

    #[test]
    fn whoever_asks_gets_the_newest_and_waits_for_none() {
        let (send, pictures) = channel();
        send.send(1).unwrap();
        let mut newest = Newest::new(Box::new(Camera(pictures)));
        let mut luma = || newest.next_picture().map(|picture| picture.y[0]);
        assert_eq!((luma(), luma()), (Some(1), Some(1)));
        send.send(2).unwrap();
        send.send(3).unwrap();
        while luma() != Some(3) {
            std::thread::yield_now();
        }
        drop(send);
        while luma().is_some() {
            std::thread::yield_now();
        }
    }
}
