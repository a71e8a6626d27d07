//! Where events go.

use std::hash::{Hash as _, Hasher};

use units::Time;

use crate::{Event, NodeId, Topics};

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

    /// What it wants to hear of from `node`. A node asks once, before its first event, and makes no events of
    /// other topics, or makes them in vain.
    fn wants(&self, _node: NodeId) -> Topics {
        Topics::ALL
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

/// Passes events on where there is somebody to take them.
impl<R: Recorder> Recorder for Option<R> {
    fn record(&mut self, at: Time, node: NodeId, event: &Event) {
        if let Some(recorder) = self {
            recorder.record(at, node, event);
        }
    }

    fn wants(&self, node: NodeId) -> Topics {
        self.as_ref().map_or(Topics::NONE, |recorder| recorder.wants(node))
    }
}

/// Passes every event to two recorders. What one of them wants the other hears of too.
#[derive(Default)]
pub struct Fan<A, B>(pub A, pub B);

impl<A: Recorder, B: Recorder> Recorder for Fan<A, B> {
    fn record(&mut self, at: Time, node: NodeId, event: &Event) {
        self.0.record(at, node, event);
        self.1.record(at, node, event);
    }

    fn wants(&self, node: NodeId) -> Topics {
        self.0.wants(node) | self.1.wants(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
