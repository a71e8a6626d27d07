//! A straight line through points, by least squares.

/// Running sums of a linear regression. Feed points relative to the first, else the squares lose precision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Line {
    /// Adds the point (`x`, `y`) to the fit.
    pub fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
        self.yy += y * y;
    }

    /// Points in the fit.
    pub fn count(&self) -> usize {
        self.n as usize
    }

    /// Mean of `y`; `None` without points.
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0.0).then(|| self.y / self.n)
    }

    /// Standard deviation of `y`; `None` without points.
    pub fn deviation(&self) -> Option<f64> {
        self.mean().map(|mean| (self.yy / self.n - mean * mean).max(0.0).sqrt())
    }

    /// The slope; `None` where the points do not say one (fewer than two, or all at one `x`).
    pub fn slope(&self) -> Option<f64> {
        let spread = self.n * self.xx - self.x * self.x;
        (self.n >= 2.0 && spread > 0.0).then(|| (self.n * self.xy - self.x * self.y) / spread)
    }

    /// Standard error of the slope; `None` with fewer than three points.
    pub fn slope_error(&self) -> Option<f64> {
        let squares = self.residual_squares().filter(|_| self.n >= 3.0)?;
        Some((squares / (self.n - 2.0) / (self.xx - self.x * self.x / self.n)).sqrt())
    }

    /// Root mean square of the points' distances from the line, in units of `y`; `None` without a slope.
    pub fn residual(&self) -> Option<f64> {
        self.residual_squares().map(|squares| (squares / self.n).sqrt())
    }

    fn residual_squares(&self) -> Option<f64> {
        let sxy = self.xy - self.x * self.y / self.n;
        Some((self.yy - self.y * self.y / self.n - self.slope()? * sxy).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_noise_shows_as_error() {
        let mut line = Line::default();
        (0..10).for_each(|k| line.add(f64::from(k), 3.0 + 2.0 * f64::from(k)));
        assert!((line.slope().unwrap() - 2.0).abs() < 1e-12 && line.slope_error().unwrap() < 1e-6);
        // Points (0,0) (1,1) (2,0) (3,1): slope 0.2, error sqrt(0.8/2/5).
        let mut noisy = Line::default();
        [(0.0, 0.0), (1.0, 1.0), (2.0, 0.0), (3.0, 1.0)].iter().for_each(|&(x, y)| noisy.add(x, y));
        assert!((noisy.slope().unwrap() - 0.2).abs() < 1e-12);
        assert!((noisy.slope_error().unwrap() - 0.08f64.sqrt()).abs() < 1e-12);
        assert!((noisy.residual().unwrap() - 0.2f64.sqrt()).abs() < 1e-12);
        assert_eq!((noisy.mean(), noisy.deviation(), noisy.count()), (Some(0.5), Some(0.5), 4));
        assert_eq!(Line::default().slope(), None);
    }
}
