//! What an experiment gave with a kernel's TCP in the place of ours, over the emulated link in real time,
//! beside the simulator's numbers: a file that `framewire lab real` writes and the book reads.

use std::fmt::Write;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use units::{Rate, Span, Time};

use lab::collect::{Collector, FlowRecord};
use lab::files::{WriteError, write_whole};
use lab::metrics::{nearest_rank, simulate};
use report::escape;

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
    /// 10th percentile of the same, in bit/s.
    pub p10: f64,
    /// 90th percentile of the same, in bit/s.
    pub p90: f64,
    /// 90th percentile of equation 10's frame delay.
    pub delay_p90: f64,
}

/// One run of a point, in both worlds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealRun {
    /// The scenario's seed, in both.
    pub seed: u64,
    /// The machine's load average before and after: other jobs disturb real time.
    pub load_average: (f64, f64),
    /// Over the emulator, with the kernel's TCP.
    pub real: RealMeasures,
    /// In the simulator, with ours.
    pub simulated: RealMeasures,
}

/// A point and its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealPoint {
    /// The experiment's labels: controller, competitor, who is first.
    pub labels: Vec<String>,
    /// Its runs, by seed.
    pub runs: Vec<RealRun>,
}

/// Everything that was run for real on one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealResults {
    /// The name of the experiment whose points were run.
    pub experiment: String,
    /// The kernel, as it calls itself.
    pub kernel: String,
    /// The points, in the order they were first run.
    pub points: Vec<RealPoint>,
}

/// What is measured for a claim, as the mean over the runs of both worlds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RealRow {
    /// The claim's name, such as `S0-40`.
    pub id: &'static str,
    /// What is measured.
    pub what: String,
    /// The figure from runs over the emulator.
    pub real: f64,
    /// The same from runs of the simulator.
    pub simulated: f64,
}

