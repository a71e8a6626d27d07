//! Scenario files: a link, flows over it, and what else crosses it. `docs/scenario.md` is the reference.
//!
//! ```text
//! [[flow]] sender -- access (extra_delay) --\                       /-- receiver
//! [[flow]] sender -- access (extra_delay) ---+-- [link] bottleneck +--- receiver
//! [[cross]] source -------------------------/                       \-- nowhere
//!          sender <-------- [feedback] (one of its own per flow) -------- receiver
//! ```

mod check;
mod encoder;
mod error;
mod flow;
mod links;
pub mod patch;
mod text;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cc::{OptionError, Options, Setup};
use netsim::QueueSpec;
use serde::Deserialize;
use session::preset::Choice;
use units::{Bytes, Rate, Rng, Span};

pub use encoder::{Behaviour, Encoder, EncoderKind, SYNTHETIC};
pub use error::{ScenarioError, plainly};
pub use flow::{Control, Flow, Protection, Quic, Session, Smoltcp, Source, Stack, Tcp, Video};
pub use links::Links;
pub use text::{PacketLimit, PictureSize, RandomLoss, Share};

/// A scenario as its file states it, defaults filled in.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// A short name; the file's name without its ending if left out.
    #[serde(default)]
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub description: String,
    /// How long it runs in virtual time, up to a day.
    #[serde(deserialize_with = "text::quantity")]
    pub duration: Span,
    /// Seed of all random streams.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Metrics leave out what happened before this; the run and its tables do not.
    #[serde(default, deserialize_with = "text::quantity")]
    pub warmup: Span,
    /// The link all flows share, or several, of which each flow has a path.
    pub link: Links,
    /// The way back, one per flow; by default as slow (in delay) as the links of the flow's path together,
    /// and without a rate limit.
    #[serde(default)]
    pub feedback: Option<Link>,
    /// Who sends.
    #[serde(default, rename = "flow", deserialize_with = "written::flows")]
    pub flows: Vec<Flow>,
    /// Traffic that listens to nobody.
    #[serde(default, rename = "cross")]
    pub cross: Vec<Cross>,
    /// What a search for bad networks looks for; a run takes no notice of it.
    #[serde(default)]
    pub score: Goal,
    /// Where the file was: relative paths start in its folder.
    #[serde(skip)]
    pub file: PathBuf,
    /// The file's text, kept with every result.
    #[serde(skip)]
    pub text: String,
    /// What was changed of the file, by path: for a run's summary to name.
    #[serde(skip)]
    pub settings: Settings,
}

/// Changes to a scenario's file: values by path, such as `link.rate` or `flow[1].cc`, in the order in which
/// they were made.
pub type Settings = serde_json::Map<String, serde_json::Value>;

/// A link: impairments, a queue, a rate, a delay.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// What paths call it, where there are several links.
    #[serde(default)]
    pub name: String,
    /// Constant rate in wire bits; at most one of this, `steps` and `trace`.
    #[serde(default, deserialize_with = "text::optional")]
    pub rate: Option<Rate>,
    /// Makes the link a token bucket of this size that fills at `rate`: after a pause this much leaves back
    /// to back.
    #[serde(default, deserialize_with = "text::optional")]
    pub burst: Option<Bytes>,
    /// How fast a burst leaves; at once if left out.
    #[serde(default, deserialize_with = "text::optional")]
    pub peak: Option<Rate>,
    /// Rate from each instant on; the first instant is zero.
    #[serde(default, deserialize_with = "text::pairs")]
    pub steps: Vec<(Span, Rate)>,
    /// A Mahimahi trace, plain or gzipped; relative to the scenario's folder.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// The rate or the steps as Mahimahi plays them: opportunities of 1504 bytes at whole milliseconds, lost
    /// if nothing waits.
    #[serde(default)]
    pub mahimahi: bool,
    /// One-way propagation delay.
    #[serde(default, deserialize_with = "text::optional")]
    pub delay: Option<Span>,
    /// Queue discipline and its limit, as the queue registry spells it. By default 120 ms of a link with a
    /// rate (SQP, section 6.1), 200 packets of a trace (its figures 9 and 10).
    #[serde(default, deserialize_with = "text::queue")]
    pub queue: Option<QueueSpec>,
    /// Random loss before the queue.
    #[serde(default)]
    pub loss: RandomLoss,
    /// Drops what comes faster than a token bucket allows, before the queue.
    #[serde(default)]
    pub police: Option<Police>,
    /// Share of packets that arrive twice.
    #[serde(default)]
    pub duplicate: Share,
    /// Packets that are overtaken.
    #[serde(default)]
    pub reorder: Option<Reorder>,
    /// Standard deviation of the extra delay of each packet; never reorders.
    #[serde(default, deserialize_with = "text::quantity")]
    pub jitter: Span,
    /// From when to when nothing passes.
    #[serde(default, deserialize_with = "text::pairs")]
    pub blackout: Vec<(Span, Span)>,
    /// Largest IP packet it carries, at all times or from given times on.
    #[serde(default)]
    pub mtu: PacketLimit,
}

