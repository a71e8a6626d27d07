use units::Rng;

use super::*;
use crate::testing::{INTERVAL, ask, encode, game, payload};
use crate::{Source, quality};

/// `count` coded frames of the synthetic clip.
fn stream(config: H264Config, count: u32, asked: impl Fn(u32) -> Ask) -> Vec<Coded> {
    let mut source = game(config.width, config.height, 1);
    let mut encoder = H264Encoder::new(config).unwrap();
    (0..count).map(|i| encode(&mut encoder, &source.next_picture().unwrap(), &asked(i))).collect()
}

#[test]
fn pictures_come_back_and_more_bits_look_better() {
    let psnr = |mbps: f64| {
        let (mut source, mut decoder) = (game(320, 180, 1), H264Decoder::new().unwrap());
        let coded = stream(H264Config::new(320, 180, INTERVAL), 30, |i| ask(i, mbps));
        let each = coded.iter().map(|coded| {
            let seen = decoder.decode(&payload(coded)).unwrap().unwrap();
            quality(&source.next_picture().unwrap(), &seen).unwrap().psnr_y
        });
        each.sum::<f64>() / 30.0
    };
    let (low, high) = (psnr(0.3), psnr(3.0));
    println!("psnr-y {low:.2} dB at 0.3, {high:.2} dB at 3 Mbit/s");
    assert!(low > 20.0 && high > low + 5.0, "{low} {high}");
}

