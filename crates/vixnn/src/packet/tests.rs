use proptest::prelude::*;

use super::*;

/// A picture of arbitrary bits.
fn descriptors(width: usize, height: usize) -> Descriptors {
    let (columns, rows) = blocks(width, height);
    let word = |d: usize, block: usize| (block as u16).wrapping_mul(40_503).rotate_left(d as u32) ^ d as u16;
    let bits = std::array::from_fn(|d| (0..columns * rows).map(|block| word(d, block)).collect());
    Descriptors { width, height, bits }
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::Rows), Just(Order::Permuted)]
}

#[test]
fn an_order_has_every_block_once() {
    for blocks in [1, 2, 3, 64, 99, 3_600, 262_144] {
        let mut seen = vec![0_u8; blocks];
        let places = Places::new(blocks, 3, Order::Permuted);
        (0..blocks).for_each(|at| seen[places.block(at)] += 1);
        assert!(seen.iter().all(|&count| count == 1), "{blocks} blocks");
    }
}

#[test]
fn a_permuted_packet_is_spread_over_the_picture() {
    // A tenth of 3,600 blocks: each fourth of the picture has its share, and few are neighbours.
    let places = Places::new(3_600, 0, Order::Permuted);
    let blocks: Vec<_> = (0..360).map(|at| places.block(at)).collect();
    for quarter in 0..4 {
        let there = blocks.iter().filter(|&&block| block / 900 == quarter).count();
        assert!((60..=120).contains(&there), "{there} of 360 in quarter {quarter}");
    }
    let neighbours = blocks.iter().filter(|&&block| blocks.contains(&(block + 1))).count();
    assert!(neighbours < 72, "{neighbours} of 360 have a neighbour; by chance it is 36");
}

#[test]
fn errors_say_what_is_wrong() {
    let whole = cut(&descriptors(64, 48), 7, 1, Order::Rows, 1_200).remove(0);
    let with = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        parse(&bytes).unwrap_err()
    };
    assert_eq!(with(0, b'W'), PacketError::Foreign);
    assert_eq!(with(8, 0x40), PacketError::Flags(0x40));
    assert_eq!(with(8, GROUPED | CODED), PacketError::CodedGroup);
    assert_eq!(with(5, 8), PacketError::Size(8, 48));
    assert_eq!(with(11, 1), PacketError::Beyond(13, 12));
    // The first word becomes the number of coded ones.
    let claims = [&whole[..8], &[CODED, 0, 0, 0, 0, 9], &[7; 3]].concat();
    assert_eq!(parse(&claims).unwrap().1.len(), 9);
    let large = cut(&descriptors(8_192, 8_192), 7, 1, Order::Rows, 1_200).remove(0);
    let claims = [&large[..8], &[CODED, 0, 0, 0, 0xff, 0xff], &[7; 3]].concat();
    assert_eq!(parse(&claims), Err(PacketError::TooMany(65_535, 17)));
    assert_eq!(parse(&whole[..13]).unwrap_err(), PacketError::Torn(13));
    assert_eq!(parse(&whole[..12]).unwrap_err(), PacketError::Torn(12));
    let mut other = Received::none(64, 64);
    assert_eq!(place(&mut other, &whole), Err(PacketError::OtherSize(64, 48)));
    assert_eq!(other, Received::none(64, 64));
}

#[test]
fn a_group_says_what_is_wrong_with_it() {
    let pictures = vec![descriptors(64, 48); 3];
    let whole = cut_group(&pictures, Group::new(1_667, &[4, 1]).unwrap(), 7, 1, Order::Rows, 1_200).remove(0);
    assert_eq!(whole.len(), HEADER + 5 + 3 * 2 * 12);
    let (header, words) = parse(&whole).unwrap();
    let group = header.group.unwrap();
    assert_eq!((group.backs(), group.interval_us(), words.len()), (&[4, 1][..], 16_670, 36));
    let with = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        parse(&bytes).unwrap_err()
    };
    assert_eq!(with(12, 1), PacketError::Pictures(1));
    assert_eq!(with(12, 9), PacketError::Pictures(9));
    assert_eq!(with(15, 1), PacketError::Unordered(1, 1));
    assert_eq!(with(16, 0), PacketError::Unordered(0, 0));
    assert_eq!(with(11, 1), PacketError::Beyond(13, 12));
    for torn in [12, 14, 16, 17, 19, 23 - 4, whole.len() - 2] {
        assert_eq!(parse(&whole[..torn]), Err(PacketError::Torn(torn)), "{torn}");
    }
    assert_eq!(Group::new(1, &[]), Err(PacketError::Pictures(1)));
    assert_eq!(Group::new(1, &[9, 8, 7, 6, 5, 4, 3, 2]), Err(PacketError::Pictures(9)));
}

