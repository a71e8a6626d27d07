//! How good a picture is: PSNR and SSIM of a frame against its source, by ffmpeg's conventions.
//!
//! PSNR is `10 log10(255^2 / MSE)`, capped at [`PSNR_CAP`]; the average weights the planes by their sample
//! counts, which for 4:2:0 is `(4 Y + U + V) / 6` over the MSEs. SSIM is the raw index (not mapped to `[0,
//! 1]`) on flat 8x8 windows at stride 4, averaged per plane, and "All" is again `(4 Y + U + V) / 6`.
//!
//! Windows overlap by half, so each is four 4x4 blocks, and each block is summed only once:
//!
//! ```text
//!   row of blocks k-1   | b | b | b | b |     window = 2 x 2 blocks: (k-1, k) x (j, j+1)
//!   row of blocks k     | b | b | b | b |     the sums of row k-1 are kept for row k
//! ```
//!
//! The squared error comes out of the same sums: `sum (a-b)^2 = sum (a^2 + b^2) - 2 sum ab`. Sums of a row of
//! blocks lie in four lists, one of each kind, so that several blocks, and then several windows, are
//! reckoned at once. All of them are whole numbers, so nothing depends on how many.

use wide::{i16x8, i32x4, u8x16};

use crate::{CodecError, Quality, RawFrame};

/// PSNR of identical pictures, in dB: the true value is infinite, which no mean survives.
pub const PSNR_CAP: f64 = 60.0;

/// Samples in a window.
const WINDOW: f64 = 64.0;
/// `(0.01 * 255)^2` scaled by the window, rounded as ffmpeg does (Wang et al. 2004, eq. 13, K1).
const C1: f64 = 416.0;
/// `(0.03 * 255)^2` scaled by the window and its degrees of freedom (K2).
const C2: f64 = 235_963.0;

/// Sums of a row of 4x4 blocks, an entry a block; or of windows.
struct Sums {
    /// Sum of the first picture's samples: at most 64 * 255 of a window.
    a: Vec<i32>,
    /// Sum of the second's.
    b: Vec<i32>,
    /// Sum of the squares of both: at most 128 * 255^2 of a window.
    squares: Vec<i32>,
    /// Sum of the products.
    products: Vec<i32>,
}

/// The SSIM index of a window of 64 samples (Wang et al. 2004, eq. 13, everything multiplied by 64).
fn ssim(a: i32, b: i32, squares: i32, products: i32) -> f64 {
    // Whole numbers below 2^31: these are exact, and two windows fit in a register of every x86-64.
    let [a, b, squares, products] = [a, b, squares, products].map(f64::from);
    let variances = squares * WINDOW - (a * a + b * b);
    let covariance = products * WINDOW - a * b;
    let means = 2.0 * a * b + C1;
    let mean_squares = a * a + b * b + C1;
    means * (2.0 * covariance + C2) / (mean_squares * (variances + C2))
}

/// Blocks that are summed at once.
const TOGETHER: usize = 4;

impl Sums {
    /// Room for so many blocks, rounded up to what is summed at once.
    fn of(blocks: usize) -> Sums {
        let none = || vec![0; blocks.next_multiple_of(TOGETHER)];
        Sums { a: none(), b: none(), squares: none(), products: none() }
    }

    /// Sums the blocks of four rows of both pictures.
    fn fill(&mut self, a: [&[u8]; 4], b: [&[u8]; 4]) {
        for block in (0..self.a.len()).step_by(TOGETHER) {
            let from = |row: &[u8]| sixteen(&row[4 * block..]);
            self.add_four(block, a.map(from), b.map(from));
        }
    }

    /// Sums four blocks, which are sixteen columns.
    fn add_four(&mut self, block: usize, a: [u8x16; 4], b: [u8x16; 4]) {
        let low = Pairs::of(a.map(i16x8::from_u8x16_low), b.map(i16x8::from_u8x16_low));
        let high = Pairs::of(a.map(i16x8::from_u8x16_high), b.map(i16x8::from_u8x16_high));
        let lists = [&mut self.a, &mut self.b, &mut self.squares, &mut self.products];
        for ((list, low), high) in lists.into_iter().zip(low.0).zip(high.0) {
            let ([a, b, c, d], [e, f, g, h]) = (low.to_array(), high.to_array());
            list[block..block + TOGETHER].copy_from_slice(&[a + b, c + d, e + f, g + h]);
        }
    }

