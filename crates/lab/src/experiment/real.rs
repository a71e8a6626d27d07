//! What an experiment gave with a kernel's TCP in the place of ours, over the emulated link in real time, beside the simulator's
//! numbers: a file that `framewire lab real` writes and the book reads.

use std::fmt::Write;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use units::{Rate, Span, Time};

use crate::collect::{Collector, FlowRecord};
use crate::files::{WriteError, write_whole};
use crate::metrics::{nearest_rank, simulate};
use crate::report::escape;

/// Frames of equation 10 (seed 000): 60 a second, smoothed over 4.
const FRAME: Span = Span::from_nanos(16_666_667);
const SMOOTHED_OVER: usize = 4;

/// The file's name in the lab's folder.
pub const REAL_FILE: &str = "real.json";

/// What one run gave. Rates in Mbit/s, delays in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealMeasures {
    /// The first flow's rate on the wire, as a share of the link's.
    pub share: f64,
    /// The other flow's payload rate, likewise.
    pub other_share: f64,
    /// Mean, 10th and 90th percentile of equation 10's frame bitrate.
    pub mean: f64,
    /// See `mean`.
    pub p10: f64,
    /// See `mean`.
    pub p90: f64,
    /// 90th percentile of equation 10's frame delay.
    pub delay_p90: f64,
}

/// The same point in both worlds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RealPoint {
    /// The experiment's labels: controller, competitor, who is first.
    pub labels: Vec<String>,
    /// Over the emulator, with the kernel's TCP.
    pub real: RealMeasures,
    /// In the simulator, with ours: the same seed.
    pub simulated: RealMeasures,
}

/// Everything that was run for real.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RealResults {
    /// The experiment.
    pub experiment: String,
    /// The kernel, as it calls itself.
    pub kernel: String,
    /// The machine's load average before and after: other jobs disturb real time.
    pub load_average: (f64, f64),
    /// The points.
    pub points: Vec<RealPoint>,
}

impl RealMeasures {
    /// What `record` says of its first flow between `from` and `to`; `other_bytes` of payload came to the other.
    pub fn of(record: &Collector, other_bytes: u64, rate: Rate, from: Time, to: Time) -> RealMeasures {
        let flow = &record.flows[0];
        let bytes: u64 = within(flow, from, to);
        let link = rate.bytes_in(to - from).get() as f64;
        let frames = simulate(&flow.path_packets(), from, to, FRAME, SMOOTHED_OVER);
        let sorted = |value: fn(&crate::metrics::SimulatedFrame) -> f64| {
            let mut values: Vec<f64> = frames.iter().map(value).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let rates = sorted(|frame| frame.bitrate / 1e6);
        let delays = sorted(|frame| frame.delay.as_millis_f64());
        let percentile = |values: &[f64], p| nearest_rank(values, p).unwrap_or(0.0);
        RealMeasures {
            share: bytes as f64 / link,
            other_share: other_bytes as f64 / link,
            mean: if rates.is_empty() { 0.0 } else { rates.iter().sum::<f64>() / rates.len() as f64 },
            p10: percentile(&rates, 10.0),
            p90: percentile(&rates, 90.0),
            delay_p90: percentile(&delays, 90.0),
        }
    }

    /// The width of the middle of the bitrates, over their mean.
    pub fn spread(&self) -> f64 {
        (self.p90 - self.p10) / self.mean
    }
}

/// Wire bytes that arrived in this time.
pub fn within(flow: &FlowRecord, from: Time, to: Time) -> u64 {
    let inside = flow.deliveries().into_iter().filter(|(at, _)| (from..to).contains(at));
    inside.map(|(_, size)| u64::from(size)).sum()
}

impl RealResults {
    /// Reads the file in `folder`; `None` if there is none.
    ///
    /// # Errors
    /// A sentence if there is one that can't be understood.
    pub fn open(folder: &Path) -> Result<Option<RealResults>, String> {
        let path = folder.join(REAL_FILE);
        match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", path.display())),
            Ok(text) => {
                serde_json::from_str(&text).map(Some).map_err(|error| format!("{}: {error}", path.display()))
            }
        }
    }

    /// Writes the file into `folder`, which must exist.
    ///
    /// # Errors
    /// [`WriteError`] naming the file.
    pub fn save(&self, folder: &Path) -> Result<(), WriteError> {
        write_whole(&folder.join(REAL_FILE), |file| {
            serde_json::to_writer_pretty(file, self).map_err(io::Error::other)
        })
    }

    /// A point's measures in the real world.
    fn real(&self, labels: [&str; 3]) -> Option<&RealMeasures> {
        self.points.iter().find(|point| point.labels == labels).map(|point| &point.real)
    }

