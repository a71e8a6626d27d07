//! Long-term references for real: what is lost costs one predicted frame, and decoding goes on.

use super::*;
use crate::testing::{INTERVAL, ask, encode, game, payload};
use crate::{Source, quality};

/// A frame as it is sent and received: what was said of it, and its picture.
struct Link {
    encoder: H264Encoder,
    decoder: H264Decoder,
    source: Box<dyn Source>,
    next: u32,
}

impl Link {
    fn new(config: H264Config, seed: u64) -> Link {
        let source = Box::new(game(config.width, config.height, seed));
        let (encoder, decoder) = (H264Encoder::new(config).unwrap(), H264Decoder::new().unwrap());
        Link { encoder, decoder, source, next: 0 }
    }

    /// Codes the next picture.
    fn code(&mut self, peer: Peer) -> (Coded, Arc<RawFrame>) {
        let picture = self.source.next_picture().unwrap();
        let coded = encode(&mut self.encoder, &picture, &Ask { peer: Some(peer), ..ask(self.next, 2.0) });
        self.next += 1;
        (coded, picture)
    }

    /// Codes the next picture and decodes it: PSNR of luma in dB.
    fn pass(&mut self, peer: Peer) -> (Coded, f64) {
        let (coded, picture) = self.code(peer);
        let seen = self.decoder.decode(&payload(&coded)).unwrap().unwrap();
        let psnr = quality(&picture, &seen).unwrap().psnr_y;
        (coded, psnr)
    }
}

fn knows(frame: u32) -> Peer {
    Peer { known: Some(frame), broken_from: None }
}

#[test]
fn after_a_loss_the_next_frame_refers_to_one_that_arrived() {
    let mut link = Link::new(H264Config::new(640, 360, INTERVAL), 1);
    let key = link.pass(Peer::default());
    let usual: Vec<(Coded, f64)> = (1..30).map(|frame| link.pass(knows(frame - 1))).collect();
    assert!(usual.iter().all(|(coded, _)| !coded.key && coded.refers_to == Some(coded.frame - 1)));
    // Frame 30 is lost, which is noticed four frames later; what lies between can't be decoded.
    (30..34).for_each(|_| drop(link.code(knows(29))));
    let (recovery, psnr) = link.pass(Peer { known: Some(29), broken_from: Some(30) });
    println!(
        "key {} bytes, recovery {} from {:?}, {psnr:.1} dB",
        key.0.size, recovery.size, recovery.refers_to
    );
    assert!(!recovery.key && recovery.refers_to.is_some_and(|to| (20..30).contains(&to)), "{recovery:?}");
    let (_, before) = &usual[28];
    assert!(psnr > before - 3.0, "{psnr} after {before}");
    for frame in 35..60 {
        let (coded, psnr) = link.pass(knows(frame - 1));
        assert!(!coded.key && psnr > 25.0, "frame {frame}: {psnr} dB");
    }
}

#[test]
fn a_key_frame_that_did_not_arrive_is_no_reference() {
    let mut link = Link::new(H264Config::new(320, 180, INTERVAL), 1);
    (0..3).for_each(|_| drop(link.code(Peer::default())));
    let (coded, _) = link.pass(Peer { known: None, broken_from: Some(0) });
    assert!(coded.key);
}

#[test]
fn what_was_marked_and_lost_is_marked_anew() {
    let mut link = Link::new(H264Config::new(320, 180, INTERVAL), 1);
    let mut keeps = vec![];
    let mut known = None;
    for frame in 0..90 {
        // Every tenth frame is lost, which is noticed at the next.
        let lost = frame % 10 == 9;
        let broken_from = (frame > 9 && frame % 10 == 0).then(|| frame - 1);
        let (coded, picture) = link.code(Peer { known, broken_from });
        keeps.extend(coded.keeps);
        assert!(coded.refers_to.is_none_or(|to| broken_from.is_none_or(|from| to < from)));
        if !lost {
            let seen = link.decoder.decode(&payload(&coded)).unwrap().unwrap();
            assert!(quality(&picture, &seen).unwrap().psnr_y > 20.0);
            known = Some(frame);
        }
        assert_eq!(coded.key, frame == 0);
    }
    println!("kept {keeps:?}");
    assert!(keeps.len() > 30 && keeps.is_sorted());
}

#[test]
fn a_stream_that_does_not_say_what_its_peer_has_is_coded_as_before() {
    let run = |references: bool| {
        let mut link = Link::new(H264Config::new(320, 180, INTERVAL), 1);
        let pictures: Vec<_> = (0..20).map(|_| link.source.next_picture().unwrap()).collect();
        let peer = references.then(Peer::default);
        (0..20)
            .zip(&pictures)
            .map(|(i, p)| encode(&mut link.encoder, p, &Ask { peer, ..ask(i, 1.0) }))
            .collect::<Vec<_>>()
    };
    let (without, with) = (run(false), run(true));
    assert!(without.iter().all(|coded| coded.refers_to.is_none() && coded.keeps.is_none()));
    assert!(with[1..].iter().all(|coded| coded.refers_to == Some(coded.frame - 1)));
}

#[test]
fn coarse_key_frames_and_slices_go_with_references() {
    let config = H264Config { slices: Some(1_100), ..H264Config::new(640, 360, INTERVAL) };
    let mut link = Link::new(config, 1);
    let mut known = None;
    for frame in 0..60 {
        let picture = link.source.next_picture().unwrap();
        let broken_from = [20, 45].contains(&frame).then(|| frame - 2);
        let peer = Some(Peer { known: known.filter(|_| broken_from.is_none()).or(known), broken_from });
        let largest = (frame == 30).then_some(Size::new(9_000));
        let asked = Ask { peer, key: frame == 0 || frame == 30, largest, ..ask(frame, 2.0) };
        let coded = encode(&mut link.encoder, &picture, &asked);
        assert_eq!(coded.key, asked.key, "frame {frame}");
        // Two frames are lost before each recovery.
        if ![18, 19, 43, 44].contains(&frame) {
            assert!(link.decoder.decode(&payload(&coded)).unwrap().is_some(), "frame {frame}");
            known = Some(frame);
        }
    }
}
