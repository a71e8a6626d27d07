use super::*;
use crate::testing::{INTERVAL, ask, encode, game, payload};
use crate::{AnyDecoder, Decoded, Decoder, Part, Parts, Source, quality};

const SIZE: (usize, usize) = (176, 144);
/// Bytes of one descriptor's packet of such a picture.
const DESCRIPTOR: u32 = 2 * 11 * 9 + 12;

fn config() -> VixnnConfig {
    VixnnConfig::new(SIZE.0, SIZE.1, INTERVAL)
}

fn encoder() -> VixnnEncoder {
    VixnnEncoder::new(config()).unwrap()
}

fn decoder() -> VixnnDecoder {
    VixnnDecoder::new(None, 1)
}

fn parts(coded: &Coded, kept: impl Fn(usize) -> bool) -> Parts {
    let bytes = payload(coded);
    let starts = [0].into_iter().chain(coded.pieces.iter().copied());
    let spans = starts.zip(&coded.pieces).enumerate().filter(|(number, _)| kept(*number));
    let part = |(number, (start, &end)): (usize, (u32, &u32))| Part {
        number: number as u8,
        bytes: bytes.slice(start as usize..end as usize),
    };
    let present: Vec<Part> = spans.map(part).collect();
    Parts { complete: present.len() == coded.pieces.len(), present }
}

fn decode(decoder: &mut VixnnDecoder, parts: &Parts) -> Decoded {
    decoder.submit_parts(Time::ZERO, 7, parts);
    decoder.poll(Time::ZERO).unwrap()
}

/// A picture of the synthetic game, and what comes of it with all eight descriptors.
fn coded(frame: usize, options: VixnnConfig) -> (Arc<RawFrame>, Coded) {
    let mut game = game(options.width, options.height, 1);
    let picture = (0..=frame).map(|_| game.next_picture().unwrap()).last().unwrap();
    let coded = encode(&mut VixnnEncoder::new(options).unwrap(), &picture, &ask(0, 50.0));
    (picture, coded)
}

#[test]
fn as_many_descriptors_are_sent_as_there_is_room_for() {
    let (mut encoder, picture) = (encoder(), game(SIZE.0, SIZE.1, 1).next_picture().unwrap());
    let mut sizes = |asked: Ask| {
        let coded = encode(&mut encoder, &picture, &asked);
        assert!(coded.key && coded.apart && coded.refers_to.is_none());
        assert_eq!(payload(&coded).len() as u32, coded.size);
        let whole = coded.size / DESCRIPTOR * DESCRIPTOR;
        assert!(coded.pieces.iter().copied().eq((1..=coded.size / DESCRIPTOR).map(|n| n * DESCRIPTOR)));
        assert_eq!(coded.size, whole);
        coded.size / DESCRIPTOR
    };
    // 30 frames of 8 descriptors of 210 bytes are 403 kbit/s.
    for (mbps, descriptors) in [(0.0, 1), (0.05, 1), (0.1, 1), (0.102, 2), (0.3, 5), (0.404, 8), (9.0, 8)] {
        assert_eq!(sizes(ask(1, mbps)), descriptors, "{mbps} Mbit/s");
    }
    assert_eq!(sizes(Ask { largest: Some(Size::new(700)), ..ask(1, 9.0) }), 3);
    assert_eq!(sizes(Ask { largest: Some(Size::new(1)), ..ask(1, 9.0) }), 1);
}

#[test]
fn large_pictures_are_cut_to_fit_their_packets() {
    let base = VixnnConfig { payload: 1_150, ..VixnnConfig::new(640, 360, INTERVAL) };
    for order in PacketOrder::ALL {
        let (_, coded) = coded(0, VixnnConfig { order, ..base.clone() });
        // 920 blocks in packets of 567 at most: two for each of eight descriptors.
        assert_eq!((coded.pieces.len(), coded.size), (16, 8 * (2 * 920 + 2 * 12)));
        let all = parts(&coded, |_| true);
        assert!(all.present.iter().all(|part| part.bytes.len() <= 1_147));
    }
}

