//! Layers one after the other, a block row of the picture at a time: what a layer gives is read by the next
//! while it is in the processor's cache. Threads work at block rows of their own; where one begins amid the
//! picture, it computes once more the few rows above that it reads.

use std::ops::Range;
use std::sync::Mutex;

use crate::conv::{Convolution, Instructions, Row, WIDEST, strip};
use crate::rows::{Layout, Window};
use crate::weights::Layer;

/// Slope of a leaky ReLU below zero (`LEAK` in `python/research/vixnn`; the thesis gives none).
const LEAK: f32 = 0.2;

#[inline(always)]
fn leaky(value: f32) -> f32 {
    if value < 0.0 { value * LEAK } else { value }
}

/// Where a network's input comes from. Implementations are inlined into code for each kind of instructions.
pub(crate) trait Source: Sync {
    /// Writes row `y`; `memory` is for what is needed on the way.
    fn fill(&self, y: usize, layout: &Layout, to: &mut [f32], memory: &mut Vec<f32>);
}

/// What becomes of the last layer's rows. Implementations are inlined as those of [`Source`].
pub(crate) trait Emit: Sync {
    /// What is written.
    type To: Send;
    /// Writes what one row of output becomes.
    fn emit(&self, output: &Output<'_>, to: &mut [Self::To]);
}

/// One row of a convolution's output.
pub(crate) struct Output<'a> {
    values: &'a [f32],
    pitch: usize,
    width: usize,
}

impl Output<'_> {
    /// The columns of one channel.
    #[inline(always)]
    pub fn channel(&self, channel: usize) -> &[f32] {
        &self.values[channel * self.pitch..][..self.width]
    }
}

/// A layer over pictures of one size.
#[derive(Debug)]
struct Stage {
    convolution: Convolution,
    kernel: usize,
    inputs: usize,
    outputs: usize,
    stride: usize,
    /// Whether its output becomes twice as wide and high, by a depth-to-space.
    shuffled: bool,
    offsets: Vec<u32>,
    /// Columns and rows of the output.
    width: usize,
    height: usize,
}

impl Stage {
    /// Rows of the next layer's input that one row of output becomes.
    fn up(&self) -> usize {
        1 + usize::from(self.shuffled)
    }

    /// The rows of its input (without the border) that these rows of output read.
    fn reads(&self, output: &Range<usize>) -> Range<usize> {
        let pad = self.kernel / 2;
        let first = (output.start * self.stride).saturating_sub(pad);
        let end = (output.end - 1) * self.stride + pad + 1;
        first..end.min(self.height * self.stride)
    }

    /// Writes a row of output into the next layer's input, behind a leaky ReLU.
    #[inline(always)]
    fn pass_on(&self, output: &Output<'_>, next: &mut Window) {
        let layout = next.layout;
        let to = next.push(self.up());
        if self.shuffled {
            let (upper, lower) = to.split_at_mut(layout.row);
            for channel in 0..self.outputs / 4 {
                let part = |number: usize| output.channel(channel * 4 + number);
                layout.put_pair(upper, channel, [part(0), part(1)], leaky);
                layout.put_pair(lower, channel, [part(2), part(3)], leaky);
            }
        } else {
            (0..self.outputs).for_each(|channel| layout.put(to, channel, output.channel(channel), leaky));
        }
    }
}

/// What one thread remembers between block rows.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    windows: Vec<Window>,
    /// Of each layer the next row of output.
    next: Vec<usize>,
    /// The block row that would follow without computing anything twice.
    follows: Option<usize>,
    scratch: Vec<f32>,
    memory: Vec<f32>,
}

/// A picture to be computed.
pub(crate) struct Job<'a, S, E> {
    stages: &'a [Stage],
    source: &'a S,
    emit: &'a E,
    /// Rows of the last layer for each block row, and elements that become of one.
    rows: usize,
    row: usize,
}

/// Layers with the memory to run them.
#[derive(Debug)]
pub(crate) struct Network {
    instructions: Instructions,
    stages: Vec<Stage>,
    workers: Vec<Worker>,
    /// Columns and rows of blocks that there is memory for.
    blocks: (usize, usize),
}

/// Block rows nobody has begun, and where their results go.
struct Left<'a, T> {
    ranges: Vec<Range<usize>>,
    rooms: Vec<Option<&'a mut [T]>>,
}

impl<'a, T> Left<'a, T> {
    /// The next block row for a worker: of its own, else of the second half of the longest range.
    fn take(&mut self, worker: usize) -> Option<(usize, &'a mut [T])> {
        if self.ranges[worker].is_empty() {
            let longest = self.ranges.iter_mut().max_by_key(|range| range.len())?;
            let middle = longest.start + longest.len() / 2;
            let half = middle..longest.end;
            longest.end = middle;
            self.ranges[worker] = half;
        }
        let at = self.ranges[worker].next()?;
        Some((at, self.rooms[at].take()?))
    }
}

impl Network {
    /// Layers with their strides, on so many threads (at least one). Where a stride is 0, the layer has none
    /// and is followed by a depth-to-space.
    pub fn new(layers: &[(&Layer, usize)], threads: usize, instructions: Instructions) -> Network {
        let stage = |&(layer, stride): &(&Layer, usize)| Stage {
            convolution: Convolution::new(layer, instructions),
            kernel: layer.kernel,
            inputs: layer.inputs,
            outputs: layer.outputs,
            stride: stride.max(1),
            shuffled: stride == 0,
            offsets: Vec::new(),
            width: 0,
            height: 0,
        };
        let workers = (0..threads.max(1)).map(|_| Worker::default()).collect();
        Network { instructions, stages: layers.iter().map(stage).collect(), workers, blocks: (0, 0) }
    }

