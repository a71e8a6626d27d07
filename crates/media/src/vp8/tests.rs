use proptest::prelude::*;
use units::{Bytes as Size, Rng};

use super::*;
use crate::testing::{INTERVAL, ask, encode, game, payload};
use crate::trajectory::{self, Coding, Trajectory};
use crate::{
    ClipOptions, EncoderModel, Memory, ModelConfig, Scaler, Source, Table, open_clip, quality,
    size_of_height, testing,
};

/// Codes whatever it is given.
pub(super) fn whole(width: usize, height: usize) -> Vp8Config {
    Vp8Config { drop: 0, ..Vp8Config::new(width, height, INTERVAL) }
}

/// `count` coded frames of the synthetic clip.
fn stream(config: Vp8Config, count: u32, asked: impl Fn(u32) -> Ask) -> Vec<Coded> {
    let mut source = game(config.width, config.height, 1);
    let mut encoder = Vp8Encoder::new(config).unwrap();
    (0..count).map(|i| encode(&mut encoder, &source.next_picture().unwrap(), &asked(i))).collect()
}

/// Mean rate of these frames, in bit/s.
fn rate(coded: &[Coded]) -> f64 {
    coded.iter().map(|c| f64::from(c.size)).sum::<f64>() * 8.0 / (coded.len() as f64 * INTERVAL.as_secs_f64())
}

#[test]
fn pictures_come_back_and_more_bits_look_better() {
    let psnr = |mbps: f64| {
        let (mut source, mut decoder) = (game(320, 180, 1), Vp8Decoder::new().unwrap());
        let coded = stream(whole(320, 180), 30, |i| ask(i, mbps));
        let each = coded.iter().map(|coded| {
            let seen = decoder.decode(&payload(coded)).unwrap();
            quality(&source.next_picture().unwrap(), &seen).unwrap().psnr_y
        });
        each.sum::<f64>() / 30.0
    };
    let (low, high) = (psnr(0.3), psnr(3.0));
    println!("psnr-y {low:.2} dB at 0.3, {high:.2} dB at 3 Mbit/s");
    assert!(low > 20.0 && high > low + 5.0, "{low} {high}");
}

#[test]
fn sides_that_are_no_whole_blocks_come_back_whole() {
    for (width, height) in [(16, 16), (18, 34), (64, 48), (322, 182)] {
        let (mut source, mut decoder) = (game(width, height, 1), Vp8Decoder::new().unwrap());
        for coded in stream(whole(width, height), 5, |i| ask(i, 5.0)) {
            let seen = decoder.decode(&payload(&coded)).unwrap();
            let original = source.next_picture().unwrap();
            assert!(quality(&original, &seen).unwrap().psnr_avg > 30.0, "{width}x{height}");
        }
    }
}

#[test]
fn frames_are_ready_after_the_latency_and_in_order() {
    let mut encoder = Vp8Encoder::new(whole(64, 64)).unwrap();
    let picture = game(64, 64, 1).next_picture().unwrap();
    assert_eq!(encoder.next_ready(), None);
    encoder.submit(Time::from_millis(10), Some(&picture), &ask(0, 1.0)).unwrap();
    encoder.submit(Time::from_millis(43), Some(&picture), &ask(1, 1.0)).unwrap();
    assert_eq!(encoder.next_ready(), Some(Time::from_millis(14)));
    assert!(encoder.poll(Time::from_millis(13)).is_none());
    assert_eq!(encoder.poll(Time::from_millis(99)).unwrap().frame, 0);
    assert_eq!(encoder.next_ready(), Some(Time::from_millis(47)));
}

#[test]
fn the_rate_follows_within_seconds_and_without_key_frames() {
    // Five seconds each at 1 and 4 Mbit/s; the last two of each count.
    let mbps = |i: u32| if (i / 150).is_multiple_of(2) { 1.0 } else { 4.0 };
    let coded = stream(whole(640, 360), 600, |i| ask(i, mbps(i)));
    assert!(coded[0].key && coded[1..].iter().all(|c| !c.key));
    for block in coded.chunks(150) {
        let ratio = rate(&block[90..]) / block[0].target.as_f64();
        println!("{ratio:.2} of {}", block[0].target);
        assert!((0.75..1.25).contains(&ratio), "{ratio} of the target at {}", block[0].target);
    }
}

#[test]
fn frames_left_out_leave_their_bits_unspent() {
    // Every second frame, and the same rate: half of it.
    let coded = stream(whole(320, 180), 300, |i| Ask { frame: 2 * i, ..ask(i, 1.0) });
    let ratio = rate(&coded[90..]) / 1e6;
    assert!((0.75..1.25).contains(&ratio), "{ratio} for each frame that is coded");
}