#[test]
fn a_frame_is_the_same_whole_and_in_parts() {
    for (payload_room, order) in [(1_100, PacketOrder::Rows), (64, PacketOrder::Permuted)] {
        let (picture, coded) = coded(3, VixnnConfig { payload: payload_room, order, ..config() });
        let in_parts = decode(&mut decoder(), &parts(&coded, |_| true));
        let mut whole = decoder();
        whole.submit(Time::ZERO, 7, payload(&coded));
        let whole = whole.poll(Time::ZERO).unwrap();
        assert!(!whole.concealed && !in_parts.concealed);
        let (whole, in_parts) = (whole.picture.unwrap(), in_parts.picture.unwrap());
        assert!(whole == in_parts && (whole.width, whole.height) == SIZE);
        assert!(quality(&picture, &whole).is_ok());
    }
}

#[test]
fn entropy_coding_leaves_room_for_more_descriptors() {
    let sent = |entropy, mbps| {
        let mut encoder = VixnnEncoder::new(VixnnConfig { entropy, ..config() }).unwrap();
        let picture = game(SIZE.0, SIZE.1, 1).next_picture().unwrap();
        encode(&mut encoder, &picture, &ask(0, mbps))
    };
    let (plain, coded) = (sent(false, 50.0), sent(true, 50.0));
    assert_eq!((plain.pieces.len(), coded.pieces.len()), (8, 8));
    assert!(coded.size < plain.size, "{} bytes of {}", coded.size, plain.size);
    // Both hold the same.
    let shown = |coded: &Coded| decode(&mut decoder(), &parts(coded, |_| true)).picture.unwrap();
    assert_eq!(shown(&plain).y, shown(&coded).y);
    // 1,260 bytes a frame are 302 kbit/s: six descriptors, or more of those coded.
    let (plain, coded) = (sent(false, 0.303), sent(true, 0.303));
    assert!(coded.pieces.len() >= plain.pieces.len() && coded.size <= 1_262, "{:?}", coded.pieces);
    assert_eq!(sent(true, 0.0).pieces.len(), 1);
}

#[test]
fn pictures_and_bits_do_not_depend_on_threads() {
    let (_, one) = coded(5, config());
    let (_, three) = coded(5, VixnnConfig { threads: 3, ..config() });
    assert_eq!(payload(&one), payload(&three));
    let half = parts(&one, |number| number % 2 == 0);
    let pictures = [1, 3].map(|threads| {
        let decoded = decode(&mut VixnnDecoder::new(None, threads), &half);
        assert!(decoded.concealed);
        decoded.picture.unwrap()
    });
    assert!(pictures[0] == pictures[1]);
}

#[test]
fn blocks_of_which_nothing_came_show_the_picture_before() {
    let short = VixnnConfig { payload: 64, ..config() };
    let (_, before) = coded(0, short.clone());
    let (_, after) = coded(20, short);
    let mut decoder = decoder();
    let first = decode(&mut decoder, &parts(&before, |_| true)).picture.unwrap();
    // 5 packets a descriptor, of 20 blocks or 19; the first packets of all are lost: nearly two rows.
    let second = decode(&mut decoder, &parts(&after, |number| number % 5 != 0));
    assert!(second.concealed);
    let second = second.picture.unwrap();
    let same =
        |plane: fn(&RawFrame) -> &Vec<u8>, width: usize, rows: std::ops::Range<usize>, columns: usize| {
            rows.into_iter().all(|row| {
                let span = row * width..row * width + columns;
                plane(&first)[span.clone()] == plane(&second)[span]
            })
        };
    // The first row of blocks, and most of the second.
    assert!(same(|of| &of.y, SIZE.0, 0..16, SIZE.0) && same(|of| &of.y, SIZE.0, 16..32, 8 * 16));
    assert!(same(|of| &of.u, SIZE.0 / 2, 0..8, SIZE.0 / 2) && same(|of| &of.v, SIZE.0 / 2, 8..16, 8 * 8));
    assert!(!same(|of| &of.y, SIZE.0, 32..SIZE.1, SIZE.0), "what came is shown");
}

