use std::io::{Cursor, Seek, SeekFrom, Write};

use mp4_atom::{Any, DecodeMaybe, Moof, Moov};

use super::testing::{FRAMES, Folder, TICKS, annex_b, complaints, probe, segments, there_is};
use super::*;

/// The boxes of a file, all of it.
fn boxes(bytes: &[u8]) -> Vec<Any> {
    let mut rest = Cursor::new(bytes);
    let all = std::iter::from_fn(|| Any::decode_maybe(&mut rest).unwrap()).collect();
    assert_eq!(rest.position(), bytes.len() as u64, "bytes behind the last box");
    all
}

fn moov(boxes: &[Any]) -> &Moov {
    boxes.iter().find_map(|one| if let Any::Moov(moov) = one { Some(moov) } else { None }).unwrap()
}

fn moof(boxes: &[Any]) -> &Moof {
    boxes.iter().find_map(|one| if let Any::Moof(moof) = one { Some(moof) } else { None }).unwrap()
}

fn movie(description: &Description, segments: &[Vec<Sample>]) -> Vec<u8> {
    let mut movie = Movie::new(Cursor::new(Vec::new()), description).unwrap();
    segments.iter().for_each(|samples| movie.add(samples).unwrap());
    assert_eq!(movie.duration(), lasts(segments));
    movie.finish().unwrap().into_inner()
}

fn lasts(segments: &[Vec<Sample>]) -> u64 {
    segments.iter().flatten().map(|sample| u64::from(sample.duration)).sum()
}

/// Every seventh frame and two in a row, never a segment's first.
fn some(number: u32) -> bool {
    number % 7 == 3 || number == 11
}

fn sample(key: bool, duration: u32) -> Sample {
    Sample { bytes: Bytes::from_static(&[0, 0, 0, 2, 0x65, 1]), duration, key }
}

fn description() -> Description {
    let sps = [0x67, 0x42, 0xc0, 0x0a, 0xda, 0x0a, 0x36, 0x40];
    Description::new(&sps, &[0x68, 0xce, 0x3c, 0x80]).unwrap()
}

#[test]
fn each_key_frame_brings_the_same_description_and_slices_stay() {
    let frames = annex_b(3, |_| false);
    let units: Vec<_> =
        frames.iter().map(|frame| AccessUnit::read(frame.as_ref().unwrap()).unwrap()).collect();
    let first = units[0].description.clone().unwrap();
    assert_eq!((first.width, first.height), (160, 96));
    assert!(first.codec().starts_with("avc1.42"), "{}", first.codec());
    for (number, unit) in (0..).zip(&units) {
        assert_eq!(unit.key, number % FRAMES == 0, "frame {number}");
        assert_eq!(unit.description, unit.key.then(|| first.clone()), "frame {number}");
    }
    let slices = |mut bytes: &[u8]| {
        let mut count = 0;
        while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
            (bytes, count) = (&rest[u32::from_be_bytes(*length) as usize..], count + 1);
        }
        count
    };
    assert!(units.iter().any(|unit| slices(&unit.bytes) > 1), "no frame has several slices");
}

#[test]
fn a_segment_says_when_where_and_how_long() {
    let (description, segments) = segments(1, some);
    let samples = &segments[0];
    let begins = (1 << 33) + 7;
    let bytes = segment(41, begins, samples);
    let boxes = boxes(&[header(&description), bytes.clone()].concat());
    assert!(moov(&boxes).mvex.is_some());
    let moof = moof(&boxes);
    let (traf, run) = (&moof.traf[0], &moof.traf[0].trun[0]);
    assert_eq!(moof.mfhd.sequence_number, 42);
    assert_eq!(traf.tfdt.as_ref().unwrap().base_media_decode_time, begins);
    assert_eq!(run.samples.len(), samples.len());
    // The first sample's bytes are where the run says, behind the first box of the segment.
    let styp = u32::from_be_bytes(*bytes.first_chunk().unwrap()) as usize;
    let data = styp + run.data_offset.unwrap() as usize;
    let all: Vec<u8> = samples.iter().flat_map(|sample| sample.bytes.to_vec()).collect();
    assert_eq!(bytes[data..], all);
    for (entry, sample) in run.samples.iter().zip(samples) {
        assert_eq!(entry.duration, Some(sample.duration));
        assert_eq!(entry.size, Some(sample.bytes.len() as u32));
        assert_eq!(entry.flags.unwrap() & 1 << 16 == 0, sample.key);
    }
}

#[test]
fn a_movies_tables_find_every_sample() {
    let (description, segments) = segments(2, some);
    let bytes = movie(&description, &segments);
    let boxes = boxes(&bytes);
    let stbl = &moov(&boxes).trak[0].mdia.minf.stbl;
    let counts = segments.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(counts[0], counts[1]);
    assert_eq!(stbl.stsc.entries.len(), 1, "segments of as many samples are one entry");
    for (segment, &begins) in segments.iter().zip(&stbl.co64.as_ref().unwrap().entries) {
        let all: Vec<u8> = segment.iter().flat_map(|sample| sample.bytes.to_vec()).collect();
        assert_eq!(bytes[begins as usize..][..all.len()], all);
    }
    let lasts = lasts(&segments);
    assert_eq!(stbl.stts.entries.iter().map(|run| run.sample_count as usize).sum::<usize>(), counts[0] * 2);
    assert_eq!(moov(&boxes).mvhd.duration, lasts);
    assert_eq!(lasts, u64::from(2 * FRAMES * TICKS));
    assert_eq!(stbl.stss.as_ref().unwrap().entries, [1, counts[0] as u32 + 1]);
}

