//! JPEG at low rates, as libjpeg codes it: baseline, sequential (ITU-T T.81), Annex K's quantisation tables
//! scaled by libjpeg's quality, Huffman tables made for the picture, chroma whole (4:4:4) or halved (4:2:0).
//!
//! The encoder of ffmpeg won't do: it always quantises the mean of a block by 8, which at 0.15 bits a pixel
//! costs half of all bits.

use vixnn::Picture;

/// Table K.1.
const LUMA: [u16; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17,
    22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78,
    87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
];
/// Table K.2, but for what is 99.
const CHROMA: [(usize, u16); 14] = [
    (0, 17),
    (1, 18),
    (2, 24),
    (3, 47),
    (8, 18),
    (9, 21),
    (10, 26),
    (11, 66),
    (16, 24),
    (17, 26),
    (18, 56),
    (24, 47),
    (25, 66),
    (26, 99),
];
/// Figure 5: where the coefficients lie that are coded one after the other.
const ZIGZAG: [usize; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// A coded picture.
pub(super) struct Jpeg {
    /// The whole file, from its first marker to its last.
    pub bytes: Vec<u8>,
    /// Bytes of its entropy-coded data: without headers and tables.
    pub scan: usize,
}

/// Samples of one component, level-shifted, padded to whole blocks.
struct Plane {
    columns: usize,
    samples: Vec<f32>,
}

/// A component of the scan.
struct Component {
    plane: Plane,
    /// Blocks across and down in a minimum coded unit.
    sampling: usize,
    quanta: [u16; 64],
}

/// A symbol's extra bits: what is coded, in order, before Huffman codes are known.
#[derive(Clone, Copy)]
struct Token {
    /// 0 and 1 are luma's tables of means and of the rest, 2 and 3 those of chroma.
    table: usize,
    symbol: u8,
    bits: u32,
    count: u8,
}

fn quanta(base: [u16; 64], quality: u32) -> [u16; 64] {
    // libjpeg, jpeg_quality_scaling().
    let scale = if quality < 50 { 5000 / quality.max(1) } else { 200 - 2 * quality.min(100) };
    base.map(|base| ((u32::from(base) * scale + 50) / 100).clamp(1, 255) as u16)
}

/// Y, Cb and Cr of JFIF, of a picture whose last pixels repeat up to `unit`.
fn planes(picture: &Picture, unit: usize) -> [Plane; 3] {
    let (columns, rows) = (picture.width.next_multiple_of(unit), picture.height.next_multiple_of(unit));
    let mut planes = [0, 1, 2].map(|_| Plane { columns, samples: Vec::with_capacity(columns * rows) });
    for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
        let at = y.min(picture.height - 1) * picture.width + x.min(picture.width - 1);
        let [r, g, b] = [0, 1, 2].map(|plane| f32::from(picture.rgb[at * 3 + plane]));
        planes[0].samples.push(0.299 * r + 0.587 * g + 0.114 * b - 128.0);
        planes[1].samples.push(-0.168_736 * r - 0.331_264 * g + 0.5 * b);
        planes[2].samples.push(0.5 * r - 0.418_688 * g - 0.081_312 * b);
    }
    planes
}

/// Means of two by two samples.
fn halved(plane: &Plane) -> Plane {
    let (columns, rows) = (plane.columns / 2, plane.samples.len() / plane.columns / 2);
    let mean = |at: usize| {
        let first = at / columns * 2 * plane.columns + at % columns * 2;
        let pair = |first: usize| plane.samples[first] + plane.samples[first + 1];
        (pair(first) + pair(first + plane.columns)) / 4.0
    };
    Plane { columns, samples: (0..columns * rows).map(mean).collect() }
}