#[test]
fn a_stream_is_recognised_by_any_packet() {
    let (_, coded) = coded(0, config());
    let mut any = AnyDecoder::new(|error| panic!("{error}"));
    let tell = any.standalone().unwrap();
    let some = parts(&coded, |number| number == 5 || number == 6);
    assert!(some.present.iter().all(|part| tell(&part.bytes)));
    assert!(!tell(&[0, 0, 0, 1, 0x65]) && !tell(b"VX?\x9d\x01\x2a") && !tell(b"V"));
    // Nothing of the stream has arrived whole.
    any.submit_parts(Time::ZERO, 4, &some);
    let decoded = any.poll(Time::ZERO).unwrap();
    assert!(decoded.concealed && decoded.frame == 4);
    assert!(decoded.picture.unwrap() == decode(&mut decoder(), &some).picture.unwrap());
}

#[test]
fn what_does_not_fit_is_left_out_and_counted() {
    let (_, coded) = coded(0, config());
    let mut all = parts(&coded, |_| true);
    let mut decoder = decoder();
    let expected = decode(&mut decoder, &parts(&coded, |number| number > 2)).picture.unwrap();
    // A torn packet, one of another network, one of another size.
    all.present[0].bytes = all.present[0].bytes.slice(..11);
    for (part, byte) in [(1, 2), (2, 5)] {
        let mut bytes = all.present[part].bytes.to_vec();
        bytes[byte] ^= 1;
        all.present[part].bytes = bytes.into();
    }
    all.present.rotate_left(3);
    let decoded = decode(&mut decoder, &all);
    assert!(decoded.concealed && decoded.picture.unwrap() == expected);
    assert_eq!(decoder.ignored(), 3);
}

#[test]
fn an_unknown_network_is_named() {
    let (_, coded) = coded(0, config());
    let mut bytes = payload(&coded).to_vec();
    let length = DESCRIPTOR as usize;
    bytes.chunks_mut(length).for_each(|packet| packet[2..4].copy_from_slice(&[0xab, 0xcd]));
    let mut fresh = decoder();
    fresh.submit(Time::ZERO, 0, bytes.clone().into());
    let error = fresh.poll(Time::ZERO).unwrap().picture.unwrap_err();
    assert!(matches!(error, CodecError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("abcd") && error.to_string().contains("--vixnn-model"), "{error}");
    // One stray frame is no reason to give up.
    let mut used = decoder();
    assert!(decode(&mut used, &parts(&coded, |_| true)).picture.is_ok());
    used.submit(Time::ZERO, 0, bytes.into());
    let error = used.poll(Time::ZERO).unwrap().picture.unwrap_err();
    assert!(matches!(error, CodecError::Codec { .. }), "{error:?}");
    assert!(decode(&mut used, &parts(&coded, |_| true)).picture.is_ok());
}

#[test]
fn settings_out_of_range_are_refused() {
    let refused = |config: VixnnConfig| VixnnEncoder::new(config).err().unwrap().to_string();
    for (width, height) in [(14, 16), (177, 144), (3842, 16), (0, 0)] {
        assert!(refused(VixnnConfig { width, height, ..config() }).contains("not an even size"));
    }
    assert!(refused(VixnnConfig { payload: 10, ..config() }).contains("packets of 10 bytes"));
    assert!(refused(VixnnConfig { threads: 0, ..config() }).contains("no thread"));
    assert!(refused(VixnnConfig { group: 9, ..config() }).contains("groups of 9 frames"));
    assert!(refused(VixnnConfig { group: 2, entropy: true, ..config() }).contains("not entropy coded"));
    let slow = VixnnConfig { group: 2, interval: Span::from_secs(1), ..config() };
    assert!(refused(slow).contains("apart"));
    assert!(open_model("slow").unwrap_err().to_string().contains("there are"));
    assert!(open_model("no/such.safetensors").unwrap_err().to_string().contains("no/such.safetensors"));
    let wrong = Arc::new(RawFrame::filled(32, 32, 0, 0, 0));
    let mut encoder = encoder();
    let size = encoder.submit(Time::ZERO, Some(&wrong), &ask(0, 1.0));
    assert!(matches!(size, Err(CodecError::Size { .. })));
    assert!(encoder.submit(Time::ZERO, None, &ask(0, 1.0)).is_err());
}

mod any_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn never_panic(
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
            cut in any::<prop::sample::Index>(), noise in prop::collection::vec(any::<u8>(), 0..40), whole: bool
        ) {
            let (_, coded) = coded(0, VixnnConfig { width: 32, height: 32, payload: 64, ..config() });
            let mut bytes = payload(&coded).to_vec();
            for (at, value) in flips {
                let at = at.index(bytes.len());
                // Large pictures take long, and are none the worse.
                if !matches!(at % 20, 4..8) {
                    bytes[at] = value;
                }
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            bytes.extend(noise);
            let mut decoder = decoder();
            if whole {
                decoder.submit(Time::ZERO, 0, bytes.into());
            } else {
                let present = bytes.chunks(19).zip(0..).map(|(bytes, number)| Part { number, bytes: bytes.to_vec().into() });
                decoder.submit_parts(Time::ZERO, 0, &Parts { present: present.collect(), complete: false });
            }
            let decoded = decoder.poll(Time::ZERO).unwrap();
            prop_assert_eq!(decoded.frame, 0);
        }
    }
}

