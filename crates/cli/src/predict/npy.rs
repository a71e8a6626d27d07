//! Arrays as NumPy reads them (its format 1.0): a head that says shape and type, then the numbers.

use std::io::{self, Write};

use predict::FEATURES;

/// The window's figures, packets sent, packets lost.
pub const COLUMNS: usize = FEATURES + 2;

/// Writes rows of 32-bit floats.
pub fn write(to: &mut impl Write, rows: impl ExactSizeIterator<Item = [f32; COLUMNS]>) -> io::Result<()> {
    let mut head =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {COLUMNS}), }}", rows.len());
    // Magic, version and length are 10 bytes; with the line's end all of it is a multiple of 64.
    let padded = (10 + head.len() + 1).next_multiple_of(64) - 11;
    head = format!("{head:<padded$}\n");
    to.write_all(b"\x93NUMPY\x01\x00")?;
    to.write_all(&(head.len() as u16).to_le_bytes())?;
    to.write_all(head.as_bytes())?;
    for row in rows {
        for number in row {
            to.write_all(&number.to_le_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_a_head_of_whole_blocks_and_its_numbers() {
        let mut file = Vec::new();
        write(&mut file, [[1.5f32; COLUMNS], [0.0; COLUMNS]].into_iter()).unwrap();
        let head = u16::from_le_bytes([file[8], file[9]]) as usize + 10;
        assert_eq!((head % 64, file.len() - head, file[head - 1]), (0, 2 * COLUMNS * 4, b'\n'));
        let text = std::str::from_utf8(&file[10..head]).unwrap();
        assert!(text.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 10), }"), "{text}");
        assert_eq!(file[head..head + 4], 1.5f32.to_le_bytes());
    }
}
