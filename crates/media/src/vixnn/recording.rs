//! Makes a [`VixnnTable`]: what a network makes of every picture of a clip, with some of its descriptors.

use std::sync::Arc;

use vixnn::{DESCRIPTORS, Descriptors, Model, Picture, Received};

use super::table::{MASKS, Qualities, VixnnLook, VixnnTable};
use super::{is_size, refuse};
use crate::{CodecError, RawFrame, Source, quality, rgb};

/// Ages of older pictures that are recorded, in frames.
const AGES: [u32; 4] = [1, 2, 4, 8];
/// Of every so many frames, one is decoded with every set of descriptors.
const EVERY: usize = 8;

/// What is recorded.
pub struct RecordedVixnn<'a> {
    /// Kept in the table.
    pub clip: &'a str,
    /// Whose clip it is; kept in the table.
    pub credit: &'a str,
    /// The network that is recorded.
    pub model: Arc<Model>,
    /// Threads that run it.
    pub threads: usize,
}

/// Eight sets of `n` descriptors, each of which is in as many of them as any other.
fn sets_of(n: usize) -> impl Iterator<Item = usize> {
    let first = (1u8 << (n - 1)) | ((1u8 << (n - 1)) - 1);
    (0..DESCRIPTORS as u32).map(move |turn| usize::from(first.rotate_left(turn)))
}

/// Sums of qualities.
#[derive(Clone, Copy, Default)]
struct Sum {
    look: VixnnLook,
    count: f64,
}

impl Sum {
    fn add(&mut self, look: VixnnLook, less: VixnnLook) {
        self.look.psnr_y += look.psnr_y - less.psnr_y;
        self.look.ssim += look.ssim - less.ssim;
        self.count += 1.0;
    }

    fn mean(&self) -> VixnnLook {
        VixnnLook { psnr_y: self.look.psnr_y / self.count, ssim: self.look.ssim / self.count }
    }
}

/// How one picture looks beside another.
fn beside(original: &RawFrame, shown: &RawFrame) -> Result<VixnnLook, CodecError> {
    let quality = quality(original, shown)?;
    Ok(VixnnLook { psnr_y: quality.psnr_y, ssim: quality.ssim })
}

struct Recording {
    encoder: vixnn::Encoder,
    decoder: vixnn::Decoder,
    /// By how much each set differs from the mean of its number.
    masks: Vec<Sum>,
    by_count: Vec<Qualities>,
}

impl Recording {
    fn new(model: &Arc<Model>, threads: usize) -> Recording {
        Recording {
            encoder: vixnn::Encoder::new(model.clone(), threads),
            decoder: vixnn::Decoder::new(model.clone(), threads),
            masks: vec![Sum::default(); MASKS + 1],
            by_count: vec![Qualities::default(); DESCRIPTORS],
        }
    }

    fn shown(&mut self, descriptors: &Descriptors, mask: usize) -> RawFrame {
        let kept: Vec<usize> = (0..DESCRIPTORS).filter(|d| mask >> d & 1 == 1).collect();
        let decoded = self.decoder.decode(&Received::only(descriptors, &kept));
        rgb::from_rgb(decoded.width, decoded.height, &decoded.rgb)
    }

    /// Notes a picture; as it is shown with every descriptor.
    fn add(&mut self, number: usize, picture: &RawFrame) -> Result<RawFrame, CodecError> {
        let rgb = rgb::to_rgb(picture);
        let descriptors = self.encoder.encode(&Picture { width: picture.width, height: picture.height, rgb });
        let whole = self.shown(&descriptors, MASKS);
        let mut looks = vec![None; MASKS + 1];
        looks[MASKS] = Some(beside(picture, &whole)?);
        let every = number.is_multiple_of(EVERY);
        let sets = (1..=DESCRIPTORS).flat_map(sets_of);
        for mask in sets.chain((1..MASKS).filter(|_| every)) {
            if looks[mask].is_none() {
                looks[mask] = Some(beside(picture, &self.shown(&descriptors, mask))?);
            }
        }
        let mut means = [VixnnLook::default(); DESCRIPTORS];
        for n in 1..=DESCRIPTORS {
            let mut sum = Sum::default();
            sets_of(n).filter_map(|mask| looks[mask]).for_each(|look| sum.add(look, VixnnLook::default()));
            means[n - 1] = sum.mean();
            self.by_count[n - 1].push(means[n - 1]);
        }
        for (mask, look) in looks.into_iter().enumerate().filter(|_| every) {
            if let Some(look) = look {
                self.masks[mask].add(look, means[mask.count_ones() as usize - 1]);
            }
        }
        Ok(whole)
    }
}

/// Plays a clip once through a network and returns how it looks by what arrives of it.
///
/// Keeps the clip in memory. Takes about 0.5 s a frame of 640x360 on one core.
///
/// # Errors
/// [`CodecError`] if the clip has no frames, or frames of a size that ViXNN doesn't code.
pub fn record_vixnn_table(
    what: &RecordedVixnn<'_>,
    source: &mut dyn Source,
) -> Result<VixnnTable, CodecError> {
    let ((width, height), interval) = (source.size(), source.interval());
    if !is_size(width, height) {
        return refuse(format!("pictures of {width}x{height} are not coded"));
    }
    let mut recording = Recording::new(&what.model, what.threads.max(1));
    let mut seen: Vec<(Arc<RawFrame>, RawFrame)> = Vec::new();
    while let Some(picture) = source.next_picture() {
        let whole = recording.add(seen.len(), &picture)?;
        seen.push((picture, whole));
    }
    if seen.is_empty() {
        return refuse("a clip without frames".to_owned());
    }
    let mut by_mask = Qualities::default();
    recording.masks[1..].iter().for_each(|sum| by_mask.push(sum.mean()));
    Ok(VixnnTable {
        clip: what.clip.to_owned(),
        credit: what.credit.to_owned(),
        model: what.model.name().to_owned(),
        fingerprint: what.model.fingerprint(),
        width,
        height,
        interval_ns: interval.as_nanos() as u64,
        by_count: recording.by_count,
        by_mask,
        ages: AGES.to_vec(),
        held: AGES.iter().map(|&age| held(&seen, age as usize)).collect::<Result<_, _>>()?,
    })
}

/// Every picture beside the one that was shown `age` frames before; the clip repeats.
fn held(seen: &[(Arc<RawFrame>, RawFrame)], age: usize) -> Result<Qualities, CodecError> {
    let mut held = Qualities::default();
    for (number, (original, _)) in seen.iter().enumerate() {
        let before = (number + seen.len() - age % seen.len()) % seen.len();
        held.push(beside(original, &seen[before].1)?);
    }
    Ok(held)
}
