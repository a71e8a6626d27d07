//! What is decoded, and when it is shown.

use record::Event;
use units::{Span, Time};
use wire::FrameId;

use super::Receiver;
use crate::chain::{self, Chain};
use crate::decoding::Done;
use crate::display::Shown;
use crate::playout::Ready;
use crate::versions::{Version, Versions};

impl Receiver {
    /// When something is next to be given up, asked for, taken from a decoder or shown. It is asked for after
    /// every packet, and most change nothing of it.
    #[inline]
    pub(super) fn shown_next(&self) -> Option<Time> {
        let wanted = if self.undisturbed.get() { self.wanted.get() } else { self.look_up_wanted() };
        debug_assert_eq!(wanted, self.look_at_chains(), "a packet changed what chains want");
        wanted
    }

    #[inline(never)]
    fn look_up_wanted(&self) -> Option<Time> {
        let wanted = self.look_at_chains();
        self.wanted.set(wanted);
        self.undisturbed.set(self.chains.iter().all(Chain::is_quiet));
        wanted
    }

    fn look_at_chains(&self) -> Option<Time> {
        let wanted = self.chains.iter().map(Chain::next_wake).fold(None, Time::first);
        self.queues.iter().flatten().fold(wanted, |first, queue| Time::first(first, queue.next_due()))
    }

    /// Takes back what the decoders have done, and shows what is due.
    pub(super) fn collect(&mut self, now: Time) {
        for index in 0..self.chains.len() {
            while let Some(result) = self.chains[index].decoding.poll(now) {
                match result {
                    Ok(Done { shown, turn, within }) => {
                        let next = &mut self.chains[index].next_decoded;
                        *next = (*next).max(shown.frame.saturating_add(1));
                        if let Some(size) = within.filter(|_| !shown.concealed) {
                            // The coding that it came in was complete.
                            let Shown { stream, frame, version, .. } = shown;
                            self.counters.assembled += 1;
                            self.tap.record(now, Event::FrameAssembled { stream, frame, version, size });
                        }
                        self.queue(now, shown, turn);
                    }
                    Err(failed) => self.miss(now, index, failed.frame),
                }
            }
        }
        self.play(now);
    }

    /// A frame is ready to be shown `turn` from now.
    fn queue(&mut self, now: Time, shown: Shown, turn: Span) {
        let now = now + turn;
        let Shown { captured, arrival, stream, frame, version, concealed, .. } = shown;
        let capture = chain::capture_of(stream);
        let captured_local = self.offset.localise(captured).unwrap_or(now);
        if let Some(most) = self.remember {
            let coding = Version { stream, id: FrameId { frame, version }, ready: now, concealed };
            self.versions
                .entry(capture)
                .or_insert_with(|| Versions::new(most))
                .insert(captured_local, coding);
        }
        let ready = Ready { now, captured, captured_local, arrival };
        let first = self.position(chain::stream_of(capture, 0)).map(|index| &self.chains[index]);
        let better = first.filter(|first| first.stream != stream && first.may_bring(frame));
        let spare = better.map(|_| self.interval);
        let queue = self.queues[usize::from(capture)].as_mut();
        let unseen = queue.and_then(|queue| queue.push(shown, &ready, spare));
        if let (Some(unseen), Some(screen)) = (unseen, &mut self.screen) {
            screen.discard(now, &unseen);
        }
    }

    /// A frame would not decode.
    fn miss(&mut self, now: Time, index: usize, frame: u32) {
        self.counters.decode_errors += 1;
        let chain = &mut self.chains[index];
        if chain.display.failed(frame) {
            chain.want_key(frame, now);
        }
    }

    fn show(&mut self, now: Time, shown: Shown) {
        self.counters.displayed += 1;
        self.counters.late += u64::from(shown.late);
        let captured_local = self.offset.localise(shown.captured).unwrap_or(now);
        let Shown { stream, frame, version, late, .. } = shown;
        self.tap.record(now, Event::FrameDisplayed { stream, frame, version, captured_local, late });
        if let Some(screen) = &mut self.screen {
            screen.show(now, &shown);
        }
    }

    /// Shows what is due. Of several frames of a capture that are due at once only the newest is shown: a
    /// screen could show each of the others for no time at all.
    pub(super) fn play(&mut self, now: Time) {
        for capture in 0..chain::CAPTURES {
            self.stop_sparing(now, capture);
            let Receiver { counters, screen, queues, .. } = self;
            let mut pass = |unseen: &Shown| {
                counters.passed_over += 1;
                if let Some(screen) = screen {
                    screen.discard(now, unseen);
                }
            };
            let queue = queues[usize::from(capture)].as_mut();
            if let Some(shown) = queue.and_then(|queue| queue.take(now, &mut pass)) {
                self.show(now, shown);
            }
        }
    }

    /// Frames of other tracks that wait for the first track's wait no longer once that is stuck.
    fn stop_sparing(&mut self, now: Time, capture: u8) {
        let Some(queue) = &mut self.queues[usize::from(capture)] else { return };
        if queue.next_due().is_some_and(|due| due > now)
            && let Some(first) = self.chains.iter().find(|chain| chain.stream == chain::stream_of(capture, 0))
            && first.is_stuck()
        {
            queue.spare_no_longer();
        }
    }
}
