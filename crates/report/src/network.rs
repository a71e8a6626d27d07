//! What was run: the link, what shared it, and which part of the time the figures are of.

use netsim::Loss;
use units::{Bytes, Span, Time};

use crate::RunView;
use crate::axis::{milliseconds, percent, rate, short};
use crate::markup::{escape, shortened};
use lab::run::queue_of;
use lab::scenario::{Cross, CrossKind, Link, Police, Scenario, Source};

/// Steps of a rate, outages and sources of cross traffic that are listed one by one; of more, the number is
/// given.
const LISTED: usize = 6;
/// Letters of a file's name.
const NAME: usize = 60;

/// The facts about the network as a list of terms. With `several` runs, their first flows differ in the
/// controller.
pub(crate) fn render(run: &RunView<'_>, several: bool) -> String {
    let facts = facts(run, several);
    let items: String =
        facts.iter().map(|(term, text)| format!("<dt>{term}</dt><dd>{}</dd>", escape(text))).collect();
    format!("<section class=\"network\"><h2>What was run</h2><dl>{items}</dl></section>\n")
}

fn facts(run: &RunView<'_>, several: bool) -> Vec<(&'static str, String)> {
    let scenario = run.scenario;
    let link: &Link = &scenario.link;
    let mut facts = if scenario.link.are_several() {
        links(run)
    } else {
        vec![
            ("Link", capacity(run, 0, link)),
            ("Delay", delay(link.delay.unwrap_or_default(), link)),
            ("Queue", queue_of(link).to_string()),
            ("Loss", losses(link)),
        ]
    };
    facts.extend([
        ("Way back", way_back(scenario)),
        ("Flows", flows(scenario, several)),
        ("Cross traffic", cross_traffic(scenario)),
        ("Figures", figures(scenario)),
    ]);
    facts.retain(|(_, text)| !text.is_empty());
    facts
}

/// Several links, a fact each.
fn links(run: &RunView<'_>) -> Vec<(&'static str, String)> {
    let one = |(index, link): (usize, &Link)| {
        let (capacity, queue) = (capacity(run, index, link), queue_of(link));
        let delay = delay(link.delay.unwrap_or_default(), link).replace(" each way", "");
        let losses = match losses(link) {
            none if none == NO_LOSS => String::new(),
            some => format!("; lost: {some}"),
        };
        ("Link", format!("{}: {capacity}, {delay}, queue {queue}{losses}", shortened(&link.name, NAME)))
    };
    run.scenario.link.iter().enumerate().map(one).collect()
}

/// Which of several links something passes.
fn through(scenario: &Scenario, path: Option<&[String]>) -> String {
    let names = scenario.link.names();
    let path: Vec<&str> =
        scenario.link.on(path).into_iter().filter_map(|link| Some(names.get(link)?.as_str())).collect();
    if path.is_empty() { String::new() } else { format!(" through {}", path.join(" → ")) }
}

fn figures(scenario: &Scenario) -> String {
    let whole = milliseconds(scenario.duration.as_millis_f64());
    if scenario.warmup.is_positive() {
        let warmup = milliseconds(scenario.warmup.as_millis_f64());
        return format!(
            "from {warmup} to {whole}: the warm-up of {warmup} is left out of them, but drawn in the charts"
        );
    }
    format!("of the whole run of {whole}, without a warm-up")
}

fn capacity(run: &RunView<'_>, index: usize, link: &Link) -> String {
    let scenario = run.scenario;
    let mahimahi = if link.mahimahi { ", played as Mahimahi does" } else { "" };
    if let Some(trace) = &link.trace {
        let name = trace.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let end = Time::ZERO + scenario.duration;
        let offered = run.rates[index].capacity(Time::ZERO, end).map_or(0, Bytes::get) as f64 * 8.0;
        let mean = rate(offered / scenario.duration.as_secs_f64());
        return format!("trace {}, {mean} on average in this run", shortened(&name, NAME));
    }
    if let Some(constant) = link.rate {
        let bucket = link.burst.map_or(String::new(), |burst| {
            let peak = link.peak.map_or("at once".to_owned(), |peak| format!("at {}", rate(peak.as_f64())));
            format!(", a token bucket of {} whose burst leaves {peak}", size(burst))
        });
        return format!("{}{bucket}{mahimahi}", rate(constant.as_f64()));
    }
    let steps = link.steps.iter().map(|(at, to)| {
        let at = if at.is_positive() { format!("from {} on ", seconds(*at)) } else { String::new() };
        format!("{at}{}", rate(to.as_f64()))
    });
    match listed(steps.collect(), "steps of its rate") {
        none if none.is_empty() => "without a limit".to_owned(),
        steps => format!("{steps}{mahimahi}"),
    }
}

