//! What is tested: a scenario whose first flow is under test, what is varied around it, and what is sought.

use std::borrow::Cow;

use experiments::expression::Expression;
use experiments::grid::{Terms, judge};
use lab::run::{
    FlowMeter, LabError, Metered, Overlay, Trunk, Watched, meter, meter_frames, meter_from, watch,
};
use lab::scenario::patch::set;
use lab::scenario::{Scenario, Source};
use toml::Table;
use units::{Span, Time};

use crate::genome::{Genome, Mode, Space};
use crate::names::{NAMES, needs_frames};
use crate::score::{Aim, Score, Weights, Yardstick, score, shares};
use crate::stems::Stem;
use crate::viewer::Life;

/// Windows of throughput (not given in the thesis).
pub const WINDOW: Span = Span::from_millis(500);
/// Spans at least this long keep their rate within bounds (figure 7.3).
const K_AGG: u32 = 50_000;
/// Outages in the second, at most: what a bad radio link has.
const OUTAGES_PER_SECOND: usize = 5;
/// An instant is a number of microseconds in 32 bits.
const LONGEST: Span = Span::from_secs(3_600);

/// A scenario that can't be searched.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It does not run at all.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// It lacks what a search needs.
    #[error("{0}")]
    Unsuitable(String),
}

/// A scenario, what is varied around it, and what is sought.
#[derive(Clone, Debug)]
pub struct Target {
    /// The scenario; its first flow is under test.
    pub scenario: Scenario,
    /// What of the network is varied.
    pub mode: Mode,
    /// What the search is for.
    pub aim: Aim,
    /// What the parts of the score weigh.
    pub weights: Weights,
    /// The bounds of the search.
    pub space: Space,
    /// When the flow under test is on.
    life: Life,
    /// What is sought, if the scenario says so in an expression.
    expression: Option<Expression>,
    /// Controllers that a network must be bearable for.
    references: Vec<Reference>,
    /// The score without any disturbance.
    calm: f64,
}

/// What a run showed: what it delivered, and how badly it broke the worst invariant where that is sought.
struct Seen {
    metered: Metered,
    broken: f64,
}

/// Runs a scenario: the target's, or that of the reference of this number.
type See<'a> = dyn FnMut(Option<usize>, &Scenario) -> Result<Seen, LabError> + 'a;

/// The scenario under a controller that the one under test is compared with.
#[derive(Clone, Debug)]
struct Reference {
    scenario: Scenario,
    /// What is sought, of a run without any disturbance.
    calm: f64,
}

impl Target {
    /// A target, after a trial run without any disturbance.
    ///
    /// # Errors
    /// [`TargetError`] if the scenario does not run, is longer than an hour, leaves the link or its queue
    /// open, has several links, lacks the flows, frames or expression that what is sought needs, or names
    /// references that can't run.
    pub fn new(scenario: Scenario, mode: Mode, aim: Aim, weights: Weights) -> Result<Target, TargetError> {
        let refuse = |what: &str| TargetError::Unsuitable(format!("{}: {what}", scenario.name));
        scenario.require_one_link("a search").map_err(LabError::from)?;
        let link = &scenario.link;
        let capacity = link.rate.map(|rate| rate.bytes_in(scenario.duration).get());
        let Some(bytes) = capacity else {
            return Err(refuse("a search needs a link with a constant `rate`"));
        };
        if link.queue.is_none() {
            return Err(refuse("a search needs a `queue`: the default depends on what is varied"));
        }
        if scenario.duration > LONGEST {
            return Err(refuse("a search needs runs of an hour at most"));
        }
        if aim == Aim::Unfairness && scenario.flows.len() < 2 {
            return Err(refuse("unfairness needs two flows"));
        }
        let packets = (bytes / u64::from(netsim::DEFAULT_SIZE)).max(1) as usize;
        let end = micros(scenario.duration);
        let outages = OUTAGES_PER_SECOND * scenario.duration.as_secs_f64().ceil() as usize;
        let space = Space { end, slots: packets, most_cross: packets, most_outages: outages, k_agg: K_AGG };
        let life = life(&scenario);
        if life.from * 500 >= (end / 1_000) as usize {
            return Err(refuse("the flow under test starts too late for a window of 500 ms"));
        }
        let expression = (aim == Aim::Expression).then(|| read_expression(&scenario)).transpose()?;
        let references = Vec::new();
        let calm = 0.0;
        let target = Target { scenario, mode, aim, weights, space, life, expression, references, calm };
        target.try_out()?;
        let names = target.scenario.score.reference.iter();
        let references = names.map(|cc| target.reference(cc)).collect::<Result<_, _>>()?;
        let calm = target.evaluate(&Genome::default()).goal(&target.weights);
        Ok(Target { references, calm, ..target })
    }