#[test]
fn a_scene_cut_is_left_out_and_the_next_frame_goes_on_from_before_it() {
    let run = |drop: u8| {
        let (mut decoder, (before, after)) =
            (Vp8Decoder::new().unwrap(), (game(640, 360, 1), game(640, 360, 2)));
        let mut encoder = Vp8Encoder::new(Vp8Config { drop, ..whole(640, 360) }).unwrap();
        let [before, after] = [before, after].map(|mut source| source.next_picture().unwrap());
        let picture = |i: u32| if i < 60 { &before } else { &after };
        let coded: Vec<Coded> = (0..90).map(|i| encode(&mut encoder, picture(i), &ask(i, 0.5))).collect();
        for coded in coded.iter().filter(|coded| !coded.is_left_out()) {
            decoder.decode(&payload(coded)).unwrap();
        }
        let missing =
            coded.iter().filter(|coded| coded.is_left_out()).map(|coded| coded.frame).collect::<Vec<_>>();
        (missing, coded[60..].iter().map(|coded| coded.size).max().unwrap())
    };
    let ((none, large), (some, small)) = (run(0), run(30));
    println!("the largest frame after the cut has {large} bytes, {small} where {some:?} are left out");
    assert!(none.is_empty() && some[0] == 60 && small < large / 2);
}

#[test]
fn the_quantiser_is_told_and_coarser_at_lower_rates() {
    let mean = |mbps| {
        let coded = stream(whole(320, 180), 60, |i| ask(i, mbps));
        let index = |coded: &Coded| match coded.quantiser {
            Some(Quantiser::Vp8(index)) => f64::from(index),
            other => panic!("{other:?}"),
        };
        coded.iter().map(index).sum::<f64>() / 60.0
    };
    let (coarse, fine) = (mean(0.1), mean(2.0));
    assert!(coarse > fine + 20.0, "{coarse} and {fine}");
}

#[test]
fn key_frames_come_when_asked_stand_alone_and_are_bounded() {
    let bound = Size::new(6_000);
    let coded = stream(whole(640, 360), 60, |i| {
        let largest = (i == 50).then_some(bound);
        Ask { key: i == 0 || i == 25 || i == 50, largest, ..ask(i, 3.0) }
    });
    let keys: Vec<u32> = coded.iter().filter(|c| c.key).map(|c| c.frame).collect();
    assert_eq!(keys, [0, 25, 50]);
    let mut decoder = Vp8Decoder::new().unwrap();
    assert!(coded[25..].iter().all(|coded| decoder.decode(&payload(coded)).is_ok()));
    let (free, bounded) = (coded[25].size, coded[50].size);
    println!("key frames of {free} bytes, and {bounded} where {} were asked for", bound.get());
    assert!(bounded < free / 2 && f64::from(bounded) < 1.5 * bound.get() as f64);
}

#[test]
fn key_frames_are_bounded_as_in_webrtc() {
    // 600 ms of buffer at 30 frames/s: nine frames; at 5 frames/s the least, three.
    assert_eq!(key_limit(1_000, Span::from_nanos(33_333_333), None), 900);
    assert_eq!(key_limit(1_000, Span::from_millis(200), None), 300);
    // 1 Mbit/s in frames of 100 ms: 12,500 bytes each.
    assert_eq!(key_limit(1_000, Span::from_millis(100), Some(6_250)), 50);
    assert_eq!(key_limit(1_000, Span::from_millis(100), Some(0)), 1);
    assert_eq!(key_limit(1_000, Span::from_millis(100), Some(u64::MAX)), 300);
    // libvpx multiplies 1 Gbit of a frame with the percentage before it divides.
    assert_eq!(key_limit(1_000_000, Span::from_secs(1), None), 2);
}

#[test]
fn the_same_asks_give_the_same_bytes() {
    for threads in [1, 2] {
        let config = Vp8Config { threads, ..whole(320, 180) };
        let run = || stream(config.clone(), 40, |i| ask(i, 0.5 + f64::from(i % 7)));
        assert!(run().iter().zip(run()).all(|(a, b)| a.payload == b.payload), "{threads} threads");
    }
}

#[test]
fn only_a_key_frame_begins_or_goes_on_after_an_error() {
    let coded = stream(whole(320, 180), 20, |i| Ask { key: i == 0 || i == 12, ..ask(i, 1.0) });
    let mut decoder = Vp8Decoder::new().unwrap();
    let good = |decoder: &mut Vp8Decoder, i: usize| decoder.decode(&payload(&coded[i])).is_ok();
    assert!(!good(&mut decoder, 1), "a frame without a beginning");
    assert!((0..5).all(|i| good(&mut decoder, i)));
    assert!(decoder.decode(&[]).is_err());
    assert!((5..12).all(|i| !good(&mut decoder, i)), "a frame after the damaged one was shown");
    assert!((12..20).all(|i| good(&mut decoder, i)));
}

