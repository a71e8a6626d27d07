//! YUV4MPEG2, the uncompressed clip format every video tool reads and writes.
//!
//! ```text
//! YUV4MPEG2 W1280 H720 F30:1 Ip A1:1 C420jpeg\n
//! FRAME\n <luma> <blue> <red>
//! FRAME\n ...
//! ```
//!
//! The format is described in mjpegtools' yuv4mpeg(5). Read here: 8-bit 4:2:0 with even sides, from any
//! [`Read`], one picture at a time. The variants of `C420` differ only in where chroma is sampled, which no
//! metric here looks at.

use std::io::{self, BufRead, BufReader, Read, Write};

use units::Span;

use crate::{ClipError, RawFrame};

/// Longest side accepted, in pixels: a hostile header can't ask for more than 100 MB a picture.
pub const MAX_SIDE: usize = 8192;
/// Longest header or frame line accepted, in bytes: ffmpeg writes about 60.
const MAX_LINE: usize = 1024;
/// What [`Y4mReader`] reads, for error messages.
const ACCEPTED: &str = "YUV4MPEG2 with 8-bit 4:2:0 colour (C420, C420jpeg, C420mpeg2, C420paldv) and even sides up to 8192; \
                        `ffmpeg -i IN -pix_fmt yuv420p OUT.y4m` makes one";

/// What a Y4M header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Y4mHeader {
    /// Luma columns, even, at most [`MAX_SIDE`].
    pub width: usize,
    /// Luma rows, even, at most [`MAX_SIDE`].
    pub height: usize,
    /// Time between pictures; `None` if the header leaves the rate open (`F0:0` or no `F`).
    pub interval: Option<Span>,
}

fn side(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if n == 0 || n > MAX_SIDE => Err(format!("a side of {n} pixels")),
        Ok(n) if n % 2 == 1 => Err(format!("an odd side of {n} pixels")),
        Ok(n) => Ok(n),
        Err(_) => Err(format!("a side of `{text}` pixels")),
    }
}

/// `num:den` pictures a second as the time between pictures, rounded to the nanosecond. Rates from one
/// picture in 100 s to 1000 a second are believed.
fn interval(text: &str) -> Result<Option<Span>, String> {
    let refuse = || format!("a frame rate of `{text}`");
    let (num, den) = text.split_once(':').ok_or_else(refuse)?;
    let num: u32 = num.parse().map_err(|_| refuse())?;
    let den: u32 = den.parse().map_err(|_| refuse())?;
    if num == 0 || den == 0 {
        return Ok(None);
    }
    let (num, den) = (u64::from(num), u64::from(den));
    let ns = (den * 1_000_000_000 + num / 2) / num;
    if (1_000_000..=100_000_000_000).contains(&ns) {
        Ok(Some(Span::from_nanos(ns as i64)))
    } else {
        Err(refuse())
    }
}

fn colour(text: &str) -> Result<(), String> {
    match text {
        "420" | "420jpeg" | "420mpeg2" | "420paldv" => Ok(()),
        other => Err(format!("colour space C{other}")),
    }
}

impl Y4mHeader {
    /// Reads the header line, without its line feed.
    ///
    /// # Errors
    /// What was found that isn't accepted.
    pub fn parse(line: &[u8]) -> Result<Y4mHeader, String> {
        let text = std::str::from_utf8(line).map_err(|_| "a header that is not text".to_owned())?;
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        if words.next() != Some("YUV4MPEG2") {
            return Err("no YUV4MPEG2 at the start".to_owned());
        }
        let (mut width, mut height, mut rate) = (None, None, None);
        for word in words {
            let (tag, value) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
            match tag {
                "W" => width = Some(side(value)?),
                "H" => height = Some(side(value)?),
                "F" => rate = interval(value)?,
                "C" => colour(value)?,
                // Interlacing, aspect ratio and comments change nothing here.
                _ => {}
            }
        }
        match (width, height) {
            (Some(width), Some(height)) => Ok(Y4mHeader { width, height, interval: rate }),
            _ => Err("a header without width and height".to_owned()),
        }
    }
}

/// Reads a Y4M stream picture by picture; never holds more than one.
pub struct Y4mReader<R> {
    file: String,
    read: BufReader<R>,
    header: Y4mHeader,
    pictures: u64,
}

