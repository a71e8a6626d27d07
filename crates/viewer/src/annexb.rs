//! What a decoder wants to know of a coded frame before it takes it: an H.264 byte stream (ITU-T H.264 annex
//! B), looked at no further than its units' types.

/// Unit types (ITU-T H.264 table 7-1).
const IDR_SLICE: u8 = 5;
const SEQUENCE_PARAMETERS: u8 = 7;

/// The units of a byte stream, without their start codes (00 00 01).
fn units(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = next_unit(stream);
    std::iter::from_fn(move || {
        let unit = rest?;
        rest = next_unit(unit);
        Some(unit)
    })
}

/// What follows the first start code.
fn next_unit(stream: &[u8]) -> Option<&[u8]> {
    let at = stream.windows(3).position(|three| three == [0, 0, 1])?;
    stream.get(at + 3..)
}

fn unit_type(unit: &[u8]) -> Option<u8> {
    unit.first().map(|head| head & 31)
}

/// Whether the frame decodes without an earlier one.
pub fn is_key(frame: &[u8]) -> bool {
    units(frame).find_map(|unit| unit_type(unit).filter(|kind| (1..=IDR_SLICE).contains(kind)))
        == Some(IDR_SLICE)
}

/// The codec as WebCodecs names it (RFC 6381 section 3.3: profile, constraints and level in hexadecimal
/// digits), if the frame brings its sequence's parameters.
pub fn codec(frame: &[u8]) -> Option<String> {
    let parameters = units(frame).find(|unit| unit_type(unit) == Some(SEQUENCE_PARAMETERS))?;
    let [profile, constraints, level] = *parameters.get(1..4)? else { return None };
    Some(format!("avc1.{profile:02X}{constraints:02X}{level:02X}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: [u8; 25] =
        [0, 0, 0, 1, 0x67, 0x42, 0xe0, 0x1e, 9, 9, 0, 0, 0, 1, 0x68, 0xce, 0, 0, 0, 1, 0x65, 0xb8, 0, 4, 0];

    #[test]
    fn a_key_frame_names_its_codec() {
        assert!(is_key(&KEY));
        assert_eq!(codec(&KEY).as_deref(), Some("avc1.42E01E"));
        let predicted = [0, 0, 1, 0x41, 0x9a, 0, 0, 1, 0x65];
        assert!(!is_key(&predicted), "the first slice decides");
        assert_eq!(codec(&predicted), None);
        assert_eq!(codec(&KEY[..7]), None, "cut within the parameters");
        assert!(!is_key(&[]) && !is_key(&[0, 0, 1]));
    }

    proptest! {
        #[test]
        fn any_bytes_will_do(bytes in prop::collection::vec(0u8..4, 0..200)) {
            is_key(&bytes);
            codec(&bytes);
        }
    }
}