    /// What the flow scores without any disturbance: what a network does to it is what it scores beyond that.
    pub fn calm(&self) -> f64 {
        self.calm
    }

    /// A run without any disturbance, so that later ones have nothing to complain of.
    fn try_out(&self) -> Result<(), TargetError> {
        let refuse = |what: &str| TargetError::Unsuitable(format!("{}: {what}", self.scenario.name));
        if self.asks_for_frames() && self.scenario.flows[0].video().is_none() {
            return Err(refuse(
                "frames are scored, and the flow under test has none; give it `source = \"video\"`",
            ));
        }
        if self.aim == Aim::Invariants
            && experiments::grid::excluded(experiments::grid::Invariant::Picture, &Terms::of(&self.scenario)?)
                .is_some()
        {
            return Err(refuse(
                "nothing is asked of such a network (docs/grid.md), so nothing can be broken",
            ));
        }
        let calm = self.see(&self.scenario, &Overlay::default())?;
        if self.aim == Aim::Expression
            && let Err(what) =
                self.yardstick(&self.scenario, &calm).expressed(&calm.metered, &Genome::default())
        {
            return Err(LabError::from(self.scenario.error("score.expression", what)).into());
        }
        Ok(())
    }

    fn asks_for_frames(&self) -> bool {
        matches!(self.aim, Aim::FrameDelay | Aim::StallTime | Aim::Invariants)
            || self.expression.as_ref().is_some_and(needs_frames)
    }

    fn reference(&self, cc: &str) -> Result<Reference, TargetError> {
        let refuse = |what: String| LabError::from(self.scenario.error("score.reference", what));
        let mut scenario = self.scenario.with_cc(cc).map_err(|error| refuse(error.to_string()))?;
        if let Some(stack) = &self.scenario.score.reference_stack {
            match &mut scenario.flows[0].source {
                Source::Tcp(tcp) => tcp.stack = stack.clone(),
                other => {
                    let what = format!("the flow under test has no stack: its source is {:?}", other.name());
                    return Err(LabError::from(self.scenario.error("score.reference_stack", what)).into());
                }
            }
        }
        let calm = self.see(&scenario, &Overlay::default()).map_err(|error| refuse(error.to_string()))?;
        Ok(Reference {
            calm: self.yardstick(&scenario, &calm).performance(&calm.metered, &Genome::default()),
            scenario,
        })
    }