#[test]
fn frames_are_ready_after_the_latency_and_in_order() {
    let mut encoder = H264Encoder::new(H264Config::new(64, 64, INTERVAL)).unwrap();
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
fn the_rate_follows_every_frame_without_key_frames() {
    // Blocks of 15 frames at 1 and 8 Mbit/s: far above the rate before the first ask, and down again.
    let mbps = |i: u32| if (i / 15).is_multiple_of(2) { 1.0 } else { 8.0 };
    let config = H264Config { initial: Rate::from_kbps(500), ..H264Config::new(640, 360, INTERVAL) };
    let coded = stream(config, 120, |i| ask(i, mbps(i)));
    assert!(coded[0].key && coded[1..].iter().all(|c| !c.key));
    for block in coded.chunks(15).skip(1) {
        let settled: u32 = block[5..].iter().map(|c| c.size).sum();
        let ratio = f64::from(settled) * 8.0 / 10.0 / (block[0].target.as_f64() * INTERVAL.as_secs_f64());
        assert!((0.5..1.6).contains(&ratio), "{} of the target at {}", ratio, block[0].target);
    }
}

#[test]
fn a_low_target_gets_the_coarsest_quantiser_there_is() {
    // Two hundred bytes a frame, which no quantiser gives this clip: what comes out is all that the coarsest
    // one can do.
    let coded = stream(H264Config::new(640, 360, INTERVAL), 120, |i| ask(i, 0.048));
    let mean = coded[60..].iter().map(|c| f64::from(c.size)).sum::<f64>() / 60.0;
    println!("{mean:.0} bytes a frame");
    assert!(mean < 1_000.0, "{mean} bytes a frame");
}

#[test]
fn the_quantiser_is_told_and_coarser_at_lower_rates() {
    let mean = |mbps| {
        let coded = stream(H264Config::new(320, 180, INTERVAL), 60, |i| ask(i, mbps));
        let parameter = |coded: &Coded| match coded.quantiser {
            Some(Quantiser::H264(parameter)) => f64::from(parameter),
            other => panic!("{other:?}"),
        };
        coded.iter().map(parameter).sum::<f64>() / 60.0
    };
    let (coarse, fine) = (mean(0.05), mean(2.0));
    assert!(coarse > fine + 10.0 && coarse <= 51.0 && fine >= 12.0, "{coarse} and {fine}");
}

#[test]
fn key_frames_come_when_asked_and_stand_alone() {
    let coded =
        stream(H264Config::new(320, 180, INTERVAL), 40, |i| Ask { key: i == 0 || i == 25, ..ask(i, 1.0) });
    let keys: Vec<u32> = coded.iter().filter(|c| c.key).map(|c| c.frame).collect();
    assert_eq!(keys, [0, 25]);
    let mut decoder = H264Decoder::new().unwrap();
    for coded in &coded[25..] {
        assert!(decoder.decode(&payload(coded)).unwrap().is_some());
    }
}

#[test]
fn the_same_asks_give_the_same_bytes() {
    let run = || stream(H264Config::new(320, 180, INTERVAL), 40, |i| ask(i, 0.5 + f64::from(i % 7)));
    assert!(run().iter().zip(run()).all(|(a, b)| a.payload == b.payload));
}

#[test]
fn slices_fit_their_packets() {
    for limit in [600, 1_100] {
        let config = H264Config { slices: Some(limit), ..H264Config::new(640, 360, INTERVAL) };
        let coded = stream(config, 40, |i| Ask { key: i % 20 == 0, ..ask(i, 4.0) });
        let mut decoder = H264Decoder::new().unwrap();
        let mut most = 0;
        for coded in &coded {
            let starts = [0].into_iter().chain(coded.pieces.iter().copied());
            let sizes: Vec<u32> = starts.zip(&coded.pieces).map(|(start, end)| end - start).collect();
            assert_eq!(coded.pieces.last(), Some(&coded.size));
            most = most.max(*sizes.iter().max().unwrap());
            let bytes = payload(coded);
            let begins = |end: &u32| bytes[*end as usize..].starts_with(&[0, 0, 0, 1]);
            assert!(coded.pieces.iter().filter(|end| **end < coded.size).all(begins));
            assert!(decoder.decode(&bytes).unwrap().is_some());
        }
        println!("slices of at most {limit} bytes: largest {most}");
        assert!(most as usize <= limit, "a slice of {most} bytes");
    }
}

#[test]
fn threads_cut_frames_into_slices() {
    let config = H264Config { threads: 2, ..H264Config::new(320, 180, INTERVAL) };
    let run = || stream(config.clone(), 20, |i| ask(i, 2.0));
    let coded = run();
    assert!(coded.iter().all(|c| c.pieces.len() == 2 && c.pieces[1] == c.size));
    assert!(coded.iter().zip(run()).all(|(a, b)| a.payload == b.payload));
}

#[test]
fn a_lost_frame_stops_decoding_until_a_key_frame() {
    let coded =
        stream(H264Config::new(320, 180, INTERVAL), 20, |i| Ask { key: i == 0 || i == 12, ..ask(i, 1.0) });
    let mut decoder = H264Decoder::new().unwrap();
    let good =
        |decoder: &mut H264Decoder, i: usize| decoder.decode(&payload(&coded[i])).is_ok_and(|f| f.is_some());
    assert!((0..5).all(|i| good(&mut decoder, i)));
    assert!((6..12).all(|i| !good(&mut decoder, i)), "a frame after the lost one was shown");
    assert!((12..20).all(|i| good(&mut decoder, i)));
}

#[test]
fn a_lost_slice_stops_decoding_until_a_key_frame() {
    let config = H264Config { slices: Some(600), ..H264Config::new(320, 180, INTERVAL) };
    let coded = stream(config, 12, |i| Ask { key: i == 0 || i == 9, ..ask(i, 3.0) });
    let mut decoder = H264Decoder::new().unwrap();
    let shown = |decoder: &mut H264Decoder, bytes: &[u8]| decoder.decode(bytes).is_ok_and(|f| f.is_some());
    assert!((0..5).all(|i| shown(&mut decoder, &payload(&coded[i]))));
    let (from, to) = (coded[5].pieces[0] as usize, coded[5].pieces[1] as usize);
    let bytes = payload(&coded[5]);
    assert!(!shown(&mut decoder, &[&bytes[..from], &bytes[to..]].concat()));
    assert!((6..9).all(|i| !shown(&mut decoder, &payload(&coded[i]))));
    assert!((9..12).all(|i| shown(&mut decoder, &payload(&coded[i]))));
}

#[test]
fn refusals_say_what_is_wrong() {
    let base = || H264Config::new(640, 360, INTERVAL);
    let said = |config: H264Config| H264Encoder::new(config).err().expect("must be refused").to_string();
    assert!(said(H264Config { width: 641, ..base() }).contains("641x360 is not an even size"));
    assert!(said(H264Config { width: 5_000, ..base() }).contains("3840x2160"));
    assert!(said(H264Config { interval: Span::ZERO, ..base() }).contains("interval"));
    assert!(said(H264Config { slices: Some(50), ..base() }).contains("slices"));
    assert!(said(H264Config { threads: 0, ..base() }).contains("threads"));
    assert!(said(H264Config { key_ratio: f64::NAN, ..base() }).contains("ratio"));
    let mut encoder = H264Encoder::new(base()).unwrap();
    assert!(encoder.submit(Time::ZERO, None, &ask(0, 1.0)).is_err());
    let small = Arc::new(RawFrame::filled(64, 64, 0, 0, 0));
    assert!(matches!(encoder.submit(Time::ZERO, Some(&small), &ask(0, 1.0)), Err(CodecError::Size { .. })));
    assert!(encoder.poll(Time::MAX).is_none());
}

#[test]
fn extreme_rates_are_held_to_what_the_codec_bears() {
    let mut encoder = H264Encoder::new(H264Config::new(64, 64, INTERVAL)).unwrap();
    let mut source = game(64, 64, 1);
    for (frame, bitrate) in
        [Rate::ZERO, Rate::MAX, Rate::from_bps(1), Rate::from_mbps(100)].into_iter().enumerate()
    {
        for interval in [INTERVAL, Span::ZERO, Span::from_millis(1), Span::from_secs(100)] {
            let ask = Ask { bitrate, interval, ..ask(frame as u32, 0.0) };
            let coded = encode(&mut encoder, &source.next_picture().unwrap(), &ask);
            assert!(coded.target <= Rate::from_mbps(200));
        }
    }
}

/// Damages a stream: cuts, flips, overwrites, duplicates.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = |rng: &mut Rng, bytes: &[u8]| rng.below(bytes.len().max(1) as u64) as usize;
    match rng.below(4) {
        0 => bytes.truncate(at(rng, bytes)),
        1 => (0..=rng.below(20)).for_each(|_| {
            let i = at(rng, bytes);
            bytes.iter_mut().skip(i).take(1).for_each(|b| *b ^= 1 << rng.below(8));
        }),
        2 => {
            let i = at(rng, bytes);
            bytes.iter_mut().skip(i).take(16).for_each(|b| *b = rng.next_u64() as u8);
        }
        _ => {
            let i = at(rng, bytes);
            let tail = bytes[i..].to_vec();
            bytes.extend(tail);
        }
    }
}