impl<R: Read> Y4mReader<R> {
    /// Reads the header. `file` names the stream in errors.
    ///
    /// # Errors
    /// [`ClipError::Format`] if it isn't 8-bit 4:2:0 Y4M, [`ClipError::Read`] if reading fails.
    pub fn new(read: R, file: &str) -> Result<Y4mReader<R>, ClipError> {
        let mut read = BufReader::new(read);
        let refuse = |found: String| ClipError::Format { file: file.to_owned(), found, accepted: ACCEPTED };
        let line =
            read_line(&mut read).map_err(|source| ClipError::Read { file: file.to_owned(), source })?;
        if line.is_empty() {
            return Err(refuse("an empty file".to_owned()));
        }
        let header = Y4mHeader::parse(&line).map_err(refuse)?;
        Ok(Y4mReader { file: file.to_owned(), read, header, pictures: 0 })
    }

    /// What the header said.
    pub fn header(&self) -> Y4mHeader {
        self.header
    }

    /// The next picture, or `None` at the end of the stream.
    ///
    /// # Errors
    /// [`ClipError::Read`] if reading fails or the last picture is cut short, [`ClipError::Format`] if
    /// something else than a picture follows.
    pub fn next_frame(&mut self) -> Result<Option<RawFrame>, ClipError> {
        let line = read_line(&mut self.read).map_err(|source| self.broken(source))?;
        if line.is_empty() {
            return Ok(None);
        }
        if line != b"FRAME" && !line.starts_with(b"FRAME ") {
            let found = format!("no FRAME where picture {} should begin", self.pictures);
            return Err(ClipError::Format { file: self.file.clone(), found, accepted: ACCEPTED });
        }
        let mut frame = RawFrame::filled(self.header.width, self.header.height, 0, 0, 0);
        for plane in [&mut frame.y, &mut frame.u, &mut frame.v] {
            self.read.read_exact(plane).map_err(|source| self.broken(source))?;
        }
        self.pictures += 1;
        Ok(Some(frame))
    }

    fn broken(&self, source: io::Error) -> ClipError {
        let source = match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(source.kind(), format!("it ends in the middle of picture {}", self.pictures))
            }
            _ => source,
        };
        ClipError::Read { file: self.file.clone(), source }
    }
}

/// A line without its line feed; at most [`MAX_LINE`] bytes, the rest of a longer one is left unread.
fn read_line(read: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    read.take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(line)
}

/// Writes a Y4M stream.
pub struct Y4mWriter<W> {
    write: W,
    width: usize,
    height: usize,
}

/// A frame rate as a fraction: whole numbers and the NTSC rates (over 1001) exactly, others in nanoseconds.
fn rate_of(interval: Span) -> (u64, u64) {
    let ns = interval.as_nanos().max(1) as u64;
    let close = |num: u64, den: u64| num > 0 && (den * 1_000_000_000).div_ceil(num).abs_diff(ns) <= 1;
    let whole = (1_000_000_000 + ns / 2) / ns;
    let ntsc = (1_001_000_000_000 + ns / 2) / ns;
    match (close(whole, 1), close(ntsc, 1001)) {
        (true, _) => (whole, 1),
        (_, true) => (ntsc, 1001),
        _ => (1_000_000_000, ns),
    }
}

