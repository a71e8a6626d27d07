//! The decoder without the browser.

use std::sync::Arc;

use vixnn::packet::{self, Gathered};
use vixnn::{BLOCK, Decoder, Model, Picture, Received};

/// Longer and shorter side of the largest picture, in pixels, as `media::VixnnDecoder` has it: what a packet
/// says of its picture costs no more than that.
const LARGEST: (usize, usize) = (3840, 2160);
/// Bytes of a pixel.
const RGBA: usize = 4;

/// A decoder of frames. Blocks of which nothing came show what they showed in the picture before, if that had
/// the same size.
#[derive(Default)]
pub struct Player {
    network: Option<Decoder>,
    size: (usize, usize),
    /// The last picture.
    pixels: Vec<u8>,
}

impl Player {
    /// Takes the network in a file's bytes.
    pub fn open(&mut self, weights: &[u8]) -> Result<(), String> {
        let model = Model::parse(weights).map_err(|error| error.to_string())?;
        // A worker of a page is one thread.
        self.network = Some(Decoder::new(Arc::new(model), 1));
        Ok(())
    }

    /// Decodes the packets that came of a frame, each behind its length in two bytes.
    pub fn decode(&mut self, frame: &[u8]) -> Result<(), String> {
        let network = self.network.as_mut().ok_or("there is no network yet")?;
        let gathered = packet::gather(&packets(frame), is_size).map_err(|error| error.to_string())?;
        let Gathered { fingerprint, received, .. } = gathered;
        let known = network.model().fingerprint();
        if fingerprint != known {
            return Err(format!(
                "the frames are of the network {fingerprint:04x}, and the server gave {known:04x}"
            ));
        }
        let picture = network.decode(&received);
        self.draw(&picture, &received);
        Ok(())
    }

    /// Width and height of the last picture in pixels; 0 before the first.
    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    /// The last picture, row by row.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Draws what came of a picture over the one before.
    fn draw(&mut self, picture: &Picture, received: &Received) {
        let &Picture { width, height, ref rgb } = picture;
        let fresh = self.size != (width, height);
        self.size = (width, height);
        self.pixels.resize(width * height * RGBA, u8::MAX);
        let columns = received.blocks().0;
        let lines = rgb.chunks_exact(3 * width).zip(self.pixels.chunks_exact_mut(RGBA * width));
        for (y, (line, to)) in lines.enumerate() {
            let runs = line.chunks(3 * BLOCK).zip(to.chunks_mut(RGBA * BLOCK));
            for (x, (run, to)) in runs.enumerate() {
                if fresh || received.count(y / BLOCK * columns + x) > 0 {
                    for (pixel, to) in run.as_chunks::<3>().0.iter().zip(to.as_chunks_mut::<RGBA>().0) {
                        to[..3].copy_from_slice(pixel);
                    }
                }
            }
        }
    }
}

/// Whether pictures of such sides are decoded.
fn is_size(width: usize, height: usize) -> bool {
    width.max(height) <= LARGEST.0 && width.min(height) <= LARGEST.1
}

