//! Each invariant and each rule on made-up records: every one of them can be seen to fail.

use std::path::Path;

use netsim::queue::Backlog;
use units::{Span, Time};

use super::*;
use lab::run::{FrameLife, SAMPLE, WINDOW, Watched};

/// A call of 30 s at 25 frames/s over 5 Mbit/s, 40 ms of round trip and 200 ms of queue.
const CALL: &str = "duration = \"30s\"\n[link]\nrate = \"5mbit\"\ndelay = \"20ms\"\nqueue = \"droptail:200ms\"\n\
                    [[flow]]\ncc = \"sqp\"\nmin = \"100kbit\"\ndeadline = \"400ms\"\n[flow.encoder]\nfps = 25.0\n";

fn terms(text: &str) -> Terms {
    Terms::of(&Scenario::parse(text, Path::new("x.toml")).unwrap()).unwrap()
}

/// The call with a blackout from 10 to 12 s.
fn faulty() -> Terms {
    terms(&CALL.replace("rate = \"5mbit\"", "rate = \"5mbit\"\nblackout = [[\"10s\", \"12s\"]]"))
}

/// A run of these terms in which every frame is shown 50 ms after its capture, four fifths of the link are
/// used, and a third of the queue.
fn calm(terms: &Terms) -> Watched {
    let frames = (terms.end - terms.start).as_nanos() / terms.interval.as_nanos();
    let windows = ((terms.end - Time::ZERO).as_nanos() / WINDOW.as_nanos()) as usize;
    let of_window = terms.rate.bytes_in(WINDOW).get();
    let life = |n: i64| {
        let captured = terms.start + terms.interval * n;
        let shown = Some(captured + Span::from_millis(50));
        FrameLife { captured: Some(captured), shown, assembled: true, abandoned: false }
    };
    let dark = |window: usize| {
        let at = Time::ZERO + WINDOW * window as i64;
        terms.faults.iter().any(|&(from, to)| from <= at && at < to)
    };
    let samples = ((terms.end - Time::ZERO).as_nanos() / SAMPLE.as_nanos()) as usize;
    let third = terms.room.unwrap_or_default() / 3;
    Watched {
        carried: (0..windows).map(|w| if dark(w) { 0 } else { of_window * 4 / 5 }).collect(),
        cross: vec![0; windows],
        capacity: (0..windows).map(|w| if dark(w) { 0 } else { of_window }).collect(),
        backlog: vec![Backlog { packets: (third / 1500) as u32, bytes: third }; samples],
        frames: (0..frames).map(life).collect(),
        interval: terms.interval,
        ..Watched::default()
    }
}

/// What does not hold.
fn broken(terms: &Terms, watched: &Watched) -> Vec<&'static str> {
    let broken = judge(terms, watched).into_iter().filter(|finding| !finding.holds());
    broken.map(|finding| finding.invariant.name()).collect()
}

/// Frames captured between two instants are neither assembled nor shown.
fn lose(watched: &mut Watched, from_ms: u64, to_ms: u64) {
    let lost = Time::from_millis(from_ms)..Time::from_millis(to_ms);
    for frame in watched.frames.iter_mut().filter(|frame| lost.contains(&frame.captured.unwrap())) {
        (frame.shown, frame.assembled) = (None, false);
    }
}

#[test]
fn a_calm_run_holds_and_everything_that_applies_is_asked() {
    let steady = terms(CALL);
    let asked: Vec<_> =
        judge(&steady, &calm(&steady)).iter().map(|finding| finding.invariant.name()).collect();
    assert_eq!(asked, ["picture", "use", "whole", "queue", "honest"]);
    assert!(broken(&steady, &calm(&steady)).is_empty());
    let faulty = faulty();
    let mut run = calm(&faulty);
    lose(&mut run, 10_000, 12_000);
    let asked: Vec<_> = judge(&faulty, &run).iter().map(|finding| finding.invariant.name()).collect();
    assert_eq!(asked, ["picture", "queue", "honest", "recovery"]);
    assert!(broken(&faulty, &run).is_empty(), "{:?}", judge(&faulty, &run));
}