impl<W: Write> Y4mWriter<W> {
    /// Writes the header of a clip with `interval` between pictures.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn new(mut write: W, width: usize, height: usize, interval: Span) -> io::Result<Y4mWriter<W>> {
        let (num, den) = rate_of(interval);
        writeln!(write, "YUV4MPEG2 W{width} H{height} F{num}:{den} Ip A1:1 C420jpeg")?;
        Ok(Y4mWriter { write, width, height })
    }

    /// Writes one picture.
    ///
    /// # Errors
    /// Those of the writer, and `InvalidInput` if the picture's size isn't the clip's.
    pub fn write(&mut self, frame: &RawFrame) -> io::Result<()> {
        if (frame.width, frame.height) != (self.width, self.height) {
            let what = format!("{frame:?} in a clip of {}x{}", self.width, self.height);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.write.write_all(b"FRAME\n")?;
        [&frame.y, &frame.u, &frame.v].into_iter().try_for_each(|plane| self.write.write_all(plane))
    }

    /// Flushes and gives the writer back.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.write.flush()?;
        Ok(self.write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    fn read_all(bytes: &[u8]) -> Result<Vec<RawFrame>, ClipError> {
        let mut reader = Y4mReader::new(bytes, "test.y4m")?;
        let mut frames = Vec::new();
        while let Some(frame) = reader.next_frame()? {
            frames.push(frame);
        }
        Ok(frames)
    }

    fn written(frames: &[RawFrame], interval: Span) -> Vec<u8> {
        let mut writer = Y4mWriter::new(Vec::new(), frames[0].width, frames[0].height, interval).unwrap();
        frames.iter().for_each(|frame| writer.write(frame).unwrap());
        writer.finish().unwrap()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let frames: Vec<RawFrame> = (0..3).map(|i| testing::textured(34, 18, i)).collect();
        let bytes = written(&frames, Span::from_millis(20));
        assert_eq!(read_all(&bytes).unwrap(), frames);
        let header = Y4mReader::new(bytes.as_slice(), "x").unwrap().header();
        assert_eq!(header.interval, Some(Span::from_millis(20)));
    }

    #[test]
    fn rates_stay_readable() {
        assert_eq!(rate_of(Span::from_nanos(33_333_333)), (30, 1));
        assert_eq!(rate_of(Span::from_nanos(16_683_333)), (60_000, 1001));
        assert_eq!(rate_of(Span::from_nanos(83_210_001)), (1_000_000_000, 83_210_001));
    }

    fn refusal(header: &str) -> String {
        read_all(header.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn refusals_name_file_finding_and_remedy() {
        let said = refusal("YUV4MPEG2 W64 H48 F30:1 C444\nFRAME\n");
        assert!(
            said.starts_with("test.y4m: colour space C444; accepted: YUV4MPEG2 with 8-bit 4:2:0"),
            "{said}"
        );
        assert!(refusal("YUV4MPEG2 W64 H48 F30:1 C420p10\n").contains("C420p10"));
        assert!(refusal("YUV4MPEG2 W63 H48\n").contains("odd side of 63"));
        assert!(refusal("YUV4MPEG2 W64 H99998\n").contains("side of 99998"));
        assert!(refusal("YUV4MPEG2 W64 H-2\n").contains("side of `-2`"));
        assert!(refusal("YUV4MPEG2 W64 H48 F9999999:1\n").contains("frame rate"));
        assert!(refusal("YUV4MPEG2 H48\n").contains("without width and height"));
        assert!(refusal("RIFF....").contains("no YUV4MPEG2"));
        assert!(refusal("").contains("empty file"));
        assert!(refusal("YUV4MPEG2 W64 H48\nFRAME\nabc").contains("ends in the middle of picture 0"));
        assert!(refusal("YUV4MPEG2 W64 H48\nfoo\n").contains("no FRAME where picture 0"));
    }

    #[test]
    fn an_open_rate_is_none() {
        assert_eq!(Y4mHeader::parse(b"YUV4MPEG2 W2 H2 F0:0").unwrap().interval, None);
        assert_eq!(Y4mHeader::parse(b"YUV4MPEG2 W2 H2").unwrap().interval, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_pictures(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = read_all(&bytes);
        }

        #[test]
        fn any_header_words_are_survived(
            words in proptest::collection::vec("[WHFCIAXé][0-9:a-z-]{0,9}", 0..8), tail in "[ -~\n]{0,80}"
        ) {
            let text = format!("YUV4MPEG2 {}\n{tail}", words.join(" "));
            if let Ok(header) = Y4mHeader::parse(text.lines().next().unwrap().as_bytes()) {
                prop_assert!(header.width <= MAX_SIDE && header.height <= MAX_SIDE);
                prop_assert!(header.interval.is_none_or(|i| i.is_positive()));
            }
        }

        #[test]
        fn cut_streams_are_errors_and_keep_whole_pictures(cut in 0usize..500) {
            let frames: Vec<RawFrame> = (0..2).map(|i| testing::textured(8, 4, i)).collect();
            let bytes = written(&frames, Span::from_millis(20));
            let cut = cut.min(bytes.len());
            let mut got = 0;
            if let Ok(mut reader) = Y4mReader::new(&bytes[..cut], "x") {
                while let Ok(Some(frame)) = reader.next_frame() {
                    prop_assert_eq!(&frame, &frames[got]);
                    got += 1;
                }
            }
            prop_assert_eq!(got == 2, cut == bytes.len());
        }
    }
}