/// A unit of any type with random contents; parameter sets among them.
fn invented(rng: &mut Rng) -> Vec<u8> {
    let kind =
        if rng.chance(0.5) { rng.next_u64() as u8 } else { [0x67, 0x68, 0x65, 0x61][rng.below(4) as usize] };
    let mut bytes = vec![0, 0, 0, 1, kind];
    bytes.extend((0..rng.below(120)).map(|_| rng.next_u64() as u8));
    bytes
}

#[test]
fn malformed_streams_are_errors_not_crashes() {
    let config = H264Config { slices: Some(500), ..H264Config::new(64, 48, INTERVAL) };
    let coded = stream(config, 30, |i| Ask { key: i % 10 == 0, ..ask(i, 2.0) });
    let mut rng = Rng::stream(1, "malformed");
    let mut decoder = H264Decoder::new().unwrap();
    let (mut errors, mut shown) = (0, 0);
    for case in 0..4_000 {
        // A good key frame, which must always be shown, then something wrong where the next frame should be.
        assert!(decoder.decode(&payload(&coded[0])).is_ok_and(|frame| frame.is_some()), "case {case}");
        let mut bytes = payload(&coded[[1, 10][case / 4 % 2]]).to_vec();
        match case % 4 {
            0 | 1 => damage(&mut bytes, &mut rng),
            2 => bytes = invented(&mut rng),
            _ => bytes.extend(invented(&mut rng)),
        }
        match decoder.decode(&bytes) {
            Ok(frame) => shown += u32::from(frame.is_some()),
            Err(_) => errors += 1,
        }
    }
    println!("4000 malformed units: {errors} errors, {shown} pictures");
    assert!(errors > 1_000 && shown > 50);
}

#[test]
fn the_cut_after_a_still_scene_is_a_key_frame_and_no_flood() {
    let mut encoder = H264Encoder::new(H264Config::new(640, 360, INTERVAL)).unwrap();
    let still = game(640, 360, 1).next_picture().unwrap();
    for frame in 0..120 {
        encode(&mut encoder, &still, &ask(frame, 2.0));
    }
    let cut = encode(&mut encoder, &game(640, 360, 2).next_picture().unwrap(), &ask(120, 2.0));
    assert!(cut.key);
    let budgets = f64::from(cut.size) * 8.0 / (2e6 * INTERVAL.as_secs_f64());
    assert!(budgets < 8.0, "{budgets}");
}

#[test]
fn a_key_frame_is_held_to_its_bound_and_refined_without_a_flood() {
    for slices in [None, Some(1_100)] {
        held_to_its_bound(H264Config { slices, ..H264Config::new(1280, 720, INTERVAL) });
    }
}

fn held_to_its_bound(config: H264Config) {
    let bound = Size::new(16_000);
    let (mut source, mut decoder) = (game(1280, 720, 1), H264Decoder::new().unwrap());
    let coded = stream(config, 60, |i| Ask {
        key: i == 0 || i == 15 || i == 30,
        largest: (i == 30).then_some(bound),
        ..ask(i, 2.0)
    });
    let sizes: Vec<u32> = coded.iter().map(|coded| coded.size).collect();
    let psnr: Vec<f64> = coded
        .iter()
        .map(|coded| {
            let seen = decoder.decode(&payload(coded)).unwrap().unwrap();
            quality(&source.next_picture().unwrap(), &seen).unwrap().psnr_y
        })
        .collect();
    println!("{sizes:?} bytes, {psnr:.1?} dB");
    assert!(coded[15].key && u64::from(sizes[15]) > bound.get());
    assert!(coded[30].key && u64::from(sizes[30]) <= bound.get());
    assert_eq!(coded.iter().filter(|coded| coded.key).count(), 3);
    // 2 Mbit/s are 8333 bytes a frame.
    assert!(sizes[31..].iter().all(|size| *size < 3 * 8_333));
    assert!(psnr[30] < psnr[29] - 2.0 && psnr[45] > psnr[30] + 2.0, "refined");
}