    fn squared_error(&self) -> u64 {
        let errors =
            self.squares.iter().zip(&self.products).map(|(squares, products)| squares - 2 * products);
        errors.map(|error| error as u64).sum()
    }

    /// The index of each window between two rows of blocks; `tall` and `indices` are room to reckon in.
    fn windows(&self, above: &Sums, tall: &mut Sums, indices: &mut [f64]) {
        add(&self.a, &above.a, &mut tall.a);
        add(&self.b, &above.b, &mut tall.b);
        add(&self.squares, &above.squares, &mut tall.squares);
        add(&self.products, &above.products, &mut tall.products);
        let [a, b, squares, products] =
            [&tall.a, &tall.b, &tall.squares, &tall.products].map(|list| &list[..=indices.len()]);
        for (at, index) in indices.iter_mut().enumerate() {
            let window = |list: &[i32]| list[at] + list[at + 1];
            *index = ssim(window(a), window(b), window(squares), window(products));
        }
    }
}

fn add(one: &[i32], other: &[i32], sums: &mut [i32]) {
    for ((sum, &one), &other) in sums.iter_mut().zip(one).zip(other) {
        *sum = one + other;
    }
}

/// Sums of eight columns in pairs, of four rows: of `a`, `b`, both squared, both multiplied.
struct Pairs([i32x4; 4]);

impl Pairs {
    fn of(a: [i16x8; 4], b: [i16x8; 4]) -> Pairs {
        let (mut sum_a, mut sum_b) = (i16x8::ZERO, i16x8::ZERO);
        let (mut squares, mut products) = (i32x4::ZERO, i32x4::ZERO);
        for (a, b) in a.into_iter().zip(b) {
            (sum_a, sum_b) = (sum_a + a, sum_b + b);
            squares += a.dot(a) + b.dot(b);
            products += a.dot(b);
        }
        let one = i16x8::splat(1);
        Pairs([sum_a.dot(one), sum_b.dot(one), squares, products])
    }
}

/// The first sixteen samples of a row, zeros where it ends before.
fn sixteen(row: &[u8]) -> u8x16 {
    u8x16::from(row.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; 16];
        padded[..row.len()].copy_from_slice(row);
        padded
    }))
}

/// One plane of each picture.
struct Planes<'a> {
    a: &'a [u8],
    b: &'a [u8],
    width: usize,
    height: usize,
}

/// Squared error and mean SSIM of one plane.
struct PlaneQuality {
    squared_error: u64,
    ssim: f64,
}

/// Sum of the squared differences of samples, one by one.
///
/// ```
/// assert_eq!(framewire_media::squared_error(&[0, 10, 255], &[3, 10, 0]), 9 + 255 * 255);
/// ```
pub fn squared_error(a: &[u8], b: &[u8]) -> u64 {
    /// Sixteen samples add at most `4 * 255^2` to each of four sums, which then stay below 2^31.
    const AT_ONCE: usize = 16 * 8192;
    a.chunks(AT_ONCE).zip(b.chunks(AT_ONCE)).map(|(a, b)| few_squared(a, b)).sum()
}

fn few_squared(a: &[u8], b: &[u8]) -> u64 {
    let (a, rest_a) = a.as_chunks();
    let (b, rest_b) = b.as_chunks();
    let mut sums = i32x4::ZERO;
    for (&a, &b) in a.iter().zip(b) {
        let (a, b) = (u8x16::from(a), u8x16::from(b));
        let low = i16x8::from_u8x16_low(a) - i16x8::from_u8x16_low(b);
        let high = i16x8::from_u8x16_high(a) - i16x8::from_u8x16_high(b);
        sums += low.dot(low) + high.dot(high);
    }
    let rest = rest_a.iter().zip(rest_b).map(|(&a, &b)| u64::from(a.abs_diff(b)).pow(2));
    rest.sum::<u64>() + sums.to_array().iter().map(|&sum| sum as u64).sum::<u64>()
}

