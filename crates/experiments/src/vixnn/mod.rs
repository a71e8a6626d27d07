//! What formulas ask of ViXNN (Devdeep Ray's thesis, chapter 5) and of what it is held against.
//!
//! | function | gives |
//! |---|---|
//! | `vixnn_clips()` | the clips' names |
//! | `vixnn_loss(clip, codec)` | over the share of packets lost, in percent: curves `psnr`, `ssim`, `least_psnr`, `least_ssim` |
//! | `vixnn_errors(clip, codec)` | the same over the decimal logarithm of the bit error rate |
//! | `vixnn_clean(clip, codec)` | without losses: `psnr`, `ssim`, `least_psnr`, `least_ssim`, and `bpp` |
//! | `vixnn_series(clip, codec)` | at 5 % losses, by frame: curves `psnr`, `ssim`; `sharpest`, the deepest fall of SSIM from one frame to the next |
//! | `vixnn_once(clip, codec)` | each packet of frame 49 lost with a chance of one half: SSIM lacking in it and in each of the 30 after, and before it |
//! | `vixnn_vr(clip, codec)` | the VR profile, as `vixnn_clean`, and curves by frame |
//! | `vixnn_live(clip, network)` | receivers of 2, 4 and 8 descriptors of a sender whose rate varies: `psnr`, `ssim`, a list each |
//! | `vixnn_stills(set, codec)` | Kodak, `full` or fitted in 256x256 (`small`), over bits a pixel: curves `psnr`, `ssim` |
//! | `vixnn_leads(set, network, codec)` | what ViXNN has above the codec with 1 to 8 descriptors: lists `psnr`, `ssim`, `wins`, `both` |
//! | `vixnn_unscaled(network)` | the small set without scaling by N / N_d: `psnr`, `ssim` with 1 to 8 descriptors |
//! | `vixnn_look_back(clip, percent)` | what looking back gains at so many percent of packets lost: `psnr`, `ssim` |
//! | `vixnn_saved(clip, order)` | share of bytes that entropy coding saves in packets of `rows` or `permuted` blocks |
//! | `vixnn_few(network)` | the small set with 1 to 8 descriptors: `psnr`, `ssim`, `colour`, `off_levels` ([`objectives`]) |
//! | `vixnn_bpp(width, height, m)` | bits a pixel that packets with m descriptors carry |
//! | `vixnn_group_loss(p)` | equation 5.1 |
//!
//! Codecs' names: [`study`]. Every function looks at a clip once in a process.

mod beyond;
mod channel;
mod descriptors;
mod ffmpeg;
mod h264;
mod jpeg;
mod matroska;
mod objectives;
mod ours;
mod page;
mod pictures;
mod stills;
mod stream;
mod study;

use rhai::{Array, Dynamic, Engine, INT, Map};
use units::Rng;
use vixnn::packet::Order;

use crate::measure::{Answer, as_number, curve, floats, refuse};
use channel::Channel;
use pictures::Quality;
use study::{Codec, Summary, lacking, summary};

pub use page::{PageError, page};

/// Shares of packets lost (figure 5.5), in percent.
const LOSSES: [f64; 6] = [1.0, 2.0, 5.0, 10.0, 15.0, 20.0];
/// Decimal logarithms of bit error rates (figure 5.7).
const ERRORS: [f64; 7] = [-7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0];
/// Losses of figure 5.6.
const SERIES: Channel = Channel::Loss(0.05);
/// The frame that is struck once, the second of eight: long before the next key frame. Of ViXNN8 it is the
/// first of its eight frames.
const STRUCK: usize = 49;
/// Frames after it that are looked at.
const AFTER: usize = 30;
/// Descriptors that a sender's rate allows, for 50 frames each (ours: the thesis prints no figures), ...
const SENDER: [usize; 6] = [8, 6, 3, 5, 8, 4];
/// ... and those that receivers' rates allow.
const RECEIVERS: [usize; 3] = [2, 4, 8];

