//! `framewire prism`: makes the decision tables of Prism's strategy from clips. What is computed lives in
//! `prism`, the page in `report`.

use std::path::{Path, PathBuf};

use ::prism::encodes::{Coder, Footage, Workshop, starts, step_for};
use ::prism::greedy::{Goal, Place, decide_all};
use ::prism::study::{Errors, Study, at_share, gain_by_before, gain_by_frames, gaps, nearness};
use ::prism::survey::{Survey, Surveyed};
use ::prism::{About, Pictures, Table};
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::args::Format;
use crate::failure::Failure;
use crate::output;

/// Commands of `framewire prism`: what is made from clips before anything is sent.
#[derive(Debug, Subcommand)]
pub enum Prism {
    /// Make decision tables from clips: how a sender splits its rate while it recovers from a loss
    Table(Box<Make>),
}

/// Flags of `framewire prism table`: the clips, how they are coded, and where tables and report go.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire prism table racing=game.mp4                          one table, and a global one of the same clip
  framewire prism table racing=a.mp4 racing=b.mp4 film=c.mp4     clips of one style share a table; the global one is of all
  framewire prism table game.mp4 --quick --json                  a coarse one, first

Each clip is coded as key frames and as predicted streams that rise and fall, some 60 times over with the defaults; from that a model
predicts what any split is worth, and the best one is chosen frame by frame. 200 frames at 270 rows take about two minutes on one
core. What was coded stays in CACHE: a run that was stopped goes on there. OUT gets a table for each style, global.json, report.html
and study.json.")]
pub struct Make {
    /// The clips: FILE, or STYLE=FILE; without a style, the file's name is one
    #[arg(value_name = "CLIP", required = true)]
    pub clips: Vec<String>,
    /// Folder for tables and report
    #[arg(long, value_name = "DIR", default_value = "out/prism")]
    pub out: PathBuf,
    /// Folder for what was coded
    #[arg(long, value_name = "DIR", default_value = "out/prism/cache")]
    pub cache: PathBuf,
    /// The encoder; x264 needs an ffmpeg with it
    #[arg(long, value_enum, default_value_t = Encoder::X264)]
    pub encoder: Encoder,
    /// Rows to scale larger clips to
    #[arg(long, default_value_t = 270, value_parser = clap::value_parser!(u16).range(64..=2160))]
    pub height: u16,
    /// Frames of each clip that are used, at most
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(80..=3_000))]
    pub frames: u16,
    /// Steps of the table's rates, each as many bits as the thesis' 1 Mbit/s at 1080p60 for these pictures
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(2..=64))]
    pub steps: u8,
    /// Frames after a recovery over which quality counts
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=600))]
    pub horizon: u16,
    /// Frames of the longest recovery
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=120))]
    pub longest: u8,
    /// Weight of true losses against false alarms, 0 to 1
    #[arg(long, default_value_t = 0.5, value_parser = weight)]
    pub weight: f64,
    /// Random schedules that are coded to check the model, for each clip
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub schedules: u16,
    /// Threads to code on; all there are if left out
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Four rates instead of ten, streams at half as many places: for a first look
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub format: Format,
}

/// Encoders by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Encoder {
    /// Keeps every frame to its budget
    X264,
    /// What live streams have; its rate control remembers earlier frames, of which the model knows nothing
    Openh264,
}

fn weight(text: &str) -> Result<f64, String> {
    let fine = |weight: &f64| (0.0..=1.0).contains(weight);
    text.parse().ok().filter(fine).ok_or_else(|| "0 to 1 is possible".to_owned())
}

/// Runs `framewire prism`.
pub fn prism(command: &Prism) -> Result<(), Failure> {
    match command {
        Prism::Table(args) => table(args),
    }
}

/// A clip of a style and what was found out about it.
struct Studied {
    style: String,
    clip: Surveyed,
}