#[test]
fn what_belongs_to_another_group_does_not_count() {
    let pictures = vec![descriptors(64, 48); 2];
    let of = |back: u8| {
        let group = Group::new(3_333, &[back]).unwrap();
        cut_group(&pictures, group, 7, 2, Order::Rows, 1_200)
    };
    let (one, other) = (of(1), of(2));
    let single = cut(&pictures[0], 7, 3, Order::Rows, 1_200);
    let gathered = gather(&[&one[0], &other[1], &single[2]], |_, _| true).unwrap();
    assert_eq!((gathered.ignored, gathered.earlier.len()), (2, 1));
    assert_eq!(gathered.group, Group::new(3_333, &[1]).ok());
    assert!((0..12).all(|block| gathered.received.count(block) == 1));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_or_refused(
        head in proptest::collection::vec(any::<u8>(), 10),
        rest in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = b"VX".to_vec();
        bytes.extend(head.iter().chain(&rest));
        for bytes in [&bytes, &rest] {
            if let Ok((header, words)) = parse(bytes) {
                let of_each = words.len() / header.pictures();
                prop_assert_eq!(of_each * header.pictures(), words.len());
                let mut received = Received::none(header.width.into(), header.height.into());
                prop_assert_eq!(place(&mut received, bytes), Ok(()));
                prop_assert!(header.first as usize + of_each <= header.blocks());
            }
        }
    }

    #[test]
    fn whatever_arrives_is_placed_where_it_was(
        (width, height, m) in (16_usize..200, 16_usize..200, 0_usize..9),
        (order, most, lost) in (order(), 0_usize..300, proptest::collection::vec(any::<bool>(), 64)),
        (is_coded, sparse) in (any::<bool>(), any::<u16>()),
    ) {
        let mut descriptors = descriptors(width, height);
        descriptors.bits.iter_mut().flatten().for_each(|word| *word &= sparse);
        let payloads = payloads(&descriptors, (0xf00d, m, order, most), is_coded);
        let mut received = Received::none(width, height);
        let mut blocks = 0;
        for (payload, _) in payloads.iter().zip(lost.iter().cycle()).filter(|(_, lost)| !**lost) {
            prop_assert!(payload.len() <= most.max(HEADER + 2));
            let (header, words) = parse(payload).unwrap();
            prop_assert_eq!(header.fingerprint, 0xf00d);
            blocks += words.len();
            place(&mut received, payload).unwrap();
        }
        let count = descriptors.bits[0].len();
        for (d, block) in (0..DESCRIPTORS).flat_map(|d| (0..count).map(move |block| (d, block))) {
            let found = received.present(d, block);
            prop_assert!(found.is_none_or(|bits| bits == descriptors.bits[d][block]));
            blocks -= usize::from(found.is_some());
        }
        prop_assert_eq!(blocks, 0);
    }

    #[test]
    fn m_descriptors_are_a_sixteenth_of_m_bits_a_pixel(
        (columns, rows, m) in (1_usize..40, 1_usize..40, 0_usize..=8),
        (order, most) in (order(), 14_usize..1_500),
    ) {
        let (width, height) = (columns * 16, rows * 16);
        let payloads = cut(&descriptors(width, height), 1, m, order, most);
        let bytes: usize = payloads.iter().map(|payload| payload.len() - HEADER).sum();
        prop_assert_eq!(8.0 * bytes as f64 / (width * height) as f64, 0.0625 * m as f64);
    }

    #[test]
    fn a_group_comes_apart_into_its_pictures(
        (width, height, m) in (16_usize..150, 16_usize..150, 1_usize..9),
        (order, most, lost) in (order(), 0_usize..400, proptest::collection::vec(any::<bool>(), 64)),
        backs in proptest::collection::btree_set(1_u8.., 1..8),
    ) {
        let backs: Vec<u8> = backs.into_iter().rev().collect();
        let group = Group::new(3_333, &backs).unwrap();
        let pictures: Vec<_> = (0..=backs.len()).map(|number| {
            let mut picture = descriptors(width, height);
            picture.bits.iter_mut().flatten().for_each(|word| *word ^= number as u16 * 0x1111);
            picture
        }).collect();
        let payloads = cut_group(&pictures, group, 0xf00d, m, order, most);
        let whole = payloads.concat();
        prop_assert!(split(&whole).into_iter().eq(payloads.iter().map(Vec::as_slice)));
        let came: Vec<&[u8]> = payloads.iter().zip(lost.iter().cycle())
            .filter(|(_, lost)| !**lost).map(|(payload, _)| payload.as_slice()).collect();
        prop_assert!(came.iter().all(|payload| payload.len() <= most.max(HEADER + 10 + 16)));
        prop_assume!(!came.is_empty());
        let gathered = gather(&came, |_, _| true).unwrap();
        prop_assert_eq!((gathered.ignored, gathered.group), (0, Some(group)));
        prop_assert_eq!(gathered.earlier.len(), backs.len());
        let seen = gathered.earlier.iter().chain([&gathered.received]);
        let mut words: usize = came.iter().map(|payload| parse(payload).unwrap().1.len()).sum();
        for (picture, received) in pictures.iter().zip(seen) {
            for (d, block) in (0..DESCRIPTORS).flat_map(|d| (0..picture.bits[d].len()).map(move |b| (d, b))) {
                let found = received.present(d, block);
                prop_assert!(found.is_none_or(|bits| bits == picture.bits[d][block]));
                words -= usize::from(found.is_some());
            }
        }
        prop_assert_eq!(words, 0);
    }

    #[test]
    fn arbitrary_groups_are_read_or_refused(
        (side, flags) in (1_u8..5, 0x20_u8..0x30),
        rest in proptest::collection::vec(0_u8..12, 0..64),
    ) {
        let bytes = [&b"VX\0\x07\0"[..], &[side * 16, 0, side * 16, flags, 0, 0], &rest].concat();
        if let Ok((header, words)) = parse(&bytes) {
            prop_assert!(header.group.is_some() && words.len().is_multiple_of(header.pictures()));
            let gathered = gather(&[&bytes], |_, _| true).unwrap();
            prop_assert_eq!((gathered.ignored, gathered.earlier.len() + 1), (0, header.pictures()));
        }
        prop_assert_eq!(split(&bytes).concat(), bytes);
    }
}
