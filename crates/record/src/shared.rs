//! One recorder for all nodes of a run.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use parking_lot::ReentrantMutex;
use units::{HostClock, Time, unlikely};

use crate::{Event, NodeId, Recorder, Topic, Topics};

/// A recorder behind a lock: in a [`Mutex`] where threads share it, in a [`Reentrant`] where one thread makes
/// most of the events.
pub trait Sink: Send + Sync {
    /// Takes one event.
    fn record(&self, at: Time, node: NodeId, event: &Event);

    /// What it wants to hear of from `node`; see [`Recorder::wants`].
    fn wants(&self, node: NodeId) -> Topics;

    /// Does `work`, which records many events. A lock that allows it is held all the while, which is cheaper
    /// than to take it for each.
    fn during(&self, work: &mut dyn FnMut()) {
        work();
    }
}

/// A recorder that several nodes share.
pub type Shared = Arc<dyn Sink>;

impl<R: Recorder + Send> Sink for Mutex<R> {
    fn record(&self, at: Time, node: NodeId, event: &Event) {
        self.lock().expect("a recorder panicked earlier").record(at, node, event);
    }

    fn wants(&self, node: NodeId) -> Topics {
        self.lock().expect("a recorder panicked earlier").wants(node)
    }
}

/// A recorder behind a lock that whoever holds it may take again for next to nothing: a simulated world holds
/// it while it runs ([`Sink::during`]), so that no event pays for a lock.
///
/// ```
/// use std::sync::Arc;
///
/// use framewire_record::{Event, Memory, NodeId, Reentrant, Tap};
/// use units::{HostClock, Time};
///
/// let memory = Arc::new(Reentrant::new(Memory::default()));
/// let tap = Tap::new(memory.clone(), NodeId(1), HostClock::default());
/// tap.record(Time::from_millis(5), Event::FrameCaptured { stream: 0, frame: 7 });
/// assert_eq!(memory.with(|memory| memory.events.len()), 1);
/// ```
pub struct Reentrant<R>(ReentrantMutex<RefCell<R>>);

impl<R> Reentrant<R> {
    /// Puts `recorder` behind a lock.
    pub fn new(recorder: R) -> Reentrant<R> {
        Reentrant(ReentrantMutex::new(RefCell::new(recorder)))
    }

    /// What `look` makes of the recorder. It must not let anything be recorded.
    ///
    /// # Panics
    /// If something is recorded meanwhile by this thread; another waits.
    pub fn with<T>(&self, look: impl FnOnce(&mut R) -> T) -> T {
        look(&mut self.0.lock().borrow_mut())
    }

    /// The recorder itself.
    pub fn into_inner(self) -> R {
        self.0.into_inner().into_inner()
    }
}

impl<R: Recorder + Send> Sink for Reentrant<R> {
    fn record(&self, at: Time, node: NodeId, event: &Event) {
        self.with(|recorder| recorder.record(at, node, event));
    }

    fn wants(&self, node: NodeId) -> Topics {
        self.with(|recorder| recorder.wants(node))
    }

    fn during(&self, work: &mut dyn FnMut()) {
        let _held = self.0.lock();
        work();
    }
}

/// One node's handle to the run's recorder; silent by default.
#[derive(Clone, Default)]
pub struct Tap {
    recorder: Option<Shared>,
    node: u16,
    wants: Topics,
    clock: HostClock,
}

impl Tap {
    /// A tap of `node`, whose own clock is `clock`, into `recorder`. Asks the recorder here, once, of which
    /// topics it wants to hear from this node.
    ///
    /// # Panics
    /// If the recorder is being [looked at](Reentrant::with) by this thread, or panicked earlier.
    pub fn new(recorder: Shared, node: NodeId, clock: HostClock) -> Tap {
        let wants = recorder.wants(node);
        Tap { recorder: Some(recorder), node: node.0, wants, clock }
    }