/// What a search over the scenario looks for (`docs/fuzzing.md`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Goal {
    /// A number that grows the worse the first flow fares.
    pub expression: Option<String>,
    /// Controllers that a network must be bearable for: what it costs all of them does not count.
    pub reference: Vec<String>,
    /// The TCP stack under them, if another than the flow's.
    #[serde(default, deserialize_with = "text::some_stack")]
    pub reference_stack: Option<Stack>,
}

/// A token bucket that drops what exceeds its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Police {
    /// What passes in the long run.
    #[serde(deserialize_with = "text::quantity")]
    pub rate: Rate,
    /// What passes at once after a pause.
    #[serde(deserialize_with = "text::quantity")]
    pub burst: Bytes,
}

/// Packets that are held back while others pass them.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Share of packets held back.
    pub share: Share,
    /// How much later each of them arrives.
    #[serde(deserialize_with = "text::quantity")]
    pub delay: Span,
}

/// The shape of cross traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CrossKind {
    /// One packet every so often, exactly.
    Cbr,
    /// Exponential gaps.
    Poisson,
    /// CBR in exponential bursts and pauses.
    OnOff,
    /// A packet at each instant of a file.
    Listed,
}

/// A source that listens to nobody.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cross {
    /// How its packets are spaced.
    pub kind: CrossKind,
    /// The links it crosses, by name; by default all, in order.
    #[serde(default)]
    pub path: Option<Vec<String>>,
    /// Its mean rate in wire bits (while on, for `onoff`); of all kinds but `listed`.
    #[serde(default, deserialize_with = "text::optional")]
    pub rate: Option<Rate>,
    /// `listed`: the file of instants, in microseconds, one a line; relative to the scenario's folder.
    #[serde(default)]
    pub instants: Option<PathBuf>,
    /// Size of its packets, IP header included.
    #[serde(default = "default_cross_size", deserialize_with = "text::quantity")]
    pub size: Bytes,
    /// When it starts, from the start of the run.
    #[serde(default, deserialize_with = "text::quantity")]
    pub start: Span,
    /// When it stops; by default with the run.
    #[serde(default, deserialize_with = "text::optional")]
    pub stop: Option<Span>,
    /// Mean length of a burst (`onoff`).
    #[serde(default = "default_burst_time", deserialize_with = "text::quantity")]
    pub on: Span,
    /// Mean length of a pause (`onoff`).
    #[serde(default = "default_burst_time", deserialize_with = "text::quantity")]
    pub off: Span,
}

impl Scenario {
    /// Scenario files are written by hand; a larger one is something else.
    const LARGEST_FILE: u64 = 4 << 20;

    /// Reads and checks a scenario file.
    ///
    /// # Errors
    /// [`ScenarioError`] naming file, line, field and what would be accepted.
    pub fn load(file: &Path) -> Result<Scenario, ScenarioError> {
        let unreadable =
            |what: String| ScenarioError { file: file.to_owned(), line: None, field: String::new(), what };
        let size = fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.len();
        if size > Scenario::LARGEST_FILE {
            return Err(unreadable(format!("{size} bytes long; a scenario is a TOML text of at most 4 MiB")));
        }
        let text = fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
        Scenario::parse(&text, file)
    }

    /// Reads and checks a scenario from its text; `file` names it in errors and is where relative paths
    /// start.
    ///
    /// # Errors
    /// [`ScenarioError`] naming file, line, field and what would be accepted.
    pub fn parse(text: &str, file: &Path) -> Result<Scenario, ScenarioError> {
        let mut scenario: Scenario =
            toml::from_str(text).map_err(|error| error::from_toml(file.to_owned(), text, &error))?;
        check::check(&scenario).map_err(|problem| problem.locate(file.to_owned(), text))?;
        scenario.flows = scenario.flows.iter().flat_map(Flow::each).collect();
        scenario.scatter_starts();
        scenario.file = file.to_owned();
        scenario.text = text.to_owned();
        scenario.fill_names();
        Ok(scenario)
    }