impl Planes<'_> {
    fn row(&self, row: usize) -> (&[u8], &[u8]) {
        let span = row * self.width..(row + 1) * self.width;
        (&self.a[span.clone()], &self.b[span])
    }

    fn measure(&self) -> PlaneQuality {
        let (across, down) = (self.width / 4, self.height / 4);
        let [mut above, mut current, mut tall] = [(); 3].map(|()| Sums::of(across));
        let mut indices = vec![0.0; across - 1];
        let (mut error, mut ssim) = (0, 0.0);
        for strip in 0..down {
            let rows = [0, 1, 2, 3].map(|row| self.row(4 * strip + row));
            current.fill(rows.map(|(a, _)| &a[..4 * across]), rows.map(|(_, b)| &b[..4 * across]));
            error += current.squared_error();
            error += rows.map(|(a, b)| squared_error(&a[4 * across..], &b[4 * across..])).iter().sum::<u64>();
            if strip > 0 {
                current.windows(&above, &mut tall, &mut indices);
                ssim += indices.iter().sum::<f64>();
            }
            std::mem::swap(&mut above, &mut current);
        }
        for row in down * 4..self.height {
            let (a, b) = self.row(row);
            error += squared_error(a, b);
        }
        PlaneQuality { squared_error: error, ssim: ssim / ((across - 1) * (down - 1)) as f64 }
    }
}

/// PSNR in dB of a mean squared error, at most [`PSNR_CAP`].
pub fn psnr(mse: f64) -> f64 {
    if mse <= 0.0 { PSNR_CAP } else { (10.0 * (255.0 * 255.0 / mse).log10()).min(PSNR_CAP) }
}

fn check_sizes(reference: &RawFrame, other: &RawFrame) -> Result<(), CodecError> {
    if (reference.width, reference.height) != (other.width, other.height) {
        return Err(CodecError::Size {
            width: reference.width,
            height: reference.height,
            found_width: other.width,
            found_height: other.height,
        });
    }
    if reference.width < 16 || reference.height < 16 {
        let what = format!("SSIM needs at least 16x16, not {}x{}", reference.width, reference.height);
        return Err(CodecError::Codec { codec: "quality", what });
    }
    Ok(())
}

