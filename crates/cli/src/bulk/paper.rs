//! Seed 001, tables 1 to 4: one flow over 10 Mbit/s with 50 ms of round trip.

/// The paper's own single-flow figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// Goodput in Mbit/s; the testbed's headers leave 9.2 of 10.
    pub goodput: f64,
    /// Share of packets lost, in percent.
    pub loss: f64,
    /// Mean round trip in ms.
    pub rtt: f64,
    /// Its standard deviation.
    pub std: f64,
}

/// The paper's controllers by our names; `{t}` is a share of the buffer's drain time.
pub const CONTROLLERS: [&str; 8] = [
    "quic-dc 10%",
    "quic-dc 20%",
    "quic-dc 50%",
    "quic-dc 80%",
    "westwood-plus-quic",
    "bbr2-mvfst",
    "cubic",
    "newreno",
];

/// Goodput, loss, mean and deviation of each of [`CONTROLLERS`] with a buffer of so many bandwidth-delay
/// products.
type Row = [(f64, f64, f64, f64); CONTROLLERS.len()];
const TABLES: [(f64, Row); 4] = [
    (
        4.0,
        [
            (9.16, 0.02, 55.75, 3.00),
            (9.17, 0.01, 63.83, 7.64),
            (9.16, 0.03, 88.60, 19.14),
            (9.16, 0.02, 123.82, 26.48),
            (9.18, 0.07, 170.23, 43.10),
            (9.15, 0.65, 102.33, 27.44),
            (9.10, 1.03, 190.32, 31.37),
            (9.20, 0.07, 159.26, 45.14),
        ],
    ),
    (
        2.0,
        [
            (9.06, 0.03, 52.74, 1.23),
            (9.16, 0.03, 55.98, 3.65),
            (9.14, 0.14, 68.33, 10.25),
            (9.16, 0.04, 84.86, 16.47),
            (9.15, 0.26, 90.53, 20.04),
            (9.12, 0.66, 87.94, 26.94),
            (9.16, 0.39, 104.82, 13.57),
            (9.17, 0.14, 93.78, 18.79),
        ],
    ),
    (
        1.0,
        [
            (7.08, 0.63, 52.51, 1.06),
            (7.75, 0.53, 52.63, 1.65),
            (8.51, 0.83, 53.64, 3.96),
            (8.39, 0.83, 52.44, 1.15),
            (8.22, 0.64, 53.11, 3.03),
            (9.12, 0.87, 57.21, 7.72),
            (9.19, 0.15, 63.06, 7.15),
            (7.39, 0.37, 52.39, 1.10),
        ],
    ),
    (
        0.5,
        [
            (3.30, 0.44, 52.45, 1.49),
            (3.58, 1.24, 52.23, 1.06),
            (3.44, 1.42, 52.11, 1.02),
            (3.75, 1.77, 52.26, 1.04),
            (3.68, 1.33, 52.29, 1.02),
            (6.27, 1.20, 51.41, 0.77),
            (5.53, 0.24, 51.32, 0.95),
            (3.34, 0.81, 52.48, 0.96),
        ],
    ),
];

/// What the paper prints for a controller and a buffer, if it has them.
pub fn printed(controller: &str, buffer: f64) -> Option<Printed> {
    let place = CONTROLLERS.iter().position(|name| *name == controller)?;
    let (_, row) = TABLES.iter().find(|(size, _)| *size == buffer)?;
    let (goodput, loss, rtt, std) = row[place];
    Some(Printed { goodput, loss, rtt, std })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_controller_and_buffer() {
        assert_eq!(printed("newreno", 4.0).unwrap().rtt, 159.26);
        assert_eq!(printed("quic-dc 50%", 2.0).unwrap().goodput, 9.14);
        assert_eq!((printed("sqp", 2.0), printed("newreno", 3.0)), (None, None));
    }
}
