//! Frames, one row each from capture to display.

use record::Event;
use units::{Rate, Span, Time};

use super::flow::Coding;
use super::take_front;

/// One frame of a stream, from its capture to its display.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameRow {
    /// When it was captured.
    pub captured: Option<Time>,
    /// When the encoder had finished it.
    pub encoded: Option<Time>,
    /// Bitrate the encoder was asked for.
    pub target: Rate,
    /// Coded size in bytes; 0 if it was never encoded.
    pub size: u32,
    /// Rows it was coded with; 0 if it was not coded, or they are not known.
    pub height: u16,
    /// A key frame: decodes without another.
    pub key: bool,
    /// Left out by the sender.
    pub skipped: bool,
    /// When its first packet left.
    pub first_sent: Option<Time>,
    /// When its last packet left for the first time.
    pub sent: Option<Time>,
    /// Packets it was cut into; 0 until all have left.
    pub packets: u16,
    /// When the receiver had all of it.
    pub assembled: Option<Time>,
    /// When it was shown.
    pub displayed: Option<Time>,
    /// The coding that was shown.
    pub shown: Option<Coding>,
    /// Shown after its deadline.
    pub late: bool,
    /// The receiver stopped waiting for it.
    pub abandoned: bool,
    /// What the encoder says of it, and once it was shown, of the coding that was: luma PSNR in dB, SSIM.
    pub encoder_quality: (Option<f64>, Option<f64>),
    /// What was measured of the displayed picture: luma PSNR in dB, SSIM.
    pub shown_quality: (Option<f64>, Option<f64>),
}

impl FrameRow {
    /// Luma PSNR of the displayed frame in dB: measured where it was measured, else the encoder's own word.
    /// `None` if the frame was not displayed or nobody knows.
    pub fn psnr(&self) -> Option<f64> {
        self.displayed.and(self.shown_quality.0.or(self.encoder_quality.0))
    }

    /// SSIM of the displayed frame, from the same sources as [`psnr`](FrameRow::psnr).
    pub fn ssim(&self) -> Option<f64> {
        self.displayed.and(self.shown_quality.1.or(self.encoder_quality.1))
    }

    /// From capture to display.
    pub fn delay(&self) -> Option<Span> {
        Some(self.displayed? - self.captured?)
    }

    pub(super) fn at_sender(&mut self, at: Time, event: &Event) {
        match *event {
            Event::FrameCaptured { .. } => self.captured = Some(at),
            Event::FrameSkipped { .. } => self.skipped = true,
            Event::FrameEncoded { size, key, target, height, psnr, ssim, .. } => {
                (self.encoded, self.size, self.key, self.target) = (Some(at), size, key, target);
                self.height = height;
                self.encoder_quality = (known(psnr.0), known(ssim.0));
            }
            Event::FrameSent { packets, .. } => (self.sent, self.packets) = (Some(at), packets),
            _ => {}
        }
    }

    pub(super) fn at_receiver(&mut self, at: Time, event: &Event) {
        match *event {
            Event::FrameAssembled { .. } => self.assembled = Some(at),
            // A better version may be shown later; the first showing is what the viewer waited for.
            Event::FrameDisplayed { stream, version, late, .. } if self.displayed.is_none() => {
                (self.displayed, self.late) = (Some(at), late);
                self.shown = Some(Coding { stream, version });
            }
            Event::FrameAbandoned { .. } => self.abandoned = true,
            Event::FrameQuality { psnr, ssim, .. } => self.shown_quality = (known(psnr.0), known(ssim.0)),
            // Nothing was measured: it is the word of the encoder's model, which knows what arrived.
            Event::FrameQualityModelled { psnr, ssim, .. } => {
                self.encoder_quality = (known(psnr.0), known(ssim.0));
            }
            _ => {}
        }
    }
}

fn known(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}

/// The frames of one stream; the index is the capture index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamFrames {
    /// One row per frame.
    pub rows: Vec<FrameRow>,
    /// The capture index of the first row: how many were [taken out](super::Collector::take_complete) before.
    pub first: u32,
}

impl StreamFrames {
    /// Capture indices may jump (a frame never read leaves a hole), but not by more than this: an hour at 120
    /// frames/s.
    const LARGEST_GAP: usize = 432_000;

    /// The row of `frame`, made if it is new; `None` if its number makes no sense.
    pub(super) fn open(&mut self, frame: u32) -> Option<&mut FrameRow> {
        let index = frame.checked_sub(self.first)? as usize;
        if index >= self.rows.len() + StreamFrames::LARGEST_GAP {
            return None;
        }
        if index >= self.rows.len() {
            self.rows.resize_with(index + 1, FrameRow::default);
        }
        self.rows.get_mut(index)
    }

    /// The row of `frame`, if there is one.
    pub(super) fn get_mut(&mut self, frame: u32) -> Option<&mut FrameRow> {
        self.rows.get_mut(frame.checked_sub(self.first)? as usize)
    }

    /// The rows with their capture indices.
    pub fn numbered(&self) -> impl Iterator<Item = (u32, &FrameRow)> + '_ {
        (self.first..).zip(&self.rows)
    }

    /// Takes out the rows at the front of what was captured before `before`.
    pub(super) fn take_until(&mut self, before: Time) -> StreamFrames {
        // Only a capture's first track has the captures; others' rows begin where they are coded.
        let complete = |row: &FrameRow| row.captured.or(row.encoded).is_none_or(|at| at < before);
        let count = self.rows.iter().position(|row| !complete(row)).unwrap_or(self.rows.len());
        let taken = StreamFrames { rows: take_front(&mut self.rows, count), first: self.first };
        self.first += count as u32;
        taken
    }
}