fn table(args: &Make) -> Result<(), Failure> {
    let workshop = args.workshop()?;
    let clips = args.clips.iter().map(|clip| named(clip)).collect::<Result<Vec<_>, Failure>>()?;
    std::fs::create_dir_all(&args.out)
        .map_err(|error| Failure::Input(format!("{}: {error}", args.out.display())))?;
    let survey = args.survey();
    let opened = clips.into_iter().map(|(style, path)| {
        let footage = Footage::open(&path, args.height, usize::from(args.frames)).map_err(Failure::input)?;
        starts(&footage, survey.spacing(), &survey.goal).map_err(Failure::input)?;
        Ok((style, footage))
    });
    let opened = opened.collect::<Result<Vec<_>, Failure>>()?;
    let frames = |footage: &Footage| survey.jobs(footage).iter().map(|job| job.steps.len()).sum::<usize>();
    let bar = output::long_progress(opened.iter().map(|(_, footage)| frames(footage) as u64).sum());
    let mut studied = Vec::new();
    for (style, footage) in opened {
        bar.set_message(format!("coding {style}"));
        let clip =
            survey.look(footage, &workshop, &|frames| bar.inc(frames as u64)).map_err(Failure::work)?;
        studied.push(Studied { style, clip });
    }
    bar.finish_and_clear();
    let all: Vec<&Studied> = studied.iter().collect();
    let general = args.decide("global", &all, &workshop, GENERAL);
    let mut styles: Vec<(Study, Table)> = Vec::new();
    for of_style in by_style(&all) {
        let made = args.decide(&of_style[0].style, &of_style, &workshop, of_style[0].clip.footage.pictures());
        styles.push((args.figures(&of_style, &made, &general), made));
    }
    write(&args.out, &styles, &general)?;
    print(args, &styles, &all);
    Ok(())
}

/// The pictures that the global table's rates are for.
const GENERAL: Pictures = Pictures { width: 640, height: 360, fps: 30.0 };

impl Make {
    fn workshop(&self) -> Result<Workshop, Failure> {
        let missing = || {
            Failure::input(
                "x264: there is no ffmpeg with libx264; install it (apt-get install ffmpeg) or take --encoder openh264",
            )
        };
        let coder = match self.encoder {
            Encoder::X264 => Coder::x264().ok_or_else(missing)?,
            Encoder::Openh264 => Coder::OpenH264,
        };
        let there = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Workshop { coder, folder: self.cache.clone(), threads: self.threads.map_or(there, usize::from) })
    }

    fn goal(&self) -> Goal {
        Goal { horizon: usize::from(self.horizon), weight: self.weight, frames: usize::from(self.longest) }
    }

    fn survey(&self) -> Survey {
        let (steps, schedules) = (usize::from(self.steps), (usize::from(self.schedules), 1));
        Survey { steps, quick: self.quick, schedules, loss: false, goal: self.goal() }
    }

    fn decide(&self, style: &str, clips: &[&Studied], workshop: &Workshop, pictures: Pictures) -> Table {
        let places: Vec<Place<'_>> = clips.iter().flat_map(|studied| studied.clip.places()).collect();
        let (steps, goal) = (usize::from(self.steps), self.goal());
        let bar = output::long_progress((steps * steps) as u64);
        bar.set_message(format!("deciding {style}"));
        let decisions = decide_all(&places, steps, &goal, &|done| bar.set_position(done as u64));
        bar.finish_and_clear();
        let about = About {
            style: style.to_owned(),
            origins: clips.iter().map(|studied| studied.clip.footage.origin()).collect(),
            encoder: workshop.coder.name(),
            pictures,
            horizon: goal.horizon,
            weight: goal.weight,
            starts: places.len(),
        };
        Table::new(about, step_for(pictures), steps, goal.frames, decisions)
    }

    fn figures(&self, clips: &[&Studied], made: &Table, general: &Table) -> Study {
        let places: Vec<Place<'_>> = clips.iter().flat_map(|studied| studied.clip.places()).collect();
        let goal = self.goal();
        let (style, first) = (&clips[0].style, &clips[0].clip);
        let errors: Vec<&Errors> = clips.iter().map(|studied| &studied.clip.errors).collect();
        Study {
            style: style.clone(),
            clips: clips.iter().map(|studied| studied.clip.footage.origin().clip).collect(),
            step_bps: first.step.as_bps(),
            gaps: gaps(&first.recording),
            insertion: first.insertion.clone(),
            change: first.change.clone(),
            errors: Errors::join(&errors),
            gain_by_before: gain_by_before(&places, made, &goal),
            gain_by_frames: gain_by_frames(&places, made, &goal),
            gain_of_global: gain_by_frames(&places, general, &goal),
            nearness: nearness(&places, made, &goal),
        }
    }
}