    /// Prepares for pictures of so many columns and rows of blocks, of which the layers' outputs have these
    /// multiples.
    pub fn resize(&mut self, (columns, rows): (usize, usize), scales: &[usize]) {
        if self.blocks == (columns, rows) {
            return;
        }
        self.blocks = (columns, rows);
        for (stage, scale) in self.stages.iter_mut().zip(scales) {
            (stage.width, stage.height) = (columns * scale, rows * scale);
        }
        let window = |stage: &Stage| {
            let input = (stage.width * stage.stride, stage.height * stage.stride);
            Window::new(stage.inputs, input, stage.kernel, stage.stride)
        };
        for worker in &mut self.workers {
            worker.windows = self.stages.iter().map(window).collect();
            worker.next = vec![0; self.stages.len()];
        }
        for (stage, window) in self.stages.iter_mut().zip(&self.workers[0].windows) {
            stage.offsets = window.layout.offsets(stage.kernel);
        }
    }

    /// Computes a picture: `rows` of the last layer's for each block row, each of which becomes `row`
    /// elements of `to`.
    pub fn run<S: Source, E: Emit>(
        &mut self,
        (source, emit): (&S, &E),
        to: &mut [E::To],
        (rows, row): (usize, usize),
    ) {
        let Network { instructions, stages, workers, blocks: (_, count) } = self;
        let job = Job { stages: stages.as_slice(), source, emit, rows, row };
        let rooms: Vec<_> = to.chunks_exact_mut(rows * row).map(Some).collect();
        let threads = workers.len();
        let ranges = (0..threads).map(|n| n * *count / threads..(n + 1) * *count / threads).collect();
        let left = Mutex::new(Left { ranges, rooms });
        let take = |worker| left.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take(worker);
        let work = |number: usize, worker: &mut Worker| {
            worker.follows = None;
            while let Some((at, to)) = take(number) {
                strip(*instructions, &job, at, worker, to);
            }
        };
        let mut numbered = workers.iter_mut().enumerate();
        let Some((_, own)) = numbered.next() else { return };
        if threads == 1 {
            return work(0, own);
        }
        std::thread::scope(|scope| {
            let work = &work;
            for (number, worker) in numbered {
                scope.spawn(move || work(number, worker));
            }
            work(0, own);
        });
    }
}

/// Computes block row `at`, each convolution's rows by `convolve`.
#[inline(always)]
pub(crate) fn strip_with<S: Source, E: Emit>(
    job: &Job<'_, S, E>,
    at: usize,
    worker: &mut Worker,
    to: &mut [E::To],
    convolve: impl Fn(&Row<'_>, &mut [f32]),
) {
    let wanted = wanted(job, at);
    if worker.follows.replace(at + 1) != Some(at) {
        restart(job, at, &wanted, worker);
    }
    let Worker { windows, next, scratch, memory, .. } = worker;
    windows[0].release(next[0]);
    let layout = windows[0].layout;
    for y in windows[0].coming()..wanted[0].end {
        job.source.fill(y, &layout, windows[0].push(1), memory);
    }
    let mut rooms = to.chunks_exact_mut(job.row);
    for (number, stage) in job.stages.iter().enumerate() {
        let pitch = stage.width.next_multiple_of(WIDEST);
        let size = stage.convolution.channels() * pitch;
        if scratch.len() < size {
            scratch.resize(size, 0.0);
        }
        let end = match wanted.get(number + 1) {
            Some(rows) => rows.end.div_ceil(stage.up()),
            None => (at + 1) * job.rows,
        };
        let (before, after) = windows.split_at_mut(number + 1);
        if let Some(window) = after.first_mut() {
            window.release(next[number + 1]);
        }
        for y in next[number]..end {
            let input = before[number].from(y);
            let of = Row {
                convolution: &stage.convolution,
                offsets: &stage.offsets,
                input,
                width: stage.width,
                pitch,
            };
            convolve(&of, &mut scratch[..size]);
            let output = Output { values: scratch, pitch, width: stage.width };
            match after.first_mut() {
                Some(window) => stage.pass_on(&output, window),
                None => job.emit.emit(&output, rooms.next().expect("a room for each row")),
            }
        }
        next[number] = end;
    }
}

/// Of each layer the rows of input (without the border) that a block row needs.
fn wanted<S, E>(job: &Job<'_, S, E>, at: usize) -> Vec<Range<usize>> {
    let mut output = at * job.rows..(at + 1) * job.rows;
    let mut wanted = Vec::with_capacity(job.stages.len());
    for (number, stage) in job.stages.iter().enumerate().rev() {
        let input = stage.reads(&output);
        if number > 0 {
            let up = job.stages[number - 1].up();
            output = input.start / up..input.end.div_ceil(up);
        }
        wanted.push(input);
    }
    wanted.reverse();
    wanted
}

/// Begins at rows that are not those after the last.
fn restart<S, E>(job: &Job<'_, S, E>, at: usize, wanted: &[Range<usize>], worker: &mut Worker) {
    worker.next[job.stages.len() - 1] = at * job.rows;
    for (number, rows) in wanted.iter().enumerate() {
        let up = if number == 0 { 1 } else { job.stages[number - 1].up() };
        // A depth-to-space gives rows in pairs.
        let first = rows.start / up * up;
        worker.windows[number].restart(first);
        if number > 0 {
            worker.next[number - 1] = first / up;
        }
    }
}