    /// `path` as seen from the scenario's folder.
    pub fn beside(&self, path: &Path) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    /// The files it reads: what is in them is as much a part of the run as its text.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let instants = self.cross.iter().filter_map(|cross| cross.instants.as_deref());
        let traces = self.link.iter().filter_map(|link| link.trace.as_deref());
        let of_links = traces.chain(instants).map(|path| self.beside(path));
        of_links.chain(self.clips())
    }

    /// The clips its flows play, one of each flow that plays any.
    pub fn clips(&self) -> impl Iterator<Item = PathBuf> {
        let videos = self.flows.iter().filter_map(Flow::video);
        let clips = videos.map(|video| &video.encoder.clip).filter(|clip| *clip != SYNTHETIC);
        clips.map(|clip| self.beside(Path::new(clip)))
    }

    /// An error about `field` of this scenario, found while building it.
    pub fn error(&self, field: impl Into<String>, what: impl Into<String>) -> ScenarioError {
        error::Problem::new(field, what).locate(self.file.clone(), &self.text)
    }

    /// The same scenario with the first flow's controller replaced by `cc`; a flow named after its controller
    /// is renamed. The text changes with it, so that it stays a full account of the run (comments get lost).
    ///
    /// # Errors
    /// [`OptionError`] if there is no such controller or it does not take the options.
    pub fn with_cc(&self, cc: &str) -> Result<Scenario, OptionError> {
        let options: Options = Choice::of(Some(cc), None, None).controller.parse()?;
        cc::build(&options, &Setup::default())?;
        let mut changed = self.clone();
        let mut names = Names::of(&self.flows[1.min(self.flows.len())..]);
        let Some(flow) = changed.flows.first_mut() else { return Ok(changed) };
        let named_after_cc = flow.name == controller_name(&flow.cc);
        cc.clone_into(&mut flow.cc);
        if named_after_cc {
            flow.name = names.free(controller_name(cc));
        }
        changed.text = with_first_cc(&self.text, &changed.flows);
        changed.settings.insert("flow[1].cc".to_owned(), cc.into());
        Ok(changed)
    }

    fn scatter_starts(&mut self) {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            if flow.start_spread.is_positive() {
                let late = Rng::stream(self.seed, &format!("flow{index}/start")).uniform();
                flow.start += flow.start_spread.mul_f64(late);
            }
        }
    }

    fn fill_names(&mut self) {
        if self.name.is_empty() {
            self.name = self.file.file_stem().map_or("scenario".into(), |s| s.to_string_lossy().into_owned());
        }
        let mut names = Names::of(&self.flows);
        for flow in self.flows.iter_mut().filter(|flow| flow.name.is_empty()) {
            flow.name = names.free(controller_name(&flow.cc));
        }
    }
}

/// The names of flows.
struct Names {
    taken: BTreeSet<String>,
    /// Of each stem, the number to try next: all below are taken.
    next: BTreeMap<String, u32>,
}

impl Names {
    fn of(flows: &[Flow]) -> Names {
        Names { taken: flows.iter().map(|flow| flow.name.clone()).collect(), next: BTreeMap::new() }
    }

    /// Takes `stem`, or the first of `stem-2`, `stem-3`, ... that is not taken.
    fn free(&mut self, stem: &str) -> String {
        let next = self.next.entry(stem.to_owned()).or_insert(1);
        loop {
            let name = if *next == 1 { stem.to_owned() } else { format!("{stem}-{next}") };
            *next += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// The scenario text with the first flow's controller set, and every flow's name: names not given follow
/// controllers.
fn with_first_cc(text: &str, flows: &[Flow]) -> String {
    let mut table: toml::Table = text.parse().expect("a scenario was read from this text");
    let tables = table.get_mut("flow").and_then(toml::Value::as_array_mut).into_iter().flatten();
    let tables: Vec<_> = tables.filter_map(toml::Value::as_table_mut).collect();
    // A table that stands for several flows names none of them.
    let flows = if tables.len() == flows.len() { flows } else { &flows[..1] };
    for (index, (flow, table)) in flows.iter().zip(tables).enumerate() {
        if index == 0 {
            table.insert("cc".to_owned(), flow.cc.as_str().into());
        }
        table.insert("name".to_owned(), flow.name.as_str().into());
    }
    toml::to_string(&table).expect("what was TOML can be written as TOML")
}

/// The controller's name without its options.
pub fn controller_name(cc: &str) -> &str {
    cc.split(':').next().unwrap_or(cc)
}

fn default_seed() -> u64 {
    1
}
fn default_cross_size() -> Bytes {
    Bytes::new(u64::from(netsim::DEFAULT_SIZE))
}
fn default_burst_time() -> Span {
    Span::from_millis(500)
}