/// The discrete cosine transform (section A.3.3) of a block, quantised.
fn transformed(
    plane: &Plane,
    (row, column): (usize, usize),
    quanta: &[u16; 64],
    cosines: &[[f32; 8]; 8],
) -> [i32; 64] {
    let at = |y: usize, x: usize| plane.samples[(row * 8 + y) * plane.columns + column * 8 + x];
    let mut across = [[0.0f32; 8]; 8];
    for (y, sums) in across.iter_mut().enumerate() {
        for (u, sum) in sums.iter_mut().enumerate() {
            *sum = (0..8).map(|x| at(y, x) * cosines[u][x]).sum();
        }
    }
    let mut out = [0; 64];
    for (place, out) in out.iter_mut().enumerate() {
        let (v, u) = (place / 8, place % 8);
        let value: f32 = (0..8).map(|y| across[y][u] * cosines[v][y]).sum();
        *out = (value / f32::from(quanta[place])).round() as i32;
    }
    out
}

fn cosines() -> [[f32; 8]; 8] {
    let scale = |u: usize| if u == 0 { 0.125f64.sqrt() } else { 0.5 };
    let cosine = |u: usize, x: usize| ((2 * x + 1) as f64 * u as f64 * std::f64::consts::PI / 16.0).cos();
    std::array::from_fn(|u| std::array::from_fn(|x| (scale(u) * cosine(u, x)) as f32))
}

/// A number as its size in bits, and these (section F.1.2.1).
fn sized(value: i32) -> (u8, u32) {
    let size = (32 - value.unsigned_abs().leading_zeros()) as u8;
    let bits = if value < 0 { value - 1 } else { value };
    (size, bits as u32 & ((1u32 << size) - 1))
}

fn tokens_of(block: &[i32; 64], before: i32, table: usize, out: &mut Vec<Token>) {
    let (size, bits) = sized(block[0] - before);
    out.push(Token { table, symbol: size, bits, count: size });
    let mut zeros = 0;
    for &place in &ZIGZAG[1..] {
        if block[place] == 0 {
            zeros += 1;
            continue;
        }
        while zeros > 15 {
            out.push(Token { table: table + 1, symbol: 0xf0, bits: 0, count: 0 });
            zeros -= 16;
        }
        let (size, bits) = sized(block[place]);
        out.push(Token { table: table + 1, symbol: (zeros << 4) | size, bits, count: size });
        zeros = 0;
    }
    if zeros > 0 {
        out.push(Token { table: table + 1, symbol: 0, bits: 0, count: 0 });
    }
}

/// A Huffman table: how many codes have each length from 1 on, and what they stand for.
type Codes = ([u8; 16], Vec<u8>);

/// The shortest codes for symbols that occur so often (Annex K.2), none of them all ones, none above 16 bits.
fn codes(often: &[u64; 256]) -> Codes {
    // A symbol that is never coded takes the code of all ones.
    let mut weights: Vec<u64> = often.iter().copied().chain([1]).collect();
    let mut lengths = [0usize; 257];
    let mut groups: Vec<Vec<usize>> = (0..257).map(|symbol| vec![symbol]).collect();
    loop {
        let mut there: Vec<usize> = (0..257).filter(|&at| weights[at] > 0).collect();
        if there.len() < 2 {
            break;
        }
        // Of equal weights the later symbol first, so that the one for all ones has the longest code.
        there.sort_by_key(|&at| (weights[at], std::cmp::Reverse(at)));
        let (least, next) = (there[0], there[1]);
        weights[next] += std::mem::take(&mut weights[least]);
        let moved = std::mem::take(&mut groups[least]);
        groups[next].extend(moved);
        groups[next].iter().for_each(|&symbol| lengths[symbol] += 1);
    }
    let mut of_length = [0usize; 64];
    lengths.iter().filter(|length| **length > 0).for_each(|&length| of_length[length] += 1);
    // Figure K.3: pairs of codes that are too long are made shorter.
    for length in (17..64).rev() {
        while of_length[length] > 0 {
            let shorter = (1..length - 1).rev().find(|&length| of_length[length] > 0);
            let Some(shorter) = shorter else { break };
            of_length[length] -= 2;
            of_length[length - 1] += 1;
            of_length[shorter + 1] += 2;
            of_length[shorter] -= 1;
        }
    }
    if let Some(longest) = (1..=16).rev().find(|&length| of_length[length] > 0) {
        of_length[longest] -= 1;
    }
    let mut symbols: Vec<usize> = (0..256).filter(|&symbol| often[symbol] > 0).collect();
    symbols.sort_by_key(|&symbol| (lengths[symbol], symbol));
    let counts = std::array::from_fn(|at| of_length[at + 1] as u8);
    (counts, symbols.into_iter().map(|symbol| symbol as u8).collect())
}