    /// The mean share of a controller over the four cases; `None` unless all were run.
    fn mean_share(&self, cc: &str) -> Option<f64> {
        let cases = [["bbr", "first"], ["bbr", "second"], ["cubic", "first"], ["cubic", "second"]];
        let shares: Option<Vec<f64>> =
            cases.iter().map(|[against, order]| self.real([cc, against, order]).map(|m| m.share)).collect();
        shares.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64)
    }

    /// The claims of seed 000 about competition, as far as their points were run: number, what is measured, value.
    pub fn rows(&self) -> Vec<(&'static str, &'static str, f64)> {
        let mut rows = Vec::new();
        let pair = |cc, order| Some((self.real([cc, "bbr", order])?, self.real([cc, "cubic", order])?));
        if let Some((bbr, cubic)) = pair("sqp", "first") {
            rows.push(("S0-40", "SQP first: least share", bbr.share.min(cubic.share)));
            rows.push(("S0-40", "SQP first: largest spread", bbr.spread().max(cubic.spread())));
        }
        if let Some((bbr, cubic)) = pair("pcc", "second") {
            rows.push(("S0-41", "PCC second: largest share", bbr.share.max(cubic.share)));
        }
        if let Some(sqp) = self.mean_share("sqp") {
            for (cc, what) in [
                ("gcc", "SQP's mean share over GoogCC's"),
                ("sprout", "SQP's mean share over Sprout's"),
                ("vivace", "SQP's mean share over Vivace's"),
                ("copa-auto", "SQP's mean share over Copa-Auto's"),
            ] {
                rows.extend(self.mean_share(cc).map(|share| ("S0-44", what, sqp / share)));
            }
        }
        rows
    }

    /// A chapter of the book.
    pub(super) fn chapter(&self) -> String {
        let mut text = format!(
            "<h1>For real</h1><h2 id=\"real\">A kernel&rsquo;s TCP beside us</h2><p>The points of {} over the emulated link \
             in real time, against the TCP of Linux {}, and the same seed in the simulator. Load average {:.1} to {:.1}.</p>\n\
             <table><tr><th>point</th><th>share</th><th>simulated</th><th>P10&ndash;P90 Mbit/s</th><th>simulated</th>\
             <th>TCP&rsquo;s share</th><th>simulated</th></tr>",
            escape(&self.experiment),
            escape(&self.kernel),
            self.load_average.0,
            self.load_average.1
        );
        for RealPoint { labels, real, simulated } in &self.points {
            let _ = write!(
                text,
                "<tr><td>{}</td><td>{:.2}</td><td>{:.2}</td><td>{:.1}&ndash;{:.1}</td><td>{:.1}&ndash;{:.1}</td>\
                 <td>{:.2}</td><td>{:.2}</td></tr>",
                escape(&labels.join(", ")),
                real.share,
                simulated.share,
                real.p10,
                real.p90,
                simulated.p10,
                simulated.p90,
                real.other_share,
                simulated.other_share
            );
        }
        text.push_str("</table>\n<table><tr><th>claim</th><th>measured for real</th><th></th></tr>");
        for (id, what, value) in self.rows() {
            let _ = write!(text, "<tr><td>{id}</td><td>{}</td><td>{value:.2}</td></tr>", escape(what));
        }
        text.push_str("</table>\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(labels: [&str; 3], share: f64) -> RealPoint {
        let measures =
            RealMeasures { share, other_share: 0.5, mean: 10.0, p10: 9.0, p90: 12.0, delay_p90: 80.0 };
        RealPoint { labels: labels.map(str::to_owned).to_vec(), real: measures, simulated: measures }
    }

    fn results(points: Vec<RealPoint>) -> RealResults {
        RealResults {
            experiment: "competition".into(),
            kernel: "6.1 <x>".into(),
            load_average: (0.5, 1.0),
            points,
        }
    }

    #[test]
    fn rows_are_made_of_the_points_there_are() {
        assert!(results(vec![point(["sqp", "bbr", "first"], 0.4)]).rows().is_empty());
        let four = |cc: &'static str, share| {
            ["bbr", "cubic"]
                .into_iter()
                .flat_map(move |against| ["first", "second"].map(|order| point([cc, against, order], share)))
        };
        let results = results(four("sqp", 0.4).chain(four("gcc", 0.1)).collect());
        let rows = results.rows();
        let ids: Vec<_> = rows.iter().map(|row| row.0).collect();
        assert_eq!(ids, ["S0-40", "S0-40", "S0-44"]);
        assert!(
            (rows[0].2 - 0.4).abs() < 1e-12
                && (rows[1].2 - 0.3).abs() < 1e-12
                && (rows[2].2 - 4.0).abs() < 1e-9
        );
        let chapter = results.chapter();
        assert!(chapter.contains("6.1 &lt;x&gt;") && chapter.contains("sqp, bbr, first"), "{chapter}");
    }

    #[test]
    fn what_is_saved_is_read() {
        let folder = std::env::temp_dir().join(format!("framewire-real-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(RealResults::open(&folder).unwrap().is_none());
        results(vec![point(["sqp", "bbr", "first"], 0.4)]).save(&folder).unwrap();
        let read = RealResults::open(&folder).unwrap().unwrap();
        assert_eq!((read.points.len(), read.points[0].real.share), (1, 0.4));
        std::fs::write(folder.join(REAL_FILE), "{").unwrap();
        assert!(RealResults::open(&folder).unwrap_err().contains("real.json"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
