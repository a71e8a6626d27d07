//! The scenarios that a loss predictor is trained on and judged by: `framewire predict dataset` writes their
//! runs to files, and rows of Prism's claims judge the shipped predictors by those that trained none.

use std::io::{self, Write};
use std::path::Path;

use lab::files::write_whole;
use netsim::MahimahiTrace;
use netsim::models::{Cellular, Fading, Outages, WiFi};
use units::Rng;

use crate::data::data_trace;

/// A scenario to be run, and how its results are filed.
pub struct Scene {
    /// Scenarios of one family are drawn by the same function.
    pub family: &'static str,
    /// What its files are called.
    pub name: String,
    /// The text of the scenario's file.
    pub text: String,
}

type Make = fn(&mut Rng, &Draw<'_>) -> io::Result<String>;

/// What a scene is made for.
struct Draw<'a> {
    name: &'a str,
    seconds: u32,
    folder: &'a Path,
}

/// Families of random scenarios. Every path, rate, queue and controller is drawn anew for each scene.
const FAMILIES: &[(&str, Make)] = &[
    ("cubic", cubic),
    ("pages", pages),
    ("bursts", bursts),
    ("onoff", onoff),
    ("mobile", mobile),
    ("home", home),
];

/// Whether scene `number` of a family neither trained the shipped network nor chose its threshold: of five
/// consecutive numbers three train, the fourth chooses, the last tests (`split` in
/// `python/research/loss_predictor/data.py`).
pub fn is_tested(number: u32) -> bool {
    number % 5 == 4
}

/// The scenes of each family with these `numbers`, each `seconds` of virtual time long. A scene depends on
/// `seed`, family, number and length alone. Traces that scenes name are written into `folder`, which exists.
///
/// # Errors
/// A trace that can't be written.
pub fn random(
    numbers: impl Iterator<Item = u32> + Clone,
    seconds: u32,
    seed: u64,
    folder: &Path,
) -> io::Result<Vec<Scene>> {
    let mut scenes = Vec::new();
    for (family, make) in FAMILIES {
        for number in numbers.clone() {
            let name = format!("{family}-{number:03}");
            let mut rng = Rng::stream(seed, &format!("predict/{name}"));
            let draw = Draw { name: &name, seconds, folder };
            let body = make(&mut rng, &draw)?;
            let head = format!("duration = \"{seconds}s\"\nseed = {}\n", 1 + rng.below(1_000_000));
            scenes.push(Scene { family, text: format!("{head}{body}"), name });
        }
    }
    Ok(scenes)
}

/// A number between two, each size of step as likely.
fn spread(rng: &mut Rng, low: f64, high: f64) -> f64 {
    rng.uniform_in(low.ln(), high.ln()).exp()
}

fn one_of<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.below(of.len() as u64) as usize]
}

fn encoder(rng: &mut Rng) -> String {
    let fps = one_of(rng, &["30", "60"]);
    format!("[flow.encoder]\nbehaviour = \"recorded\"\nfps = {fps}.0\n")
}

/// The flow whose packets are predicted: it may fill `rate` Mbit/s or a share of it.
fn video(rng: &mut Rng, rate: f64) -> String {
    let encoder = encoder(rng);
    let most = (rate * rng.uniform_in(0.6, 1.5)).clamp(1.0, 50.0);
    match one_of(rng, &["sqp", "default", "gcc", "fixed"]) {
        // As Prism's own testbed has it: 20 of 25 Mbit/s (thesis section 4.7.2.1).
        "fixed" => {
            let fixed = (rate * rng.uniform_in(0.5, 0.9)).clamp(1.0, 50.0);
            format!(
                "[[flow]]\ncc = \"fixed\"\ninitial = \"{fixed:.2}mbit\"\nmax = \"{fixed:.2}mbit\"\n{encoder}"
            )
        }
        cc => format!("[[flow]]\ncc = \"{cc}\"\nmax = \"{most:.2}mbit\"\n{encoder}"),
    }
}

fn link(rng: &mut Rng, rate: &str, more: &str) -> String {
    let delay = spread(rng, 4.0, 60.0);
    let queue = spread(rng, 25.0, 250.0);
    format!("[link]\n{rate}\ndelay = \"{delay:.1}ms\"\nqueue = \"droptail:{queue:.0}ms\"\n{more}")
}

fn steady(rng: &mut Rng) -> (f64, String) {
    let rate = spread(rng, 4.0, 50.0);
    (rate, format!("rate = \"{rate:.2}mbit\""))
}

/// Long Cubic flows through the same queue, which overflows again and again.
fn cubic(rng: &mut Rng, draw: &Draw<'_>) -> io::Result<String> {
    let (rate, text) = steady(rng);
    let mut scene = [link(rng, &text, ""), video(rng, rate)].concat();
    for _ in 0..=rng.below(3) {
        let start = rng.uniform_in(0.0, f64::from(draw.seconds) / 2.0);
        scene.push_str(&format!("[[flow]]\nsource = \"tcp\"\ncc = \"cubic\"\nstart = \"{start:.2}s\"\n"));
    }
    Ok(scene)
}

