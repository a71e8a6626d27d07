//! What a scenario must satisfy beyond the shape of its fields.

mod links;

use cc::{OptionError, Options, Setup};
use quic::Congestion;
use session::preset::Choice;
use units::{Bytes, Rate, Span};

use super::error::Problem;
use super::{Control, Cross, CrossKind, Encoder, Flow, Link, Quic, Scenario, Session, Source, Video};

/// A day of virtual time: longer runs are a mistake in the unit.
const LONGEST: Span = Span::from_secs(86_400);
/// As many as `framewire bench scale` runs.
const MOST_FLOWS: usize = 1000;
/// Flows with those that a `count` stands for: each is two hosts and up to three links, and a simulated world
/// holds 32,768 of either.
const MOST_IN_ALL: usize = 10_000;
/// Controllers that a search compares with: more would take longer than they say.
const MOST_REFERENCES: usize = 16;
/// Anything faster overflows nanosecond arithmetic long before it is useful.
const FASTEST: Rate = Rate::from_mbps(1_000_000);

type Checked = Result<(), Problem>;

fn require(holds: bool, field: impl Into<String>, what: impl Into<String>) -> Checked {
    if holds { Ok(()) } else { Err(Problem::new(field, what)) }
}

/// Checks everything that can be checked without opening other files.
pub(super) fn check(scenario: &Scenario) -> Checked {
    let duration = scenario.duration;
    require(
        duration.is_positive() && duration <= LONGEST,
        "duration",
        format!("{duration} is not between 1ns and 24h (86400s)"),
    )?;
    require(
        scenario.warmup < duration,
        "warmup",
        format!("{} is not shorter than duration", scenario.warmup),
    )?;
    links::check(scenario)?;
    require(!scenario.flows.is_empty(), "flow", "a scenario needs at least one [[flow]] with a `cc`")?;
    for (what, count) in [("flow", scenario.flows.len()), ("cross", scenario.cross.len())] {
        require(count <= MOST_FLOWS, what, format!("{count} of them are more than {MOST_FLOWS}"))?;
    }
    let all: usize = scenario.flows.iter().map(|flow| usize::from(flow.count)).sum();
    require(
        all <= MOST_IN_ALL,
        "flow",
        format!("{all} of them, with what `count` says, are more than {MOST_IN_ALL}"),
    )?;
    for (i, flow) in scenario.flows.iter().enumerate() {
        check_flow(flow, duration, &format!("flow[{}]", i + 1))?;
        let twin = scenario.flows[..i].iter().any(|other| !flow.name.is_empty() && other.name == flow.name);
        require(
            !twin,
            format!("flow[{}].name", i + 1),
            format!("another flow is called `{}` too", flow.name),
        )?;
    }
    let references = scenario.score.reference.len();
    require(
        references <= MOST_REFERENCES,
        "score.reference",
        format!("{references} are more than {MOST_REFERENCES}; each is a run of its own for every network"),
    )?;
    scenario
        .cross
        .iter()
        .enumerate()
        .try_for_each(|(i, cross)| check_cross(cross, duration, &format!("cross[{}]", i + 1)))
}

fn check_link(link: &Link, at: &str) -> Checked {
    let given = [link.rate.is_some(), !link.steps.is_empty(), link.trace.is_some()];
    let given = given.into_iter().filter(|&is| is).count();
    require(given <= 1, at, "give one of `rate`, `steps` and `trace`, not several")?;
    if let Some(rate) = link.rate {
        let possible = rate > Rate::ZERO && rate <= FASTEST;
        require(
            possible,
            format!("{at}.rate"),
            "a rate lies between 1bit and 1000gbit (use blackout for silence)",
        )?;
    }
    check_mahimahi(link, at)?;
    check_buckets(link, at)?;
    check_steps(&link.steps, &format!("{at}.steps"))?;
    for (from, to) in &link.blackout {
        require(from < to, format!("{at}.blackout"), format!("[{from}, {to}] ends before it begins"))?;
    }
    check_mtu(&link.mtu.0, &format!("{at}.mtu"))?;
    let delays = [("delay", link.delay.unwrap_or_default()), ("jitter", link.jitter)];
    for (name, delay) in delays {
        let possible = delay <= Span::from_secs(60);
        require(possible, format!("{at}.{name}"), format!("{delay} is not at most 60s"))?;
    }
    Ok(())
}

