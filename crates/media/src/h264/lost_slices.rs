//! Frames that lost slices: what is shown instead, what follows, and what ends it.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::testing::{INTERVAL, ask, encode, game, payload};
use crate::{Decoder, Part, Parts, Source, quality};

const WIDTH: usize = 320;
const HEIGHT: usize = 192;

type Clip = (Vec<Coded>, Vec<Arc<RawFrame>>);

/// A clip coded in slices of at most 600 bytes, with key frames at 0 and 12, and its pictures.
fn clip() -> &'static Clip {
    static CLIP: LazyLock<Clip> = LazyLock::new(code);
    &CLIP
}

fn code() -> Clip {
    let config = H264Config { slices: Some(600), ..H264Config::new(WIDTH, HEIGHT, INTERVAL) };
    let (mut source, mut encoder) = (game(WIDTH, HEIGHT, 1), H264Encoder::new(config).unwrap());
    let pictures: Vec<_> = (0..20).map(|_| source.next_picture().unwrap()).collect();
    let key = |frame| frame == 0 || frame == 12;
    let coded = (0..20)
        .map(|i| encode(&mut encoder, &pictures[i as usize], &Ask { key: key(i), ..ask(i, 2.5) }))
        .collect();
    (coded, pictures)
}

/// What is there of a frame of which only pieces that are `kept` arrived.
fn parts(coded: &Coded, kept: impl Fn(usize) -> bool) -> Parts {
    let bytes = payload(coded);
    let starts = [0].into_iter().chain(coded.pieces.iter().copied());
    let pieces = starts.zip(&coded.pieces).enumerate().filter(|(number, _)| kept(*number));
    let present: Vec<Part> = pieces
        .map(|(number, (start, &end))| Part {
            number: number.min(255) as u8,
            bytes: bytes.slice(start as usize..end as usize),
        })
        .collect();
    Parts { complete: present.len() == coded.pieces.len(), present }
}

/// Decodes what is whole.
fn whole(decoder: &mut H264Decoder, coded: &Coded) -> RawFrame {
    decoder.decode(&payload(coded)).unwrap().unwrap()
}

/// The last of these frames, which are whole.
fn last(decoder: &mut H264Decoder, coded: &[Coded]) -> RawFrame {
    coded.iter().map(|coded| whole(decoder, coded)).reduce(|_, picture| picture).unwrap()
}

/// Where the luma of the blocks of two pictures is the same, in order.
fn same_blocks(a: &RawFrame, b: &RawFrame) -> Vec<bool> {
    let block = |index: usize| {
        let (x, y) = (index % (WIDTH / 16) * 16, index / (WIDTH / 16) * 16);
        (y..y + 16).all(|row| {
            let span = row * WIDTH + x..row * WIDTH + x + 16;
            a.y[span.clone()] == b.y[span]
        })
    };
    (0..WIDTH / 16 * HEIGHT / 16).map(block).collect()
}

#[test]
fn missing_slices_are_taken_from_the_picture_before_and_the_rest_is_exact() {
    let (coded, _) = clip();
    let count = coded[5].pieces.len();
    assert!(count >= 4, "{count} slices");
    for lost in [0, 1, count - 1] {
        let (mut damaged, mut intact) = (H264Decoder::new().unwrap(), H264Decoder::new().unwrap());
        let before = last(&mut damaged, &coded[..5]);
        let expected = last(&mut intact, &coded[..6]);
        let seen = damaged.decode_parts(&parts(&coded[5], |number| number != lost)).unwrap();
        assert!(damaged.is_concealed());
        let (exact, copied) = (same_blocks(&seen, &expected), same_blocks(&seen, &before));
        let wrong: Vec<usize> = (0..exact.len()).filter(|&block| !exact[block]).collect();
        println!("slice {lost} of {count}: {} of {} blocks differ", wrong.len(), exact.len());
        assert!(!wrong.is_empty() && wrong.len() < exact.len() / 2);
        assert!(wrong.iter().all(|&block| copied[block]), "neither exact nor copied");
        assert!(wrong[wrong.len() - 1] - wrong[0] < exact.len() / 2, "in one place");
    }
}

#[test]
fn frames_after_a_concealed_one_are_marked_until_a_key_frame() {
    let (coded, _) = clip();
    let (mut damaged, mut intact) = (H264Decoder::new().unwrap(), H264Decoder::new().unwrap());
    for (coded, number) in coded.iter().zip(0..) {
        let expected = whole(&mut intact, coded);
        let there = parts(coded, |slice| number != 5 || slice != 1);
        damaged.submit_parts(Time::ZERO, number, &there);
        let decoded = damaged.poll(Time::ZERO).unwrap();
        let exact = decoded.picture.unwrap() == expected;
        assert_eq!(decoded.concealed, (5..12).contains(&number), "frame {number}");
        assert_eq!(exact, !decoded.concealed, "frame {number}");
    }
}