impl RealMeasures {
    /// What `record` says of its first flow between `from` and `to`; `other_bytes` of payload came to the
    /// other.
    pub fn of(record: &Collector, other_bytes: u64, rate: Rate, from: Time, to: Time) -> RealMeasures {
        let flow = &record.flows[0];
        let bytes: u64 = within(flow, from, to);
        let link = rate.bytes_in(to - from).get() as f64;
        let frames = simulate(&flow.path_packets(), from, to, FRAME, SMOOTHED_OVER);
        let sorted = |value: fn(&lab::metrics::SimulatedFrame) -> f64| {
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

/// One of the two worlds of a run.
type World = fn(&RealRun) -> &RealMeasures;

impl RealPoint {
    /// The mean of a measure over the runs.
    pub fn mean(&self, of: impl Fn(&RealRun) -> f64) -> f64 {
        self.runs.iter().map(of).sum::<f64>() / self.runs.len() as f64
    }

    /// The smallest and the largest of a measure.
    pub fn range(&self, of: impl Fn(&RealRun) -> f64) -> (f64, f64) {
        let values = || self.runs.iter().map(&of);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    }
}

impl RealResults {
    /// What is known of `experiment` on a kernel before anything is run.
    pub fn none(experiment: &str, kernel: &str) -> RealResults {
        RealResults { experiment: experiment.to_owned(), kernel: kernel.to_owned(), points: Vec::new() }
    }

    /// Reads the file in `folder`; `None` if there is none.
    ///
    /// # Errors
    /// A sentence if there is one that can't be understood.
    pub fn open(folder: &Path) -> Result<Option<RealResults>, String> {
        let path = folder.join(REAL_FILE);
        let read = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| error.to_string()),
        };
        let parsed = read.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        parsed.map(Some).map_err(|error| {
            format!(
                "{}: {error}; if another version wrote it, move it away and run `framewire lab real`",
                path.display()
            )
        })
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

    /// Adds a run of the point with these labels, in the place of one with the same seed.
    pub fn add(&mut self, labels: &[String], run: RealRun) {
        let at = self.points.iter().position(|point| point.labels == labels).unwrap_or_else(|| {
            self.points.push(RealPoint { labels: labels.to_vec(), runs: Vec::new() });
            self.points.len() - 1
        });
        let runs = &mut self.points[at].runs;
        runs.retain(|other| other.seed != run.seed);
        runs.push(run);
        runs.sort_by_key(|run| run.seed);
    }

    /// The mean of a measure at a point.
    fn mean(&self, labels: [&str; 3], world: World, of: fn(&RealMeasures) -> f64) -> Option<f64> {
        let point = self.points.iter().find(|point| point.labels == labels)?;
        Some(point.mean(|run| of(world(run))))
    }

    /// The mean share of a controller over the four cases; `None` unless all were run.
    fn mean_share(&self, cc: &str, world: World) -> Option<f64> {
        let cases = [["bbr", "first"], ["bbr", "second"], ["cubic", "first"], ["cubic", "second"]];
        let shares: Option<Vec<f64>> = cases
            .iter()
            .map(|[against, order]| self.mean([cc, against, order], world, |m| m.share))
            .collect();
        shares.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64)
    }

    /// The claims of seed 000 about competition, as far as their points were run.
    pub fn rows(&self) -> Vec<RealRow> {
        let mut rows = Vec::new();
        let mut row = |id, what: &str, value: &dyn Fn(World) -> Option<f64>| {
            if let (Some(real), Some(simulated)) = (value(|run| &run.real), value(|run| &run.simulated)) {
                rows.push(RealRow { id, what: what.to_owned(), real, simulated });
            }
        };
        let both = |cc, order, world: World, of: fn(&RealMeasures) -> f64| {
            Some((self.mean([cc, "bbr", order], world, of)?, self.mean([cc, "cubic", order], world, of)?))
        };
        let share = |m: &RealMeasures| m.share;
        row("S0-40", "SQP first: least share", &|world| {
            both("sqp", "first", world, share).map(|(bbr, cubic)| bbr.min(cubic))
        });
        row("S0-40", "SQP first: largest spread", &|world| {
            both("sqp", "first", world, RealMeasures::spread).map(|(bbr, cubic)| bbr.max(cubic))
        });
        row("S0-41", "PCC second: largest share", &|world| {
            both("pcc", "second", world, share).map(|(bbr, cubic)| bbr.max(cubic))
        });
        row("S0-41", "SQP second: least share, over PCC's largest", &|world| {
            let (sqp, pcc) = (both("sqp", "second", world, share)?, both("pcc", "second", world, share)?);
            Some((sqp.0 / pcc.0).min(sqp.1 / pcc.1))
        });
        for (cc, name) in
            [("gcc", "GoogCC"), ("sprout", "Sprout"), ("vivace", "Vivace"), ("copa-auto", "Copa-Auto")]
        {
            row("S0-44", &format!("SQP's mean share over {name}'s"), &|world| {
                Some(self.mean_share("sqp", world)? / self.mean_share(cc, world)?)
            });
        }
        rows
    }

    /// A chapter of the book.
    pub(crate) fn chapter(&self) -> String {
        let loads = self.points.iter().flat_map(|point| &point.runs).map(|run| run.load_average);
        let (least, most) = loads.fold((f64::INFINITY, 0.0f64), |(least, most), (before, after)| {
            (least.min(before).min(after), most.max(before).max(after))
        });
        let mut text = format!(
            "<h1>For real</h1><h2 id=\"real\">A kernel&rsquo;s TCP beside us</h2><p>The points of {} over the emulated link \
             in real time, against the TCP of Linux {}, and the same seeds in the simulator: means over the runs, with the \
             smallest and the largest share. Load average {least:.1} to {most:.1}.</p>\n\
             <table><tr><th>point</th><th>runs</th><th>share</th><th>simulated</th><th>P10&ndash;P90 Mbit/s</th>\
             <th>simulated</th><th>TCP&rsquo;s share</th><th>simulated</th></tr>",
            escape(&self.experiment),
            escape(&self.kernel),
        );
        for point in &self.points {
            let _ = write!(
                text,
                "<tr><td>{}</td><td>{}</td>",
                escape(&point.labels.join(", ")),
                point.runs.len()
            );
            let worlds: [World; 2] = [|run| &run.real, |run| &run.simulated];
            for world in worlds {
                let (least, most) = point.range(|run| world(run).share);
                let mean = point.mean(|run| world(run).share);
                let _ = write!(text, "<td>{mean:.2} ({least:.2}&ndash;{most:.2})</td>");
            }
            for world in worlds {
                let (p10, p90) = (point.mean(|run| world(run).p10), point.mean(|run| world(run).p90));
                let _ = write!(text, "<td>{p10:.1}&ndash;{p90:.1}</td>");
            }
            for world in worlds {
                let _ = write!(text, "<td>{:.2}</td>", point.mean(|run| world(run).other_share));
            }
            text.push_str("</tr>");
        }
        text.push_str("</table>\n<table><tr><th>claim</th><th></th><th>for real</th><th>simulated</th></tr>");
        for row in self.rows() {
            let _ = write!(
                text,
                "<tr><td>{}</td><td>{}</td><td>{:.2}</td><td>{:.2}</td></tr>",
                row.id,
                escape(&row.what),
                row.real,
                row.simulated
            );
        }
        text.push_str("</table>\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measures(share: f64) -> RealMeasures {
        RealMeasures { share, other_share: 0.5, mean: 10.0, p10: 9.0, p90: 12.0, delay_p90: 80.0 }
    }

    fn run(seed: u64, share: f64) -> RealRun {
        let simulated = measures(share / 2.0);
        RealRun { seed, load_average: (0.5, 1.0), real: measures(share), simulated }
    }

    fn results(cases: &[([&str; 3], f64)]) -> RealResults {
        let mut results = RealResults::none("competition", "6.1 <x>");
        for (labels, share) in cases {
            results.add(&labels.map(str::to_owned), run(1, share - 0.05));
            results.add(&labels.map(str::to_owned), run(2, share + 0.05));
        }
        results
    }

    fn four(cc: &'static str, share: f64) -> Vec<([&'static str; 3], f64)> {
        let cases = [["bbr", "first"], ["bbr", "second"], ["cubic", "first"], ["cubic", "second"]];
        cases.iter().map(|[against, order]| ([cc, *against, *order], share)).collect()
    }

    #[test]
    fn rows_are_made_of_the_points_there_are() {
        assert!(results(&[(["sqp", "bbr", "first"], 0.4)]).rows().is_empty());
        let results = results(&[four("sqp", 0.4), four("gcc", 0.1)].concat());
        let rows = results.rows();
        let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
        assert_eq!(ids, ["S0-40", "S0-40", "S0-44"]);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(rows[0].real, 0.4) && near(rows[0].simulated, 0.2), "{rows:?}");
        assert!(
            near(rows[1].real, 0.3) && near(rows[2].real, 4.0) && near(rows[2].simulated, 4.0),
            "{rows:?}"
        );
        let chapter = results.chapter();
        assert!(chapter.contains("6.1 &lt;x&gt;") && chapter.contains("sqp, bbr, first"), "{chapter}");
        assert!(chapter.contains("0.40 (0.35&ndash;0.45)"), "{chapter}");
    }