fn check_mahimahi(link: &Link, at: &str) -> Checked {
    let plain = (link.rate.is_some() || !link.steps.is_empty()) && link.burst.is_none();
    require(
        !link.mahimahi || plain,
        format!("{at}.mahimahi"),
        "it plays a `rate` without `burst`, or `steps`",
    )
}

fn check_buckets(link: &Link, at: &str) -> Checked {
    if let Some(burst) = link.burst {
        check_burst(burst, &format!("{at}.burst"))?;
        require(
            link.rate.is_some(),
            format!("{at}.burst"),
            "a burst needs a `rate` that it exceeds for a while",
        )?;
    }
    if let Some(peak) = link.peak {
        let at = format!("{at}.peak");
        require(link.burst.is_some(), &at, "a peak rate needs a `burst` that leaves at it")?;
        require(
            link.rate <= Some(peak) && peak <= FASTEST,
            &at,
            "a peak rate lies between `rate` and 1000gbit",
        )?;
    }
    let Some(police) = link.police else { return Ok(()) };
    check_burst(police.burst, &format!("{at}.police.burst"))?;
    let possible = police.rate > Rate::ZERO && police.rate <= FASTEST;
    require(possible, format!("{at}.police.rate"), "a rate lies between 1bit and 1000gbit")
}

/// A full packet of Ethernet must fit, or nothing would ever pass; the end of netsim's token buckets is 1
/// GiB.
fn check_burst(burst: Bytes, at: &str) -> Checked {
    let possible = (1_500..=1 << 30).contains(&burst.get());
    require(possible, at, format!("{}B is not between 1500B and 1GiB", burst.get()))
}

fn check_mtu(steps: &[(Span, Bytes)], at: &str) -> Checked {
    for (_, size) in steps {
        // RFC 791: every link carries 68 bytes.
        let possible = (68..=65_535).contains(&size.get());
        require(possible, at, format!("{}B is not between 68B and 65535B", size.get()))?;
    }
    require(steps.is_sorted_by(|a, b| a.0 < b.0), at, "times do not increase")
}

fn check_steps(steps: &[(Span, Rate)], at: &str) -> Checked {
    let Some(first) = steps.first() else { return Ok(()) };
    require(first.0 == Span::ZERO, at, format!("the first step is at {}, not at 0s", first.0))?;
    for pair in steps.windows(2) {
        require(pair[0].0 < pair[1].0, at, format!("{} does not come after {}", pair[1].0, pair[0].0))?;
    }
    require(steps.iter().all(|(_, rate)| *rate <= FASTEST), at, "a rate lies below 1000gbit")
}

