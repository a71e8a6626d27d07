//! What a frame is worth by its size (thesis section 3.5.2.2).

/// SSIM of a frame by its size in bytes: `Q(s) = 1 - 1 / (a s + b)`, zero where that is negative. Concave and
/// increasing from there on.
///
/// ```
/// use framewire_vantage::Curve;
///
/// // The thesis' toy (section 3.4.1): 2 a Mbit/s, here 250,000 bytes.
/// let toy = Curve::new(2.0 / 125_000.0, 1.0).unwrap();
/// assert!((toy.quality(62_500.0) - 0.5).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    a: f64,
    b: f64,
}

/// Why there is no such curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurveError {
    /// `a` is not a positive number: more bytes would be worth no more.
    NotIncreasing,
    /// `b` is not a number.
    NotANumber,
}

impl Curve {
    /// The curve with `a` per byte and `b`.
    ///
    /// # Errors
    /// [`CurveError`] unless `a` is positive and both are finite.
    pub fn new(a: f64, b: f64) -> Result<Curve, CurveError> {
        match (a.is_finite() && a > 0.0, b.is_finite()) {
            (false, _) => Err(CurveError::NotIncreasing),
            (_, false) => Err(CurveError::NotANumber),
            _ => Ok(Curve { a, b }),
        }
    }

    /// `a`, per byte.
    pub fn a(self) -> f64 {
        self.a
    }

    /// `b`, without a unit.
    pub fn b(self) -> f64 {
        self.b
    }

    /// SSIM, 0 to 1, of a frame of `size` bytes.
    pub fn quality(self, size: f64) -> f64 {
        let at = self.a * size + self.b;
        if at > 1.0 { 1.0 - 1.0 / at } else { 0.0 }
    }

    /// Bytes from which on its quality is at least this; infinite for 1 and more.
    pub fn size_for(self, quality: f64) -> f64 {
        if quality < 1.0 { ((1.0 / (1.0 - quality) - self.b) / self.a).max(0.0) } else { f64::INFINITY }
    }

    /// Bytes at which one more of them adds `slope` to the quality, wherever that lies; negative where no
    /// size has so steep a slope.
    pub(crate) fn size_at_slope(self, slope: f64) -> f64 {
        ((self.a / slope).sqrt() - self.b) / self.a
    }
}

/// What is known of the curves of a stream's frames: of those that were coded by their sizes and qualities,
/// of those to come by a moving average of both parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimate {
    average: Option<Curve>,
}

/// Weight of the newest frame in the moving average (sheet section 8; the thesis has none).
const NEWEST: f64 = 0.1;
/// Least distance to 1 of a quality that a curve is fitted through: what is coded without loss has none.
const LEAST_LOSS: f64 = 1e-4;

impl Estimate {
    /// The curve of a frame that was coded to these sizes, in bytes, with these SSIMs; `None` if they say
    /// nothing. One of them gives a curve of the average's shape through the point, and without an average
    /// one with `Q(0) = 0`; several the least squares of `1 / (1 - Q)` on the size, which is linear.
    pub fn fit(&self, coded: &[(f64, f64)]) -> Option<Curve> {
        let points = coded.iter().filter(|(size, quality)| *size > 0.0 && quality.is_finite());
        let points: Vec<(f64, f64)> =
            points.map(|&(size, quality)| (size, 1.0 / (1.0 - quality).max(LEAST_LOSS))).collect();
        let line = if points.len() > 1 { line(&points) } else { None };
        line.or_else(|| self.through(*points.last()?))
    }

    /// A curve through one point with `a / b` of the average.
    fn through(&self, (size, at): (f64, f64)) -> Option<Curve> {
        let shape = self.average.filter(|average| average.b > 0.0);
        let Some(average) = shape else { return Curve::new((at - 1.0) / size, 1.0).ok() };
        let scale = at / (average.a * size + average.b);
        Curve::new(average.a * scale, average.b * scale).ok()
    }

    /// Takes notice of the curve of a frame just coded.
    pub fn learn(&mut self, curve: Curve) {
        let mix = |old: f64, new: f64| old + NEWEST * (new - old);
        self.average = Some(
            self.average
                .map_or(curve, |average| Curve { a: mix(average.a, curve.a), b: mix(average.b, curve.b) }),
        );
    }

    /// The curve of frames to come, from the first frame on.
    pub fn next(&self) -> Option<Curve> {
        self.average
    }
}

/// How frames that are sent again come out, as a share of the `1 / (1 - Q)` that their curves say. Coded
/// beside other neighbours than frames of now, they cost more bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bias(f64);