#[test]
fn what_is_missing_is_filled_in_from_frames_that_are_not_too_old() {
    let (_, coded) = coded(0, config());
    let shown = |decoder: &mut VixnnDecoder, frame, kept: &dyn Fn(usize) -> bool| {
        decoder.submit_parts(Time::ZERO, frame, &parts(&coded, kept));
        decoder.poll(Time::ZERO).unwrap().picture.unwrap()
    };
    let whole = shown(&mut decoder(), 0, &|_| true);
    let alone = shown(&mut decoder(), 0, &|number| number == 2);
    assert!(whole != alone);
    // Frames of which nothing came count, too.
    for (later, expected) in [(1, &whole), (4, &whole), (5, &alone)] {
        let mut decoder = decoder().with_temporal(4);
        shown(&mut decoder, 10, &|_| true);
        assert!(shown(&mut decoder, 10 + later, &|number| number == 2) == *expected, "{later} frames later");
    }
}

/// Pictures of the synthetic game, 0.102 Mbit/s each: two descriptors of 210 bytes.
fn submit(encoder: &mut VixnnEncoder, frames: &[u32]) -> Vec<Arc<RawFrame>> {
    let mut game = game(SIZE.0, SIZE.1, 1);
    let pictures: Vec<_> = frames.iter().map(|_| game.next_picture().unwrap()).collect();
    for (picture, &frame) in pictures.iter().zip(frames) {
        encoder.submit(Time::ZERO, Some(picture), &ask(frame, 0.102)).unwrap();
    }
    pictures
}