fn check_flow(flow: &Flow, duration: Span, at: &str) -> Checked {
    check_times(flow.start, flow.stop, duration, at)?;
    let last = flow.start + flow.start_spread + flow.every * i64::from(flow.count.saturating_sub(1));
    require(flow.count > 0, format!("{at}.count"), "0; a flow stands for one or more")?;
    let late =
        format!("the last of {} starts at {last}, not before the end of the run ({duration})", flow.count);
    require(last < duration, format!("{at}.count"), late)?;
    let least = flow.least();
    require(least > Rate::ZERO, format!("{at}.min"), "the lowest rate is not above zero")?;
    require(flow.max <= FASTEST, format!("{at}.max"), "the highest rate is not below 1000gbit")?;
    let ordered = least <= flow.initial && flow.initial <= flow.max;
    require(ordered, format!("{at}.initial"), "min <= initial <= max does not hold")?;
    let drift = flow.clock_drift_ppm;
    require(
        drift.is_finite() && drift.abs() <= 10_000.0,
        format!("{at}.clock_drift_ppm"),
        format!("{drift} is not between -10000 and 10000"),
    )?;
    let extra = flow.extra_delay;
    require(
        extra <= Span::from_secs(60),
        format!("{at}.extra_delay"),
        format!("{extra} is not at most 60s"),
    )?;
    let choice = flow.choice();
    let unnamed = format!("{} is for video; name a congestion controller such as \"cubic\"", flow.cc);
    let over_session = flow.source.session().is_some();
    require(over_session || choice.preset.is_none(), format!("{at}.cc"), unnamed)?;
    check_controller(&choice.controller, &format!("{at}.cc"))?;
    match &flow.source {
        Source::Video(video) => {
            check_session(&video.session, &choice, at)?;
            check_video(video, &choice, at)
        }
        Source::Backlog(session) => check_session(session, &choice, at),
        Source::Tcp(tcp) => check_bunch(tcp.bunch, at),
        Source::Quic(quic) => check_quic(flow, quic, at),
        Source::Smoltcp(smoltcp) => {
            check_datagram(smoltcp.mtu, at)?;
            let cc = flow.cc.parse::<smol::Control>();
            cc.map(drop).map_err(|error| Problem::new(format!("{at}.cc"), error))
        }
    }
}

fn check_datagram(mtu: Bytes, at: &str) -> Checked {
    let possible = (128..=1472).contains(&mtu.get());
    require(possible, format!("{at}.mtu"), format!("{}B is not between 128B and 1472B", mtu.get()))
}

fn check_bunch(bunch: u32, at: &str) -> Checked {
    require((1..=64).contains(&bunch), format!("{at}.bunch"), format!("{bunch} is not between 1 and 64"))
}

fn check_feedback(packets: Option<u32>, at: String) -> Checked {
    let sensible = packets.is_none_or(|packets| (1..=1024).contains(&packets));
    require(sensible, at, "packets between 1 and 1024")
}

/// Whether there is such a policy, and whether it takes the options.
fn check_policy<T>(built: Result<T, OptionError>, at: String) -> Checked {
    built.map(drop).map_err(|error| Problem::new(at, error.to_string()))
}

fn check_session(session: &Session, choice: &Choice, at: &str) -> Checked {
    check_datagram(session.mtu, at)?;
    check_bunch(session.bunch, at)?;
    check_feedback(session.feedback_padding, format!("{at}.feedback_padding"))?;
    let rate = choice.rate.parse().and_then(|options| session::rate::build(&options));
    check_policy(rate, format!("{at}.rate"))
}

fn check_video(video: &Video, choice: &Choice, at: &str) -> Checked {
    check_feedback(video.feedback_packets, format!("{at}.feedback_packets"))?;
    for (name, span) in [("deadline", video.deadline), ("patience", video.patience)] {
        let possible = span.is_none_or(|span| span.is_positive() && span <= Span::from_secs(60));
        let span = span.unwrap_or_default();
        require(possible, format!("{at}.{name}"), format!("{span} is not between 1ns and 60s"))?;
    }
    let most = Span::from_secs(60);
    let why = format!("{} is more than {most}", video.decode_time);
    require(video.decode_time <= most, format!("{at}.decode_time"), why)?;
    let why = "only slices can be missing one by one: set encoder = { kind = \"h264\", slices = true }, or kind = \"vixnn\"";
    require(!video.conceal || video.encoder.has_slices(), format!("{at}.conceal"), why)?;
    check_pauses(&video.pause, &format!("{at}.pause"))?;
    let playout = video.playout.parse().and_then(|options| session::playout::build(&options));
    check_policy(playout, format!("{at}.playout"))?;
    check_policy(session::recovery::build(&choice.recovery), format!("{at}.recovery"))?;
    let strategy = session::strategy::build(&choice.strategy, &choice.recovery);
    check_policy(strategy, format!("{at}.strategy"))?;
    check_encoder(&video.encoder, &format!("{at}.encoder"))
}

