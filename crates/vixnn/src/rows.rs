//! Channels in memory as a convolution reads them: row by row, each channel's row in one piece, bordered by
//! the zeros that the kernel reaches beyond the picture. Where the convolution has stride 2, even and odd
//! columns lie apart, so that neighbours in its output read neighbours here.

use std::ops::Range;
use std::sync::Mutex;

/// Floats beyond the last row that the widest tile may read (and multiply for no output that is kept).
const SLACK: usize = 64;

/// Where what lies in [`Rows`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    channels: usize,
    /// Zeros at each side.
    pad: usize,
    /// The stride of the convolution that reads.
    stride: usize,
    /// Floats of a channel's row, of one parity.
    pitch: usize,
    /// Floats of a row of all channels.
    pub row: usize,
}

impl Layout {
    /// Where each weight's factor lies, from the first that an output's row reads: by channel, then row and
    /// column of the kernel.
    pub fn offsets(&self, kernel: usize) -> Vec<u32> {
        let at = |channel: usize, y: usize, x: usize| {
            let column = (channel * self.stride + x % self.stride) * self.pitch + x / self.stride;
            (y * self.row + column) as u32
        };
        let places = (0..self.channels).flat_map(|c| (0..kernel * kernel).map(move |k| (c, k)));
        places.map(|(c, k)| at(c, k / kernel, k % kernel)).collect()
    }

    /// Writes a channel's columns into a row, each as `becomes` says. For a stride of 2 they are even in
    /// number.
    #[inline(always)]
    pub fn put(&self, row: &mut [f32], channel: usize, columns: &[f32], becomes: impl Fn(f32) -> f32) {
        let to = &mut row[channel * self.stride * self.pitch..][..self.stride * self.pitch];
        if self.stride == 1 {
            let to = &mut to[self.pad..][..columns.len()];
            to.iter_mut().zip(columns).for_each(|(to, &value)| *to = becomes(value));
            return;
        }
        let (even, odd) = to.split_at_mut(self.pitch);
        let (first, second) = if self.pad.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        let pairs = columns.as_chunks::<2>().0;
        let first = &mut first[self.pad / 2..][..pairs.len()];
        let second = &mut second[self.pad.div_ceil(2)..][..pairs.len()];
        for ((first, second), &[a, b]) in first.iter_mut().zip(second).zip(pairs) {
            (*first, *second) = (becomes(a), becomes(b));
        }
    }

    /// Writes two channels of half as many columns into a row, taking turns: a row of a depth-to-space.
    #[inline(always)]
    pub fn put_pair(&self, row: &mut [f32], channel: usize, pair: [&[f32]; 2], becomes: impl Fn(f32) -> f32) {
        let [even, odd] = pair;
        let to = &mut row[channel * self.pitch + self.pad..][..2 * even.len()];
        for ((to, &a), &b) in to.as_chunks_mut::<2>().0.iter_mut().zip(even).zip(odd) {
            *to = [becomes(a), becomes(b)];
        }
    }
}

/// The input of a convolution.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub layout: Layout,
    data: Vec<f32>,
}

impl Rows {
    /// Zeros for a convolution with this kernel and stride over a picture of so many columns and rows.
    pub fn new(channels: usize, (width, height): (usize, usize), kernel: usize, stride: usize) -> Rows {
        let pad = kernel / 2;
        let pitch = (width + 2 * pad).div_ceil(stride);
        let row = channels * stride * pitch;
        let data = vec![0.0; row * (height + 2 * pad) + SLACK];
        Rows { layout: Layout { channels, pad, stride, pitch, row }, data }
    }

    /// What the output's row `y` reads, and everything below.
    pub fn from(&self, y: usize) -> &[f32] {
        &self.data[self.layout.stride * y * self.layout.row..]
    }

    /// The rows within the border.
    pub fn inner(&mut self) -> &mut [f32] {
        let border = self.layout.pad * self.layout.row;
        let end = self.data.len() - SLACK - border;
        &mut self.data[border..end]
    }
}

/// Memory of one thread, kept from picture to picture.
pub(crate) type Scratch = Vec<f32>;

/// Does `work` for bands of the output's `rows`, `row` elements each, on as many threads as there are
/// scratches. Bands are handed out as threads become free; what is written does not depend on who writes it.
pub(crate) fn in_bands<T: Send>(
    scratches: &mut [Scratch],
    (out, row, rows): (&mut [T], usize, usize),
    work: impl Fn(Range<usize>, &mut [T], &mut Scratch) + Sync,
) {
    let whole = &mut out[..row * rows];
    let [scratch] = scratches else {
        // Several bands a thread: one may be kept from its processor.
        let height = rows.div_ceil(4 * scratches.len()).max(1);
        let bands = whole.chunks_mut(row * height).enumerate();
        let bands =
            Mutex::new(bands.map(|(band, out)| (band * height..(band * height + out.len() / row), out)));
        let next = || bands.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
        let each = |scratch: &mut Scratch| {
            while let Some((range, out)) = next() {
                work(range, out, scratch);
            }
        };
        return std::thread::scope(|scope| {
            let Some((own, others)) = scratches.split_first_mut() else { return };
            let each = &each;
            others.iter_mut().for_each(|scratch| {
                scope.spawn(move || each(scratch));
            });
            each(own);
        });
    };
    work(0..rows, whole, scratch);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_stride_lie_apart() {
        let of_three = ([0.0, 2.0, 4.0], [1.0, 3.0, 0.0]);
        let of_five = ([0.0, 1.0, 3.0, 0.0], [0.0, 2.0, 4.0, 0.0]);
        for (kernel, even, odd) in [(3, &of_three.0[..], &of_three.1[..]), (5, &of_five.0, &of_five.1)] {
            let mut rows = Rows::new(1, (4, 1), kernel, 2);
            let layout = rows.layout;
            layout.put(rows.inner(), 0, &[1.0, 2.0, 3.0, 4.0], |value| value);
            let row = rows.inner();
            assert_eq!((&row[..layout.pitch], &row[layout.pitch..]), (even, odd), "kernel {kernel}");
        }
    }

    #[test]
    fn every_row_is_worked_on_once() {
        for (threads, rows) in [(1, 1), (2, 1), (3, 7), (3, 100)] {
            let mut scratches = vec![Scratch::new(); threads];
            let mut out = vec![0_usize; 2 * rows + 1];
            in_bands(&mut scratches, (&mut out, 2, rows), |range, out, _| {
                assert_eq!(out.len(), 2 * range.len());
                out.chunks_mut(2).zip(range).for_each(|(out, y)| out.iter_mut().for_each(|to| *to += 1 + y));
            });
            let wanted: Vec<_> = (0..2 * rows).map(|at| 1 + at / 2).chain([0]).collect();
            assert_eq!(out, wanted);
        }
    }
}