    /// What a run of `scenario`, the target's or one with a call's settings, is judged by.
    fn yardstick(&self, scenario: &Scenario, seen: &Seen) -> Yardstick<'_> {
        let Target { aim, weights, life, expression, .. } = self;
        let (aim, weights, life, propagation) = (*aim, *weights, *life, propagation(scenario));
        Yardstick { aim, weights, life, propagation, expression: expression.as_ref(), broken: seen.broken }
    }

    fn see(&self, scenario: &Scenario, overlay: &Overlay) -> Result<Seen, LabError> {
        if self.aim == Aim::Invariants {
            let watched = watch(scenario, overlay)?;
            let terms = Terms::of(scenario)?.under(scenario, overlay);
            let worst = judge(&terms, &watched).iter().map(|finding| finding.badness).fold(0.0, f64::max);
            return Ok(Seen { metered: as_metered(&watched), broken: worst / (1.0 + worst) });
        }
        let measure = if self.asks_for_frames() { meter_frames } else { meter };
        Ok(Seen { metered: measure(scenario, overlay, WINDOW)?, broken: 0.0 })
    }

    /// A scenario with the call's settings, where those are varied.
    fn called<'a>(&self, scenario: &'a Scenario, genome: &Genome) -> Cow<'a, Scenario> {
        if !self.mode.call || genome.call.is_plain() {
            return Cow::Borrowed(scenario);
        }
        let mut table: Table = scenario.text.parse().expect("a scenario was read from this text");
        genome.call.write(&mut table).expect("a scenario has a link and a flow");
        let text = toml::to_string(&table).expect("a table can be written");
        Cow::Owned(Scenario::parse(&text, &scenario.file).expect("a call's settings are a scenario's"))
    }

    /// Runs the scenario over the genome's network.
    pub fn evaluate(&self, genome: &Genome) -> Score {
        let overlay = genome.overlay(&self.space);
        self.judge(genome, &mut |_, scenario| self.see(scenario, &overlay))
    }

    /// The same, from where the network parts with those `near`; and its run, for others.
    pub(crate) fn evaluate_beside(&self, genome: &Genome, near: &[&Stem]) -> (Score, Stem) {
        let overlay = genome.overlay(&self.space);
        let mut stem = Stem { genome: genome.clone(), own: None, references: Vec::new() };
        if self.aim == Aim::Invariants || self.asks_for_frames() {
            return (self.judge(genome, &mut |_, scenario| self.see(scenario, &overlay)), stem);
        }
        let score = self.judge(genome, &mut |reference, scenario| {
            let trunks: Vec<&Trunk> = near.iter().filter_map(|other| other.trunk(reference)).collect();
            let (metered, trunk) = meter_from(scenario, &overlay, WINDOW, &trunks)?;
            match reference {
                None => stem.own = Some(trunk),
                Some(_) => stem.references.push(trunk),
            }
            Ok(Seen { metered, broken: 0.0 })
        });
        (score, stem)
    }

    /// The score of a genome whose runs `see` makes: that of the target's scenario, and those of references,
    /// which it is told by number.
    fn judge(&self, genome: &Genome, see: &mut See<'_>) -> Score {
        let scenario = self.called(&self.scenario, genome);
        let seen = see(None, &scenario).expect("the trial run went well");
        let found = score(&seen.metered, &self.yardstick(&scenario, &seen), (genome, &self.space));
        found.under(self.hardship(genome, see))
    }

    /// What the network costs the reference controller that it costs least, in the score's own units.
    fn hardship(&self, genome: &Genome, see: &mut See<'_>) -> f64 {
        let mut least = None;
        for (index, reference) in self.references.iter().enumerate() {
            let scenario = self.called(&reference.scenario, genome);
            let seen = see(Some(index), &scenario).expect("the trial run went well");
            let performance = self.yardstick(&scenario, &seen).performance(&seen.metered, genome);
            let cost = (performance - reference.calm).max(0.0);
            least = Some(least.map_or(cost, |least: f64| least.min(cost)));
            // None can find it easier than one that finds nothing hard.
            if cost == 0.0 {
                break;
            }
        }
        least.unwrap_or(0.0)
    }

    /// The share of what was available that the flow under test used, in each window it was on.
    pub fn course(&self, genome: &Genome) -> Vec<f64> {
        let scenario = self.called(&self.scenario, genome);
        let metered = meter(&scenario, &genome.overlay(&self.space), WINDOW);
        let metered = metered.expect("the trial run went well");
        shares(&metered, &metered.flows[0], self.life.from)
    }

    /// The same with fields of its scenario changed, such as `flow[1].stack`.
    ///
    /// # Errors
    /// [`TargetError`] if there is no such field, or its value can't be taken.
    pub fn with_fields(&self, fields: &[(&str, &str)]) -> Result<Target, TargetError> {
        let mut table: Table = self.scenario.text.parse().expect("a scenario was read from this text");
        for (field, value) in fields {
            set(&mut table, field, (*value).into()).map_err(TargetError::Unsuitable)?;
        }
        let text = toml::to_string(&table).expect("a table can be written");
        let scenario = Scenario::parse(&text, &self.scenario.file).map_err(LabError::from)?;
        Target::new(scenario, self.mode, self.aim, self.weights)
    }

    /// The same with another controller in the place of the first flow's.
    ///
    /// # Errors
    /// [`TargetError`] if there is none of that name.
    pub fn with_cc(&self, cc: &str) -> Result<Target, TargetError> {
        let scenario = self.scenario.with_cc(cc).map_err(LabError::from)?;
        Target::new(scenario, self.mode, self.aim, self.weights)
    }
}