fn delay(delay: Span, link: &Link) -> String {
    let way = milliseconds(delay.as_millis_f64());
    let jitter = milliseconds(link.jitter.as_millis_f64());
    let jitter =
        if link.jitter.is_positive() { format!(", with a jitter of {jitter}") } else { String::new() };
    format!("{way} each way{jitter}")
}

fn losses(link: &Link) -> String {
    let random = match link.loss.0 {
        Loss::None => None,
        Loss::Bernoulli(share) => Some(format!("{} at random", percent(share))),
        bursts @ Loss::GilbertElliott(_) => Some(format!("in bursts ({bursts})")),
    };
    let outages =
        link.blackout.iter().map(|(from, to)| format!("from {} to {}", seconds(*from), seconds(*to)));
    let outages = listed(outages.collect(), "outages");
    let twice = Some(link.duplicate.0).filter(|share| *share > 0.0);
    let policed = |police: Police| {
        format!("whatever exceeds {} and a burst of {}", rate(police.rate.as_f64()), size(police.burst))
    };
    let parts = [
        random,
        link.police.map(policed),
        Some(outages).filter(|text| !text.is_empty()).map(|text| format!("everything {text}")),
        twice.map(|share| format!("{} arrive twice", percent(share))),
        link.reorder.map(|held| {
            format!("{} are held back by {}", percent(held.share.0), milliseconds(held.delay.as_millis_f64()))
        }),
        link.mtu.0.last().map(|(_, most)| format!("packets above {} B", most.get())),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { NO_LOSS.to_owned() } else { parts.join("; ") }
}

const NO_LOSS: &str = "none but what the queue drops";

fn way_back(scenario: &Scenario) -> String {
    let Some(link) = &scenario.feedback else { return String::new() };
    let rate = link.rate.map_or(String::new(), |limit| format!("{}, ", rate(limit.as_f64())));
    let delay = match link.delay {
        None if scenario.link.are_several() => "as long as the path".to_owned(),
        some => delay(some.or(scenario.link.delay).unwrap_or_default(), link),
    };
    let lossy = link.loss.0 != Loss::None || !link.blackout.is_empty();
    let losses = if lossy { format!("; lost: {}", losses(link)) } else { String::new() };
    format!("{rate}{}{losses}, for each flow by itself", delay.replace(" each way", ""))
}

fn flows(scenario: &Scenario, several: bool) -> String {
    let policies = scenario.flows.iter().enumerate().map(|(index, flow)| {
        let (cc, choice) = (flow.cc.as_str(), flow.choice());
        if several && index == 0 {
            let rate = flow.video().and_then(|video| video.session.rate.as_ref());
            let rate = rate.map_or(String::new(), |rate| format!(", with the rate policy {rate}"));
            return format!("the controller compared{rate}");
        }
        let sends = match &flow.source {
            Source::Video(_) if choice.preset.is_some() => {
                format!("{cc} ({} with the rate policy {})", choice.controller, choice.rate)
            }
            Source::Video(_) => format!("{cc} with the rate policy {}", choice.rate),
            Source::Backlog(_) => format!("{cc} with always something to send"),
            Source::Tcp(_) => format!("{cc} over TCP"),
            Source::Quic(_) => format!("{cc} over QUIC"),
            Source::Smoltcp(_) => format!("{cc} over smoltcp"),
        };
        sends + &through(scenario, flow.path.as_deref())
    });
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for policy in policies {
        match kinds.iter_mut().find(|(kind, _)| *kind == policy) {
            Some((_, count)) => *count += 1,
            None => kinds.push((policy, 1)),
        }
    }
    let texts = kinds.into_iter().map(|(kind, count)| match count {
        1 => kind,
        count => format!("{count} times {kind}"),
    });
    listed(texts.collect(), "kinds")
}

fn cross_traffic(scenario: &Scenario) -> String {
    let one = |cross: &Cross| {
        let mean = cross.rate.map_or(String::new(), |mean| format!(" of {}", rate(mean.as_f64())));
        let kind = match cross.kind {
            CrossKind::Cbr => "a constant rate".to_owned(),
            CrossKind::Poisson => "Poisson arrivals".to_owned(),
            CrossKind::OnOff => "bursts".to_owned(),
            CrossKind::Listed => "packets at listed instants".to_owned(),
        };
        let from = Some(cross.start).filter(|start| start.is_positive());
        let from = from.map_or(String::new(), |start| format!(" from {}", seconds(start)));
        let to = cross.stop.map_or(String::new(), |stop| format!(" to {}", seconds(stop)));
        format!("{kind}{mean}{from}{to}{}", through(scenario, cross.path.as_deref()))
    };
    match scenario.cross.as_slice() {
        [] => "none".to_owned(),
        some => listed(some.iter().map(one).collect(), "sources"),
    }
}

/// All of `texts`, or how many there are of them.
fn listed(texts: Vec<String>, what: &str) -> String {
    if texts.len() > LISTED {
        return format!("{}, ... ({} {what})", texts[..LISTED / 2].join(", "), texts.len());
    }
    texts.join(", ")
}

fn seconds(span: Span) -> String {
    format!("{} s", short(span.as_secs_f64()))
}

fn size(bytes: Bytes) -> String {
    format!("{} kB", short(bytes.get() as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use lab::run::{RunOptions, run};

    fn told(link: &str, rest: &str) -> String {
        let flow = "[[flow]]\ncc = \"sqp\"\n";
        let text = format!("duration = \"3s\"\n{rest}\n[link]\n{link}\n{flow}");
        let outcome =
            run(&Scenario::parse(&text, Path::new("x.toml")).unwrap(), &RunOptions::default()).unwrap();
        let facts = facts(&RunView::of(&outcome), false);
        facts.iter().map(|(term, text)| format!("{term}: {text}\n")).collect()
    }

    #[test]
    fn the_network_is_told_in_full() {
        let text = told("rate = \"8mbit\"\ndelay = \"25ms\"", "warmup = \"1s\"");
        assert_eq!(
            text,
            "Link: 8 Mbit/s\nDelay: 25 ms each way\nQueue: droptail:120ms\nLoss: none but what the queue drops\n\
             Flows: sqp with the rate policy live\nCross traffic: none\n\
             Figures: from 1 s to 3 s: the warm-up of 1 s is left out of them, but drawn in the charts\n"
        );
        let rich = "steps = [[\"0s\", \"8mbit\"], [\"2s\", \"2mbit\"]]\ndelay = \"25ms\"\njitter = \"2ms\"\n\
                    loss = \"1%\"\nblackout = [[\"1s\", \"1.5s\"]]\nqueue = \"codel\"";
        let back =
            "[[cross]]\nkind = \"poisson\"\nrate = \"1mbit\"\nstart = \"1s\"\n[feedback]\nrate = \"1mbit\"\n";
        let text = told(rich, back);
        let expected = [
            "Link: 8 Mbit/s, from 2 s on 2 Mbit/s\n",
            "Delay: 25 ms each way, with a jitter of 2 ms\nQueue: codel\n",
            "Loss: 1 % at random; everything from 1 s to 1.5 s\n",
            "Way back: 1 Mbit/s, 25 ms, for each flow by itself\n",
            "Cross traffic: Poisson arrivals of 1 Mbit/s from 1 s\n",
            "of the whole run of 3 s, without a warm-up",
        ];
        for part in expected {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn long_lists_are_counted() {
        let many = (0..9).map(|i| format!("{i}")).collect();
        assert_eq!(listed(many, "steps"), "0, 1, 2, ... (9 steps)");
    }
}
