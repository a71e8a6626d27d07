//! What goes beyond the thesis: looking back, and entropy coding.

use units::Rng;
use vixnn::packet::{Order, cut, cut_coded};
use vixnn::{DESCRIPTORS, Temporal};

use super::channel::Channel;
use super::descriptors::{Packing, coded};
use super::stream::PAYLOAD;
use super::study::Summary;

/// The network that both are measured with.
const NETWORK: &str = "0.3";
const ROWS: Packing = Packing { eight: false, permuted: false };

/// A clip with a share of its packets lost, without and with looking back.
pub(super) fn looked_back(clip: &str, lost: f64) -> Result<[Summary; 2], String> {
    let coded = coded(clip, NETWORK)?;
    let mut rng = Rng::stream(1, &format!("vixnn/beyond/{clip}/{lost}"));
    let received = coded.received(ROWS, Channel::Loss(lost), &mut rng)?;
    let mut temporal = Temporal::default();
    let refined: Vec<_> = received.iter().map(|received| temporal.refine(received)).collect();
    let [(without, _), (with, _)] = [coded.shown(&received, &[])?, coded.shown(&refined, &[])?];
    Ok([Summary::of(&without), Summary::of(&with)])
}

/// Share of a clip's bytes, headers counted, that entropy coding saves in packets of this order.
pub(super) fn saved(clip: &str, order: Order) -> Result<f64, String> {
    let coded = coded(clip, NETWORK)?;
    let bytes = |packets: Vec<Vec<u8>>| packets.iter().map(Vec::len).sum::<usize>() as f64;
    let (mut plain, mut short) = (0.0, 0.0);
    for frame in coded.frames() {
        plain += bytes(cut(frame, 0, DESCRIPTORS, order, PAYLOAD));
        short += bytes(cut_coded(frame, 0, DESCRIPTORS, order, PAYLOAD));
    }
    Ok(1.0 - short / plain)
}