fn read_expression(scenario: &Scenario) -> Result<Expression, TargetError> {
    let Some(text) = &scenario.score.expression else {
        let what = "its file has no `[score]` with an `expression` to score by";
        return Err(TargetError::Unsuitable(format!("{}: {what}", scenario.name)));
    };
    let refuse = |what| LabError::from(scenario.error("score.expression", what)).into();
    Expression::parse(text, &NAMES).map_err(refuse)
}

/// When the first flow is on.
fn life(scenario: &Scenario) -> Life {
    let flow = &scenario.flows[0];
    let from = (flow.start.as_nanos() as u64).div_ceil(WINDOW.as_nanos() as u64) as usize;
    let stop = flow.stop.unwrap_or(scenario.duration).min(scenario.duration);
    Life { start: Time::ZERO + flow.start, end: Time::ZERO + stop, from }
}

/// One-way propagation delay in microseconds.
fn propagation(scenario: &Scenario) -> u32 {
    micros(scenario.link.delay.unwrap_or_default() + scenario.flows[0].extra_delay)
}

/// What of a watched run the parts of a score are made of besides what is sought. Delays and losses are not
/// among them.
fn as_metered(watched: &Watched) -> Metered {
    let of = |delivered: &[u64]| FlowMeter { delivered: delivered.to_vec(), ..FlowMeter::default() };
    let flow = FlowMeter { interval: watched.interval, ..of(&watched.carried) };
    let capacity = watched.capacity.clone();
    Metered { window: lab::run::WINDOW, flows: vec![flow], cross: of(&watched.cross), capacity }
}