/// Page loads: short Cubic flows that come and go.
fn pages(rng: &mut Rng, _: &Draw<'_>) -> io::Result<String> {
    let (rate, text) = steady(rng);
    let mut scene = [link(rng, &text, ""), video(rng, rate)].concat();
    let largest = spread(rng, 200.0, 3_000.0);
    let idle = spread(rng, 1.0, 8.0);
    let count = 1 + rng.below(6);
    scene.push_str(&format!(
        "[[flow]]\nsource = \"tcp\"\ncc = \"cubic\"\ncount = {count}\n\
         workload = \"pages:size=30kB-{largest:.0}kB,idle={idle:.2}s,start=idle\"\n"
    ));
    Ok(scene)
}

/// Random loss in bursts, as radio links without repair have it; with nothing to foretell it but its burst.
fn bursts(rng: &mut Rng, _: &Draw<'_>) -> io::Result<String> {
    let (rate, text) = steady(rng);
    let (loss, burst) = (spread(rng, 0.1, 4.0), spread(rng, 1.5, 60.0));
    let more = format!("loss = \"ge:loss={loss:.2}%,burst={burst:.1}\"\n");
    Ok([link(rng, &text, &more), video(rng, rate)].concat())
}

/// Traffic that listens to nobody and overruns the link for a while.
fn onoff(rng: &mut Rng, _: &Draw<'_>) -> io::Result<String> {
    let (rate, text) = steady(rng);
    let burst = rate * rng.uniform_in(0.3, 1.2);
    let (on, off) = (spread(rng, 100.0, 2_000.0), spread(rng, 300.0, 6_000.0));
    let cross = format!(
        "[[cross]]\nkind = \"onoff\"\nrate = \"{burst:.2}mbit\"\non = \"{on:.0}ms\"\noff = \"{off:.0}ms\"\n"
    );
    Ok([link(rng, &text, ""), video(rng, rate), cross].concat())
}

/// A mobile link by the model of `netsim::models`, with parameters from half to twice those of a walk and a
/// drive, and a Cubic flow in every third scene.
fn mobile(rng: &mut Rng, draw: &Draw<'_>) -> io::Result<String> {
    let rate = spread(rng, 1.5, 60.0);
    let (walk, drive) = (Cellular::WALK, Cellular::DRIVE);
    let fading = |rng: &mut Rng, walk: Fading, drive: Fading| Fading {
        sigma: rng.uniform_in(walk.sigma / 2.0, drive.sigma * 2.0),
        tau_s: spread(rng, walk.tau_s.min(drive.tau_s) / 2.0, walk.tau_s.max(drive.tau_s) * 2.0),
    };
    let model = Cellular {
        median_bps: rate * 1e6,
        fading: fading(rng, walk.fading, drive.fading),
        load: fading(rng, walk.load, drive.load),
        outages: Outages {
            per_minute: rng.uniform_in(0.0, drive.outages.per_minute * 2.0),
            millis: (100.0, drive.outages.millis.1),
        },
        ..drive
    };
    let trace = model.trace(rng, draw.seconds * 1_000);
    on_trace(rng, draw, &trace.expect("the model's median is above a packet a second"), 1.0 / 3.0)
}

/// A link in a home, by the model of the same place: rates, neighbours and repetitions vary as much.
fn home(rng: &mut Rng, draw: &Draw<'_>) -> io::Result<String> {
    let usual = WiFi::HOME;
    let about = |rng: &mut Rng, value: f64| spread(rng, value / 2.0, value * 2.0);
    let model = WiFi {
        median_bps: about(rng, usual.median_bps),
        fading: Fading { sigma: about(rng, usual.fading.sigma), tau_s: about(rng, usual.fading.tau_s) },
        gap_ms: (about(rng, usual.gap_ms.0), about(rng, usual.gap_ms.1)),
        period_s: (about(rng, usual.period_s.0), about(rng, usual.period_s.1)),
        retry: about(rng, usual.retry),
    };
    let trace = model.trace(rng, draw.seconds * 1_000);
    on_trace(rng, draw, &trace.expect("the model's median is above a packet a second"), 1.0 / 3.0)
}

/// A scene over `trace`, which is written beside it; with a Cubic flow in some.
fn on_trace(rng: &mut Rng, draw: &Draw<'_>, trace: &MahimahiTrace, with_cubic: f64) -> io::Result<String> {
    let file = format!("{}.trace", draw.name);
    // Whole or not at all: another process may be reading the same trace.
    write_whole(&draw.folder.join(&file), |to| to.write_all(trace.to_text().as_bytes()))
        .map_err(io::Error::other)?;
    // Only what adapts: a fixed rate above that of a link that fades loses packets for seconds, of which a
    // sender knows without a predictor.
    let cc = one_of(rng, &["sqp", "default", "gcc"]);
    let flow = format!("[[flow]]\ncc = \"{cc}\"\nmax = \"50mbit\"\n{}", encoder(rng));
    let mut scene = [link(rng, &format!("trace = \"{file}\""), ""), flow].concat();
    if rng.chance(with_cubic) {
        scene += "[[flow]]\nsource = \"tcp\"\ncc = \"cubic\"\nstart = \"5s\"\n";
    }
    Ok(scene)
}

