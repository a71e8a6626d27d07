//! The network against a plain one, and what its results may not depend on.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use crate::conv::Instructions;
use crate::weights::samples;
use crate::{Decoder, Descriptors, Encoder, Model, Picture, Received};

/// A picture of slopes and edges.
fn picture(width: usize, height: usize) -> Picture {
    let level = |x: usize, y: usize, channel: usize| {
        let wave = (x * (3 + channel) + y * 2 + x * y / 40) % 256;
        if (x / 9 + y / 14).is_multiple_of(3) { 255 - wave } else { wave }
    };
    let places = (0..width * height).map(|at| (at % width, at / width));
    let rgb = places.flat_map(|(x, y)| [0, 1, 2].map(|channel| level(x, y, channel) as u8)).collect();
    Picture { width, height, rgb }
}

fn model() -> Arc<Model> {
    Arc::new(Model::parse(&samples::file()).unwrap())
}

fn encode(model: &Arc<Model>, picture: &Picture, threads: usize, with: Instructions) -> Descriptors {
    Encoder::with(model.clone(), threads, with).encode(picture)
}

fn decode(model: &Arc<Model>, received: &Received, threads: usize, with: Instructions) -> Picture {
    Decoder::with(model.clone(), threads, with).decode(received)
}

/// How many bits differ, and the largest difference of two pixels.
fn distance(a: (&Descriptors, &Picture), b: (&Descriptors, &Picture)) -> (u32, u8) {
    let words = a.0.bits.iter().flatten().zip(b.0.bits.iter().flatten());
    let pixels = a.1.rgb.iter().zip(&b.1.rgb);
    let apart = pixels.map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0);
    (words.map(|(a, b)| (a ^ b).count_ones()).sum(), apart)
}

#[test]
fn neither_threads_nor_the_width_of_vectors_change_a_result() {
    let model = model();
    for (width, height) in [(16, 16), (200, 120), (353, 47)] {
        let picture = picture(width, height);
        for with in Instructions::here() {
            let wanted = encode(&model, &picture, 1, with);
            let received = Received::only(&wanted, &[0, 3, 4]);
            let shown = decode(&model, &received, 1, with);
            for threads in [2, 3] {
                assert_eq!(encode(&model, &picture, threads, with), wanted, "{threads} threads, {with:?}");
                assert_eq!(decode(&model, &received, threads, with), shown, "{threads} threads, {with:?}");
            }
            let best = encode(&model, &picture, 1, Instructions::best());
            let best_shown = decode(&model, &received, 1, Instructions::best());
            // Portable code may lack fused multiplication and addition.
            let (bits, pixels) = distance((&best, &best_shown), (&wanted, &shown));
            let exact = with != Instructions::Portable;
            assert!(
                if exact { (bits, pixels) == (0, 0) } else { bits <= 2 && pixels <= 1 },
                "{with:?}: {bits} bits, {pixels}"
            );
        }
    }
}

#[test]
fn memory_kept_from_another_picture_does_not_show() {
    let model = model();
    let (mut encoder, mut decoder) = (Encoder::new(model.clone(), 2), Decoder::new(model.clone(), 2));
    for (width, height) in [(64, 48), (33, 100), (64, 48)] {
        let picture = picture(width, height);
        let descriptors = encoder.encode(&picture);
        assert_eq!(descriptors, Encoder::new(model.clone(), 1).encode(&picture));
        for kept in [&[0, 1, 2, 3, 4, 5, 6, 7][..], &[], &[6]] {
            let received = Received::only(&descriptors, kept);
            assert_eq!(decoder.decode(&received), Decoder::new(model.clone(), 1).decode(&received));
        }
    }
}

/// A picture, its bits and what is shown of some of them, as PyTorch computed it on the training's machine.
#[test]
fn results_are_those_of_pytorch() {
    are_those_of_pytorch(include_str!("../weights/fast.check.json"));
    are_those_of_pytorch(include_str!("../weights/paper.check.json"));
}

fn are_those_of_pytorch(check: &str) {
    let check: Value = serde_json::from_str(check).unwrap();
    let numbers = |value: &Value| -> Vec<u64> {
        value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
    };
    let bytes =
        |value: &Value| -> Vec<u8> { numbers(value).iter().map(|&n| u8::try_from(n).unwrap()).collect() };
    let side = |key: &str| check[key].as_u64().unwrap() as usize;
    let model = Model::shipped(check["model"].as_str().unwrap()).unwrap();
    let picture = Picture { width: side("width"), height: side("height"), rgb: bytes(&check["rgb"]) };
    // No value before rounding to bits is nearer to zero, so none may round to the other side.
    assert!(check["margin"].as_f64().unwrap() > 1e-4);
    for with in Instructions::here() {
        let descriptors = encode(&model, &picture, 2, with);
        for (d, words) in descriptors.bits.iter().enumerate() {
            let words: Vec<_> = words.iter().map(|&word| u64::from(word)).collect();
            assert_eq!(words, numbers(&check["bits"][d]), "descriptor {d}, {with:?}");
        }
        for (kept, wanted) in check["shown"].as_object().unwrap() {
            let kept: Vec<_> = kept.bytes().map(|digit| usize::from(digit - b'0')).collect();
            let shown = decode(&model, &Received::only(&descriptors, &kept), 2, with);
            let apart = shown.rgb.iter().zip(bytes(wanted)).map(|(a, b)| a.abs_diff(b)).max();
            assert!(apart <= Some(1), "of {kept:?} with {with:?}, pixels are {apart:?} apart");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn whatever_arrives_is_shown_at_the_same_size(
        (width, height) in (16_usize..80, 16_usize..80),
        words in proptest::collection::vec((0_usize..8, 0_usize..25, any::<u16>()), 0..60),
        unscaled in any::<bool>(),
    ) {
        let mut received = Received::none(width, height);
        let (columns, rows) = received.blocks();
        for (d, block, bits) in words {
            received.set(d, block % (columns * rows), bits);
        }
        let decoder = Decoder::new(model(), 2);
        let shown = if unscaled { decoder.unscaled() } else { decoder }.decode(&received);
        prop_assert_eq!((shown.width, shown.height, shown.is_whole()), (width, height, true));
    }
}