#[test]
fn picture_breaks_when_it_stands_still() {
    let terms = terms(CALL);
    let mut run = calm(&terms);
    // Two seconds, four round trips of 40 ms and a frame are allowed: 2.2 s.
    lose(&mut run, 10_000, 12_100);
    assert_eq!(broken(&terms, &run), ["whole"]);
    lose(&mut run, 10_000, 12_400);
    assert_eq!(broken(&terms, &run), ["picture", "whole"]);
    let found = find(Invariant::Picture, &terms, &run);
    assert!((found.value - 2.44).abs() < 0.02 && (found.limit - 2.2).abs() < 0.001, "{found:?}");
    // In the first five seconds a flow may find its feet.
    let mut run = calm(&terms);
    lose(&mut run, 0, 4_800);
    assert!(broken(&terms, &run).is_empty());
}

#[test]
fn picture_is_not_asked_of_a_dark_link_and_wants_fresh_frames() {
    let dark = faulty();
    let mut run = calm(&dark);
    // Dark from 10 to 12 s, then five seconds to recover in.
    lose(&mut run, 10_000, 16_900);
    assert_eq!(broken(&dark, &run), ["recovery"]);
    let steady = terms(CALL);
    let mut stale = calm(&steady);
    for frame in &mut stale.frames {
        frame.shown = frame.captured.map(|at| at + Span::from_secs(3));
    }
    assert_eq!(broken(&steady, &stale), ["picture"], "the deadline is 400 ms: 3 s is no sign of life");
}

#[test]
fn cross_traffic_that_leaves_too_little_is_no_fault_of_the_flow() {
    let terms = terms(CALL);
    let mut run = calm(&terms);
    lose(&mut run, 10_000, 25_000);
    run.cross = run.capacity.iter().map(|capacity| capacity * 99 / 100).collect();
    assert!(find(Invariant::Picture, &terms, &run).holds());
    run.cross = run.capacity.iter().map(|capacity| capacity * 90 / 100).collect();
    assert!(!find(Invariant::Picture, &terms, &run).holds());
}

#[test]
fn use_breaks_when_less_than_half_is_used() {
    let terms = terms(CALL);
    let mut run = calm(&terms);
    run.carried.iter_mut().skip(30).for_each(|bytes| *bytes = *bytes * 6 / 10);
    assert_eq!(broken(&terms, &run), ["use"]);
    let found = find(Invariant::Use, &terms, &run);
    assert!((found.value - 0.48).abs() < 0.01 && found.badness > 1.0, "{found:?}");
    // What counts is the flow's highest rate, where that is lower.
    let capped = Terms { most: units::Rate::from_mbps(3), ..terms };
    assert!(broken(&capped, &run).is_empty());
}

#[test]
fn whole_breaks_by_one_frame_but_not_by_one_that_was_overtaken() {
    let terms = terms(CALL);
    let mut run = calm(&terms);
    run.frames[400].shown = None;
    assert!(broken(&terms, &run).is_empty(), "it arrived whole, together with a newer one");
    run.frames[400].abandoned = true;
    assert_eq!(broken(&terms, &run), ["whole"]);
    let one = find(Invariant::Whole, &terms, &run).badness;
    lose(&mut run, 20_000, 21_000);
    assert!(find(Invariant::Whole, &terms, &run).badness > one, "more is worse");
}

#[test]
fn queue_breaks_when_it_stands_full() {
    let terms = terms(CALL);
    let mut run = calm(&terms);
    let full = Backlog { packets: 85, bytes: 120_000 };
    run.backlog[100..600].fill(full);
    assert!(broken(&terms, &run).is_empty(), "ten seconds");
    run.backlog[600] = full;
    assert_eq!(broken(&terms, &run), ["queue"]);
    // A sawtooth drains now and then.
    run.backlog.fill(full);
    run.backlog.iter_mut().step_by(400).for_each(|backlog| backlog.bytes = 1_500);
    assert!(broken(&terms, &run).is_empty());
}

#[test]
fn honest_breaks_when_nothing_answers_a_refusal() {
    let terms = terms(CALL);
    let refusing = |ms| Watched { refused: 9, unanswered: Span::from_millis(ms), ..calm(&terms) };
    assert!(broken(&terms, &refusing(1_160)).is_empty());
    assert_eq!(broken(&terms, &refusing(1_161)), ["honest"]);
}

