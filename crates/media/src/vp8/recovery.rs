//! Kept references for real: what is lost costs one predicted frame, and decoding goes on exactly.

use proptest::prelude::*;

use super::tests::whole;
use super::*;
use crate::testing::{ask, encode, game, payload};
use crate::{Peer, Source, quality};

/// A stream, one decoder that gets all of it, and one that gets what is not lost.
struct Link {
    encoder: Vp8Encoder,
    intact: Vp8Decoder,
    damaged: Vp8Decoder,
    source: Box<dyn Source>,
    next: u32,
}

impl Link {
    fn new(config: Vp8Config) -> Link {
        let source = Box::new(game(config.width, config.height, 1));
        let [intact, damaged] = [(); 2].map(|()| Vp8Decoder::new().unwrap());
        Link { encoder: Vp8Encoder::new(config).unwrap(), intact, damaged, source, next: 0 }
    }

    /// Codes the next picture; its PSNR as it is meant to be, in dB, and whether the damaged decoder, if it
    /// is to decode it, sees the very same picture.
    fn pass(&mut self, peer: Peer, arrives: impl FnOnce(&Coded) -> bool) -> (Coded, f64, Option<bool>) {
        let picture = self.source.next_picture().unwrap();
        let coded = encode(&mut self.encoder, &picture, &Ask { peer: Some(peer), ..ask(self.next, 1.5) });
        self.next += 1;
        if coded.is_left_out() {
            return (coded, 0.0, None);
        }
        let meant = self.intact.decode(&payload(&coded)).unwrap();
        let psnr = quality(&picture, &meant).unwrap().psnr_y;
        let same = arrives(&coded).then(|| self.damaged.decode(&payload(&coded)).unwrap() == meant);
        (coded, psnr, same)
    }
}

fn knows(frame: u32) -> Peer {
    Peer { known: Some(frame), broken_from: None }
}

#[test]
fn after_a_loss_the_next_frame_refers_to_one_that_arrived() {
    let mut link = Link::new(whole(320, 180));
    link.pass(Peer::default(), |_| true);
    let usual: Vec<_> = (1..30).map(|frame| link.pass(knows(frame - 1), |_| true)).collect();
    assert!(usual.iter().all(|(coded, _, same)| {
        !coded.key && coded.refers_to == Some(coded.frame - 1) && *same == Some(true)
    }));
    // Frame 30 is lost, which is noticed four frames later.
    (30..34).for_each(|_| drop(link.pass(knows(29), |_| false)));
    let (recovery, psnr, same) = link.pass(Peer { known: Some(29), broken_from: Some(30) }, |_| true);
    println!(
        "recovery {} bytes from {:?}, {psnr:.1} dB; before {:.1} dB",
        recovery.size, recovery.refers_to, usual[28].1
    );
    assert!(!recovery.key && recovery.refers_to.is_some_and(|to| (25..30).contains(&to)), "{recovery:?}");
    assert_eq!(same, Some(true), "the same picture, whatever was lost before");
    assert!(psnr > usual[28].1 - 3.0);
    for frame in 35..60 {
        let (coded, psnr, same) = link.pass(knows(frame - 1), |_| true);
        assert!(!coded.key && psnr > 20.0 && same == Some(true), "frame {frame}: {psnr} dB");
    }
}

#[test]
fn a_key_frame_that_did_not_arrive_is_no_reference() {
    let mut link = Link::new(whole(320, 180));
    (0..3).for_each(|_| drop(link.pass(Peer::default(), |_| false)));
    let (coded, _, same) = link.pass(Peer { known: None, broken_from: Some(0) }, |_| true);
    assert!(coded.key && same == Some(true));
}

#[test]
fn a_frame_is_kept_each_time_one_is_known() {
    let mut link = Link::new(whole(320, 180));
    let mut keeps = vec![];
    for frame in 0..30u32 {
        // What became of a frame is known three frames later.
        let peer = Peer { known: frame.checked_sub(3), broken_from: None };
        keeps.extend(link.pass(peer, |_| true).0.keeps);
    }
    assert_eq!(keeps, [0, 3, 6, 9, 12, 15, 18, 21, 24, 27]);
}

#[test]
fn what_it_costs_to_keep_references() {
    let mean = |peer: bool| {
        let mut source = game(640, 360, 1);
        let mut encoder = Vp8Encoder::new(whole(640, 360)).unwrap();
        let mut decoder = Vp8Decoder::new().unwrap();
        let (mut bytes, mut psnr) = (0.0, 0.0);
        for frame in 0..90u32 {
            let picture = source.next_picture().unwrap();
            let peer = peer.then(|| Peer { known: frame.checked_sub(3), broken_from: None });
            let coded = encode(&mut encoder, &picture, &Ask { peer, ..ask(frame, 2.0) });
            bytes += f64::from(coded.size) / 90.0;
            psnr += quality(&picture, &decoder.decode(&payload(&coded)).unwrap()).unwrap().psnr_y / 90.0;
        }
        (bytes, psnr)
    };
    let (without, with) = (mean(false), mean(true));
    println!("bytes and PSNR a frame: {without:.2?} without, {with:.2?} with kept references");
    assert!(with.0 < without.0 * 1.2 && with.1 > without.1 - 1.5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is lost and however late that is known: a frame whose reference was decoded decodes to the
    /// picture that it is meant to be.
    #[test]
    fn what_refers_to_a_decoded_frame_decodes_exactly(lost in prop::collection::vec(prop::bool::weighted(0.15), 40), lag in 1..6u32) {
        let mut link = Link::new(whole(64, 64));
        // Frames that the receiver has decoded since the last key frame; frames before the last recovery.
        let mut decoded = vec![];
        let mut recovered_at = 0;
        for (frame, lost) in (0u32..).zip(lost) {
            let heard = frame.checked_sub(lag);
            let broken_from = heard.filter(|old| !decoded.contains(old) && *old >= recovered_at);
            if broken_from.is_some() {
                recovered_at = frame;
            }
            let known = decoded.iter().copied().filter(|old| heard.is_some_and(|heard| *old <= heard)).max();
            let peer = Peer { known, broken_from };
            let had = decoded.clone();
            let decodes = |coded: &Coded| !lost && (coded.key || coded.refers_to.is_some_and(|to| had.contains(&to)));
            let (coded, _, same) = link.pass(peer, decodes);
            prop_assert!(same != Some(false), "frame {} refers to {:?}", frame, coded.refers_to);
            if coded.key && same.is_some() {
                decoded.clear();
            }
            decoded.extend(same.map(|_| frame));
        }
    }
}
