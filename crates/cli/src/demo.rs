//! `framewire demo`: a real clip through a real codec over a simulated cellular link, under several
//! controllers.

use std::path::{Path, PathBuf};

use lab::scenario::Scenario;
use toml::{Table, Value};

use crate::args::Demo;
use crate::failure::Failure;
use crate::output;
use crate::shipped;
use crate::simulate::{self, Results, side_by_side};
use crate::values::Input;

/// Where `make demo` puts the clip it fetches.
pub const CLIP: &str = "target/demo/bigbuckbunny.mp4";
/// The link: three minutes of a modelled LTE downlink in a car (see `traces/README.md`).
const TRACE: &str = "traces/lte-drive.trace";

/// Runs the demo.
pub fn demo(args: &Demo) -> Result<(), Failure> {
    if let Some(path) = &args.trace {
        netsim::MahimahiTrace::open(&shipped::or_shipped(path)?).map_err(Failure::input)?;
    }
    let clip = clip(args)?;
    let mut laid = trace(args)?;
    let text = scenario(args, &clip, &laid.trace);
    let scenario = Scenario::parse(&text, Path::new("demo.toml"));
    let scenario = scenario.map_err(|error| Failure::Input(format!("{}: {}", error.field, error.what)))?;
    let results = Results { out: Some(&args.out), own: true, tables: true };
    side_by_side(&scenario, &args.cc.0, "What the viewer saw", results, args.format)?;
    laid.made.clear();
    Ok(())
}

/// The clip to show: what was asked for, else the fetched one, else the synthetic game, saying so.
fn clip(args: &Demo) -> Result<Input, Failure> {
    let readable = |path: &Path| media::Clip::open(path, media::ClipOptions::default());
    match &args.input {
        Some(Input::Synthetic) => Ok(Input::Synthetic),
        Some(Input::File(path)) => {
            readable(path).map_err(Failure::input)?;
            output::mention_sound(path);
            Ok(Input::File(absolute(path)?))
        }
        None if Path::new(CLIP).exists() => match readable(Path::new(CLIP)) {
            Ok(_) => Ok(Input::File(absolute(Path::new(CLIP))?)),
            Err(error) => Ok(instead(&error.to_string())),
        },
        None => Ok(instead(&format!("there is no {CLIP}, which `make demo` fetches, and no --input"))),
    }
}

fn instead(why: &str) -> Input {
    eprintln!("note: showing the synthetic game instead of a real clip: {why}");
    Input::Synthetic
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    path.canonicalize().map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

/// The link's trace, and what was made for it, which goes again unless the results come to stand beside it.
struct Laid {
    trace: PathBuf,
    /// Folders, the outermost first, and the file.
    made: Vec<PathBuf>,
}

impl Drop for Laid {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            // What is not empty holds what somebody else has put there meanwhile.
            let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path));
        }
    }
}

/// The link's trace: the one asked for, else the one that comes along, laid beside the results.
fn trace(args: &Demo) -> Result<Laid, Failure> {
    if let Some(path) = &args.trace {
        return Ok(Laid { trace: absolute(&shipped::or_shipped(path)?)?, made: Vec::new() });
    }
    let whole = std::path::absolute(&args.out).map_err(Failure::input)?.join("lte-drive.trace");
    let made = whole.ancestors().take_while(|path| !path.exists()).map(Path::to_owned);
    let mut laid = Laid { trace: whole.clone(), made: made.collect() };
    laid.made.reverse();
    simulate::make_folder(&args.out)?;
    let bytes = shipped::file(TRACE).expect("it comes along");
    lab::files::write_whole(&whole, |file| std::io::Write::write_all(file, bytes)).map_err(Failure::work)?;
    laid.trace = absolute(&whole)?;
    Ok(laid)
}

/// The demo as a scenario, so that what is shown can be run again with `framewire run`.
fn scenario(args: &Demo, clip: &Input, trace: &Path) -> String {
    let text = |path: &Path| Value::String(path.to_string_lossy().into_owned());
    let mut encoder = Table::new();
    encoder.insert("kind".into(), "h264".into());
    match clip {
        Input::File(path) => encoder.insert("clip".into(), text(path)),
        Input::Synthetic => encoder.insert("fps".into(), 30.0.into()),
    };
    let mut flow = Table::new();
    let pairs = [("cc", "sqp"), ("initial", "3mbit"), ("max", "12mbit")];
    flow.extend(pairs.map(|(key, value)| (key.to_owned(), value.into())));
    flow.insert("encoder".into(), encoder.into());
    let mut link = Table::new();
    link.insert("trace".into(), text(trace));
    link.extend(
        [("delay", "20ms"), ("queue", "droptail:200p")].map(|(key, value)| (key.to_owned(), value.into())),
    );
    let mut scenario = Table::new();
    scenario.insert("name".into(), "demo".into());
    scenario.insert("description".into(), describe(args, clip).into());
    scenario.insert("duration".into(), format!("{}ns", args.duration.as_nanos()).into());
    scenario.insert("seed".into(), (args.seed as i64).into());
    scenario.insert("link".into(), link.into());
    scenario.insert("flow".into(), vec![Value::Table(flow)].into());
    toml::to_string(&scenario).expect("a table can be written")
}

fn describe(args: &Demo, clip: &Input) -> String {
    let file =
        |path: &Path| path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let clip = match clip {
        Input::File(path) => file(path),
        Input::Synthetic => "A synthetic game".to_owned(),
    };
    let link = args.trace.as_deref().map_or("a modelled LTE downlink in a car".to_owned(), file);
    format!("{clip} through OpenH264 over {link}, with a real codec and a simulated network.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_is_a_scenario_like_any_other() {
        use clap::Parser;
        let parsed = crate::args::Args::parse_from(["framewire", "demo", "--duration", "2s", "--seed", "5"]);
        let crate::args::Command::Demo(args) = parsed.command else { panic!("another command") };
        let text = scenario(&args, &Input::Synthetic, Path::new("x.trace"));
        let scenario = Scenario::parse(&text, Path::new("demo.toml")).expect("a scenario");
        assert_eq!((scenario.seed, scenario.duration), (5, units::Span::from_secs(2)));
        assert_eq!(scenario.link.trace, Some(PathBuf::from("x.trace")));
        assert_eq!(scenario.flows.len(), 1);
    }
}
