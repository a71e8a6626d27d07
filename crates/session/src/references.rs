//! Which frames the peer is known to have decoded, so that the encoder can predict from one of them after a
//! loss.
//!
//! ```text
//!   0 K -- 1 -- 2 -- 3 x 4 -- 5       frame 3 was lost, 4 and 5 were sent before that was known
//!                \
//!                 '------------ 6 -- 7      6 is predicted from 2, the newest frame that was known to be decoded
//! ```
//!
//! Each frame refers to one other, so that the frames on which the next one builds form a chain. A frame is
//! known to be decoded once all its packets are acknowledged and the one it refers to is known to be decoded.

use std::collections::VecDeque;

use media::{Coded, Peer};

/// Frames of the chain that are watched at most: eight seconds at 120 frames/s, in which nothing was
/// acknowledged. Then a key frame is due.
const WATCHED: usize = 1024;

#[derive(Clone, Debug)]
struct Link {
    frame: u32,
    /// All its packets arrived.
    complete: bool,
    /// Which of them did, a bit each; empty before the first.
    arrived: Vec<u64>,
}

/// What a stream's sender knows of its peer's decoder.
#[derive(Debug, Default)]
pub struct References {
    /// The chain after the newest frame that is known, oldest first.
    chain: VecDeque<Link>,
    /// The newest frame since the last key frame that is known to be decoded.
    known: Option<u32>,
    /// The newest key frame that was asked for or came out.
    key: u32,
    /// From this frame on nothing may be referred to, until a frame has been asked for that doesn't.
    broken_from: Option<u32>,
    /// Frames that came, or will come, out of the encoder, and that nothing new is predicted from: from the
    /// first up to the second, which was asked for after the loss.
    dead: (u32, u32),
    /// The frame that answered the peer's last request without being a key frame.
    answer: Option<u32>,
}

impl References {
    /// Frame `frame` will not arrive whole. True if that is news: the next frame must not build on it.
    pub fn lost(&mut self, frame: u32) -> bool {
        let found = self.chain.binary_search_by_key(&frame, |link| link.frame);
        let matters = found.is_ok_and(|at| !self.chain[at].complete) && !self.is_dead(frame);
        if matters {
            self.broken_from = Some(self.broken_from.map_or(frame, |from| from.min(frame)));
        }
        matters
    }

    /// What waited to be sent was given up: whatever is not known to have arrived may be part of it.
    pub fn given_up(&mut self) {
        self.broken_from = Some(self.first_unknown());
    }

    /// The peer can't go on after frame `after`. True if a frame that refers to an older one helps, or has
    /// been asked for already; a peer that can't go on though everything has arrived, or after such a frame,
    /// needs a key frame.
    pub fn requested(&mut self, after: u32) -> bool {
        let has = |frame| self.known.is_some_and(|known| known >= frame);
        if self.dead.1 > after {
            // What was asked for since is on its way; what has arrived did not help.
            return !has(self.dead.1);
        }
        let in_vain = has(after) || self.answer.is_some();
        if !in_vain {
            self.given_up();
            self.answer = Some(u32::MAX);
        }
        !in_vain
    }

    fn first_unknown(&self) -> u32 {
        self.known.map_or(0, |known| known + 1)
    }

    /// What the encoder is to know for the next frame.
    pub fn peer(&self) -> Peer {
        Peer { known: self.known, broken_from: self.broken_from }
    }

    /// The next frame must not build on what is broken.
    pub fn is_broken(&self) -> bool {
        self.broken_from.is_some()
    }

    /// The encoder was asked for `frame` with what [`peer`](References::peer) said, or for a key frame.
    pub fn asked(&mut self, frame: u32, key: bool) {
        match (key, self.broken_from.take()) {
            (true, _) => {
                (self.dead, self.answer) = ((frame, frame), None);
                (self.known, self.key) = (None, frame);
            }
            (false, Some(from)) => {
                self.dead = (from.min(self.first_unknown()), frame);
                self.answer = self.answer.map(|answer| answer.min(frame));
            }
            (false, None) => {}
        }
    }

    /// The encoder left `frame` out: if it was to do without what is broken, the next one must.
    pub fn left_out(&mut self, frame: u32) {
        if frame > 0 && self.dead.1 == frame {
            self.given_up();
        }
    }

    /// Whether nothing that is coded now or later builds on `frame`, which can't be decoded.
    pub fn is_dead(&self, frame: u32) -> bool {
        (self.dead.0..self.dead.1).contains(&frame)
    }

    /// Whether a frame that is predicted from `to` can be decoded for all that is known: what is dead does
    /// not lie between.
    pub fn stands(&self, to: u32) -> bool {
        to < self.dead.0 || to >= self.dead.1
    }

    /// A frame came out of the encoder. True if the chain has grown beyond what is watched.
    pub fn coded(&mut self, coded: &Coded) -> bool {
        match coded.refers_to {
            _ if coded.key => {
                self.chain.clear();
                (self.known, self.key) = (None, coded.frame);
            }
            Some(to) => self.chain.retain(|link| link.frame <= to),
            None => {}
        }
        self.chain.push_back(Link { frame: coded.frame, complete: false, arrived: Vec::new() });
        let grown = self.chain.len() > WATCHED;
        if grown {
            self.chain.clear();
        }
        grown
    }

