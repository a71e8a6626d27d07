//! What has been captured of late, and what the endpoint has of it.

use std::collections::VecDeque;

use crate::{Curve, Estimate};

/// A frame of before.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// When it was captured, in seconds.
    pub captured: f64,
    /// Sizes and SSIMs of its versions, in the order of coding.
    pub coded: Vec<(f64, f64)>,
    /// What it is worth by its size.
    pub curve: Option<Curve>,
    /// SSIM of the best version that the endpoint has; 0 without one.
    pub quality: f64,
    /// ... and of the best of those that were sent again.
    pub again: f64,
    /// A version of it is planned, or on its way.
    pub pending: bool,
}

/// The frames of the last seconds, by capture index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Archive {
    first: u32,
    frames: VecDeque<Entry>,
}

impl Archive {
    /// A frame is captured: the next one.
    pub fn push(&mut self, frame: u32, captured: f64, curve: Option<Curve>) {
        if self.frames.is_empty() {
            self.first = frame;
        }
        assert_eq!(frame, self.first + self.frames.len() as u32, "frames are captured one after the other");
        let coded = Vec::new();
        self.frames.push_back(Entry { captured, coded, curve, quality: 0.0, again: 0.0, pending: false });
    }

    pub fn get(&self, frame: u32) -> Option<&Entry> {
        self.frames.get(frame.checked_sub(self.first)? as usize)
    }

    /// The capture index that the next frame has.
    pub fn next(&self) -> u32 {
        self.first + self.frames.len() as u32
    }

    /// Forgets what was captured before this, in seconds, and says how many of those have no version at the
    /// endpoint.
    pub fn forget(&mut self, before: f64) -> usize {
        let mut lost = 0;
        while self.frames.front().is_some_and(|entry| entry.captured < before) {
            lost += usize::from(self.frames.pop_front().is_some_and(|entry| entry.quality == 0.0));
            self.first += 1;
        }
        lost
    }

    pub fn get_mut(&mut self, frame: u32) -> Option<&mut Entry> {
        self.frames.get_mut(frame.checked_sub(self.first)? as usize)
    }

    /// A version was coded to `size` bytes with this SSIM; its curve is fitted anew.
    pub fn coded(&mut self, frame: u32, size: f64, quality: f64, curves: &Estimate) {
        let Some(entry) = self.get_mut(frame) else { return };
        entry.coded.push((size, quality));
        entry.curve = curves.fit(&entry.coded).or(entry.curve);
    }

    pub fn frames_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.frames.iter_mut()
    }

    pub fn frames(&self) -> impl Iterator<Item = (u32, &Entry)> {
        (self.first..).zip(&self.frames)
    }
}
