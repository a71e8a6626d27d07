//! `framewire bench recovery`: its arguments, and the table it prints. What is run lives in `instruments`.

use std::path::PathBuf;
use std::str::FromStr;

use instruments::Benchmark;
#[cfg(target_os = "linux")]
use instruments::recovery::{self, Settings};
use netsim::Loss;
use serde_json::Value;
use units::{Rate, Span};

use super::args::Measured;
use crate::args::MOST_SEED;
use crate::failure::Failure;
use crate::output::Terminal;
use crate::table::Table;
use crate::values::{Input, named};

/// Who takes turns where nothing else is asked for, ...
const STRATEGIES: &str = "prism,resend,live+retransmit,live+newest-acked";
/// ... for how long, ...
const DURATION: Span = Span::from_secs(30);
/// ... over which path: a round trip of 40 ms, as in the thesis (section 4.7.2), and one packet in twenty
/// lost, four in a row in the mean, as in our scenarios. At this rate that is some five losses a second.
const DELAY: Span = Span::from_millis(20);
const LOSS: &str = "ge:loss=5%,burst=4";
const RATE: Rate = Rate::from_mbps(4);
const SEED: u64 = 1;
/// Less tells nothing: threads start in the first second.
const SHORTEST: Span = Span::from_secs(3);

/// Strategies, each with the recovery policy that it may want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategies(Vec<(String, Option<String>)>);

impl FromStr for Strategies {
    type Err = String;

    /// Reads `prism,live+newest-acked`.
    fn from_str(text: &str) -> Result<Strategies, String> {
        let read = |name: &String| {
            let (strategy, recovery) = match name.split_once('+') {
                Some((strategy, recovery)) => (strategy, Some(recovery)),
                None => (name.as_str(), None),
            };
            let usual = session::recovery::REGISTRY[0].name;
            let built = session::strategy::build(strategy, recovery.unwrap_or(usual));
            built.map_err(|error| error.to_string())?;
            Ok((strategy.to_owned(), recovery.map(str::to_owned)))
        };
        named(text).iter().map(read).collect::<Result<_, _>>().map(Strategies)
    }
}