#[test]
fn what_a_movie_cannot_hold_is_refused_and_changes_nothing() {
    let empty = Movie::new(Cursor::new(Vec::new()), &description()).unwrap();
    assert!(matches!(empty.finish(), Err(Mp4Error::Empty)));
    let mut movie = Movie::new(Cursor::new(Vec::new()), &description()).unwrap();
    movie.add(&[]).unwrap();
    movie.add(&[sample(true, 1), sample(false, 1)]).unwrap();
    assert!(matches!(movie.add(&[sample(false, 1)]), Err(Mp4Error::NoKey(2))));
    assert!(matches!(movie.add(&[sample(true, 1), sample(false, 0)]), Err(Mp4Error::NoDuration(3))));
    let file = movie.finish().unwrap().into_inner();
    let boxes = boxes(&file);
    assert_eq!(
        moov(&boxes).trak[0].mdia.minf.stbl.stsz.samples,
        mp4_atom::StszSamples::Different { sizes: vec![6, 6] }
    );
}

#[test]
fn a_day_fits_and_no_more() {
    // Samples without bytes, each as long as no neighbour: as many entries as there can be.
    let sample = |n: usize| Sample { bytes: Bytes::new(), duration: 1 + n as u32 % 2, key: n == 0 };
    let segment: Vec<_> = (0..120).map(sample).collect();
    let mut movie = Movie::new(Cursor::new(Vec::new()), &description()).unwrap();
    for _ in 0..MOST_SAMPLES / segment.len() {
        movie.add(&segment).unwrap();
    }
    assert!(matches!(movie.add(&segment[..1]), Err(Mp4Error::Full)));
    let file = movie.finish().unwrap().into_inner();
    // What the documentation of the limit says.
    assert!((62_000_000..63_000_000).contains(&file.len()), "{} bytes", file.len());
}

/// Keeps what is written in small pieces, with its place; data goes nowhere.
#[derive(Default)]
struct Tables {
    at: u64,
    end: u64,
    kept: Vec<(u64, Vec<u8>)>,
}

impl Write for Tables {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() < 1 << 20 {
            self.kept.push((self.at, bytes.to_vec()));
        }
        self.at += bytes.len() as u64;
        self.end = self.end.max(self.at);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Seek for Tables {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(0) => self.end,
            other => panic!("{other:?}"),
        };
        Ok(self.at)
    }
}

#[test]
fn a_file_above_four_gigabytes_says_where_everything_is() {
    let sample = Sample { bytes: vec![0; 1 << 26].into(), duration: TICKS, key: true };
    let mut movie = Movie::new(Tables::default(), &description()).unwrap();
    (0..70).for_each(|_| movie.add(std::slice::from_ref(&sample)).unwrap());
    let written = movie.finish().unwrap();
    let [(0, _), (begins, _), (tables, moov_box), (patched, head)] = &written.kept[..] else {
        panic!("{} small pieces", written.kept.len());
    };
    assert_eq!((patched, written.end), (begins, tables + moov_box.len() as u64));
    assert_eq!(head[..8], *b"\0\0\0\x01mdat");
    assert_eq!(u64::from_be_bytes(head[8..].try_into().unwrap()), tables - begins);
    let boxes = boxes(moov_box);
    let chunks = &moov(&boxes).trak[0].mdia.minf.stbl.co64.as_ref().unwrap().entries;
    assert_eq!(*chunks.last().unwrap(), tables - (1 << 26));
    assert!(chunks[69] > u64::from(u32::MAX));
}

/// A disk that is full after so many bytes.
struct Full(Cursor<Vec<u8>>, usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.1 = self.1.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Seek for Full {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn a_disk_that_fills_up_is_an_error_wherever_it_happens() {
    let written = |room: usize| {
        let mut movie = Movie::new(Full(Cursor::default(), room), &description())?;
        movie.add(&[sample(true, 1)])?;
        movie.finish().map(|_| ())
    };
    let enough = (0..2_000).find(|room| written(*room).is_ok()).expect("2 kB are enough for one sample");
    assert!((0..enough).all(|room| matches!(written(room), Err(Mp4Error::Io(_)))));
}

#[test]
fn ffmpeg_plays_a_movie_and_segments_with_nothing_to_say() {
    if !there_is("ffmpeg") || !there_is("ffprobe") {
        return;
    }
    let folder = Folder::new();
    for missing in [|_| false, some] {
        let (description, segments) = segments(3, missing);
        let frames: usize = segments.iter().map(Vec::len).sum();
        let whole = folder.write("whole.mp4", movie(&description, &segments));
        let mut pieces = header(&description);
        let mut begins = 0;
        for (number, samples) in (0..).zip(&segments) {
            pieces.extend(segment(number, begins, samples));
            begins += samples.iter().map(|sample| u64::from(sample.duration)).sum::<u64>();
        }
        let pieces = folder.write("pieces.mp4", pieces);
        for file in [&whole, &pieces] {
            assert_eq!(complaints(file), "", "{}", file.display());
            assert_eq!(probe("nb_read_frames", file), frames.to_string());
            assert_eq!(probe("width,height", file), "160,96");
            assert_eq!(probe("time_base", file), "1/90000");
        }
        assert_eq!(probe("duration_ts", &whole), lasts(&segments).to_string());
        assert_eq!(probe("nb_frames", &whole), frames.to_string());
    }
}
