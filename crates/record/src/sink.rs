//! Where events go.

use std::hash::{Hash as _, Hasher};
use std::sync::{Arc, Mutex};

use units::{HostClock, Time};

use crate::{Event, NodeId};

/// Takes events as they happen, in the order they happen. `at` is world time.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use framewire_record::{Event, NodeId, Recorder, Tap};
/// use units::{HostClock, Time};
///
/// /// Counts the frames that each node has captured.
/// #[derive(Default)]
/// struct Captured {
///     by_node: [u32; 2],
/// }
///
/// impl Recorder for Captured {
///     fn record(&mut self, _at: Time, node: NodeId, event: &Event) {
///         if let Event::FrameCaptured { .. } = event {
///             self.by_node[usize::from(node.0)] += 1;
///         }
///     }
/// }
///
/// let counts = Arc::new(Mutex::new(Captured::default()));
/// // An endpoint or a link gets a tap, and is node 1 to the recorder.
/// let tap = Tap::new(counts.clone(), NodeId(1), HostClock::default());
/// tap.record(Time::from_millis(5), Event::FrameCaptured { stream: 0, frame: 7 });
/// assert_eq!(counts.lock().unwrap().by_node, [0, 1]);
/// ```
pub trait Recorder {
    /// Takes one event.
    fn record(&mut self, at: Time, node: NodeId, event: &Event);
}

/// A recorder that several nodes share.
pub type Shared = Arc<Mutex<dyn Recorder + Send>>;

/// One node's handle to the run's recorder; silent by default.
#[derive(Clone, Default)]
pub struct Tap {
    recorder: Option<Shared>,
    node: u16,
    clock: HostClock,
}

impl Tap {
    /// A tap of `node`, whose own clock is `clock`, into `recorder`.
    pub fn new(recorder: Shared, node: NodeId, clock: HostClock) -> Tap {
        Tap { recorder: Some(recorder), node: node.0, clock }
    }

    /// Records `event`, which happened at `local` on this node's clock.
    #[inline(always)]
    pub fn record(&self, local: Time, event: Event) {
        // Only this much is inlined, so that where nobody records no event is made.
        if let Some(recorder) = &self.recorder {
            self.write(recorder, local, &event);
        }
    }

    // Few of the flows that are simulated are recorded: what prepares an event lies apart from what always
    // runs.
    #[cold]
    fn write(&self, recorder: &Shared, local: Time, event: &Event) {
        let mut recorder = recorder.lock().expect("a recorder panicked earlier");
        recorder.record(self.clock.world(local), NodeId(self.node), event);
    }

    /// False where events go nowhere, so that a caller may skip preparing one.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.recorder.is_some()
    }
}

/// Keeps every event.
#[derive(Default)]
pub struct Memory {
    /// The events so far.
    pub events: Vec<(Time, NodeId, Event)>,
}

impl Recorder for Memory {
    fn record(&mut self, at: Time, node: NodeId, event: &Event) {
        self.events.push((at, node, *event));
    }
}

/// Folds every event into one number: two runs are the same if and only if (but for chance) their hashes are.
#[derive(Clone, Debug)]
pub struct Hash {
    state: u64,
    count: u64,
}

impl Default for Hash {
    fn default() -> Hash {
        Hash { state: 0x9e37_79b9_7f4a_7c15, count: 0 }
    }
}

impl Hash {
    /// The hash of everything recorded so far, as 16 hexadecimal digits.
    pub fn hex(&self) -> String {
        format!("{:016x}", self.finish() ^ self.count)
    }
}

impl Hasher for Hash {
    fn finish(&self) -> u64 {
        let z = (self.state ^ (self.state >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        z ^ (z >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(u64::from(b)));
    }
    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }
    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_i64(&mut self, n: i64) {
        self.write_u64(n as u64);
    }
    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }
    fn write_u64(&mut self, n: u64) {
        // Multiply-rotate folding; the finaliser above spreads the last word.
        self.state = (self.state.rotate_left(23) ^ n).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Recorder for Hash {
    fn record(&mut self, at: Time, node: NodeId, event: &Event) {
        (at, node, event).hash(self);
        self.count += 1;
    }
}

/// Passes every event to two recorders.
#[derive(Default)]
pub struct Fan<A, B>(pub A, pub B);

impl<A: Recorder, B: Recorder> Recorder for Fan<A, B> {
    fn record(&mut self, at: Time, node: NodeId, event: &Event) {
        self.0.record(at, node, event);
        self.1.record(at, node, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    #[test]
    fn the_hash_sees_order_time_and_place() {
        let a = Event::FrameCaptured { stream: 0, frame: 1 };
        let b = Event::FrameSkipped { stream: 0, frame: 1 };
        let run = |events: &[(u64, u16, Event)]| {
            let mut hash = Hash::default();
            events.iter().for_each(|(t, n, e)| hash.record(Time::from_nanos(*t), NodeId(*n), e));
            hash.hex()
        };
        let base = run(&[(1, 0, a), (2, 0, b)]);
        assert_eq!(base, run(&[(1, 0, a), (2, 0, b)]));
        assert_ne!(base, run(&[(2, 0, b), (1, 0, a)]));
        assert_ne!(base, run(&[(1, 0, a), (3, 0, b)]));
        assert_ne!(base, run(&[(1, 0, a), (2, 1, b)]));
        assert_ne!(base, run(&[(1, 0, a)]));
    }

    #[test]
    fn a_tap_records_world_time() {
        let memory = Arc::new(Mutex::new(Memory::default()));
        let clock = HostClock::new(Span::from_secs(3600), 0.0);
        let tap = Tap::new(memory.clone(), NodeId(3), clock);
        tap.record(clock.local(Time::from_millis(5)), Event::NackSent { count: 1 });
        assert_eq!(memory.lock().unwrap().events[0].0, Time::from_millis(5));
        Tap::default().record(Time::ZERO, Event::NackSent { count: 1 });
    }
}