/// Style and file of a clip as it was written.
fn named(clip: &str) -> Result<(String, PathBuf), Failure> {
    let (style, path) = match clip.split_once('=') {
        Some((style, path)) => (style.to_owned(), PathBuf::from(path)),
        None => {
            let path = PathBuf::from(clip);
            (path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), path)
        }
    };
    // It becomes a file's name.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if style.is_empty()
        || style.len() > 60
        || style.starts_with('.')
        || !style.chars().all(plain)
        || style == "global"
    {
        let want = "a style is up to 60 letters, digits, -, _ and dots, and not `global`";
        return Err(Failure::Input(format!("{clip}: style `{style}`; {want}; write STYLE=FILE")));
    }
    Ok((style, path))
}

/// Clips of the same style together, styles in the order in which they were first given.
fn by_style<'a>(clips: &[&'a Studied]) -> Vec<Vec<&'a Studied>> {
    let mut styles: Vec<Vec<&Studied>> = Vec::new();
    for &clip in clips {
        match styles.iter_mut().find(|of_style| of_style[0].style == clip.style) {
            Some(of_style) => of_style.push(clip),
            None => styles.push(vec![clip]),
        }
    }
    styles
}

fn write(out: &Path, styles: &[(Study, Table)], general: &Table) -> Result<(), Failure> {
    let put = |name: String, text: String| {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(|error| Failure::Work(format!("{}: {error}", path.display())))
    };
    for (_, table) in styles.iter().chain(std::iter::once(&(Study::default(), general.clone()))) {
        put(format!("{}.json", table.about().style), table.to_json())?;
    }
    let studies: Vec<&Study> = styles.iter().map(|(study, _)| study).collect();
    put("study.json".to_owned(), serde_json::to_string(&studies).map_err(Failure::work)?)?;
    let shown: Vec<_> = styles.iter().map(|(study, table)| report::prism::Style { study, table }).collect();
    put("report.html".to_owned(), report::prism::tables(&shown, general))
}

/// Mean of a list of gains.
fn mean(gains: &[(usize, f64)]) -> f64 {
    gains.iter().map(|(_, gain)| gain).sum::<f64>() / gains.len().max(1) as f64
}

fn print(args: &Make, styles: &[(Study, Table)], clips: &[&Studied]) {
    let pool: Vec<&Errors> = clips.iter().map(|studied| &studied.clip.errors).collect();
    let pooled = Errors::join(&pool);
    if args.format.json {
        let style = |(study, table): &(Study, Table)| -> Value {
            let (model, exponential) = study.errors.means();
            json!({
                "style": study.style, "clips": study.clips, "places": table.about().starts, "step_bps": table.step().as_bps(),
                "within_1_percent": Errors::small(&study.errors.model), "mean_error": model, "mean_error_exponential": exponential,
                "objective_over_optimum_median": at_share(&study.nearness.objective, 0.5),
                "dssim_over_optimum_median": at_share(&study.nearness.excess_dssim, 0.5),
                "gain": mean(&study.gain_by_frames), "gain_global": mean(&study.gain_of_global),
            })
        };
        let styles: Vec<Value> = styles.iter().map(style).collect();
        let (model, exponential) = pooled.means();
        output::json(&json!({
            "styles": styles, "within_1_percent": Errors::small(&pooled.model), "mean_error": model,
            "mean_error_exponential": exponential, "out": args.out,
        }));
        return;
    }
    let mut table = crate::table::Table::new([
        "style",
        "places",
        "within 1 %",
        "mean error",
        "exponential",
        "of optimum",
        "DSSIM over it",
        "gain",
        "global's",
    ]);
    for (study, made) in styles {
        let (model, exponential) = study.errors.means();
        table.row([
            study.style.clone(),
            made.about().starts.to_string(),
            format!("{:.1} %", 100.0 * Errors::small(&study.errors.model)),
            format!("{:.2} %", 100.0 * model),
            format!("{:.2} %", 100.0 * exponential),
            format!("{:.2} %", 100.0 * at_share(&study.nearness.objective, 0.5)),
            format!("{:+.1} %", 100.0 * at_share(&study.nearness.excess_dssim, 0.5)),
            format!("{:+.1} %", 100.0 * mean(&study.gain_by_frames)),
            format!("{:+.1} %", 100.0 * mean(&study.gain_of_global)),
        ]);
    }
    print!("{table}");
    println!(
        "all clips: {:.1} % of predictions within 1 % of the coded frame's SSIM; tables and report.html in {}",
        100.0 * Errors::small(&pooled.model),
        args.out.display()
    );
}
