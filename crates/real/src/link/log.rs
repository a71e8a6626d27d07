//! What a link tells about each packet, and a way to write it down that never holds a packet up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

use record::Dropped;
use units::{Ecn, Time};

use super::header::Flow;

/// One packet's way through one direction of a link. Times are of the link's clock, which starts with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Counts the packets of this direction, from 0; both copies of a packet that the link doubled have the
    /// same number.
    pub number: u64,
    /// When it was read from the device at the link's entry.
    pub arrived: Time,
    /// Bytes of its IP packet.
    pub size: u32,
    /// The flow it belongs to.
    pub flow: Flow,
    /// Its ECN bits when it came.
    pub ecn: Ecn,
    /// How it ended.
    pub end: End,
}

/// How a packet's way through a link ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It went on.
    Passed {
        /// When the link let it out.
        due: Time,
        /// When it was written to the device at the other end; the difference is what the machine added.
        left: Time,
        /// Its ECN bits when it left.
        ecn: Ecn,
    },
    /// It was dropped.
    Dropped {
        /// When that was seen.
        at: Time,
        /// What dropped it.
        cause: Dropped,
    },
}

/// Follows the packets of one direction. It is called by the thread that moves them and must not wait for
/// anything.
pub trait Log: Send {
    /// A packet of `size` bytes arrives at the link.
    fn arrives(&mut self, _at: Time, _size: u32) {}
    /// A packet's way has ended.
    fn ends(&mut self, _passage: &Passage) {}
    /// Nothing is left to do at `now`; comes once a second at least.
    fn idles(&mut self, _now: Time) {}
    /// The link is closed; nothing more will be told.
    fn closes(&mut self, _now: Time) {}
}

/// Batches that may wait for the writer.
const WAITING: usize = 64;

/// Hands items in batches to a thread that writes them. Where the writer does not keep up, items are lost and
/// counted: packets never wait for a disk.
pub struct Spool<T> {
    batch: Vec<T>,
    size: usize,
    batches: Option<SyncSender<Vec<T>>>,
    writer: Option<JoinHandle<Result<(), String>>>,
    lost: Arc<AtomicU64>,
}

impl<T: Send + 'static> Spool<T> {
    /// Starts a thread that runs `write` on batches of `size` items or a little more; it ends when they do.
    pub fn start(
        size: usize,
        write: impl FnOnce(Receiver<Vec<T>>) -> Result<(), String> + Send + 'static,
    ) -> Spool<T> {
        let (batches, received) = mpsc::sync_channel(WAITING);
        let writer = thread::spawn(move || write(received));
        Spool { batch: room(size), size, batches: Some(batches), writer: Some(writer), lost: Arc::default() }
    }

    /// Another one for the same writer, to be [finished](Spool::finish) before this one.
    pub fn second(&self) -> Spool<T> {
        let Spool { size, batches, lost, .. } = self;
        Spool { batch: room(*size), size: *size, batches: batches.clone(), writer: None, lost: lost.clone() }
    }

    /// Takes one item, or several that belong together.
    pub fn take(&mut self, items: impl IntoIterator<Item = T>) {
        self.batch.extend(items);
        if self.batch.len() >= self.size {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        let full = std::mem::replace(&mut self.batch, room(self.size));
        if let Some(Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch))) =
            self.batches.as_ref().map(|batches| batches.try_send(full))
        {
            self.lost.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
    }

    /// Hands over the rest and, if this is the one the writer was started with, waits until everything is
    /// written; how many items were lost because the writer did not keep up.
    ///
    /// # Errors
    /// What the writer could not do.
    pub fn finish(&mut self) -> Result<u64, String> {
        // The last batch may wait its turn: no packet waits any more. A writer that has ended says why below.
        if let Some(batches) = self.batches.take() {
            let _ = batches.send(std::mem::take(&mut self.batch));
        }
        let written =
            self.writer.take().map_or(Ok(()), |writer| writer.join().expect("the writer does not panic"));
        written.map(|()| self.lost.load(Ordering::Relaxed))
    }
}

fn room<T>(size: usize) -> Vec<T> {
    Vec::with_capacity(size + size / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn everything_is_written_in_order() {
        let (written, result) = mpsc::channel();
        let mut spool = Spool::start(100, move |batches| {
            written
                .send(batches.into_iter().flatten().collect::<Vec<u32>>())
                .map_err(|error| error.to_string())
        });
        for chunk in 0..500 {
            spool.take(chunk * 7..(chunk + 1) * 7);
            if chunk % 20 == 0 {
                thread::yield_now();
            }
        }
        let lost = spool.finish().unwrap();
        let written = result.recv().unwrap();
        assert_eq!(written.len() as u64 + lost, 3500);
        assert!(lost > 0 || written == (0..3500).collect::<Vec<_>>());
    }

    #[test]
    fn a_slow_writer_costs_items_and_not_time() {
        let gate = Arc::new(Barrier::new(2));
        let held = gate.clone();
        let mut spool = Spool::start(1, move |batches| {
            held.wait();
            batches.into_iter().for_each(drop);
            Ok(())
        });
        (0..200u32).for_each(|item| spool.take([item]));
        gate.wait();
        assert_eq!(spool.finish(), Ok(200 - WAITING as u64));
    }

    #[test]
    fn two_share_a_writer() {
        let (written, result) = mpsc::channel();
        let mut first = Spool::start(3, move |batches| {
            written.send(batches.into_iter().flatten().sum::<u32>()).map_err(|error| error.to_string())
        });
        let mut second = first.second();
        first.take(0..10);
        second.take(10..20);
        assert_eq!((second.finish(), first.finish()), (Ok(0), Ok(0)));
        assert_eq!(result.recv(), Ok(190));
    }

    #[test]
    fn what_the_writer_could_not_do_is_said() {
        let mut spool = Spool::<u8>::start(1, |_| Err("disk full".to_owned()));
        (0..10).for_each(|item| spool.take([item]));
        assert_eq!(spool.finish(), Err("disk full".to_owned()));
    }
}