    /// Packet `index` of the `count` of a frame has arrived, perhaps not for the first time.
    pub fn acked(&mut self, frame: u32, index: u16, count: u16) {
        let Ok(at) = self.chain.binary_search_by_key(&frame, |link| link.frame) else { return };
        let link = &mut self.chain[at];
        link.arrived.resize(usize::from(count).div_ceil(64), 0);
        if let Some(word) = link.arrived.get_mut(usize::from(index / 64)) {
            *word |= 1 << (index % 64);
        }
        let arrived: u32 = link.arrived.iter().map(|word| word.count_ones()).sum();
        link.complete = arrived >= u32::from(count);
        while let Some(link) = self.chain.front().filter(|link| link.complete) {
            // With a key frame a decoder forgets what it had before.
            self.known = Some(link.frame).filter(|&frame| frame >= self.key).or(self.known);
            // What the peer asked for has helped.
            self.answer = self.answer.filter(|&answer| answer > link.frame);
            self.chain.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::Ask;
    use units::{Rate, Span};

    fn coded(frame: u32, refers_to: Option<u32>) -> Coded {
        let (bitrate, interval, key) = (Rate::from_mbps(1), Span::from_millis(20), refers_to.is_none());
        let ask = Ask { frame, bitrate, interval, key, largest: None, height: None, peer: None };
        Coded { refers_to, ..Coded::of_size(&ask, 100) }
    }

    /// A key frame and those up to `last`, each from the one before.
    fn chain(last: u32) -> References {
        let mut references = References::default();
        references.asked(0, true);
        (0..=last).for_each(|frame| assert!(!references.coded(&coded(frame, frame.checked_sub(1)))));
        references
    }

    #[test]
    fn a_frame_is_known_once_all_before_it_are() {
        let mut references = chain(3);
        [1, 2].into_iter().for_each(|frame| references.acked(frame, 0, 1));
        assert_eq!(references.peer().known, None);
        references.acked(0, 0, 1);
        assert_eq!(references.peer().known, Some(2));
    }

    #[test]
    fn a_frame_has_arrived_with_the_last_of_its_packets_however_often_the_others_do() {
        let mut references = chain(1);
        (0..69).chain(0..69).for_each(|index| references.acked(0, index, 70));
        assert_eq!(references.peer().known, None);
        references.acked(0, 69, 70);
        assert_eq!(references.peer().known, Some(0));
    }

    #[test]
    fn after_a_loss_what_was_coded_meanwhile_is_dead() {
        let mut references = chain(5);
        (0..3).for_each(|frame| references.acked(frame, 0, 1));
        assert!(references.lost(3));
        assert_eq!(references.peer(), Peer { known: Some(2), broken_from: Some(3) });
        references.asked(6, false);
        assert!(references.peer().broken_from.is_none() && (3..6).all(|frame| references.is_dead(frame)));
        references.coded(&coded(6, Some(1)));
        // What is lost or arrives of the others changes nothing any more.
        assert!(!references.lost(4));
        (3..6).for_each(|frame| references.acked(frame, 0, 1));
        assert_eq!(references.peer().known, Some(2));
        references.acked(6, 0, 1);
        assert_eq!(references.peer().known, Some(6));
    }

    #[test]
    fn a_frame_that_recovers_may_be_lost_as_well() {
        let mut references = chain(2);
        references.acked(0, 0, 1);
        assert!(references.lost(1));
        references.asked(3, false);
        references.coded(&coded(3, Some(0)));
        assert!(references.lost(3) && references.peer().broken_from == Some(3));
    }

    #[test]
    fn a_peer_that_asks_in_vain_gets_a_key_frame() {
        let mut references = chain(4);
        (0..3).for_each(|frame| references.acked(frame, 0, 1));
        assert!(!references.requested(2), "it has everything up to there, and can't go on");
        assert!(references.requested(4));
        assert_eq!(references.peer().broken_from, Some(3));
        references.asked(5, false);
        references.coded(&coded(5, Some(2)));
        assert!(references.requested(4), "frame 5 is on its way");
        assert!(!references.requested(5), "it did not help");
        references.asked(6, true);
        references.coded(&coded(6, None));
        assert!(references.requested(6) && references.is_broken());
    }

    #[test]
    fn nothing_before_a_key_frame_is_referred_to() {
        let mut references = chain(4);
        (0..4).for_each(|frame| references.acked(frame, 0, 1));
        references.asked(5, true);
        assert_eq!(references.peer().known, None);
        references.acked(4, 0, 1);
        assert_eq!(references.peer().known, None);
        references.coded(&coded(5, None));
        references.coded(&coded(6, Some(5)));
        assert!(references.lost(6) && references.peer().known.is_none());
        references.acked(5, 0, 1);
        assert_eq!(references.peer(), Peer { known: Some(5), broken_from: Some(6) });
        references.asked(7, false);
        references.coded(&coded(7, Some(5)));
        references.acked(7, 0, 1);
        assert!(!references.requested(6), "frame 7 has arrived and did not help");
    }

    #[test]
    fn memory_is_bounded_where_nothing_is_acknowledged() {
        let mut references = chain(WATCHED as u32 - 1);
        assert!(references.coded(&coded(WATCHED as u32, Some(WATCHED as u32 - 1))));
        assert!(references.chain.len() <= WATCHED);
    }
}