pub(crate) fn register(engine: &mut Engine) {
    engine.register_fn("vixnn_clips", || -> Array {
        pictures::clips().map(|name| Dynamic::from(name.to_owned())).collect()
    });
    engine.register_fn("vixnn_loss", |clip: &str, codec: &str| -> Answer<Map> {
        over(clip, codec, &LOSSES, |percent| Channel::Loss(percent / 100.0))
    });
    engine.register_fn("vixnn_errors", |clip: &str, codec: &str| -> Answer<Map> {
        over(clip, codec, &ERRORS, |exponent| Channel::Errors(10f64.powf(exponent)))
    });
    engine.register_fn("vixnn_clean", |clip: &str, codec: &str| -> Answer<Map> {
        let found = summary(clip, codec, Channel::PERFECT).or_else(refuse)?;
        let rate = Codec::parse(codec).and_then(|codec| codec.rate(clip)).or_else(refuse)?;
        Ok(numbers(&found).into_iter().chain([("bpp".into(), Dynamic::from_float(rate))]).collect())
    });
    engine.register_fn("vixnn_series", |clip: &str, codec: &str| series(clip, codec).or_else(refuse));
    engine.register_fn("vixnn_once", |clip: &str, codec: &str| -> Answer<Array> {
        let struck = |codec: &Codec| {
            let is_eight = matches!(codec, Codec::Descriptors { packing, .. } if packing.eight);
            if is_eight { STRUCK / descriptors::EIGHT * descriptors::EIGHT } else { STRUCK }
        };
        let found =
            Codec::parse(codec).and_then(|codec| lacking(clip, &codec, Channel::Once(struck(&codec))));
        let found = found.or_else(refuse)?;
        Ok(floats(found.into_iter().skip(STRUCK).take(AFTER + 1)))
    });
    engine.register_fn("vixnn_vr", |clip: &str, codec: &str| vr(clip, codec).or_else(refuse));
    engine.register_fn("vixnn_live", |clip: &str, network: &str| live(clip, network).or_else(refuse));
    engine.register_fn("vixnn_group_loss", |p: Dynamic| Answer::Ok(channel::group_loss(as_number(&p)?)));
    engine.register_fn("vixnn_bpp", |width: INT, height: INT, count: INT| -> Answer<f64> {
        let size = |side: INT| usize::try_from(side).ok().filter(|side| (16..=8192).contains(side));
        match (size(width), size(height), usize::try_from(count)) {
            (Some(width), Some(height), Ok(count @ 1..=8)) => {
                stills::bits_per_pixel(width, height, count).or_else(refuse)
            }
            _ => refuse("sides of 16 to 8192 pixels and 1 to 8 descriptors are wanted"),
        }
    });
    register_stills(engine);
    register_beyond(engine);
}

fn register_beyond(engine: &mut Engine) {
    engine.register_fn("vixnn_look_back", |clip: &str, percent: Dynamic| -> Answer<Map> {
        let [without, with] = beyond::looked_back(clip, as_number(&percent)? / 100.0).or_else(refuse)?;
        let gains = [("psnr", with.psnr - without.psnr), ("ssim", with.ssim - without.ssim)];
        Ok(gains.into_iter().map(|(name, gain)| (name.into(), Dynamic::from_float(gain))).collect())
    });
    engine.register_fn("vixnn_saved", |clip: &str, order: &str| -> Answer<f64> {
        let order = match order {
            "rows" => Order::Rows,
            "permuted" => Order::Permuted,
            _ => return refuse("an order is `rows` or `permuted`"),
        };
        beyond::saved(clip, order).or_else(refuse)
    });
}

