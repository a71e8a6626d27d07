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
//! The squared error comes out of the same sums: `sum (a-b)^2 = sum (a^2 + b^2) - 2 sum ab`.

use std::ops::Add;

use crate::{CodecError, Quality, RawFrame};

/// PSNR of identical pictures, in dB: the true value is infinite, which no mean survives.
pub const PSNR_CAP: f64 = 60.0;

/// Samples in a window.
const WINDOW: i64 = 64;
/// `(0.01 * 255)^2` scaled by the window, rounded as ffmpeg does (Wang et al. 2004, eq. 13, K1).
const C1: f64 = 416.0;
/// `(0.03 * 255)^2` scaled by the window and its degrees of freedom (K2).
const C2: f64 = 235_963.0;

/// Sums over one 4x4 block, or over several.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Sum of the first picture's samples.
    a: u32,
    /// Sum of the second's.
    b: u32,
    /// Sum of the squares of both.
    squares: u32,
    /// Sum of the products.
    products: u32,
}

impl Add for Sums {
    type Output = Sums;
    fn add(self, rhs: Sums) -> Sums {
        Sums {
            a: self.a + rhs.a,
            b: self.b + rhs.b,
            squares: self.squares + rhs.squares,
            products: self.products + rhs.products,
        }
    }
}

impl Sums {
    fn squared_error(self) -> u64 {
        u64::from(self.squares) - 2 * u64::from(self.products)
    }

    /// The SSIM index of a window of 64 samples (Wang et al. 2004, eq. 13, everything multiplied by 64).
    fn ssim(self) -> f64 {
        let (a, b) = (i64::from(self.a), i64::from(self.b));
        let variances = i64::from(self.squares) * WINDOW - a * a - b * b;
        let covariance = i64::from(self.products) * WINDOW - a * b;
        let means = (2 * a * b) as f64 + C1;
        let mean_squares = (a * a + b * b) as f64 + C1;
        means * ((2 * covariance) as f64 + C2) / (mean_squares * (variances as f64 + C2))
    }
}

/// One plane of each picture.
struct Planes<'a> {
    a: &'a [u8],
    b: &'a [u8],
    width: usize,
    height: usize,
}

/// Column sums over four rows: the part a compiler can vectorise.
struct Columns {
    a: Vec<u16>,
    b: Vec<u16>,
    squares: Vec<u32>,
    products: Vec<u32>,
}

impl Columns {
    fn new(width: usize) -> Columns {
        Columns { a: vec![0; width], b: vec![0; width], squares: vec![0; width], products: vec![0; width] }
    }

    fn clear(&mut self) {
        self.a.fill(0);
        self.b.fill(0);
        self.squares.fill(0);
        self.products.fill(0);
    }

    fn add_row(&mut self, row_a: &[u8], row_b: &[u8]) {
        for (sum, &p) in self.a.iter_mut().zip(row_a) {
            *sum += u16::from(p);
        }
        for (sum, &q) in self.b.iter_mut().zip(row_b) {
            *sum += u16::from(q);
        }
        for ((sum, &p), &q) in self.squares.iter_mut().zip(row_a).zip(row_b) {
            let (p, q) = (u32::from(p), u32::from(q));
            *sum += p * p + q * q;
        }
        for ((sum, &p), &q) in self.products.iter_mut().zip(row_a).zip(row_b) {
            *sum += u32::from(u16::from(p) * u16::from(q));
        }
    }

    fn block(&self, index: usize) -> Sums {
        let span = index * 4..index * 4 + 4;
        Sums {
            a: self.a[span.clone()].iter().map(|&s| u32::from(s)).sum(),
            b: self.b[span.clone()].iter().map(|&s| u32::from(s)).sum(),
            squares: self.squares[span.clone()].iter().sum(),
            products: self.products[span].iter().sum(),
        }
    }
}

/// Squared error and mean SSIM of one plane.
struct PlaneQuality {
    squared_error: u64,
    ssim: f64,
}

fn squared_error(a: &[u8], b: &[u8]) -> u64 {
    a.iter().zip(b).map(|(&p, &q)| u64::from(p.abs_diff(q)).pow(2)).sum()
}

impl Planes<'_> {
    fn rows(&self, row: usize) -> (&[u8], &[u8]) {
        let span = row * self.width..(row + 1) * self.width;
        (&self.a[span.clone()], &self.b[span])
    }

    fn measure(&self) -> PlaneQuality {
        let (across, down) = (self.width / 4, self.height / 4);
        let mut columns = Columns::new(across * 4);
        let mut above: Vec<Sums> = Vec::new();
        let mut current: Vec<Sums> = Vec::with_capacity(across);
        let (mut error, mut ssim) = (0, 0.0);
        for strip in 0..down {
            columns.clear();
            for row in strip * 4..strip * 4 + 4 {
                let (a, b) = self.rows(row);
                columns.add_row(&a[..across * 4], &b[..across * 4]);
                error += squared_error(&a[across * 4..], &b[across * 4..]);
            }
            current.clear();
            current.extend((0..across).map(|block| columns.block(block)));
            error += current.iter().map(|sums| sums.squared_error()).sum::<u64>();
            ssim += strip_ssim(&above, &current);
            std::mem::swap(&mut above, &mut current);
        }
        for row in down * 4..self.height {
            let (a, b) = self.rows(row);
            error += squared_error(a, b);
        }
        PlaneQuality { squared_error: error, ssim: ssim / ((across - 1) * (down - 1)) as f64 }
    }
}

/// Sum of SSIM over the windows between two rows of blocks; none above the first row.
fn strip_ssim(above: &[Sums], current: &[Sums]) -> f64 {
    let pairs = above.windows(2).zip(current.windows(2));
    pairs.map(|(top, bottom)| (top[0] + top[1] + bottom[0] + bottom[1]).ssim()).sum()
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
