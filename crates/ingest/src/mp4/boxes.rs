//! The boxes: CMAF's header and segments (ISO/IEC 23000-19 sections 7.3.1 and 7.3.2), and what a plain file
//! has of the same.

use mp4_atom::{
    Avc1, Avcc, AvccExt, Codec, Dinf, Dref, DrefEntry, Encode, FourCC, Ftyp, Hdlr, Mdhd, Mdia, Mfhd, Minf,
    Moof, Moov, Mvex, Mvhd, Stbl, Stsd, Stsz, StszSamples, Styp, Tfdt, Tfhd, Tkhd, Traf, Trak, Trex, Trun,
    TrunEntry, Url, Visual, Vmhd,
};

use super::{Description, Sample, TIMESCALE};

/// The one track of every file.
const TRACK: u32 = 1;
/// `sample_depends_on` nothing (ISO/IEC 14496-12 section 8.8.3.1).
const KEY: u32 = 2 << 24;
/// `sample_depends_on` others, and `sample_is_non_sync_sample`.
const DEPENDENT: u32 = 1 << 24 | 1 << 16;

/// What comes before the first segment: `ftyp` and a `moov` without samples. It depends on nothing but `of`,
/// so that one file serves all segments of a stream.
///
/// # Panics
/// If a parameter set is longer than 65535 bytes, which [`Description::new`] refuses.
pub fn header(of: &Description) -> Vec<u8> {
    let brands = [b"iso6", b"cmfc", b"mp41"].map(FourCC::new);
    let ftyp = Ftyp { major_brand: brands[0], minor_version: 0, compatible_brands: brands.into() };
    // Tables are mandatory, empty as they are: the samples are in the segments.
    let samples = StszSamples::Identical { count: 0, size: 0 };
    let empty = Stbl { stsz: Stsz { samples }, stco: Some(Default::default()), ..Stbl::default() };
    let defaults = Trex { track_id: TRACK, default_sample_description_index: 1, ..Trex::default() };
    let moov = Moov { mvex: Some(Mvex { mehd: None, trex: vec![defaults] }), ..moov(of, 0, empty) };
    let mut bytes = encoded(&ftyp);
    bytes.extend(encoded(&moov));
    bytes
}

/// One segment: `styp`, `moof` and `mdat`. `number` counts segments from 0, `begins` is the first sample's
/// time in ticks; the first sample should be a key frame, for players begin anywhere.
///
/// # Panics
/// If the samples take 2 GiB or more, which no segment of a few seconds does.
///
/// ```
/// use framewire_ingest::mp4::{AccessUnit, segment};
///
/// let frame = AccessUnit::read(&[0, 0, 1, 0x65, 0x88, 0x84])?.lasting(3_000);
/// let bytes = segment(12, 12 * 180_000, &[frame]);
/// assert_eq!(&bytes[4..8], b"styp");
/// # Ok::<(), framewire_ingest::mp4::Mp4Error>(())
/// ```
pub fn segment(number: u32, begins: u64, samples: &[Sample]) -> Vec<u8> {
    let brands = [b"msdh", b"cmfs", b"iso6"].map(FourCC::new);
    let styp = Styp { major_brand: brands[0], minor_version: 0, compatible_brands: brands.into() };
    let mut bytes = encoded(&styp);
    // The data's place depends on the length of the box that says it, which no number in it changes.
    let length = encoded(&moof(number, begins, samples, 0)).len();
    let data = i32::try_from(length + 8).expect("a segment has not a hundred million samples");
    bytes.extend(encoded(&moof(number, begins, samples, data)));
    let size: usize = samples.iter().map(|sample| sample.bytes.len()).sum();
    let size = i32::try_from(size + 8).expect("a segment takes less than 2 GiB");
    bytes.reserve(size as usize);
    bytes.extend_from_slice(&(size as u32).to_be_bytes());
    bytes.extend_from_slice(b"mdat");
    samples.iter().for_each(|sample| bytes.extend_from_slice(&sample.bytes));
    bytes
}

fn moof(number: u32, begins: u64, samples: &[Sample], data: i32) -> Moof {
    let entry = |sample: &Sample| TrunEntry {
        duration: Some(sample.duration),
        size: Some(sample.bytes.len() as u32),
        flags: Some(if sample.key { KEY } else { DEPENDENT }),
        cts: None,
    };
    let entries: Vec<_> = samples.iter().map(entry).collect();
    let run = Trun { data_offset: Some(data), samples: entries.into() };
    let traf = Traf {
        tfhd: Tfhd { track_id: TRACK, default_base_is_moof: true, ..Tfhd::default() },
        tfdt: Some(Tfdt { base_media_decode_time: begins }),
        trun: vec![run],
        ..Traf::default()
    };
    // Numbers begin at 1 (ISO/IEC 14496-12 section 8.8.5).
    Moof { mfhd: Mfhd { sequence_number: number.wrapping_add(1) }, traf: vec![traf] }
}

/// A movie of one track that lasts `duration` ticks; `samples` says which, all but how they are coded.
pub(super) fn moov(of: &Description, duration: u64, samples: Stbl) -> Moov {
    let mvhd = Mvhd {
        timescale: TIMESCALE,
        duration,
        rate: 1.into(),
        volume: 1.into(),
        next_track_id: TRACK + 1,
        ..Mvhd::default()
    };
    let tkhd = Tkhd {
        track_id: TRACK,
        duration,
        enabled: true,
        in_movie: true,
        width: of.width.into(),
        height: of.height.into(),
        ..Tkhd::default()
    };
    let mdhd = Mdhd { timescale: TIMESCALE, duration, language: "und".to_owned(), ..Mdhd::default() };
    let stbl = Stbl { stsd: Stsd { codecs: vec![Codec::Avc1(avc1(of))] }, ..samples };
    let here = DrefEntry::Url(Url::default());
    let minf = Minf {
        vmhd: Some(Vmhd::default()),
        dinf: Dinf { dref: Dref { entries: vec![here] } },
        stbl,
        ..Minf::default()
    };
    let hdlr = Hdlr { handler: FourCC::new(b"vide"), name: "video".to_owned() };
    let trak = Trak { tkhd, mdia: Mdia { mdhd, hdlr, minf }, ..Trak::default() };
    Moov { mvhd, trak: vec![trak], ..Moov::default() }
}

fn avc1(of: &Description) -> Avc1 {
    let [profile, constraints, level] = of.profile();
    let high = |[chroma_format, bit_depth_luma, bit_depth_chroma]: [u8; 3]| AvccExt {
        chroma_format,
        bit_depth_luma,
        bit_depth_chroma,
        ..AvccExt::default()
    };
    let avcc = Avcc {
        configuration_version: 1,
        avc_profile_indication: profile,
        profile_compatibility: constraints,
        avc_level_indication: level,
        length_size: 4,
        sequence_parameter_sets: vec![of.sps.to_vec()],
        picture_parameter_sets: vec![of.pps.to_vec()],
        ext: of.high().map(high),
    };
    let visual = Visual { data_reference_index: 1, width: of.width, height: of.height, ..Visual::default() };
    Avc1 { visual, avcc, ..Avc1::default() }
}

/// A box as bytes; those of a header are small.
pub(super) fn encoded(atom: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    atom.encode(&mut bytes).expect("a box of ours is in its range and below 4 GiB");
    bytes
}