    #[test]
    fn a_later_invocation_adds_to_the_earlier() {
        let mut results = results(&[(["sqp", "bbr", "first"], 0.4)]);
        let labels = ["sqp", "bbr", "first"].map(str::to_owned);
        results.add(&labels, run(2, 0.6));
        results.add(&labels, run(3, 0.7));
        results.add(&["gcc", "bbr", "first"].map(str::to_owned), run(1, 0.1));
        let seeds: Vec<Vec<u64>> =
            results.points.iter().map(|point| point.runs.iter().map(|run| run.seed).collect()).collect();
        assert_eq!(seeds, [vec![1, 2, 3], vec![1]]);
        assert_eq!(results.points[0].runs[1].real.share, 0.6);
        assert_eq!(results.points[0].range(|run| run.real.share), (0.4 - 0.05, 0.7));
    }

    #[test]
    fn what_is_saved_is_read() {
        let folder = std::env::temp_dir().join(format!("framewire-real-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(RealResults::open(&folder).unwrap().is_none());
        let saved = results(&[(["sqp", "bbr", "first"], 0.4)]);
        saved.save(&folder).unwrap();
        assert_eq!(RealResults::open(&folder).unwrap(), Some(saved));
        std::fs::write(folder.join(REAL_FILE), "{").unwrap();
        assert!(RealResults::open(&folder).unwrap_err().contains("real.json"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