    /// Records `event`, which happened at `local` on this node's clock.
    #[inline(always)]
    pub fn record(&self, local: Time, event: Event) {
        // Only this much is inlined, so that what nobody wants is not made.
        if self.wants.has(event.topic()) {
            self.write(local, &event);
        }
    }

    // Few of the flows that are simulated are recorded: what prepares an event lies apart from what always
    // runs.
    #[cold]
    fn write(&self, local: Time, event: &Event) {
        if let Some(recorder) = &self.recorder {
            recorder.record(self.clock.world(local), NodeId(self.node), event);
        }
    }

    /// False where no event is wanted, so that a caller may skip preparing one.
    #[inline]
    pub fn is_on(&self) -> bool {
        unlikely(!self.wants.is_empty())
    }

    /// Whether events of `topic` are wanted, so that a caller may skip preparing one.
    #[inline(always)]
    pub fn wants(&self, topic: Topic) -> bool {
        unlikely(self.wants.has(topic))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use units::Span;

    use crate::{Fan, Memory};

    use super::*;

    #[test]
    fn a_tap_records_world_time() {
        let memory = Arc::new(Mutex::new(Memory::default()));
        let clock = HostClock::new(Span::from_secs(3600), 0.0);
        let tap = Tap::new(memory.clone(), NodeId(3), clock);
        tap.record(clock.local(Time::from_millis(5)), Event::NackSent { count: 1 });
        assert_eq!(memory.lock().unwrap().events[0].0, Time::from_millis(5));
        Tap::default().record(Time::ZERO, Event::NackSent { count: 1 });
    }

    /// Wants to hear of losses, of node 2 alone.
    #[derive(Default)]
    struct Losses(Vec<Event>);

    impl Recorder for Losses {
        fn record(&mut self, _: Time, _: NodeId, event: &Event) {
            self.0.push(*event);
        }

        fn wants(&self, node: NodeId) -> Topics {
            Topics::only_if(node == NodeId(2), Topic::Fates)
        }
    }

    #[test]
    fn what_nobody_wants_is_not_recorded() {
        let events = [Event::NackSent { count: 1 }, Event::PacketLost { packet: 7, size: 9 }];
        let told = |recorder: Shared, node| {
            let tap = Tap::new(recorder, NodeId(node), HostClock::default());
            events.iter().for_each(|event| tap.record(Time::ZERO, *event));
            tap.is_on()
        };
        let losses = Arc::new(Mutex::new(Losses::default()));
        assert_eq!([1, 2].map(|node| told(losses.clone(), node)), [false, true]);
        assert_eq!(losses.lock().unwrap().0, events[1..]);
        // Who hears of it beside somebody who wants all, hears of all.
        let both = Arc::new(Reentrant::new(Fan(Some(Memory::default()), Losses::default())));
        assert!(told(both.clone(), 1));
        assert_eq!(both.with(|both| both.1.0.clone()), events);
        let neither = Arc::new(Reentrant::new(Fan(None::<Memory>, Losses::default())));
        assert!(!told(neither, 1));
    }

    #[test]
    fn whoever_holds_a_recorder_records_and_others_wait() {
        let memory = Arc::new(Reentrant::new(Memory::default()));
        let record = |node| memory.record(Time::ZERO, NodeId(node), &Event::NackSent { count: 1 });
        let held = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !held.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                record(2);
            });
            memory.during(&mut || {
                held.store(true, Ordering::Release);
                for _ in 0..1_000 {
                    record(1);
                    std::thread::yield_now();
                }
                assert_eq!(memory.with(|memory| memory.events.len()), 1_000);
            });
        });
        let events = Arc::into_inner(memory).unwrap().into_inner().events;
        let nodes: Vec<u16> = events.iter().map(|event| event.1.0).collect();
        assert_eq!(nodes.len(), 1_001);
        assert_eq!((nodes.iter().position(|node| *node == 2), nodes.last()), (Some(1_000), Some(&2)));
    }
}