fn check_pauses(pauses: &[(Span, Span)], at: &str) -> Checked {
    for (from, to) in pauses {
        require(from < to, at, format!("[{from}, {to}] ends before it begins"))?;
    }
    let apart = pauses.is_sorted_by(|one, next| one.1 < next.0);
    require(apart, at, "each pause begins after the one before has ended")
}

/// What a flow of QUIC's can't have.
fn check_quic(flow: &Flow, quic: &Quic, at: &str) -> Checked {
    check_datagram(quic.mtu, at)?;
    let mtu = quic.mtu.get();
    // RFC 9000 section 14: no path of QUIC's carries less.
    require(mtu >= 1200, format!("{at}.mtu"), format!("{mtu}B is below the 1200B that QUIC needs"))?;
    if quic.control == Control::Quinn {
        let known = quic::simulated::QUINNS.contains(&flow.cc.as_str());
        let what = format!("quinn brings {}, without options", quic::simulated::QUINNS.join(", "));
        return require(known, format!("{at}.cc"), what);
    }
    let runs = Congestion::with(&flow.cc, Setup::default());
    runs.map(drop).map_err(|error| Problem::new(format!("{at}.cc"), error.to_string()))
}

/// Whether there is such a controller, and whether it takes the options.
fn check_controller(cc: &str, at: &str) -> Checked {
    let built = cc.parse::<Options>().and_then(|options| cc::build(&options, &Setup::default()));
    check_policy(built, at.to_owned())
}

fn check_encoder(encoder: &Encoder, at: &str) -> Checked {
    let numbers = [
        ("fps", encoder.fps, 1.0, 240.0),
        ("bias", encoder.bias, 0.001, 100.0),
        ("overshoot", encoder.overshoot, 0.0, 1_000.0),
        ("undershoot", encoder.undershoot, 0.0, 1.0),
        ("content", encoder.content, 0.0, 10.0),
        ("noise", encoder.noise, 0.0, 10.0),
        ("key_ratio", encoder.key_ratio, 0.001, 1_000.0),
    ];
    for (name, value, low, high) in numbers {
        let possible = value.is_none_or(|value| (low..=high).contains(&value));
        let what = format!("{} is not between {low} and {high}", value.unwrap_or_default());
        require(possible, format!("{at}.{name}"), what)?;
    }
    for (from, to, _) in &encoder.cap {
        require(from < to, format!("{at}.cap"), format!("[{from}, {to}] ends before it begins"))?;
    }
    let times = [
        ("latency", encoder.latency),
        ("lag", encoder.lag),
        ("lag_up", encoder.lag_up),
        ("lag_down", encoder.lag_down),
    ];
    for (name, span) in times {
        let span = span.unwrap_or_default();
        require(span <= Span::from_secs(10), format!("{at}.{name}"), format!("{span} is not at most 10s"))?;
    }
    encoder.check_options(at)?;
    encoder.check_table(at)
}

fn check_cross(cross: &Cross, duration: Span, at: &str) -> Checked {
    check_times(cross.start, cross.stop, duration, at)?;
    let listed = cross.kind == CrossKind::Listed;
    require(
        listed == cross.instants.is_some(),
        format!("{at}.instants"),
        "a file of instants belongs to kind \"listed\", and to no other",
    )?;
    require(listed != cross.rate.is_some(), format!("{at}.rate"), "every kind but \"listed\" has a rate")?;
    let possible = cross.rate.is_none_or(|rate| rate > Rate::ZERO && rate <= FASTEST);
    require(possible, format!("{at}.rate"), "a rate lies between 1bit and 1000gbit")?;
    let size = cross.size.get();
    require(
        (28..=1500).contains(&size),
        format!("{at}.size"),
        format!("{size}B is not between 28B and 1500B"),
    )?;
    for (name, span) in [("on", cross.on), ("off", cross.off)] {
        require(span.is_positive(), format!("{at}.{name}"), "a mean length is not zero")?;
    }
    Ok(())
}