#[test]
fn refusals_say_what_is_wrong() {
    let base = || whole(640, 360);
    let said = |config: Vp8Config| Vp8Encoder::new(config).err().expect("must be refused").to_string();
    assert!(said(Vp8Config { width: 641, ..base() }).contains("641x360 is not an even size"));
    assert!(said(Vp8Config { width: 5_000, ..base() }).contains("3840x2160"));
    assert!(said(Vp8Config { interval: Span::ZERO, ..base() }).contains("interval"));
    assert!(said(Vp8Config { speed: 0, ..base() }).contains("speed"));
    assert!(said(Vp8Config { threads: 17, ..base() }).contains("threads"));
    assert!(said(Vp8Config { drop: 101, ..base() }).contains("101 %"));
    let mut encoder = Vp8Encoder::new(base()).unwrap();
    assert!(encoder.submit(Time::ZERO, None, &ask(0, 1.0)).is_err());
    let small = Arc::new(RawFrame::filled(64, 64, 0, 0, 0));
    assert!(matches!(encoder.submit(Time::ZERO, Some(&small), &ask(0, 1.0)), Err(CodecError::Size { .. })));
    assert!(encoder.poll(Time::MAX).is_none());
}

#[test]
fn a_picture_too_large_to_hold_is_refused_by_its_header() {
    // A key frame's tag and start code, and 16383x16383.
    let huge = [0x10, 0, 0, 0x9d, 0x01, 0x2a, 0xff, 0x3f, 0xff, 0x3f, 0, 0];
    let error = Vp8Decoder::new().unwrap().decode(&huge).unwrap_err().to_string();
    assert!(error.contains("16383x16383"), "{error}");
    assert!(key_frame_of(&huge[..9]).contains("no frame of VP8"));
}

fn key_frame_of(bytes: &[u8]) -> String {
    Vp8Decoder::new().unwrap().decode(bytes).unwrap_err().to_string()
}

/// What a session may ask for, and more.
fn any_ask() -> impl Strategy<Value = Ask> {
    let rate = prop_oneof![Just(0), Just(u64::MAX), 0..50_000_000u64];
    let interval = prop_oneof![Just(0i64), Just(i64::MAX), 1..200_000_000i64];
    let largest = prop::option::of(prop_oneof![0..100_000u64, Just(u64::MAX)]);
    (any::<u32>(), rate, interval, any::<bool>(), largest).prop_map(|(frame, bps, nanos, key, largest)| Ask {
        frame,
        bitrate: Rate::from_bps(bps),
        interval: Span::from_nanos(nanos),
        key,
        largest: largest.map(Size::new),
        height: None,
        peer: None,
    })
}