/// The packets, each behind its length. What is left is one that is torn.
fn packets(mut frame: &[u8]) -> Vec<&[u8]> {
    let mut packets = Vec::new();
    while let Some((length, rest)) = frame.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (packet, rest) = rest.split_at(length);
        packets.push(packet);
        frame = rest;
    }
    packets
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vixnn::packet::Order;
    use vixnn::{Encoder, Received};

    use super::*;

    const SIZE: (usize, usize) = (72, 40);
    /// Of a packet: two rows of five blocks each.
    const PAYLOAD: usize = packet::HEADER + 2 * 10;

    fn weights() -> &'static [u8] {
        Model::shipped_file(Model::DEFAULT).unwrap()
    }

    fn player() -> Player {
        let mut player = Player::default();
        player.open(weights()).unwrap();
        player
    }

    /// The packets of a picture that is brighter to the right and of this green.
    fn coded(green: u8) -> Vec<Vec<u8>> {
        let model = Model::shipped(Model::DEFAULT).unwrap();
        let pixel = |at: usize| [(at % SIZE.0 * 3) as u8, green, 90];
        let rgb = (0..SIZE.0 * SIZE.1).flat_map(pixel).collect();
        let picture = Picture { width: SIZE.0, height: SIZE.1, rgb };
        let descriptors = Encoder::new(model.clone(), 1).encode(&picture);
        packet::cut(&descriptors, model.fingerprint(), 8, Order::Rows, PAYLOAD)
    }

    fn frame<'a>(packets: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
        let with_length = |packet: &Vec<u8>| [&(packet.len() as u16).to_be_bytes(), &packet[..]].concat();
        packets.into_iter().flat_map(with_length).collect()
    }

    /// What the network makes of packets.
    fn expected(packets: &[&Vec<u8>]) -> Vec<u8> {
        let mut received = Received::none(SIZE.0, SIZE.1);
        packets.iter().for_each(|packet| packet::place(&mut received, packet).unwrap());
        let picture = Decoder::new(Model::shipped(Model::DEFAULT).unwrap(), 1).decode(&received);
        picture.rgb.as_chunks::<3>().0.iter().flat_map(|&[r, g, b]| [r, g, b, 255]).collect()
    }

    #[test]
    fn a_picture_is_what_the_network_makes_of_the_packets_that_came() {
        let (mut player, packets) = (player(), coded(40));
        assert_eq!(packets.len(), 16, "two of each descriptor");
        player.decode(&frame(&packets)).unwrap();
        assert_eq!((player.size(), player.pixels()), (SIZE, &expected(&Vec::from_iter(&packets))[..]));
        let some: Vec<_> = packets.iter().enumerate().filter(|(at, _)| at % 3 > 0).map(|(_, p)| p).collect();
        player.decode(&frame(some.iter().copied())).unwrap();
        assert_eq!(player.pixels(), expected(&some));
    }

    #[test]
    fn blocks_of_which_nothing_came_stay_as_they_were() {
        let (mut player, packets) = (player(), coded(200));
        player.decode(&frame(&coded(40))).unwrap();
        let before = player.pixels().to_vec();
        // The second packet of each descriptor: blocks from the eighth on, the last two of the second row.
        let lower: Vec<_> = packets.iter().skip(1).step_by(2).collect();
        player.decode(&frame(lower.iter().copied())).unwrap();
        let (now, all) = (player.pixels(), expected(&lower));
        let block = |x: usize, y: usize| {
            let at = (y * BLOCK * SIZE.0 + x * BLOCK) * RGBA;
            at..at + BLOCK.min(SIZE.0 - x * BLOCK) * RGBA
        };
        assert_eq!(now[block(4, 0)], before[block(4, 0)]);
        assert_ne!(all[block(4, 0)], before[block(4, 0)]);
        assert_eq!(now[block(4, 2)], all[block(4, 2)]);
    }

    #[test]
    fn what_is_malformed_is_refused_with_words_and_forgotten() {
        let (mut player, packets) = (player(), coded(40));
        assert!(Player::default().decode(&frame(&packets)).unwrap_err().contains("no network"));
        player.decode(&frame(&packets)).unwrap();
        let before = player.pixels().to_vec();
        let with = |at: usize, byte: u8| {
            let mut changed = packets.clone();
            changed.iter_mut().for_each(|packet| packet[at] = byte);
            frame(&changed)
        };
        for (frame, words) in [
            (Vec::new(), "without packets"),
            (vec![0, 4, b'V', b'X'], "torn"),
            (with(0, b'W'), "no packet of ViXNN"),
            (with(2, 1), "and the server gave"),
            (with(4, 0x1f), "not decoded here"),
        ] {
            let said = player.decode(&frame).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
        assert_eq!(player.pixels(), before);
        assert!(player.open(&weights()[..700_000]).is_err());
        // One that is broken costs the others nothing.
        let mut changed = packets.clone();
        changed[0][0] = 0;
        player.decode(&frame(&changed)).unwrap();
        assert_eq!(player.pixels(), expected(&Vec::from_iter(&packets[1..])));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn any_bytes_are_a_picture_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            changes in prop::collection::vec((0..16_usize, 0..28_usize, any::<u8>()), 0..6),
        ) {
            let mut player = player();
            prop_assert!(player.decode(&bytes).is_err());
            let mut packets = coded(40);
            for (packet, at, byte) in changes {
                // Not the sides: large pictures take their time.
                if let Some(to) = packets[packet].get_mut(at).filter(|_| !(4..8).contains(&at)) {
                    *to = byte;
                }
            }
            if player.decode(&frame(&packets)).is_ok() {
                let (width, height) = player.size();
                prop_assert_eq!(player.pixels().len(), width * height * RGBA);
            }
        }
    }
}