fn check_times(start: Span, stop: Option<Span>, duration: Span, at: &str) -> Checked {
    let late = format!("{start} is not before the end of the run ({duration})");
    require(start < duration, format!("{at}.start"), late)?;
    let stop = stop.unwrap_or(duration);
    require(start < stop, format!("{at}.stop"), format!("{stop} is not after start ({start})"))
}

#[cfg(test)]
mod tests {
    use super::super::*;

    const BASE: &str = "\
duration = \"10s\"

[link]
rate = \"20mbit\"
delay = \"20ms\"

[[flow]]
cc = \"sqp\"
";

    fn refusal(text: &str) -> String {
        Scenario::parse(text, Path::new("x.toml")).expect_err("should be refused").to_string()
    }

    /// The error of the base scenario with one line replaced (or, with an empty `old`, added at the end).
    fn with(old: &str, new: &str) -> String {
        refusal(&if old.is_empty() { format!("{BASE}{new}\n") } else { BASE.replace(old, new) })
    }

    #[test]
    fn the_smallest_scenario_has_sane_defaults() {
        let scenario = Scenario::parse(BASE, Path::new("dir/first.toml")).unwrap();
        assert_eq!((scenario.name.as_str(), scenario.seed), ("first", 1));
        let flow = &scenario.flows[0];
        assert_eq!((flow.name.as_str(), flow.source.name()), ("sqp", "video"));
        assert_eq!(flow.video().unwrap().session.mtu.get(), 1200);
        assert_eq!(scenario.beside(Path::new("a.trace")), Path::new("dir/a.trace"));
    }

    #[test]
    fn errors_name_line_field_and_what_is_accepted() {
        assert_eq!(
            with("20mbit", "20"),
            "x.toml:4: link.rate: `20` is not a rate such as 800kbit, 20mbit or 1.5gbit"
        );
        assert_eq!(
            with("\"20ms\"", "20"),
            "x.toml:5: link.delay: invalid type: integer `20`, expected a time such as 250us, 20ms, 1.5s or 2min"
        );
        let unknown = with("delay =", "dealy =");
        assert!(
            unknown.starts_with("x.toml:5: link.dealy: unknown field `dealy`; did you mean `delay`?"),
            "{unknown}"
        );
        assert_eq!(
            with("", "source = \"movie\""),
            "x.toml:9: flow[1].source: unknown variant `movie`; there are video, backlog, tcp, quic, smoltcp"
        );
        assert_eq!(
            with("", "source = \"quic\"\nmtu = \"1000B\""),
            "x.toml:10: flow[1].mtu: 1000B is below the 1200B that QUIC needs"
        );
        let unsuitable = with("", "source = \"quic\"");
        assert!(
            unsuitable
                .starts_with("x.toml:8: flow[1].cc: sqp does not run under QUIC: it learns from frames"),
            "{unsuitable}"
        );
        assert_eq!(
            with("cc = \"sqp\"", "cc = \"copa\"\nsource = \"quic\"\ncontrol = \"quinn\""),
            "x.toml:8: flow[1].cc: quinn brings newreno, cubic, bbr, without options"
        );
        assert_eq!(
            with("cc = \"sqp\"", "cc = \"bbr\"\nsource = \"smoltcp\""),
            "x.toml:8: flow[1].cc: smoltcp brings newreno and cubic, without options"
        );
        assert!(
            with("cc = \"sqp\"", "cc = \"cubic\"\nsource = \"smoltcp\"\nworkload = \"pages\"")
                .contains("flow[1].workload: a flow with source = \"smoltcp\"")
        );
        assert_eq!(
            with("", "control = \"quinn\""),
            "x.toml:9: flow[1].control: only flows with source = \"quic\" have it, and this one's is \"video\": remove \
             it, or change `source`"
        );
        assert_eq!(
            with("", "[flow.encoder]\nfps = 1000.0"),
            "x.toml:10: flow[1].encoder.fps: 1000 is not between 1 and 240"
        );
        assert_eq!(
            with("[link]", "[link]\nloss = 1.5"),
            "x.toml:4: link.loss: invalid value: floating point `1.5`, \
             expected a loss such as 0.02, \"2%\" or \"ge:loss=3%,burst=4\""
        );
    }

