//! Pictures of the video itself, where there are any: a frame of the worst second and one of a median one,
//! each beside its source.

use std::fmt::Write;

use media::{RawFrame, jpeg};

use crate::axis::short;
use crate::markup::{base64, escape};
use crate::{DETAILED, Subject};
use lab::run::Moment;

/// Of the JPEGs: at this, what the video's codec left out is far larger than what JPEG does.
const QUALITY: u8 = 80;

/// The pictures of the first few flows that have some.
pub(crate) fn render(subjects: &[Subject<'_>]) -> String {
    let with = subjects
        .iter()
        .filter_map(|subject| Some((subject, subject.run.stills.get(subject.index)?.as_ref()?)));
    let with: Vec<_> = with.collect();
    if with.is_empty() {
        return String::new();
    }
    let more = match with.len().saturating_sub(DETAILED) {
        0 => String::new(),
        _ => format!(" Of {} flows, the first {DETAILED}.", with.len()),
    };
    let mut out = format!(
        "<figure class=\"card\"><figcaption><h3>How it looked</h3><p>Source and shown frame, of the second with the lowest \
         mean PSNR (its worst frame) and of a median one (its first frame). Scaled down.{more}</p></figcaption>"
    );
    for (subject, stills) in with.into_iter().take(DETAILED) {
        let (class, label) = (subject.colour.class(), escape(&subject.label));
        let _ = write!(
            out,
            "<h4 class=\"{class}\"><i class=\"dot\"></i><span>{label}</span></h4><div class=\"stills\">"
        );
        out.push_str(&pair(&stills.worst, "Worst second", &subject.label));
        out.push_str(&pair(&stills.median, "Median second", &subject.label));
        out.push_str("</div>");
    }
    out.push_str("</figure>\n");
    out
}

fn pair(moment: &Moment, which: &str, label: &str) -> String {
    let still = &moment.still;
    let second = moment.begin.as_secs_f64();
    let caption = format!(
        "<b>{which}</b>, {} to {} s: {:.1} dB on average",
        short(second),
        short(second + 1.0),
        moment.mean_psnr
    );
    let frame = still.frame;
    let shown = format!(
        "shown by {}: frame {frame} at {:.2} s, {:.1} dB",
        escape(label),
        still.shown_at.as_secs_f64(),
        still.psnr
    );
    format!(
        "<div><p>{caption}</p>{}{}</div>",
        image(&still.source, &format!("source: frame {frame}")),
        image(&still.shown, &shown)
    )
}

/// The picture with its caption; `caption` is markup.
fn image(picture: &RawFrame, caption: &str) -> String {
    format!(
        "<figure><img width=\"{}\" height=\"{}\" alt=\"{caption}\" src=\"data:image/jpeg;base64,{}\"><figcaption>{caption}</figcaption></figure>",
        picture.width,
        picture.height,
        base64(&jpeg(picture, QUALITY))
    )
}