/// PSNR and SSIM of `other` against `reference`. Both metrics are symmetric.
///
/// # Errors
/// [`CodecError::Size`] if the pictures differ in size; [`CodecError::Codec`] if they are smaller than 16x16,
/// where chroma has no 8x8 window.
pub fn quality(reference: &RawFrame, other: &RawFrame) -> Result<Quality, CodecError> {
    check_sizes(reference, other)?;
    let (width, height) = (reference.width, reference.height);
    let luma = Planes { a: &reference.y, b: &other.y, width, height }.measure();
    let chroma = |a, b| Planes { a, b, width: width / 2, height: height / 2 }.measure();
    let blue = chroma(&reference.u, &other.u);
    let red = chroma(&reference.v, &other.v);
    let samples = (width * height) as f64;
    let error = luma.squared_error + blue.squared_error + red.squared_error;
    Ok(Quality {
        psnr_y: psnr(luma.squared_error as f64 / samples),
        psnr_avg: psnr(error as f64 / (samples * 1.5)),
        ssim: (4.0 * luma.ssim + blue.ssim + red.ssim) / 6.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use units::Rng;

    fn noisy(frame: &RawFrame, seed: u64, amplitude: i64) -> RawFrame {
        let mut rng = Rng::stream(seed, "noise");
        let mut out = frame.clone();
        for plane in [&mut out.y, &mut out.u, &mut out.v] {
            for p in plane.iter_mut() {
                let shift = rng.below(2 * amplitude as u64 + 1) as i64 - amplitude;
                *p = (i64::from(*p) + shift).clamp(0, 255) as u8;
            }
        }
        out
    }

    #[test]
    fn identical_pictures_are_perfect() {
        let frame = testing::textured(90, 70, 1);
        let q = quality(&frame, &frame).unwrap();
        assert_eq!((q.psnr_y, q.psnr_avg), (PSNR_CAP, PSNR_CAP));
        assert!((q.ssim - 1.0).abs() < 1e-12);
    }

    #[test]
    fn flat_pictures_follow_the_closed_form() {
        // With no variance only the luminance term is left: (2ab + c1) / (a^2 + b^2 + c1), c1 = (0.01 *
        // 255)^2.
        let a = RawFrame::filled(64, 48, 100, 128, 128);
        let b = RawFrame::filled(64, 48, 110, 128, 128);
        let q = quality(&a, &b).unwrap();
        let c1 = C1 / 64.0 / 64.0;
        let luma = (2.0 * 100.0 * 110.0 + c1) / (100.0f64.powi(2) + 110.0f64.powi(2) + c1);
        assert!((q.ssim - (4.0 * luma + 2.0) / 6.0).abs() < 1e-12);
        assert!((q.psnr_y - 10.0 * (255.0f64.powi(2) / 100.0).log10()).abs() < 1e-12);
        assert!((q.psnr_avg - 10.0 * (255.0f64.powi(2) / (100.0 * 4.0 / 6.0)).log10()).abs() < 1e-12);
    }

    #[test]
    fn one_window_follows_the_textbook_formula() {
        let mut a = RawFrame::filled(16, 16, 0, 128, 128);
        let mut rng = Rng::stream(4, "window");
        a.y.iter_mut().for_each(|p| *p = rng.below(256) as u8);
        let b = noisy(&a, 5, 30);
        // Mean over the nine 8x8 luma windows, straight from the definition with unbiased variances.
        let mut sum = 0.0;
        for (y0, x0) in (0..9).map(|i| (i / 3 * 4, i % 3 * 4)) {
            let cells = (0..64).map(|i| (y0 + i / 8) * 16 + x0 + i % 8);
            let pairs: Vec<(f64, f64)> = cells.map(|i| (f64::from(a.y[i]), f64::from(b.y[i]))).collect();
            let mean = |f: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|&(a, b)| f(a, b)).sum::<f64>() / 64.0;
            let (ma, mb) = (mean(&|a, _| a), mean(&|_, b| b));
            let cov = |f: &dyn Fn(f64, f64) -> f64| mean(f) * 64.0 / 63.0;
            let va = cov(&|a, _| (a - ma).powi(2));
            let vb = cov(&|_, b| (b - mb).powi(2));
            let vab = cov(&|a, b| (a - ma) * (b - mb));
            let (c1, c2) = (2.55f64.powi(2), 7.65f64.powi(2));
            sum += (2.0 * ma * mb + c1) * (2.0 * vab + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
        }
        let luma = Planes { a: &a.y, b: &b.y, width: 16, height: 16 }.measure();
        assert!((luma.ssim - sum / 9.0).abs() < 1e-4, "{} {}", luma.ssim, sum / 9.0);
        assert_eq!(luma.squared_error, squared_error(&a.y, &b.y));
    }

    proptest::proptest! {
        #[test]
        fn squared_errors_are_sums_of_squares(length in 0usize..300_000, seed: u64, extreme: bool) {
            let mut rng = Rng::stream(seed, "samples");
            let mut samples = |most| (0..length).map(|_| rng.below(most) as u8).collect::<Vec<_>>();
            let (a, b) = if extreme { (vec![255; length], vec![0; length]) } else { (samples(256), samples(256)) };
            let plain: u64 = a.iter().zip(&b).map(|(&a, &b)| u64::from(a.abs_diff(b)).pow(2)).sum();
            proptest::prop_assert_eq!(squared_error(&a, &b), plain);
        }
    }

    /// Each window from its 64 samples, one after the other, in whole numbers as far as they go.
    fn window_by_window(planes: &Planes<'_>) -> PlaneQuality {
        let (across, down) = (planes.width / 4 - 1, planes.height / 4 - 1);
        let strip = |top: usize| {
            let window = |left: usize| {
                let at = (0..64).map(|n| (4 * top + n / 8) * planes.width + 4 * left + n % 8);
                let (mut a, mut b, mut squares, mut products) = (0, 0, 0, 0);
                for (p, q) in at.map(|at| (i64::from(planes.a[at]), i64::from(planes.b[at]))) {
                    (a, b) = (a + p, b + q);
                    (squares, products) = (squares + p * p + q * q, products + p * q);
                }
                let (variances, covariance) = (squares * 64 - a * a - b * b, products * 64 - a * b);
                let means = (2 * a * b) as f64 + C1;
                let mean_squares = (a * a + b * b) as f64 + C1;
                means * ((2 * covariance) as f64 + C2) / (mean_squares * (variances as f64 + C2))
            };
            (0..across).map(window).sum::<f64>()
        };
        let ssim = (0..down).map(strip).sum::<f64>() / (across * down) as f64;
        PlaneQuality { squared_error: squared_error(planes.a, planes.b), ssim }
    }

    proptest::proptest! {
        #[test]
        fn what_is_summed_at_once_changes_nothing(
            width in 8usize..80,
            height in 8usize..24,
            seed: u64,
            extreme: bool,
        ) {
            let mut rng = Rng::stream(seed, "planes");
            let mut plane = || -> Vec<u8> {
                let sample = |_| if extreme { 255 * rng.below(2) as u8 } else { rng.below(256) as u8 };
                (0..width * height).map(sample).collect()
            };
            let (a, b) = (plane(), plane());
            let planes = Planes { a: &a, b: &b, width, height };
            let (measured, plain) = (planes.measure(), window_by_window(&planes));
            proptest::prop_assert_eq!(measured.squared_error, plain.squared_error);
            proptest::prop_assert_eq!(measured.ssim.to_bits(), plain.ssim.to_bits());
        }
    }

    #[test]
    fn odd_leftovers_count_in_psnr() {
        // 90x70: chroma is 45x35, so neither side is a multiple of four.
        let a = testing::textured(90, 70, 2);
        let b = noisy(&a, 3, 9);
        let q = quality(&a, &b).unwrap();
        let total = [(&a.y, &b.y), (&a.u, &b.u), (&a.v, &b.v)];
        let error: u64 = total.iter().map(|(p, q)| squared_error(p, q)).sum();
        assert!((q.psnr_avg - psnr(error as f64 / (90.0 * 70.0 * 1.5))).abs() < 1e-12);
    }

    #[test]
    fn sizes_must_agree() {
        let a = RawFrame::filled(32, 32, 0, 0, 0);
        let error = quality(&a, &RawFrame::filled(32, 34, 0, 0, 0)).unwrap_err();
        assert_eq!(error.to_string(), "a picture of 32x34 in a stream of 32x32");
        let tiny = RawFrame::filled(8, 8, 0, 0, 0);
        assert!(quality(&tiny, &tiny).unwrap_err().to_string().contains("16x16"));
    }

    /// The last number after `key` in a line of ffmpeg's statistics.
    fn field(line: &str, key: &str) -> f64 {
        let start = line.rfind(key).unwrap_or_else(|| panic!("no {key} in {line}")) + key.len();
        line[start..].split_whitespace().next().unwrap().parse().unwrap()
    }

    fn ffmpeg_says(
        filter: &str,
        a: &std::path::Path,
        b: &std::path::Path,
        stats: &std::path::Path,
    ) -> Vec<String> {
        let graph = format!("[0:v][1:v]{filter}=stats_file={}", stats.display());
        let inputs = ["-i", a.to_str().unwrap(), "-i", b.to_str().unwrap()];
        let tail = ["-lavfi", &graph, "-f", "null", "-"];
        let run = std::process::Command::new("ffmpeg").args(["-v", "error"]).args(inputs).args(tail).output();
        assert!(run.unwrap().status.success());
        std::fs::read_to_string(stats).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn ffmpeg_agrees() {
        if !testing::have_ffmpeg() {
            println!("skipped: no ffmpeg");
            return;
        }
        let folder = testing::TempFolder::new("quality");
        let a: Vec<RawFrame> = (0..6).map(|i| testing::textured(322, 182, i)).collect();
        let b: Vec<RawFrame> = a.iter().zip(0..).map(|(f, i)| noisy(f, i, 1 + 6 * i as i64)).collect();
        testing::write_y4m(&folder.path("a.y4m"), &a);
        testing::write_y4m(&folder.path("b.y4m"), &b);
        let (pa, pb) = (folder.path("a.y4m"), folder.path("b.y4m"));
        let ssim = ffmpeg_says("ssim", &pa, &pb, &folder.path("ssim.log"));
        let psnr = ffmpeg_says("psnr", &pa, &pb, &folder.path("psnr.log"));
        assert_eq!((ssim.len(), psnr.len()), (6, 6));
        for i in 0..6 {
            let q = quality(&a[i], &b[i]).unwrap();
            assert!((q.ssim - field(&ssim[i], "All:")).abs() < 1e-4, "{} {}", q.ssim, ssim[i]);
            assert!((q.psnr_y - field(&psnr[i], "psnr_y:")).abs() <= 0.01, "{} {}", q.psnr_y, psnr[i]);
            assert!((q.psnr_avg - field(&psnr[i], "psnr_avg:")).abs() <= 0.01, "{} {}", q.psnr_avg, psnr[i]);
        }
    }
}
