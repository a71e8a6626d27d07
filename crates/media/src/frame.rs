//! A raw picture.

/// An 8-bit 4:2:0 picture (I420), planes without padding. Width and height are even.
#[derive(Clone, PartialEq, Eq)]
pub struct RawFrame {
    /// Luma columns.
    pub width: usize,
    /// Luma rows.
    pub height: usize,
    /// Luma, `width * height` bytes.
    pub y: Vec<u8>,
    /// Blue difference, a quarter as many.
    pub u: Vec<u8>,
    /// Red difference, a quarter as many.
    pub v: Vec<u8>,
}

impl RawFrame {
    /// Red, green and blue of each pixel, 0 to 255, row by row: `3 * width * height` bytes.
    #[cfg(feature = "vixnn")]
    pub fn to_rgb(&self) -> Vec<u8> {
        crate::rgb::to_rgb(self)
    }

    /// A picture of one colour.
    ///
    /// # Panics
    /// If a side is odd or zero.
    pub fn filled(width: usize, height: usize, y: u8, u: u8, v: u8) -> RawFrame {
        assert!(
            width > 0 && height > 0 && width.is_multiple_of(2) && height.is_multiple_of(2),
            "4:2:0 needs even sides"
        );
        let quarter = width * height / 4;
        RawFrame { width, height, y: vec![y; width * height], u: vec![u; quarter], v: vec![v; quarter] }
    }
}

impl std::fmt::Debug for RawFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RawFrame {}x{}", self.width, self.height)
    }
}
