//! Shown pictures as a Y4M stream, which knows one size only: that of the first, to which later ones of
//! another are scaled.

use std::io::{Error, Result, Write};

use media::{RawFrame, Scaler, Y4mWriter};
use units::Span;

/// Writes pictures as a Y4M stream, scaled to the size of the first.
pub struct Pictures<W: Write> {
    writer: Y4mWriter<W>,
    size: (usize, usize),
    scaler: Scaler,
}

impl<W: Write> Pictures<W> {
    /// A stream of pictures of the size of `first`, which is not written yet, labelled as `interval` apart.
    pub fn new(out: W, first: &RawFrame, interval: Span) -> Result<Pictures<W>> {
        let size = (first.width, first.height);
        let writer = Y4mWriter::new(out, size.0, size.1, interval)?;
        Ok(Pictures { writer, size, scaler: Scaler::default() })
    }

    /// Writes the next picture.
    pub fn write(&mut self, picture: &RawFrame) -> Result<()> {
        let picture = self.scaler.fit(picture, self.size).map_err(Error::other)?;
        self.writer.write(&picture)
    }

    /// Ends the stream.
    pub fn finish(self) -> Result<()> {
        self.writer.finish().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_another_size_are_scaled_to_the_first() {
        let mut out = Vec::new();
        let mut pictures =
            Pictures::new(&mut out, &RawFrame::filled(32, 16, 9, 8, 7), Span::from_millis(40)).unwrap();
        for (width, height) in [(32, 16), (16, 8), (64, 32)] {
            pictures.write(&RawFrame::filled(width, height, 9, 8, 7)).unwrap();
        }
        pictures.finish().unwrap();
        let frame = [b"FRAME\n".as_slice(), &[9; 512], &[8; 128], &[7; 128]].concat();
        assert!(out.starts_with(b"YUV4MPEG2 W32 H16 ") && out.ends_with(&frame.repeat(3)));
    }
}
