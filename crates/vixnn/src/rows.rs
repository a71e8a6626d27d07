//! Channels in memory as a convolution reads them: row by row, each channel's row in one piece, bordered by
//! the zeros that the kernel reaches beyond the picture. Where the convolution has stride 2, even and odd
//! columns lie apart, so that neighbours in its output read neighbours here.

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

/// Some rows of a convolution's input, from one on downwards. Rows are counted with the border above.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub layout: Layout,
    /// Rows without the border.
    height: usize,
    /// The first row that is held, and the first below that is not.
    top: usize,
    end: usize,
    data: Vec<f32>,
}

impl Window {
    /// Holds nothing yet of the input of a convolution with this kernel and stride, of so many columns and
    /// rows.
    pub fn new(channels: usize, (width, height): (usize, usize), kernel: usize, stride: usize) -> Window {
        let pad = kernel / 2;
        let pitch = (width + 2 * pad).div_ceil(stride);
        let layout = Layout { channels, pad, stride, pitch, row: channels * stride * pitch };
        Window { layout, height, top: 0, end: 0, data: Vec::new() }
    }

    /// What an output's row reads, and everything below.
    pub fn from(&self, output: usize) -> &[f32] {
        &self.data[(self.layout.stride * output - self.top) * self.layout.row..]
    }

    /// Lets go of everything. `first` is the next row to come, without the border.
    pub fn restart(&mut self, first: usize) {
        self.top = if first == 0 { 0 } else { first + self.layout.pad };
        self.end = self.top;
        if first == 0 {
            self.grow(self.layout.pad).fill(0.0);
        }
    }

    /// The next row to come, without the border.
    pub fn coming(&self) -> usize {
        self.end - self.layout.pad
    }

    /// Lets go of the rows above those that an output's row reads.
    pub fn release(&mut self, output: usize) {
        let keep = (self.layout.stride * output).clamp(self.top, self.end);
        let row = self.layout.row;
        self.data.copy_within((keep - self.top) * row..(self.end - self.top) * row, 0);
        self.top = keep;
    }

    /// Room for the next rows, which the caller writes, but for what the border leaves at the sides. Behind
    /// the last row of the input, the border below follows by itself.
    pub fn push(&mut self, rows: usize) -> &mut [f32] {
        let pad = self.layout.pad;
        if self.end + rows == self.height + pad {
            let border = rows * self.layout.row;
            let room = self.grow(rows + pad);
            room[border..].fill(0.0);
            return &mut room[..border];
        }
        self.grow(rows)
    }

    fn grow(&mut self, rows: usize) -> &mut [f32] {
        let row = self.layout.row;
        let (from, to) = ((self.end - self.top) * row, (self.end + rows - self.top) * row);
        if self.data.len() < to + SLACK {
            self.data.resize(to + SLACK, 0.0);
        }
        self.end += rows;
        &mut self.data[from..to]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_stride_lie_apart() {
        let of_three = ([0.0, 2.0, 4.0], [1.0, 3.0, 0.0]);
        let of_five = ([0.0, 1.0, 3.0, 0.0], [0.0, 2.0, 4.0, 0.0]);
        for (kernel, even, odd) in [(3, &of_three.0[..], &of_three.1[..]), (5, &of_five.0, &of_five.1)] {
            let mut window = Window::new(1, (4, 1), kernel, 2);
            let layout = window.layout;
            window.restart(0);
            let row = window.push(1);
            layout.put(row, 0, &[1.0, 2.0, 3.0, 4.0], |value| value);
            assert_eq!((&row[..layout.pitch], &row[layout.pitch..]), (even, odd), "kernel {kernel}");
        }
    }

    #[test]
    fn a_window_moves_down_and_ends_in_its_border() {
        let mut window = Window::new(1, (1, 6), 3, 1);
        let row = window.layout.row;
        let held = |window: &Window, output: usize| -> Vec<f32> {
            (0..3).map(|y| window.from(output)[y * row + 1]).collect()
        };
        window.restart(0);
        window.push(2).chunks_mut(row).zip([1.0, 2.0]).for_each(|(to, value)| to[1] = value);
        assert_eq!(held(&window, 0), [0.0, 1.0, 2.0]);
        window.release(2);
        window.push(4).chunks_mut(row).zip([3.0, 4.0, 5.0, 6.0]).for_each(|(to, value)| to[1] = value);
        assert_eq!([held(&window, 2), held(&window, 5)], [[2.0, 3.0, 4.0], [5.0, 6.0, 0.0]]);
        window.restart(3);
        window.push(3).chunks_mut(row).zip([4.0, 5.0, 6.0]).for_each(|(to, value)| to[1] = value);
        assert_eq!(held(&window, 4), [4.0, 5.0, 6.0]);
    }
}