/// Recorded traces: family, where they lie, and their names. Of 5G those whose mean rate is lowest (66 to 149
/// Mbit/s): on the others a call never meets the link's limit.
const RECORDED: &[(&str, &str, &str)] = &[
    (
        "lte",
        "network/mahimahi-cellular/",
        "ATT-LTE-driving.down.gz ATT-LTE-driving.up.gz ATT-LTE-driving-2016.down.gz ATT-LTE-driving-2016.up \
         TMobile-LTE-driving.down.gz TMobile-LTE-driving.up.gz TMobile-LTE-short.down.gz \
         TMobile-LTE-short.up.gz TMobile-UMTS-driving.down.gz TMobile-UMTS-driving.up.gz \
         Verizon-LTE-driving.down.gz Verizon-LTE-driving.up.gz Verizon-LTE-short.down.gz \
         Verizon-LTE-short.up.gz",
    ),
    (
        "wifi",
        "network/zhuge-real/zhuge-real-exp-traces.tar.gz!",
        "office-wifi_1 office-wifi_2 office-wifi_3 office-wifi_4 office-wifi_5 office-wifi_6 office-wifi_7 \
         office-wifi_8 rest1_1 rest1_2 rest1_3 rest1_4 rest1_5 rest1_6 rest1_7 rest1_8",
    ),
    (
        "4g",
        "network/zhuge-real/zhuge-real-exp-traces.tar.gz!",
        "abc4g_1 abc4g_2 abc4g_3 abc4g_4 abc4g_5 abc4g_6 abc4g_7 abc4g_8 abc4g_9 abc4g_10 abc4g_11 abc4g_12 \
         abc4g_13 abc4g_14 abc4g_15 abc4g_16",
    ),
    (
        "5g",
        "network/lumos5g-sigcomm21/Network-Traces.tar.gz!",
        "5g_trace_22_driving 5g_trace_104_driving 5g_trace_110_driving 5g_trace_23_driving 5g_trace_109_driving",
    ),
];

/// A scene for each recorded trace that is there: 20 ms each way, and 100 ms of queue at the trace's mean
/// rate. Three scenes in four are under the adaptive controllers in turn, the fourth has a Cubic flow
/// besides. Traces that are not on this machine are left out.
///
/// # Errors
/// A line that says which trace can't be read, and why.
pub fn recorded(seconds: u32, seed: u64) -> Result<Vec<Scene>, String> {
    let mut scenes = Vec::new();
    for (family, folder, names) in RECORDED {
        for (number, name) in names.split_whitespace().enumerate() {
            let Some(trace) = data_trace(&format!("data:{folder}{name}"))? else { continue };
            let (cc, beside) = match number % 4 {
                0 => ("gcc", ""),
                1 => ("sqp", ""),
                2 => ("default", ""),
                _ => ("sqp", "[[flow]]\nsource = \"tcp\"\ncc = \"cubic\"\nstart = \"5s\"\n"),
            };
            let path = toml::Value::String(trace.to_string_lossy().into_owned());
            let text = format!(
                "duration = \"{seconds}s\"\nseed = {seed}\n[link]\ntrace = {path}\ndelay = \"20ms\"\n\
                 queue = \"droptail:100ms\"\n[[flow]]\ncc = \"{cc}\"\nmax = \"50mbit\"\n[flow.encoder]\n\
                 behaviour = \"recorded\"\nfps = 60.0\n{beside}"
            );
            let plain = name.trim_end_matches(".gz").replace('.', "-");
            scenes.push(Scene { family, name: format!("{family}-{plain}"), text });
        }
    }
    Ok(scenes)
}

#[cfg(test)]
mod tests {
    use lab::scenario::Scenario;

    use super::*;

    #[test]
    fn scenes_are_scenarios_and_the_same_each_time() {
        let folder = std::env::temp_dir().join(format!("framewire-scenes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let scenes = random(0..6, 10, 1, &folder).unwrap();
        assert_eq!(scenes.len(), 6 * FAMILIES.len());
        for scene in &scenes {
            let parsed = Scenario::parse(&scene.text, &folder.join("x.toml"));
            assert!(parsed.is_ok(), "{}: {:?}\n{}", scene.name, parsed.err(), scene.text);
        }
        let again = random(0..6, 10, 1, &folder).unwrap();
        assert!(scenes.iter().zip(&again).all(|(a, b)| a.text == b.text));
        let one = random(5..6, 10, 1, &folder).unwrap();
        assert_eq!((&one[1].name, &one[1].text), (&scenes[11].name, &scenes[11].text));
        assert_ne!(scenes[0].text, random(0..1, 10, 2, &folder).unwrap()[0].text);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn each_recorded_trace_has_a_name_of_its_own() {
        let all = RECORDED.iter().flat_map(|(_, _, names)| names.split_whitespace());
        let names: Vec<&str> = all.collect();
        let unlike: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!((names.len(), unlike.len()), (51, 51));
    }
}
