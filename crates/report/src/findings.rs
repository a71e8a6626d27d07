//! What the data says, in sentences.

use units::Time;

use crate::axis::{milliseconds, percent, rate, short};
use crate::markup::escape;
use crate::{ReportData, Subject};
use lab::summary::{FlowSummary, LinkSummary, NamedLink};

/// Subjects up to which each gets sentences of its own.
const EACH: usize = 4;
/// Two delays count as different from this ratio on.
const WORTH_SAYING: f64 = 1.15;
/// An encoder that codes less than this share of what it was asked for is worth a sentence. Ours: at a fixed
/// rate the codecs are within a few per cent of theirs.
const UNDERSHOT: f64 = 0.8;
/// A wait for the first frame that is worth a sentence.
const LONG_WAIT_MS: f64 = 1_000.0;

pub(crate) fn render(data: &ReportData<'_>, subjects: &[Subject<'_>]) -> String {
    let mut sentences = Vec::new();
    if data.runs.len() > 1 {
        sentences.extend(contrast(subjects));
    }
    if subjects.len() <= EACH {
        sentences.extend(subjects.iter().map(|s| format!("{} {}", named(s), about(s))));
    }
    sentences.extend(about_links(data));
    let items: String = sentences.iter().map(|sentence| format!("<li>{sentence}</li>")).collect();
    format!("<section class=\"findings\"><h2>In short</h2><ul>{items}</ul></section>\n")
}

fn about(subject: &Subject<'_>) -> String {
    let flow = subject.summary;
    let mut text = match &flow.frame_delay_ms {
        Some(delay) => format!(
            "showed half of the frames within {} and 99&nbsp;% within {}",
            milliseconds(delay.p50),
            milliseconds(delay.p99)
        ),
        None if subject.is_video() => format!("showed none of its {} frames", flow.frames.captured),
        None => {
            format!("received {} and half of its packets within {}", rate(flow.throughput_bps), owd(flow))
        }
    };
    if let Some(bitrate) = &flow.bitrate_bps {
        text += &format!(", at {} of video", rate(bitrate.mean));
    }
    if let (Some(ssim), Some(source)) = (&flow.ssim, flow.quality) {
        let by = match source {
            "measured" => "",
            "model" => " by the encoder model",
            _ => " by the encoder&rsquo;s word",
        };
        text += &format!(" with a mean SSIM of {:.3}{by}", ssim.mean);
    }
    text += ". ";
    text + evenness(subject).as_str() + of_encoder(subject).unwrap_or_default().as_str()
}

/// An encoder that codes far less than it is asked for decides the quality in its controller's place.
fn of_encoder(subject: &Subject<'_>) -> Option<String> {
    let from = Time::ZERO + subject.run.scenario.warmup;
    let seconds = subject.interval.as_secs_f64();
    let coded = subject.record.captured().filter(|(at, frame)| *at >= from && frame.encoded.is_some());
    let (bits, asked, frames) = coded.fold((0.0, 0.0, 0.0), |(bits, asked, frames), (_, frame)| {
        (bits + f64::from(frame.size) * 8.0, asked + frame.target.as_f64() * seconds, frames + 1.0)
    });
    let whole = seconds * frames;
    (bits < UNDERSHOT * asked).then(|| {
        format!(
            " Its encoder coded {} where {} was asked of it: the quality is the encoder&rsquo;s, not the controller&rsquo;s.",
            rate(bits / whole),
            rate(asked / whole)
        )
    })
}

fn owd(flow: &FlowSummary) -> String {
    flow.owd_ms.map_or_else(|| "no time at all".to_owned(), |delay| milliseconds(delay.p50))
}