#[test]
fn recovery_breaks_without_a_picture_or_a_rate() {
    let terms = faulty();
    let mut blind = calm(&terms);
    lose(&mut blind, 9_000, 14_500);
    assert_eq!(broken(&terms, &blind), ["recovery"]);
    let mut slow = calm(&terms);
    slow.carried.iter_mut().skip(24).take(22).for_each(|bytes| *bytes = *bytes * 2 / 5);
    assert_eq!(broken(&terms, &slow), ["recovery"]);
    let found = find(Invariant::Recovery, &terms, &slow);
    assert!(found.value > found.limit && (found.limit - 10.8).abs() < 1e-9, "{found:?}");
    let mut soon = calm(&terms);
    soon.carried.iter_mut().skip(24).take(16).for_each(|bytes| *bytes = *bytes * 2 / 5);
    assert!(broken(&terms, &soon).is_empty());
}

#[test]
fn what_is_remembered_is_not_run_again_and_threads_change_nothing() {
    let folder = std::env::temp_dir().join(format!("framewire-grid-memory-{}", std::process::id()));
    let cells: Vec<Cell> =
        Cell::of_axes().into_iter().filter(|cell| cell.name.starts_with("fps=")).take(3).collect();
    let schemes = ["sqp", "fixed"].map(|cc| Scheme { cc: cc.to_owned(), rate: Some("live".to_owned()) });
    let how = |threads, program: &str| Drive {
        threads,
        progress: &|_| {},
        memory: Some(Memory::new(&folder, program)),
    };
    let first = drive(&schemes, &cells, &how(1, "one")).unwrap();
    assert_eq!(first, drive(&schemes, &cells, &how(3, "another")).unwrap());
    assert!(first[..3].iter().all(|outcome| outcome.findings.len() > 3), "{first:?}");
    assert!(first[3..].iter().all(|outcome| outcome.verdict() == Verdict::Excluded));
    // What is found in the folder is believed.
    for entry in std::fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("\"badness\":", "\"badness\":7")).unwrap();
    }
    let believed = drive(&schemes, &cells, &how(2, "one")).unwrap();
    assert!(believed[..3].iter().all(|outcome| outcome.verdict() == Verdict::Failed), "{believed:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The rule that spares an invariant, in a changed call.
fn spared((old, new): (&str, &str), invariant: Invariant) -> Option<&'static str> {
    let text = CALL.replace(old, new);
    assert!(old.is_empty() || text != CALL, "{old}");
    excluded(invariant, &terms(&text)).map(|rule| rule.name)
}

#[test]
fn every_rule_spares_what_it_should_and_nothing_next_to_it() {
    use Invariant::{Picture, Queue, Recovery, Use, Whole};
    let rtt = "delay = \"20ms\"";
    let cases: &[((&str, &str), Invariant, Option<&str>)] = &[
        (("5mbit", "199kbit"), Picture, Some("rate")),
        (("5mbit", "200kbit"), Picture, None),
        ((rtt, "delay = \"396ms\""), Picture, Some("deadline")),
        ((rtt, "delay = \"395ms\""), Picture, None),
        (("droptail:200ms", "droptail:1p"), Queue, Some("one-packet queue")),
        (("droptail:200ms", "droptail:2p"), Queue, None),
        // One try of a key frame fits, and 5 % of them are lost: three in a row, fifteen times.
        ((rtt, "delay = \"150ms\"\nloss = \"90%\""), Picture, Some("key frame")),
        ((rtt, "delay = \"150ms\"\nloss = \"5%\""), Picture, None),
        ((rtt, "delay = \"150ms\"\nloss = \"1%\""), Whole, Some("repair")),
        ((rtt, "delay = \"20ms\"\nloss = \"1%\""), Whole, None),
        (("fps = 25.0", "fps = 25.0"), Whole, None),
        (("droptail:200ms", "droptail:5kB"), Use, Some("short queue")),
        (("droptail:200ms", "droptail:13kB"), Use, None),
        (("rate = \"5mbit\"", "steps = [[\"0s\", \"5mbit\"], [\"9s\", \"2mbit\"]]"), Use, Some("unsteady")),
        ((rtt, "delay = \"20ms\"\nloss = \"10%\""), Use, Some("loss as congestion")),
        ((rtt, "delay = \"20ms\"\nloss = \"9%\""), Use, None),
        (("droptail:200ms", "codel"), Queue, Some("no limit")),
        (("", ""), Recovery, Some("no fault")),
        (("\"30s\"", "\"14s\""), Picture, Some("too short")),
        (("\"30s\"", "\"15s\""), Picture, None),
    ];
    for &((old, new), invariant, expected) in cases {
        let change = if old == new { ("", "") } else { (old, new) };
        assert_eq!(spared(change, invariant), expected, "{change:?}");
    }
    let beside =
        |what: &str, invariant| excluded(invariant, &terms(&format!("{CALL}{what}"))).map(|rule| rule.name);
    let cross = "[[cross]]\nkind = \"cbr\"\nrate = \"1mbit\"\n";
    let tcp = "[[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\n";
    assert_eq!([Whole, Queue, Picture].map(|asked| beside(cross, asked)), [Some("contested"), None, None]);
    assert_eq!(beside(tcp, Queue), Some("TCP fills it"));
    // 25 headers of 68 bytes a second are 13.6 kbit/s.
    let narrow = |kbps: u64| {
        let text = CALL.replace("5mbit", &format!("{kbps}kbit")).replace("droptail:200ms", "droptail:1s");
        excluded(Whole, &terms(&text)).map(|rule| rule.name)
    };
    assert_eq!((narrow(227), narrow(228)), (Some("headers"), None));
    let names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
    let page = include_str!("../../../../docs/grid.md");
    for name in names {
        assert!(page.contains(&format!("| {name} |")), "docs/grid.md lacks the rule `{name}`");
    }
}