/// Of each symbol its code and the code's length (Annex C).
fn numbered((counts, symbols): &Codes) -> [(u32, u8); 256] {
    let mut all = [(0, 0); 256];
    let (mut code, mut next) = (0u32, symbols.iter());
    for (length, &count) in (1u8..).zip(counts) {
        for &symbol in next.by_ref().take(usize::from(count)) {
            all[usize::from(symbol)] = (code, length);
            code += 1;
        }
        code <<= 1;
    }
    all
}

/// Bits, the first highest, with a zero byte after each of all ones (section F.1.2.3).
fn written(tokens: &[Token], tables: &[Codes]) -> Vec<u8> {
    let tables: Vec<[(u32, u8); 256]> = tables.iter().map(numbered).collect();
    let (mut out, mut held, mut count) = (Vec::new(), 0u64, 0u32);
    let mut put = |bits: u32, length: u8| {
        (held, count) = ((held << length) | u64::from(bits), count + u32::from(length));
        while count >= 8 {
            let byte = (held >> (count - 8)) as u8;
            out.push(byte);
            if byte == 0xff {
                out.push(0);
            }
            count -= 8;
        }
    };
    for token in tokens {
        let (code, length) = tables[token.table][usize::from(token.symbol)];
        put(code, length);
        put(token.bits, token.count);
    }
    put(0x7f, 7);
    out
}

fn segment(marker: u8, body: &[u8]) -> Vec<u8> {
    [&[0xff, marker], &(body.len() as u16 + 2).to_be_bytes(), body].concat()
}

/// Codes a picture; `quality` is from 1 to 100, as libjpeg counts it.
pub(super) fn code(picture: &Picture, quality: u32, halve: bool) -> Jpeg {
    let mut chroma = [99; 64];
    CHROMA.iter().for_each(|&(at, quantum)| chroma[at] = quantum);
    let (luma, chroma) = (quanta(LUMA, quality), quanta(chroma, quality));
    let unit = if halve { 16 } else { 8 };
    let [y, blue, red] = planes(picture, unit);
    let small = |plane: Plane| if halve { halved(&plane) } else { plane };
    let (across, down) = (y.columns / unit, y.samples.len() / y.columns / unit);
    let components = [
        Component { plane: y, sampling: unit / 8, quanta: luma },
        Component { plane: small(blue), sampling: 1, quanta: chroma },
        Component { plane: small(red), sampling: 1, quanta: chroma },
    ];
    let cosines = cosines();
    let (mut tokens, mut before) = (Vec::new(), [0; 3]);
    for (row, column) in (0..down).flat_map(|row| (0..across).map(move |column| (row, column))) {
        for (number, component) in components.iter().enumerate() {
            let n = component.sampling;
            for block in 0..n * n {
                let place = (row * n + block / n, column * n + block % n);
                let block = transformed(&component.plane, place, &component.quanta, &cosines);
                tokens_of(&block, before[number], if number == 0 { 0 } else { 2 }, &mut tokens);
                before[number] = block[0];
            }
        }
    }
    let mut often = [[0u64; 256]; 4];
    tokens.iter().for_each(|token| often[token.table][usize::from(token.symbol)] += 1);
    let tables = often.map(|often| codes(&often));
    let scan = written(&tokens, &tables);
    Jpeg { scan: scan.len(), bytes: file(picture, &components, &tables, scan) }
}

