//! The other end of an encoder without a network: how what came of a frame would look, by a recorded table.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use units::{Span, Time};
use vixnn::packet::{self, Gathered, Group};
use vixnn::{BLOCK, DESCRIPTORS, Received};

use super::decoder::decoded;
use super::table::{MASKS, VixnnLook, VixnnTable};
use super::{is_size, refuse};
use crate::{Codec, CodecError, Decoded, Decoder, Earlier, Parts, RawFrame};

/// Looks that nobody has asked for yet are kept so long: more than any playout holds frames.
const KEPT: usize = 4_096;

/// How decoded frames look, on the way from decoders to whoever shows frames.
#[derive(Clone, Debug, Default)]
pub struct VixnnLooks(Arc<Mutex<VecDeque<(u8, u32, VixnnLook)>>>);

impl VixnnLooks {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(u8, u32, VixnnLook)>> {
        self.0.lock().expect("neither side panics while it holds the lock")
    }

    fn put(&self, stream: u8, frame: u32, look: VixnnLook) {
        let mut looks = self.lock();
        if looks.len() == KEPT {
            looks.pop_front();
        }
        looks.push_back((stream, frame, look));
    }

    /// How a stream's frame looks as it was decoded last; what is older of that stream is forgotten.
    pub fn take(&self, stream: u8, frame: u32) -> Option<VixnnLook> {
        let mut looks = self.lock();
        let found = looks.iter().rev().find(|of| (of.0, of.1) == (stream, frame)).map(|of| of.2);
        looks.retain(|of| of.0 != stream || of.1 > frame);
        found
    }
}

/// "Decodes" packets of [`VixnnEncoder::modelled`](super::VixnnEncoder::modelled), and any others of ViXNN:
/// notes which descriptors came of which block, and how that looks by the table. The pictures it gives are
/// empty.
pub struct VixnnModelDecoder {
    table: Arc<VixnnTable>,
    stream: u8,
    looks: VixnnLooks,
    /// Of each block the frame in which anything last came of it.
    came: Vec<Option<u32>>,
    ready: VecDeque<Decoded>,
}

impl VixnnModelDecoder {
    /// A decoder of the stream of this number, which tells `looks` how its frames look.
    pub fn new(table: Arc<VixnnTable>, stream: u8, looks: VixnnLooks) -> VixnnModelDecoder {
        VixnnModelDecoder { table, stream, looks, came: Vec::new(), ready: VecDeque::new() }
    }

    /// The frames before it in its group, and whether some packets did not count.
    fn decode(&mut self, frame: u32, packets: &[&[u8]]) -> Result<(Vec<Earlier>, bool), CodecError> {
        if let Some(count) = self.whole(packets) {
            let mut blocks = [0; MASKS + 1];
            blocks[(1 << count) - 1] = self.came.len() as u32;
            self.came.fill(Some(frame));
            self.looks.put(self.stream, frame, self.table.look(frame, &blocks, 0.0));
            return Ok((Vec::new(), false));
        }
        let gathered = packet::gather(packets, |width, height| {
            is_size(width, height) && (width, height) == (self.table.width, self.table.height)
        });
        let gathered = gathered.or_else(|error| refuse(error.to_string()))?;
        let Gathered { received, earlier, group, ignored, .. } = gathered;
        let backs = group.as_ref().map_or(&[][..], Group::backs);
        let interval = Span::from_micros(group.map_or(0, |group| i64::from(group.interval_us())));
        let mut before = Vec::with_capacity(backs.len());
        for (received, &back) in earlier.iter().zip(backs) {
            if let Some(frame) = frame.checked_sub(back.into()) {
                self.note(frame, received);
            }
            let before_it = interval * i64::from(back);
            before.push(Earlier { back: back.into(), before: before_it, picture: empty() });
        }
        self.note(frame, &received);
        Ok((before, ignored > 0))
    }

    /// How many descriptors there are, if these are all packets of the first ones of a frame by itself: there
    /// is no need to look at each block then.
    fn whole(&mut self, packets: &[&[u8]]) -> Option<usize> {
        let blocks = self.table.width.div_ceil(BLOCK) * self.table.height.div_ceil(BLOCK);
        self.came.resize(blocks, None);
        let mut next = (0, 0);
        for bytes in packets {
            let (header, words) = packet::parse(bytes).ok()?;
            let of_table = header.fingerprint == self.table.fingerprint
                && (header.width.into(), header.height.into()) == (self.table.width, self.table.height);
            let goes_on = (usize::from(header.descriptor), header.first as usize) == next;
            if header.group.is_some() || !of_table || !goes_on {
                return None;
            }
            next.1 += words.len();
            if next.1 == blocks {
                next = (next.0 + 1, 0);
            }
        }
        (next.1 == 0 && (1..=DESCRIPTORS).contains(&next.0)).then_some(next.0)
    }