#[test]
fn cells_are_scenarios_with_names_of_their_own() {
    let cells = Cell::of_axes();
    let names: std::collections::BTreeSet<_> = cells.iter().map(|cell| &cell.name).collect();
    assert_eq!(names.len(), cells.len());
    let scheme = Scheme { cc: "copa".into(), rate: Some("direct".into()) };
    for cell in &cells {
        let scenario = cell.scenario(&scheme).unwrap();
        assert_eq!(
            (scenario.flows[0].cc.as_str(), scenario.flows[0].choice().rate.as_str()),
            ("copa", "direct")
        );
        let reached = is_in_reach(&Terms::of(&scenario).unwrap());
        assert!(reached || cell.group != Group::Pairs, "{}", cell.name);
    }
    assert!((60..120).contains(&cells.len()), "{}", cells.len());
}

#[test]
fn a_scenario_file_takes_a_scheme() {
    let folder = std::env::temp_dir().join(format!("framewire-grid-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("call.toml"), CALL).unwrap();
    let cells = Cell::all(&folder).unwrap();
    let call = cells.last().unwrap();
    assert_eq!((call.name.as_str(), call.group), ("call", Group::Named));
    let scheme = Scheme { cc: "gcc".into(), rate: Some("webrtc".into()) };
    let flow = &call.scenario(&scheme).unwrap().flows[0];
    assert_eq!(
        (flow.cc.as_str(), flow.choice().rate.as_str(), flow.least()),
        ("gcc", "webrtc", units::Rate::from_kbps(100))
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_source_of_a_fixed_rate_is_exempt() {
    let cells = Cell::of_axes();
    let fixed = Scheme { cc: "fixed:rate=3mbit".into(), rate: Some("live".into()) };
    let (findings, spared) = hold(&cells[0], &fixed).unwrap();
    assert!(findings.is_empty() && spared.len() == 6);
    assert!(
        Scheme::all().iter().filter(|scheme| scheme.exempt().is_some()).all(|scheme| scheme.cc == "fixed")
    );
}

#[test]
fn another_seed_is_another_run_of_the_same_cell() {
    let scheme = Scheme { cc: "sqp".to_owned(), rate: Some("live".to_owned()) };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/beside");
    for cell in Cell::all(&folder).unwrap() {
        let seeded = Cell { seed: Some(7), ..cell.clone() };
        let (own, other) = (cell.scenario(&scheme).unwrap(), seeded.scenario(&scheme).unwrap());
        assert_eq!((own.seed, other.seed), (1, 7), "{}", cell.name);
        assert_eq!(own.duration, other.duration, "{}", cell.name);
    }
}