/// Beyond these shares a single frame says nothing of others.
const BIAS: (f64, f64) = (0.25, 4.0);

impl Default for Bias {
    fn default() -> Bias {
        Bias(1.0)
    }
}

impl Bias {
    /// A frame of this curve came out with this SSIM.
    pub fn learn(&mut self, curve: Curve, size: f64, quality: f64) {
        let expected = curve.a * size + curve.b;
        if quality.is_finite() && expected >= 1.0 {
            let share = 1.0 / (1.0 - quality).max(LEAST_LOSS) / expected;
            self.0 += NEWEST * (share.clamp(BIAS.0, BIAS.1) - self.0);
        }
    }

    /// The curve of such a frame when it is sent again.
    pub fn correct(self, Curve { a, b }: Curve) -> Curve {
        Curve { a: a * self.0, b: b * self.0 }
    }
}

/// The line through points by least squares, where it rises.
fn line(points: &[(f64, f64)]) -> Option<Curve> {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (size, at) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - size) * (p.0 - size)).sum();
    let along: f64 = points.iter().map(|p| (p.0 - size) * (p.1 - at)).sum();
    let a = along / spread;
    Curve::new(a, at - a * size).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_comes_back_from_points_on_it() {
        let curve = Curve::new(3e-4, 1.7).unwrap();
        let points = [500.0, 2_000.0, 9_000.0].map(|size| (size, curve.quality(size)));
        let fitted = Estimate::default().fit(&points).unwrap();
        assert!((fitted.a() / curve.a() - 1.0).abs() < 1e-9 && (fitted.b() - 1.7).abs() < 1e-9);
        assert!((curve.size_for(curve.quality(2_000.0)) - 2_000.0).abs() < 1e-6);
        assert_eq!((curve.size_for(0.1), curve.size_for(1.0)), (0.0, f64::INFINITY));
        let slope = (curve.quality(2_000.5) - curve.quality(1_999.5)) / 1.0;
        assert!((curve.size_at_slope(slope) - 2_000.0).abs() < 1.0);
    }

    #[test]
    fn one_point_takes_the_shape_of_the_average() {
        let mut estimate = Estimate::default();
        let alone = estimate.fit(&[(1_000.0, 0.8)]).unwrap();
        assert!((alone.quality(1_000.0) - 0.8).abs() < 1e-12 && alone.quality(0.0) == 0.0);
        estimate.learn(Curve::new(1e-3, 2.0).unwrap());
        let shaped = estimate.fit(&[(1_000.0, 0.8)]).unwrap();
        assert!((shaped.quality(1_000.0) - 0.8).abs() < 1e-12);
        assert!((shaped.a() / shaped.b() - 5e-4).abs() < 1e-12);
        estimate.learn(Curve::new(2e-3, 1.0).unwrap());
        let next = estimate.next().unwrap();
        assert!((next.a() - 1.1e-3).abs() < 1e-12 && (next.b() - 1.9).abs() < 1e-12);
    }

    #[test]
    fn curves_are_corrected_by_what_came_out() {
        let curve = Curve::new(1e-3, 1.0).unwrap();
        let mut bias = Bias::default();
        assert_eq!(bias.correct(curve), curve);
        // 3,000 bytes say 1 / (1 - Q) = 4; it comes out as 2, again and again.
        (0..200).for_each(|_| bias.learn(curve, 3_000.0, 0.5));
        assert!((bias.correct(curve).quality(3_000.0) - 0.5).abs() < 1e-6);
        bias.learn(curve, 3_000.0, f64::NAN);
        (0..200).for_each(|_| bias.learn(curve, 3_000.0, 1.0));
        assert!((bias.correct(curve).a() - 4e-3).abs() < 1e-6, "four times is the most");
    }

    #[test]
    fn what_says_nothing_gives_no_curve() {
        let estimate = Estimate::default();
        assert!(estimate.fit(&[]).is_none() && estimate.fit(&[(0.0, 0.5)]).is_none());
        assert!(estimate.fit(&[(100.0, f64::NAN)]).is_none());
        // Larger and worse: the last one counts.
        let falling = estimate.fit(&[(100.0, 0.9), (200.0, 0.8)]).unwrap();
        assert!((falling.quality(200.0) - 0.8).abs() < 1e-12);
        assert!(estimate.fit(&[(100.0, 1.0)]).unwrap().quality(100.0) > 0.999);
        assert_eq!(Curve::new(0.0, 1.0), Err(CurveError::NotIncreasing));
        assert_eq!(Curve::new(1.0, f64::INFINITY), Err(CurveError::NotANumber));
    }
}