/// Which strategies lose what. Left out are those by default, so that it is known what was given.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Only for `recovery`")]
pub struct Losing {
    /// Strategies in turn, each STRATEGY or STRATEGY+RECOVERY; the first gives the figure to compare
    /// [default: prism,resend,live+retransmit,live+newest-acked]
    #[arg(long, value_name = "LIST")]
    pub strategies: Option<Strategies>,
    /// How long each sends [default: 30s]; of `load`, how long it runs [default: 60s]
    #[arg(long)]
    pub duration: Option<Span>,
    /// One-way delay, each way [default: 20ms]
    #[arg(long)]
    pub delay: Option<Span>,
    /// Loss from sender to receiver, as of `framewire link` [default: ge:loss=5%,burst=4]
    #[arg(long)]
    pub loss: Option<Loss>,
    /// The rate they send at [default: 4mbit]; of `load`, the bottleneck's [default: 12mbit]
    #[arg(long)]
    pub rate: Option<Rate>,
    /// Seed of the link's random streams [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    pub seed: Option<u64>,
    /// Folder to keep both ends' qlog files in
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Losing {
    /// Another benchmark heeds nothing of this, and this one not everything.
    ///
    /// # Errors
    /// [`Failure::Input`] that names the flag.
    pub fn check(&self, what: Measured) -> Result<(), Failure> {
        let given = [
            ("--strategies", self.strategies.is_some()),
            ("--duration", self.duration.is_some()),
            ("--delay", self.delay.is_some()),
            ("--loss", self.loss.is_some()),
            ("--rate", self.rate.is_some()),
            ("--seed", self.seed.is_some()),
            ("--out", self.out.is_some()),
        ];
        if self.duration.is_some_and(|duration| duration < SHORTEST) {
            return Err(Failure::Input(format!(
                "--duration: {SHORTEST} at least, for the first second is not judged"
            )));
        }
        if self.rate.is_some_and(|rate| rate.as_bps() == 0) {
            return Err(Failure::input("--rate: a rate above zero, such as 4mbit"));
        }
        let shared = |flag: &str| ["--duration", "--rate"].contains(&flag);
        let heeded = |flag: &str| what == Measured::Load && shared(flag);
        let given = given.iter().find(|(flag, given)| *given && !heeded(flag));
        match given.filter(|_| !matches!(what, Measured::Recovery | Measured::All)) {
            Some((flag, _)) => {
                let too = if shared(flag) { " and `load`" } else { "" };
                Err(Failure::Input(format!("{flag} is for `framewire bench recovery`{too}")))
            }
            None => Ok(()),
        }
    }

    #[cfg(target_os = "linux")]
    fn settings(&self) -> Result<Settings, Failure> {
        let usual = || STRATEGIES.parse().expect("these are in the registries");
        let Strategies(strategies) = self.strategies.clone().unwrap_or_else(usual);
        let contenders =
            strategies.into_iter().map(|(strategy, recovery)| recovery::Contender { strategy, recovery });
        Ok(Settings {
            program: std::env::current_exe().map_err(Failure::work)?,
            contenders: contenders.collect(),
            duration: self.duration.unwrap_or(DURATION),
            delay: self.delay.unwrap_or(DELAY),
            loss: self.loss.unwrap_or_else(|| LOSS.parse().expect("a loss process")),
            rate: self.rate.unwrap_or(RATE),
            seed: self.seed.unwrap_or(SEED),
            out: self.out.clone(),
        })
    }
}

/// Runs the strategies in turn.
#[cfg(target_os = "linux")]
pub fn run(losing: &Losing, input: &Input) -> Result<Benchmark, Failure> {
    let settings = losing.settings()?;
    Ok(recovery::run(&settings, super::held(input)?.as_mut(), &input.to_string(), &Terminal)?)
}

/// A row for each strategy. What was not measured is a dash.
pub fn table(strategies: &[Value]) -> Table {
    let heads = ["strategy", "shown", "back in time", "losses", "stall P50 ms", "P90", "max", "within"];
    let more = ["delay P95 ms", "P99", "recovery", "sent again", "tracks", "key frames", "parity"];
    let mut table = Table::new(heads.into_iter().chain(more));
    for row in strategies {
        let number = |value: &Value, digits: usize| match value.as_f64() {
            Some(number) => format!("{number:.digits$}"),
            None => "–".to_owned(),
        };
        let share = |value: &Value| match value.as_f64() {
            Some(share) => format!("{:.0} %", 100.0 * share),
            None => "–".to_owned(),
        };
        let (frames, stall, bytes) = (&row["frames"], &row["stall_ms"], &row["bytes"]);
        let all = bytes["all"].as_f64().filter(|all| *all > 0.0);
        let of_all = |name: &str| share(&bytes[name].as_f64().zip(all).map(|(part, all)| part / all).into());
        table.row([
            row["strategy"].as_str().unwrap_or_default().to_owned(),
            format!("{} of {}", number(&frames["shown"], 0), number(&frames["captured"], 0)),
            number(&frames["back_in_time"], 0),
            number(&row["loss_events"], 0),
            number(&stall["p50"], 0),
            number(&stall["p90"], 0),
            number(&stall["max"], 0),
            share(&row["within"]),
            number(&row["delay_ms"]["p95"], 0),
            number(&row["delay_ms"]["p99"], 0),
            of_all("recovery"),
            of_all("resent"),
            of_all("further_tracks"),
            of_all("key_frames"),
            of_all("parity"),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strategies_bring_their_recovery_and_are_checked() {
        let read: Strategies = "prism,live+newest-acked".parse().unwrap();
        let wanted = [("prism", None), ("live", Some("newest-acked"))];
        assert_eq!(read.0, wanted.map(|(name, with)| (name.to_owned(), with.map(str::to_owned))));
        assert!(STRATEGIES.parse::<Strategies>().is_ok() && LOSS.parse::<Loss>().is_ok());
        assert!(
            "live+fec".parse::<Strategies>().unwrap_err().starts_with("no recovery policy is called `fec`")
        );
        assert!("".parse::<Strategies>().is_err());
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let row = json!({ "strategy": "prism", "frames": { "shown": 3, "captured": 4, "back_in_time": 0 },
            "loss_events": 0, "stall_ms": { "p50": null }, "within": null, "delay_ms": { "p95": 51.6 },
            "bytes": { "all": 200, "recovery": 50, "resent": 50, "further_tracks": 0, "key_frames": 0, "parity": 0 } });
        let text = table(&[row]).to_string();
        let fields: Vec<&str> = text.lines().last().unwrap().split("  ").filter(|f| !f.is_empty()).collect();
        let fields: Vec<&str> = fields.iter().map(|field| field.trim()).collect();
        assert_eq!(
            fields,
            ["prism", "3 of 4", "0", "0", "–", "–", "–", "–", "52", "–", "25 %", "25 %", "0 %", "0 %", "0 %"]
        );
    }

    #[test]
    fn other_benchmarks_refuse_what_they_do_not_heed() {
        let nothing = Losing {
            strategies: None,
            duration: None,
            delay: None,
            loss: None,
            rate: None,
            seed: None,
            out: None,
        };
        assert!(nothing.check(Measured::Live).is_ok());
        let given = Losing { seed: Some(3), ..nothing };
        assert!(given.check(Measured::Recovery).is_ok() && given.check(Measured::All).is_ok());
        assert!(
            matches!(given.check(Measured::Live), Err(Failure::Input(text)) if text.starts_with("--seed"))
        );
    }
}