/// Stalls and missing frames.
fn evenness(subject: &Subject<'_>) -> String {
    let flow = subject.summary;
    let Some(stalls) = &flow.stalls else {
        return match (flow.packets.lost, flow.loss) {
            (Some(0), _) => "It lost nothing.".to_owned(),
            (Some(lost), Some(loss)) => format!("It lost {lost} packets ({}).", percent(loss)),
            _ => String::new(),
        };
    };
    if flow.frames.displayed == 0 {
        return format!("That is one stall of {}.", milliseconds(stalls.total_s * 1e3));
    }
    let total = milliseconds(stalls.total_s * 1e3);
    let stalls = match stalls.count {
        0 => "No stall".to_owned(),
        1 => format!("One stall, of {}", milliseconds(stalls.longest_ms)),
        n => format!("{n} stalls, {total} in all"),
    };
    let waited = flow.first_frame_ms.filter(|&waited| waited >= LONG_WAIT_MS);
    let waited = waited.map_or(String::new(), |waited| {
        format!(" Its first frame was shown {} after it was captured.", milliseconds(waited))
    });
    format!("{stalls}; {}.{waited}", shown(subject))
}

/// How many frames were shown.
fn shown(subject: &Subject<'_>) -> String {
    let frames = &subject.summary.frames;
    let under_way = frames.captured - subject.expected_frames();
    match (subject.expected_frames().saturating_sub(frames.displayed), under_way) {
        (0, 0) => "every frame was shown".to_owned(),
        (0, 1) => {
            format!("all but one of {} frames were shown, and that was under way at the end", frames.captured)
        }
        (0, n) => format!(
            "all but {n} of {} frames were shown, and those were under way at the end",
            frames.captured
        ),
        (1, _) => format!("one of {} frames was not shown", frames.captured),
        (n, _) => format!("{n} of {} frames were not shown", frames.captured),
    }
}

/// The best and the worst of a comparison, if they differ.
fn contrast(subjects: &[Subject<'_>]) -> Option<String> {
    let delay = |s: &Subject<'_>| s.summary.frame_delay_ms.map(|d| d.p90);
    let mut ranked: Vec<(f64, &Subject<'_>)> = subjects.iter().filter_map(|s| Some((delay(s)?, s))).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (best, worst) = (ranked.first()?, ranked.last()?);
    let ratio = worst.0 / best.0;
    (ratio >= WORTH_SAYING).then(|| {
        format!(
            "Nine in ten frames took at most {} with {}, {} with {}: {} times as long.",
            milliseconds(best.0),
            named(best.1),
            milliseconds(worst.0),
            named(worst.1),
            short(ratio)
        )
    })
}

fn named(subject: &Subject<'_>) -> String {
    format!("<b class=\"{}\">{}</b>", subject.colour.class(), escape(&subject.label))
}

fn about_links(data: &ReportData<'_>) -> Vec<String> {
    let [run] = data.runs.as_slice() else { return Vec::new() };
    let summary = run.summary;
    if summary.links.is_empty() {
        let jain = summary.jain.map(|jain| (summary.flows.len(), jain.mean));
        return about_link("the link", &summary.link, jain).into_iter().collect();
    }
    let named = |link: &NamedLink| about_link(&format!("link {}", escape(&link.name)), &link.figures, None);
    summary.links.iter().filter_map(named).collect()
}

/// What is said of a link; where all flows shared it, how many, and how fairly.
fn about_link(which: &str, link: &LinkSummary, shared: Option<(usize, f64)>) -> Option<String> {
    let used = link.utilization?;
    let mut text = format!("{} of {which} was used", percent(used.min(1.0)));
    if let Some(queue) = &link.queue_ms {
        text += &format!(
            "; packets spent {} in it at the median, {} at the 99th percentile",
            milliseconds(queue.p50),
            milliseconds(queue.p99)
        );
    }
    if let Some((flows, jain)) = shared {
        text += &format!(". {flows} flows shared it with a Jain index of {jain:.3}");
    }
    text += &match link.dropped {
        0 => ". It dropped nothing.".to_owned(),
        n => format!(
            ". It dropped {n} packets{}.",
            link.loss.map_or(String::new(), |loss| format!(" ({})", percent(loss)))
        ),
    };
    Some(text)
}