#[test]
fn a_frame_predicted_from_one_that_arrived_ends_it() {
    let config = H264Config { slices: Some(600), ..H264Config::new(WIDTH, HEIGHT, INTERVAL) };
    let (mut source, mut encoder) = (game(WIDTH, HEIGHT, 1), H264Encoder::new(config).unwrap());
    let mut decoder = H264Decoder::new().unwrap();
    for frame in 0..60u32 {
        // Frames 20 and 40 lose a slice, which the sender knows three frames later.
        let loss = [20, 40].into_iter().find(|loss| (*loss..loss + 3).contains(&frame));
        let broken_from = [20, 40].into_iter().find(|loss| frame == loss + 3);
        let last = loss.or(broken_from).unwrap_or(frame);
        let peer = Some(Peer { known: last.checked_sub(1), broken_from });
        let picture = source.next_picture().unwrap();
        let coded = encode(&mut encoder, &picture, &Ask { peer, ..ask(frame, 2.5) });
        let seen = decoder.decode_parts(&parts(&coded, |slice| ![20, 40].contains(&frame) || slice != 1));
        let psnr = quality(&picture, &seen.unwrap()).unwrap().psnr_y;
        assert_eq!(decoder.is_concealed(), loss.is_some(), "frame {frame}");
        assert!(psnr > if loss.is_some() { 14.0 } else { 24.0 }, "frame {frame}: {psnr} dB");
    }
}

#[test]
fn a_key_frame_needs_its_parameter_sets_and_a_first_one_everything() {
    let (coded, pictures) = clip();
    let key = &coded[12];
    let mut decoder = H264Decoder::new().unwrap();
    let but_last = parts(&coded[0], |slice| slice + 1 < coded[0].pieces.len());
    assert!(decoder.decode_parts(&but_last).is_err(), "nothing to copy from");
    last(&mut decoder, &coded[..12]);
    let seen = decoder.decode_parts(&parts(key, |slice| slice + 1 < key.pieces.len())).unwrap();
    let psnr = quality(&pictures[12], &seen).unwrap().psnr_y;
    println!("a key frame without its last slice: {psnr:.1} dB");
    assert!(decoder.is_concealed() && psnr > 20.0);
    assert!(decoder.decode_parts(&parts(key, |slice| slice > 0)).is_err(), "no parameter sets");
    assert!(decoder.decode(&payload(&coded[13])).is_err(), "only a key frame goes on");
    whole(&mut decoder, key);
    assert!(!decoder.is_concealed());
}

#[test]
fn what_is_no_slice_is_an_error() {
    let (coded, _) = clip();
    let mut decoder = H264Decoder::new().unwrap();
    let one = |bytes: &'static [u8]| vec![Part { number: 0, bytes: Bytes::from_static(bytes) }];
    for present in [vec![], one(b""), one(b"no unit"), one(&[0, 0, 1]), one(&[0, 0, 1, 9, 0xf0])] {
        whole(&mut decoder, &coded[0]);
        assert!(decoder.decode_parts(&Parts { present, complete: false }).is_err());
    }
}

/// What arrives of one frame: which slices (bit by bit), and one byte that is wrong, if any.
type Arrival = (u64, Option<(usize, usize, u8)>);

fn arrival() -> impl Strategy<Value = Arrival> {
    let slices = prop_oneof![2 => Just(u64::MAX), 3 => any::<u64>()];
    (slices, prop::option::weighted(0.2, (any::<usize>(), any::<usize>(), 1..=255u8)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is missing of whichever frames, and whatever is wrong in the rest: nothing panics, pictures
    /// have the size of the clip, and a whole key frame ends it.
    #[test]
    fn any_slices_may_be_missing(arrivals in prop::collection::vec(arrival(), 20)) {
        let (coded, _) = clip();
        let mut decoder = H264Decoder::new().unwrap();
        let mut shown = 0;
        for (coded, (slices, wrong)) in coded.iter().zip(&arrivals) {
            let mut there = parts(coded, |slice| slices >> (slice % 64) & 1 == 1);
            if let (Some((part, at, flip)), false) = (wrong, there.present.is_empty()) {
                let count = there.present.len();
                let part = &mut there.present[part % count];
                let mut bytes = part.bytes.to_vec();
                let at = at % bytes.len();
                bytes[at] ^= flip;
                part.bytes = Bytes::from(bytes);
            }
            if let Ok(picture) = decoder.decode_parts(&there) {
                prop_assert_eq!((picture.width, picture.height), (WIDTH, HEIGHT));
                shown += 1;
            }
        }
        prop_assert!(shown <= 20);
        whole(&mut decoder, &coded[0]);
        prop_assert!(!decoder.is_concealed());
    }
}