    /// Notes what came of a frame.
    fn note(&mut self, frame: u32, received: &Received) {
        let mut blocks = [0; MASKS + 1];
        self.came.resize(received.masks().len(), None);
        let oldest = f64::from(*self.table.ages.last().expect("a table has ages"));
        let mut ages = 0.0;
        for (&mask, came) in received.masks().iter().zip(&mut self.came) {
            blocks[usize::from(mask)] += 1;
            match mask {
                0 => ages += came.map_or(oldest, |came| f64::from(frame.saturating_sub(came))),
                _ => *came = Some(frame),
            }
        }
        let age = ages / f64::from(blocks[0].max(1));
        self.looks.put(self.stream, frame, self.table.look(frame, &blocks, age));
    }

    fn finish(&mut self, frame: u32, packets: &[&[u8]], complete: bool) {
        let pictures = self.decode(frame, packets).map(|(before, ignored)| (before, empty(), ignored));
        self.ready.push_back(decoded(frame, complete, pictures));
    }
}

/// A picture without any pixels.
fn empty() -> RawFrame {
    RawFrame { width: 0, height: 0, y: Vec::new(), u: Vec::new(), v: Vec::new() }
}

impl Decoder for VixnnModelDecoder {
    fn submit(&mut self, _: Time, frame: u32, coded: Bytes) {
        self.finish(frame, &packet::split(&coded), true);
    }

    fn uses_parts(&self) -> bool {
        true
    }

    fn standalone(&self) -> Option<fn(&[u8]) -> bool> {
        Some(Codec::stands_alone)
    }

    fn submit_parts(&mut self, _: Time, frame: u32, parts: &Parts) {
        let packets: Vec<&[u8]> = parts.present.iter().map(|part| &part.bytes[..]).collect();
        self.finish(frame, &packets, parts.complete);
    }

    fn poll(&mut self, _: Time) -> Option<Decoded> {
        self.ready.pop_front()
    }