fn register_stills(engine: &mut Engine) {
    engine.register_fn("vixnn_stills", |set: &str, codec: &str| -> Answer<Map> {
        let found = stills::curve(set, codec).or_else(refuse)?;
        let of = |of: fn(&Quality) -> f64| curve(found.iter().map(|(bpp, quality)| (*bpp, of(quality))));
        Ok(lists([("psnr", of(|quality| quality.psnr)), ("ssim", of(|quality| quality.ssim))]))
    });
    engine.register_fn("vixnn_leads", |set: &str, network: &str, other: &str| -> Answer<Map> {
        let found = stills::leads(set, network, other).or_else(refuse)?;
        let of = |of: &dyn Fn(&stills::Lead) -> f64| floats(found.iter().map(of));
        Ok(lists([
            ("psnr", of(&|lead| lead.psnr)),
            ("ssim", of(&|lead| lead.ssim)),
            ("wins", of(&|lead| lead.wins)),
            ("both", of(&|lead| lead.both)),
        ]))
    });
    engine.register_fn("vixnn_few", |network: &str| -> Answer<Map> {
        let found = objectives::few(network).or_else(refuse)?;
        let of = |of: fn(&objectives::Few) -> f64| floats(found.iter().map(of));
        Ok(lists([
            ("psnr", of(|few| few.psnr)),
            ("ssim", of(|few| few.ssim)),
            ("colour", of(|few| few.colour)),
            ("off_levels", of(|few| few.off_levels)),
        ]))
    });
    engine.register_fn("vixnn_unscaled", |network: &str| -> Answer<Map> {
        let found = stills::unscaled(network).or_else(refuse)?;
        Ok(lists([
            ("psnr", floats(found.iter().map(|quality| quality.psnr))),
            ("ssim", floats(found.iter().map(|quality| quality.ssim))),
        ]))
    });
}

fn lists<const N: usize>(named: [(&str, Array); N]) -> Map {
    named.into_iter().map(|(name, list)| (name.into(), Dynamic::from(list))).collect()
}

fn numbers(found: &Summary) -> Map {
    let named = [
        ("psnr", found.psnr),
        ("ssim", found.ssim),
        ("least_psnr", found.least_psnr),
        ("least_ssim", found.least_ssim),
    ];
    named.into_iter().map(|(name, number)| (name.into(), Dynamic::from_float(number))).collect()
}

/// A clip over channels of several strengths.
fn over(clip: &str, codec: &str, strengths: &[f64], channel: fn(f64) -> Channel) -> Answer<Map> {
    let each = strengths.iter().map(|&strength| Ok((strength, summary(clip, codec, channel(strength))?)));
    let each: Vec<(f64, Summary)> = each.collect::<Result<_, String>>().or_else(refuse)?;
    let of = |of: fn(&Summary) -> f64| curve(each.iter().map(|(strength, found)| (*strength, of(found))));
    Ok(lists([
        ("psnr", of(|found| found.psnr)),
        ("ssim", of(|found| found.ssim)),
        ("least_psnr", of(|found| found.least_psnr)),
        ("least_ssim", of(|found| found.least_ssim)),
    ]))
}

fn by_frame(qualities: &[Quality], of: fn(&Quality) -> f64) -> Array {
    curve(qualities.iter().enumerate().map(|(frame, quality)| (frame as f64, of(quality))))
}

fn series(clip: &str, codec: &str) -> Result<Map, String> {
    let codec = Codec::parse(codec)?;
    let lacks = lacking(clip, &codec, SERIES)?;
    let sharpest = lacks.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    let shown = codec.send(clip, SERIES, 1, &[])?.qualities;
    let mut map = lists([("psnr", by_frame(&shown, |q| q.psnr)), ("ssim", by_frame(&shown, |q| q.ssim))]);
    map.insert("sharpest".into(), Dynamic::from_float(sharpest));
    Ok(map)
}

fn vr(clip: &str, codec: &str) -> Result<Map, String> {
    let shown = Codec::parse(codec)?.send(clip, Channel::Vr, 1, &[])?.qualities;
    let mut map = numbers(&Summary::of(&shown));
    map.insert("psnr_curve".into(), by_frame(&shown, |q| q.psnr).into());
    map.insert("ssim_curve".into(), by_frame(&shown, |q| q.ssim).into());
    Ok(map)
}

fn live(clip: &str, network: &str) -> Result<Map, String> {
    let coded = descriptors::coded(clip, network)?;
    let each = RECEIVERS.map(|most| {
        let mut rng = Rng::stream(1, &format!("vixnn/live/{clip}/{most}"));
        let sent = |frame: usize| SENDER[frame / 50 % SENDER.len()].min(most);
        let received = coded.of_rate(sent, network.ends_with("svc"), &mut rng);
        Ok(Summary::of(&coded.shown(&received, &[])?.0))
    });
    let each: Vec<Summary> = each.into_iter().collect::<Result<_, String>>()?;
    Ok(lists([
        ("psnr", floats(each.iter().map(|found| found.psnr))),
        ("ssim", floats(each.iter().map(|found| found.ssim))),
    ]))
}