fn file(picture: &Picture, components: &[Component; 3], tables: &[Codes; 4], scan: Vec<u8>) -> Vec<u8> {
    let mut out = vec![0xff, 0xd8];
    out.extend(segment(0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"));
    for (number, component) in (0u8..).zip(&components[..2]) {
        let quanta = ZIGZAG.iter().map(|&place| component.quanta[place] as u8);
        out.extend(segment(0xdb, &[number].into_iter().chain(quanta).collect::<Vec<u8>>()));
    }
    let sides = [(picture.height as u16).to_be_bytes(), (picture.width as u16).to_be_bytes()].concat();
    let of = |(number, component): (u8, &Component)| {
        [number + 1, (component.sampling * 17) as u8, u8::from(number > 0)]
    };
    let frame: Vec<u8> = (0u8..).zip(components).flat_map(of).collect();
    out.extend(segment(0xc0, &[&[8], sides.as_slice(), &[3], &frame].concat()));
    for (number, (counts, symbols)) in tables.iter().enumerate() {
        // Class (means or the rest), and which of two.
        let head = (((number % 2) << 4) | (number / 2)) as u8;
        out.extend(segment(0xc4, &[&[head], counts.as_slice(), symbols].concat()));
    }
    out.extend(segment(0xda, &[3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0]));
    out.extend(scan);
    out.extend([0xff, 0xd9]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vixnn::ffmpeg;
    use crate::vixnn::pictures::tests::drawn;
    use crate::vixnn::pictures::{quality, split};

    #[test]
    fn codes_are_those_of_a_prefix_code() {
        let mut often = [0; 256];
        for (symbol, often) in often.iter_mut().enumerate() {
            // Fibonacci's numbers give the longest codes, beyond 16 bits.
            *often = (0..symbol.min(40)).fold((1u64, 1u64), |(a, b), _| (b, a + b)).0;
        }
        let codes = codes(&often);
        let numbered = numbered(&codes);
        assert!(numbered.iter().all(|&(_, length)| (1..=16).contains(&length)));
        // Kraft's sum stays below one: the code of all ones is left.
        let sum: f64 = numbered.iter().map(|&(_, length)| 0.5f64.powi(i32::from(length))).sum();
        assert!(sum < 1.0, "{sum}");
        let mut taken: Vec<u32> = numbered.iter().map(|&(code, length)| code << (16 - length)).collect();
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn numbers_have_the_sizes_of_table_f_1() {
        assert_eq!([0, 1, -1, 5, -5].map(sized), [(0, 0), (1, 1), (1, 0), (3, 5), (3, 2)]);
    }

    #[test]
    fn another_decoder_reads_it() {
        if !crate::vixnn::ffmpeg::is_there() {
            println!("skipped: no ffmpeg");
            return;
        }
        let picture = drawn(70, 41, 0);
        // Colours change from pixel to pixel in it, which halved chroma can't show.
        for (halve, least) in [(false, 34.0), (true, 18.0)] {
            let coded = [20, 95].map(|quality| code(&picture, quality, halve));
            assert!(coded[0].scan < coded[1].scan && coded[1].scan < coded[1].bytes.len() - 300);
            let decoded = ffmpeg::run(
                &["-v", "error", "-f", "mjpeg", "-i", "pipe:0", "-pix_fmt", "rgb24", "-f", "rawvideo", "-"],
                &coded[1].bytes,
            );
            let shown = split(&decoded.unwrap().out, (70, 41)).unwrap();
            let found = quality(&picture, &shown[0]).unwrap();
            assert!(found.psnr > least && found.ssim > 0.99, "{found:?}");
        }
    }
}