    #[test]
    fn names_from_other_rooms_are_checked_too() {
        let unknown = with("\"sqp\"", "\"bbr9\"");
        let expected =
            "x.toml:8: flow[1].cc: no congestion controller is called `bbr9`; did you mean `bbr`, `bbr2` or";
        assert!(unknown.starts_with(expected), "{unknown}");
        assert!(
            with("\"sqp\"", "\"sqp:tarjet=1\"")
                .starts_with("x.toml:8: flow[1].cc: sqp has no option `tarjet`")
        );
        let queue = with("[link]", "[link]\nqueue = \"blue:3p\"");
        assert!(
            queue.starts_with("x.toml:4: link.queue: `blue:3p` is not a queue; accepted: droptail:100p, drophead:100p, infinite"),
            "{queue}"
        );
        let loss = with("[link]", "[link]\nloss = \"some\"");
        assert!(
            loss.starts_with("x.toml:4: link.loss: `some` is not a loss process; accepted: none"),
            "{loss}"
        );
        let table = with("", "[flow.encoder]\ntable = \"x\"");
        assert!(table.starts_with("x.toml:10: flow[1].encoder.table: no table is called `x`; there are "));
    }

    #[test]
    fn losses_and_packet_limits_read_in_every_form() {
        let link = |line: &str| {
            let text = BASE.replace("[link]", &format!("[link]\n{line}"));
            Scenario::parse(&text, Path::new("x.toml")).unwrap().link
        };
        assert_eq!(link("loss = 0.02").loss.0, netsim::Loss::Bernoulli(0.02));
        assert_eq!(link("loss = \"2%\"").loss.0, netsim::Loss::Bernoulli(0.02));
        assert!(matches!(link("loss = \"ge:loss=3%,burst=4\"").loss.0, netsim::Loss::GilbertElliott(_)));
        assert_eq!(link("mtu = \"1280B\"").mtu.0, [(Span::ZERO, Bytes::new(1280))]);
        let steps = &link("mtu = [[\"0s\", \"1500B\"], [\"9s\", \"1000B\"]]").mtu.0;
        assert_eq!(steps[1], (Span::from_secs(9), Bytes::new(1000)));
    }