fn micros(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::preset::{PRESETS, Preset};

    #[test]
    fn presets_are_the_network_of_the_thesis() {
        for preset in PRESETS {
            let target = preset.target();
            assert_eq!(target.space.slots, preset.seconds as usize * 1_000, "{}", preset.name);
            assert_eq!((target.life.from, propagation(&target.scenario)), (2, 20_000));
            let calm = target.evaluate(&Genome::default());
            assert!(calm.used > 0.5 && calm.cross == 0, "{}: {calm:?}", preset.name);
        }
    }

    #[test]
    fn what_cannot_be_searched_says_why() {
        let refusal = |text: &str, aim| {
            let scenario = Scenario::parse(text, Path::new("x.toml")).unwrap();
            Target::new(scenario, "traffic".parse().unwrap(), aim, Weights::default())
                .unwrap_err()
                .to_string()
        };
        let flow = "[[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\n";
        let steps =
            format!("duration = \"5s\"\n[link]\nsteps = [[\"0s\", \"1mbit\"]]\ndelay = \"5ms\"\n{flow}");
        assert!(refusal(&steps, Aim::Loss).starts_with("x: a search needs a link with a constant"));
        let open = format!("duration = \"5s\"\n[link]\nrate = \"1mbit\"\ndelay = \"5ms\"\n{flow}");
        assert!(refusal(&open, Aim::Loss).contains("needs a `queue`"));
        let one = open.replace("delay", "queue = \"droptail:9p\"\ndelay");
        assert!(refusal(&one, Aim::Unfairness).contains("two flows"));
        assert!(refusal(&one, Aim::StallTime).contains("give it `source = \"video\"`"));
        assert!(refusal(&one, Aim::Expression).contains("no `[score]`"));
        let several =
            one.replace("[link]", "[[link]]\nname = \"a\"\ndelay = \"1ms\"\n[[link]]\nname = \"b\"");
        assert!(refusal(&several, Aim::Loss).contains("a search knows a single bottleneck, and there are 2"));
        let scored = |line: &str| refusal(&format!("{one}[score]\n{line}\n"), Aim::Expression);
        for (line, what) in [
            ("expression = \"utilization\"", "x.toml:10: score.expression: "),
            ("expression = \"utilization\"", "the names are utilisation, used, "),
            ("expression = \"delay_ms\"", "it gives a list, not a number"),
            ("expression = \"timeouts / timeouts\"", "it gives no number (0 / 0"),
            ("expression = \"still\"", "give it `source = \"video\"`"),
            ("expression = \"loss\"\nreference = [\"nobody\"]", "x.toml:11: score.reference: "),
        ] {
            let found = scored(line);
            assert!(found.contains(what), "{line}: {found}");
        }
    }

    fn flooded() -> Genome {
        // 10.8 of 12 Mbit/s from the second second on.
        Genome { cross: (0..2_700).map(|n| 2_000_000 + n * 1_111).collect(), ..Genome::default() }
    }

    fn target(text: &str, aim: Aim) -> Target {
        let flow = "[[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\nstart = \"1s\"\n";
        let link = "[link]\nrate = \"12mbit\"\ndelay = \"20ms\"\nqueue = \"droptail:100p\"\n";
        let text = format!("duration = \"5s\"\n{link}{flow}{text}");
        let scenario = Scenario::parse(&text, Path::new("x.toml")).unwrap();
        Target::new(scenario, "traffic".parse().unwrap(), aim, Weights::default()).unwrap()
    }

    #[test]
    fn expressions_say_the_same_as_scores() {
        let genome = flooded();
        for (aim, text) in [(Aim::LowThroughput, "-lowest(used, 0.2)"), (Aim::Loss, "loss")] {
            let written = target(&format!("[score]\nexpression = \"{text}\"\n"), Aim::Expression);
            let score = written.evaluate(&genome);
            assert_eq!(score.performance, target("", aim).evaluate(&genome).performance, "{text}");
            assert_eq!(score, written.evaluate(&genome));
        }
        let silent = target("[score]\nexpression = \"1 / (cross_packets - 2700) * 0\"\n", Aim::Expression);
        assert_eq!(silent.evaluate(&genome).performance, -1e9, "no number: ranked last");
    }

    #[test]
    fn what_costs_everybody_does_not_count() {
        let with =
            |reference: &str| target(&format!("[score]\nreference = [{reference}]\n"), Aim::LowThroughput);
        let (genome, calm) = (flooded(), Genome::default());
        let alone = with("").evaluate(&genome);
        let itself = with("\"cubic\"");
        let beside = itself.evaluate(&genome);
        assert_eq!(beside.performance, alone.performance);
        // Against itself nothing is left but what it loses in a calm network.
        let expected = itself.evaluate(&calm).performance;
        assert!((beside.performance - beside.hardship - expected).abs() < 1e-9, "{beside:?}");
        assert!((alone.total - beside.total - beside.hardship).abs() < 1e-9);
        // The easiest counts, in whatever order.
        let of = |reference: &str| with(reference).evaluate(&genome).hardship;
        let (cubic, bbr) = (of("\"cubic\""), of("\"bbr\""));
        assert_eq!(of("\"cubic\", \"bbr\""), cubic.min(bbr));
        assert_eq!(of("\"bbr\", \"cubic\""), cubic.min(bbr));
        assert_eq!(with("\"cubic\"").evaluate(&calm).hardship, 0.0);
    }

    #[test]
    fn a_reference_may_stand_on_a_stack_of_its_own() {
        let stacks = |score: &str| {
            let target = target(&format!("[score]\nreference = [\"cubic\"]\n{score}"), Aim::LowThroughput);
            let name = |scenario: &Scenario| scenario.flows[0].tcp().unwrap().stack.name.clone();
            [name(&target.scenario), name(&target.references[0].scenario)]
        };
        assert_eq!(stacks("reference_stack = \"ns3\"\n"), ["linux", "ns3"]);
        assert_eq!(stacks(""), ["linux", "linux"]);
    }

    #[test]
    fn viewers_are_hurt_by_what_hurts_them() {
        for aim in [Aim::FrameDelay, Aim::StallTime] {
            let scenario = Preset::find("video").unwrap().scenario();
            let target =
                Target::new(scenario, "traffic+loss".parse().unwrap(), aim, Weights::default()).unwrap();
            let outage = crate::Outage { at: 5_000_000, lasts: 1_500_000 };
            let dark = Genome { outages: vec![outage], ..Genome::default() };
            let (calm, dark) = (target.evaluate(&Genome::default()), target.evaluate(&dark));
            assert!(calm.performance < 0.15, "{aim}: {calm:?}");
            assert!(dark.performance > calm.performance + 0.1, "{aim}: {dark:?} after {calm:?}");
        }
    }
}
