//! Picture quality over a clip, by ffmpeg's conventions (its filters `psnr` and `ssim`). The per-frame values
//! come from the media room; here is how they add up.

/// Identical pictures have infinite PSNR; it is reported as this many dB.
pub const PSNR_CAP: f64 = 60.0;

/// PSNR in dB of 8-bit samples with the given mean squared error, at most [`PSNR_CAP`].
pub fn psnr_of_mse(mse: f64) -> f64 {
    (10.0 * (255.0 * 255.0 / mse).log10()).min(PSNR_CAP)
}

/// Mean PSNR of a clip as ffmpeg's summary line has it: the mean of the frames' *squared errors*, turned into
/// dB. One bad frame weighs far more here than in a mean of dB values. `None` without frames.
pub fn psnr_summary(frames_db: &[f64]) -> Option<f64> {
    psnr_mean(frames_db.iter().map(|&db| (db, 1)))
}

/// [`psnr_summary`] of values with how many frames have each.
pub fn psnr_of_counted(frames_db: &[(f64, u64)]) -> Option<f64> {
    psnr_mean(frames_db.iter().copied())
}

fn psnr_mean(frames_db: impl Iterator<Item = (f64, u64)> + Clone) -> Option<f64> {
    let mse = |(db, count): (f64, u64)| 255.0 * 255.0 / 10f64.powf(db / 10.0) * count as f64;
    let frames: u64 = frames_db.clone().map(|(_, count)| count).sum();
    let mean = frames_db.map(mse).sum::<f64>() / frames as f64;
    (frames > 0).then(|| psnr_of_mse(mean))
}

/// PSNR over all planes of a 4:2:0 picture from the planes' mean squared errors: planes weigh by their number
/// of samples, `(4 Y + U + V) / 6`.
pub fn psnr_all_planes(mse_y: f64, mse_u: f64, mse_v: f64) -> f64 {
    psnr_of_mse((4.0 * mse_y + mse_u + mse_v) / 6.0)
}

/// SSIM "All" of a 4:2:0 picture from the planes' values.
pub fn ssim_all_planes(y: f64, u: f64, v: f64) -> f64 {
    (4.0 * y + u + v) / 6.0
}

/// Structural dissimilarity of a raw SSIM value: `(1 - SSIM) / 2`.
pub fn dssim(ssim: f64) -> f64 {
    (1.0 - ssim) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_averages_errors_not_decibels() {
        // Measured with ffmpeg: frames of 29.89 and 49.89 dB sum up to 32.86 dB, not 39.89.
        assert_eq!((psnr_summary(&[29.89, 49.89]).unwrap() * 100.0).round() / 100.0, 32.86);
        assert_eq!(psnr_summary(&[]), None);
    }

    #[test]
    fn identical_pictures_are_capped() {
        assert_eq!(psnr_of_mse(0.0), 60.0);
        assert_eq!(psnr_all_planes(0.0, 0.0, 0.0), 60.0);
        assert_eq!((psnr_of_mse(1.0) * 100.0).round() / 100.0, 48.13);
    }

    #[test]
    fn planes_weigh_by_their_samples() {
        // Measured with ffmpeg.
        let all = ssim_all_planes(0.951494, 0.958490, 0.967311);
        assert_eq!((all * 1e6).round() / 1e6, 0.955296);
        assert_eq!(psnr_all_planes(6.0, 0.0, 0.0), psnr_of_mse(4.0));
    }

    #[test]
    fn dssim_is_half_the_distance_to_one() {
        assert!((dssim(0.9) - 0.05).abs() < 1e-12);
    }
}