#[test]
fn a_group_is_one_coded_frame_of_several_pictures() {
    let mut encoder = VixnnEncoder::new(VixnnConfig { group: 3, ..config() }).unwrap();
    submit(&mut encoder, &[10, 11]);
    assert_eq!((encoder.held(), encoder.next_ready()), (2, None));
    let mut encoder = VixnnEncoder::new(VixnnConfig { group: 3, ..config() }).unwrap();
    let pictures = submit(&mut encoder, &[10, 11, 13]);
    assert_eq!(encoder.held(), 0);
    let coded = encoder.poll(Time::MAX).unwrap();
    assert_eq!((coded.frame, coded.earlier, coded.key, coded.apart), (13, 2, true, true));
    // Two descriptors of 99 blocks for three pictures, behind headers of 17 bytes.
    assert_eq!(coded.pieces, [611, 1_222]);
    // Each picture is what it is by itself, of the descriptors that came.
    for (kept, second) in [(&[0, 1][..], true), (&[0], false)] {
        let mut decoder = decoder();
        decoder.submit_parts(Time::ZERO, 13, &parts(&coded, |number| kept.contains(&number)));
        let decoded = decoder.poll(Time::ZERO).unwrap();
        assert_eq!((decoded.frame, decoded.concealed, decoder.next_ready()), (13, !second, None));
        let found = decoded.earlier.iter().map(|earlier| (earlier.back, earlier.before));
        // Said in units of 10 microseconds.
        let units = INTERVAL.as_nanos() / 10_000 * 10_000;
        assert!(found.eq([3, 2].map(|back| (back, Span::from_nanos(units) * i64::from(back)))));
        let seen = decoded.earlier.iter().map(|earlier| &earlier.picture);
        for (picture, seen) in pictures.iter().zip(seen.chain(decoded.picture.as_ref().ok())) {
            let alone = encode(&mut super::tests::encoder(), picture, &ask(0, 0.102));
            let alone = decode(&mut super::tests::decoder(), &parts(&alone, |number| kept.contains(&number)));
            assert!(alone.picture.unwrap() == *seen);
        }
    }
    // And the same whole.
    let mut whole = decoder();
    whole.submit(Time::ZERO, 13, payload(&coded));
    let whole = whole.poll(Time::ZERO).unwrap();
    assert!(!whole.concealed && whole.earlier.len() == 2);
}

#[test]
fn a_group_that_will_not_be_full_comes_out_as_it_is() {
    let grouped = || VixnnEncoder::new(VixnnConfig { group: 8, ..config() }).unwrap();
    let mut encoder = grouped();
    submit(&mut encoder, &[0, 1]);
    encoder.flush(Time::ZERO);
    let coded = encoder.poll(Time::MAX).unwrap();
    assert_eq!((coded.frame, coded.earlier, encoder.held()), (1, 1, 0));
    // One picture alone is coded as ever.
    submit(&mut encoder, &[2]);
    encoder.flush(Time::ZERO);
    let coded = encoder.poll(Time::MAX).unwrap();
    assert_eq!((coded.frame, coded.earlier, coded.size), (2, 0, 2 * DESCRIPTOR));
    // Nothing is held for frames that are left out, nor with one that comes again.
    for (frames, out) in [(&[0, 5, 40][..], (5, 1)), (&[7, 7], (7, 0))] {
        let mut encoder = grouped();
        submit(&mut encoder, frames);
        let coded = encoder.poll(Time::MAX).unwrap();
        assert_eq!(((coded.frame, coded.earlier), encoder.held()), (out, 1));
    }
}

#[test]
fn what_is_missing_is_filled_in_within_a_group() {
    let mut encoder = VixnnEncoder::new(VixnnConfig { group: 2, ..config() }).unwrap();
    submit(&mut encoder, &[0, 1]);
    let coded = encoder.poll(Time::MAX).unwrap();
    let shown = |decoder: &mut VixnnDecoder| {
        decoder.submit_parts(Time::ZERO, 5, &parts(&coded, |_| true));
        let decoded = decoder.poll(Time::ZERO).unwrap();
        let earlier = decoded.earlier.into_iter().map(|earlier| earlier.picture);
        earlier.chain([decoded.picture.unwrap()]).collect::<Vec<_>>()
    };
    // All of picture 0 came as frame 3: of its group, frames 4 and 5, only two descriptors did.
    let (_, full) = self::coded(0, config());
    let after = |frames: u32| {
        let mut decoder = decoder().with_temporal(frames);
        decoder.submit_parts(Time::ZERO, 3, &parts(&full, |_| true));
        decoder.poll(Time::ZERO).unwrap();
        shown(&mut decoder)
    };
    let (without, one, two) = (shown(&mut decoder()), after(1), after(2));
    assert!(one[0] != without[0] && one[1] == without[1], "frame 5 does not look back to frame 3");
    assert!(two[0] == one[0] && two[1] != without[1]);
}