/// Damages a frame: cuts, flips, overwrites, or something else altogether.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = |rng: &mut Rng, bytes: &[u8]| rng.below(bytes.len().max(1) as u64) as usize;
    match rng.below(5) {
        0 => bytes.truncate(at(rng, bytes)),
        1 => (0..=rng.below(20)).for_each(|_| {
            let i = at(rng, bytes);
            bytes.iter_mut().skip(i).take(1).for_each(|b| *b ^= 1 << rng.below(8));
        }),
        2 => {
            let i = at(rng, bytes);
            bytes.iter_mut().skip(i).take(16).for_each(|b| *b = rng.next_u64() as u8);
        }
        // Another size in the header.
        3 => bytes.iter_mut().skip(6).take(4).for_each(|b| *b = rng.next_u64() as u8),
        _ => *bytes = (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn whatever_is_asked_is_coded_and_decodes_or_left_out(
        width in 8..40usize, height in 8..40usize, drop in 0..=100u8, asks in prop::collection::vec(any_ask(), 1..12),
    ) {
        let (width, height) = (width * 2, height * 2);
        let mut source = game(width, height, 3);
        let config = Vp8Config { max: Rate::MAX, drop, ..whole(width, height) };
        let mut encoder = Vp8Encoder::new(config).unwrap();
        let mut decoder = Vp8Decoder::new().unwrap();
        for (i, ask) in asks.iter().enumerate() {
            let coded = encode(&mut encoder, &source.next_picture().unwrap(), ask);
            if coded.is_left_out() {
                prop_assert!(drop > 0 && i > 0 && !ask.key && coded.frame == ask.frame);
                continue;
            }
            prop_assert_eq!((coded.frame, coded.size as usize), (ask.frame, payload(&coded).len()));
            prop_assert_eq!(coded.key, ask.key || i == 0);
            let seen = decoder.decode(&payload(&coded)).unwrap();
            prop_assert_eq!((seen.width, seen.height), (width, height));
        }
    }

    #[test]
    fn garbage_is_an_error_or_a_picture(bytes in prop::collection::vec(any::<u8>(), 0..400), key in any::<bool>()) {
        let mut decoder = Vp8Decoder::new().unwrap();
        let mut bytes = bytes;
        if key && bytes.len() > 10 {
            bytes[0] &= !1;
            bytes[3..10].copy_from_slice(&[0x9d, 0x01, 0x2a, 64, 0, 48, 0]);
        }
        let seen = decoder.decode(&bytes);
        prop_assert!(seen.is_err() || key);
    }
}

#[test]
fn malformed_streams_are_errors_not_crashes() {
    let coded = stream(whole(64, 48), 30, |i| Ask { key: i % 10 == 0, ..ask(i, 2.0) });
    let mut rng = Rng::stream(1, "malformed");
    let mut decoder = Vp8Decoder::new().unwrap();
    let (mut errors, mut shown) = (0, 0);
    for case in 0..4_000 {
        // A good key frame, which must always be shown, then something wrong where the next frame should be.
        assert!(decoder.decode(&payload(&coded[0])).is_ok(), "case {case}");
        let mut bytes = payload(&coded[[1, 10][case % 2]]).to_vec();
        damage(&mut bytes, &mut rng);
        match decoder.decode(&bytes) {
            Ok(_) => shown += 1,
            Err(_) => errors += 1,
        }
    }
    println!("4000 malformed frames: {errors} errors, {shown} pictures");
    assert!(errors > 500 && shown > 50);
}

/// What `encoder` makes of a course of targets around 500 kbit/s, over the clip again and again.
fn coding(encoder: &mut dyn Encoder, pictures: &[Arc<RawFrame>], course: &Trajectory) -> Coding {
    let mut coding = Coding::new(INTERVAL);
    for (frame, wish) in (0u32..).zip(course.wishes(INTERVAL)) {
        let bitrate = Rate::from_f64(500e3 * wish.share);
        let ask = Ask { bitrate, key: wish.key, ..ask(frame, 0.0) };
        encoder.submit(Time::ZERO, Some(&pictures[frame as usize % pictures.len()]), &ask).unwrap();
        coding.push(bitrate, &encoder.poll(Time::MAX).unwrap());
    }
    coding
}

#[test]
fn the_model_pays_key_frames_back_as_libvpx_does() {
    let file = "video/talking-head/liveportrait_s18_720p30.mp4";
    let Some(path) = testing::data_folder().map(|data| data.join(file)).filter(|path| path.exists()) else {
        return println!("skipped: {file} is not there");
    };
    let mut clip = open_clip(&path, ClipOptions::default()).unwrap();
    let ((width, height), mut scaler) = (size_of_height(clip.size(), 360), Scaler::default());
    let scaled =
        |picture: Arc<RawFrame>| Arc::new(scaler.fit(&picture, (width, height)).unwrap().into_owned());
    let pictures: Vec<_> = std::iter::from_fn(|| clip.next_picture()).map(scaled).collect();
    let table = Table::smaller("talking_head").into_iter().find(|table| table.height == 360).unwrap();
    let (mut of_model, mut of_forgetful) = (0.0, 0.0);
    for name in ["keys", "low keys"] {
        let course = trajectory::ALL.iter().find(|course| course.name == name).unwrap();
        let libvpx = coding(&mut Vp8Encoder::new(whole(width, height)).unwrap(), &pictures, course);
        let play = |memory| {
            let config = ModelConfig { memory, ..ModelConfig::recorded(table.clone(), 1) };
            coding(&mut EncoderModel::new(config).unwrap(), &pictures, course)
        };
        let (model, forgetful) = (play(table.fit.memory), play(Memory::NONE));
        // What is coded in the time in which libvpx pays back, after the first seconds.
        let far = |model: &Coding| {
            let pairs = libvpx.window_course(1.2).into_iter().zip(model.window_course(1.2)).skip(90);
            let apart: Vec<f64> = pairs.map(|(real, model)| (real - model).abs()).collect();
            apart.iter().sum::<f64>() / apart.len() as f64
        };
        println!(
            "{name}: coded of what was asked by libvpx, model, model without memory: {:.3?}; apart in 1.2 s by {:.3} and {:.3}",
            [&libvpx, &model, &forgetful].map(Coding::share),
            far(&model),
            far(&forgetful)
        );
        of_model += far(&model);
        of_forgetful += far(&forgetful);
    }
    assert!(of_model < of_forgetful, "{of_model} {of_forgetful}");
}