    #[test]
    fn contradictions_are_found() {
        assert_eq!(
            with("[link]", "[link]\ntrace = \"a\""),
            "x.toml:3: link: give one of `rate`, `steps` and `trace`, not several"
        );
        assert_eq!(
            with("[link]", "[link]\nmahimahi = true\nburst = \"3kB\""),
            "x.toml:4: link.mahimahi: it plays a `rate` without `burst`, or `steps`"
        );
        assert_eq!(
            with("[link]", "[link]\nburst = \"100B\""),
            "x.toml:4: link.burst: 100B is not between 1500B and 1GiB"
        );
        assert_eq!(
            with("rate = \"20mbit\"", "burst = \"3kB\""),
            "x.toml:4: link.burst: a burst needs a `rate` that it exceeds for a while"
        );
        assert_eq!(
            with("[link]", "[link]\npeak = \"30mbit\""),
            "x.toml:4: link.peak: a peak rate needs a `burst` that leaves at it"
        );
        assert_eq!(
            with("[link]", "[link]\npolice = { rate = \"0bit\", burst = \"3kB\" }"),
            "x.toml:4: link.police.rate: a rate lies between 1bit and 1000gbit"
        );
        assert_eq!(
            with("rate = \"20mbit\"", "steps = [[\"1s\", \"5mbit\"]]"),
            "x.toml:4: link.steps: the first step is at 1s, not at 0s"
        );
        assert_eq!(
            with("rate = \"20mbit\"", "steps = [[\"0s\", \"5mbit\"],\n [\"0s\", \"5kbit\"]]"),
            "x.toml:4: link.steps: 0ns does not come after 0ns"
        );
        assert_eq!(
            with("", "start = \"12s\""),
            "x.toml:9: flow[1].start: 12s is not before the end of the run (10s)"
        );
        assert_eq!(
            with("", "min = \"5mbit\""),
            "x.toml:7: flow[1].initial: min <= initial <= max does not hold"
        );
        assert_eq!(
            with("", "name = \"a\"\n[[flow]]\ncc = \"fixed\"\nname = \"a\""),
            "x.toml:12: flow[2].name: another flow is called `a` too"
        );
        assert_eq!(
            with("", "[[cross]]\nkind = \"listed\""),
            "x.toml:9: cross[1].instants: a file of instants belongs to kind \"listed\", and to no other"
        );
        assert_eq!(
            with("", "count = 9999\n[[flow]]\ncc = \"fixed\"\ncount = 2"),
            "x.toml:7: flow: 10001 of them, with what `count` says, are more than 10000"
        );
        assert_eq!(
            with("", "[[cross]]\nkind = \"cbr\""),
            "x.toml:9: cross[1].rate: every kind but \"listed\" has a rate"
        );
        assert_eq!(
            with("delay = \"20ms\"", ""),
            "x.toml:3: link: missing field `delay` (one way, such as \"20ms\")"
        );
    }

    #[test]
    fn broken_toml_is_one_line() {
        for text in ["duration = \"10s", "[link\n", "a = 1\na = 2", "\u{0}", "duration = \"10s\"\n[[flow"] {
            let message = refusal(text);
            assert!(message.starts_with("x.toml:") && !message.contains('\n'), "{message:?}");
        }
        assert!(refusal("").contains("missing field"), "{}", refusal(""));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Scenario::load(Path::new("/no/such.toml")).unwrap_err().to_string();
        assert!(error.starts_with("/no/such.toml: "), "{error}");
    }

    #[test]
    fn flows_of_one_controller_are_numbered_and_with_cc_renames() {
        let text = format!("{BASE}[[flow]]\ncc = \"sqp:target=0.8\"\n[[flow]]\ncc = \"fixed\"\n");
        let scenario = Scenario::parse(&text, Path::new("x.toml")).unwrap();
        let names: Vec<&str> = scenario.flows.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["sqp", "sqp-2", "fixed"]);
        let changed = scenario.with_cc("newreno").unwrap();
        assert_eq!((changed.flows[0].cc.as_str(), changed.flows[0].name.as_str()), ("newreno", "newreno"));
        assert_eq!(changed.flows[1], scenario.flows[1]);
        assert_eq!(Scenario::parse(&changed.text, Path::new("x.toml")).unwrap().flows, changed.flows);
        assert_eq!(scenario.with_cc("fixed").unwrap().flows[0].name, "fixed-2");
        assert!(scenario.with_cc("bbr9").is_err());
    }

    mod any_text {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn never_panics(text in "[a-z\\[\\]=\" \\n0-9.{},#]{0,200}") {
                let _ = Scenario::parse(&text, Path::new("x.toml"));
            }

            #[test]
            fn one_changed_byte_never_panics(at in 0usize..90, byte in 32u8..127) {
                let mut bytes = BASE.as_bytes().to_vec();
                let at = at % bytes.len();
                bytes[at] = byte;
                let text = String::from_utf8(bytes).expect("ascii");
                if let Err(error) = Scenario::parse(&text, Path::new("x.toml")) {
                    prop_assert!(!error.to_string().contains('\n'));
                }
            }
        }
    }
}