    fn next_ready(&self) -> Option<Time> {
        self.ready.front().map(|_| Time::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::*;
    use crate::codec::PacketOrder;
    use crate::{Ask, Coded, Encoder, Part, VixnnConfig, VixnnDecoder, VixnnEncoder};

    fn table() -> Arc<VixnnTable> {
        VixnnTable::by_name("synthetic_game").unwrap()
    }

    fn config(order: PacketOrder, group: usize) -> VixnnConfig {
        let table = table();
        let base = VixnnConfig::new(table.width, table.height, table.interval());
        VixnnConfig { payload: 500, order, group, ..base }
    }

    fn ask(frame: u32, kbps: u64) -> Ask {
        let bitrate = Rate::from_kbps(kbps);
        Ask { frame, bitrate, interval: Span::ZERO, key: false, largest: None, height: None, peer: None }
    }

    fn coded(encoder: &mut VixnnEncoder, picture: Option<&Arc<RawFrame>>) -> Vec<Coded> {
        let rates = [0, 300, 500, 900, 1_400, 4_000, 4_000, 200, 200];
        for (frame, kbps) in (0..).zip(rates) {
            encoder.submit(Time::ZERO, picture, &ask(frame, kbps)).unwrap();
        }
        encoder.flush(Time::ZERO);
        std::iter::from_fn(|| encoder.poll(Time::MAX)).collect()
    }

    /// The packets of a frame.
    fn packets(coded: &Coded) -> Vec<&[u8]> {
        let (bytes, starts) = (coded.payload.as_ref().unwrap(), [0].into_iter().chain(coded.pieces.clone()));
        starts.zip(&coded.pieces).map(|(from, &to)| &bytes[from as usize..to as usize]).collect()
    }

    #[test]
    fn frames_have_the_sizes_and_packets_that_the_network_gives_them() {
        let picture = Arc::new(RawFrame::filled(352, 288, 90, 120, 140));
        for (order, group) in [(PacketOrder::Rows, 1), (PacketOrder::Permuted, 1), (PacketOrder::Rows, 4)] {
            let model = vixnn::Model::shipped(&table().model).unwrap();
            assert_eq!(model.fingerprint(), table().fingerprint);
            let network = VixnnConfig { model: Some(model), ..config(order, group) };
            let real = coded(&mut VixnnEncoder::new(network).unwrap(), Some(&picture));
            let mut without = VixnnEncoder::modelled(config(order, group), &table()).unwrap();
            let model = coded(&mut without, None);
            assert_eq!(real.len(), model.len());
            for (real, model) in real.iter().zip(&model) {
                let of = |c: &Coded| (c.frame, c.size, c.key, c.pieces.clone(), c.apart, c.earlier, c.target);
                assert_eq!(of(real), of(model));
                let headers = |coded| -> Vec<packet::Header> {
                    packets(coded).iter().map(|bytes| packet::parse(bytes).unwrap().0).collect()
                };
                assert_eq!(headers(real), headers(model));
            }
            let sizes: Vec<u32> = model.iter().map(|coded| coded.size).collect();
            assert!(sizes.iter().max() > sizes.iter().min(), "{sizes:?}");
        }
        assert!(
            VixnnEncoder::modelled(VixnnConfig { entropy: true, ..config(PacketOrder::Rows, 1) }, &table())
                .is_err()
        );
    }

    #[test]
    fn what_came_is_seen_and_older_blocks_look_worse() {
        let mut encoder = VixnnEncoder::modelled(config(PacketOrder::Rows, 1), &table()).unwrap();
        encoder.submit(Time::ZERO, None, &ask(0, 4_000)).unwrap();
        let frame = encoder.poll(Time::MAX).unwrap();
        let looks = VixnnLooks::default();
        let mut decoder = VixnnModelDecoder::new(table(), 3, looks.clone());
        let all = packets(&frame);
        let each = all.len() / DESCRIPTORS;
        let mut look = |number: u32, packets: &[&[u8]]| {
            decoder.finish(number, packets, packets.len() == all.len());
            let decoded = decoder.poll(Time::ZERO).unwrap();
            assert_eq!((decoded.frame, decoded.concealed), (number, packets.len() < all.len()));
            looks.take(3, number).unwrap()
        };
        let frame = |mask: usize| {
            let mut blocks = [0; MASKS + 1];
            blocks[mask] = 396;
            blocks
        };
        assert_eq!(look(5, &all), table().look(5, &frame(255), 0.0));
        assert_eq!(look(6, &all[..3 * each]), table().look(6, &frame(7), 0.0));
        assert_eq!(look(7, &all[each..2 * each]), table().look(7, &frame(2), 0.0));
        // The first rows of the picture came last with frame 7, the others with each frame.
        let (ninth, tenth) = (look(9, &all[1..each]), look(10, &all[1..each]));
        let first = packet::parse(all[0]).unwrap().1.len() as u32;
        let mut blocks = [0; MASKS + 1];
        (blocks[0], blocks[1]) = (first, 396 - first);
        assert_eq!((ninth, tenth), (table().look(9, &blocks, 2.0), table().look(10, &blocks, 3.0)));
        assert!(looks.take(3, 10).is_none() && looks.take(2, 9).is_none());
    }

    #[test]
    fn it_decodes_what_the_real_decoder_does() {
        let mut real = VixnnDecoder::new(None, 1);
        let mut model = VixnnModelDecoder::new(table(), 0, VixnnLooks::default());
        for group in [1, 4] {
            let mut encoder = VixnnEncoder::modelled(config(PacketOrder::Rows, group), &table()).unwrap();
            for coded in coded(&mut encoder, None) {
                let mut packets = packets(&coded);
                packets.truncate(packets.len().div_ceil(2));
                packets.push(b"VX torn");
                let part = |bytes: &&[u8]| Part { number: 0, bytes: Bytes::copy_from_slice(bytes) };
                let parts = Parts { present: packets.iter().map(part).collect(), complete: false };
                real.submit_parts(Time::ZERO, coded.frame, &parts);
                model.submit_parts(Time::ZERO, coded.frame, &parts);
                let of = |decoded: Decoded| {
                    let earlier: Vec<_> = decoded.earlier.iter().map(|e| (e.back, e.before)).collect();
                    (decoded.frame, decoded.picture.is_ok(), decoded.concealed, earlier)
                };
                assert_eq!(real.poll(Time::ZERO).map(of), model.poll(Time::ZERO).map(of));
            }
        }
        model.finish(99, &[b"nothing"], false);
        assert!(model.poll(Time::ZERO).unwrap().picture.is_err());
    }
}
