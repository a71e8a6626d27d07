//! Another encoding of the same meaning: sender and receiver do not notice.

use framewire_session::{Receiver, ReceiverConfig, SenderBuilder, Video};
use media::{EncoderModel, ModelConfig, Table};
use netsim::{HostConfig, LinkConfig, QueueSpec, RateProcess, World};
use units::{HostClock, Rate, Span, Time};
use wire::{
    Context, Control, Dialect, Draft, Feedback, KeyFrameRequest, Kind, Media, Nack, Native, Outgoing,
    WireError,
};

/// Bytes before each packet.
const PREFIX: [u8; 5] = *b"other";

/// The native encoding behind a prefix.
struct Other;

fn plain(datagram: &[u8]) -> Result<&[u8], WireError> {
    datagram.strip_prefix(&PREFIX).ok_or(WireError::Truncated)
}

impl Dialect for Other {
    fn header(&self) -> usize {
        PREFIX.len() + Native.header()
    }
    fn least_padding(&self) -> usize {
        PREFIX.len() + Native.least_padding()
    }
    fn peek(&self, datagram: &[u8]) -> Result<(Kind, u32), WireError> {
        Native.peek(plain(datagram)?)
    }
    fn media(&mut self, datagram: &[u8], context: &Context, media: &mut Media) -> Result<usize, WireError> {
        Ok(PREFIX.len() + Native.media(plain(datagram)?, context, media)?)
    }
    fn feedback<'a>(&mut self, datagram: &'a [u8]) -> Result<Feedback<'a>, WireError> {
        Native.feedback(plain(datagram)?)
    }
    fn nack(&mut self, datagram: &[u8]) -> Result<Nack, WireError> {
        Native.nack(plain(datagram)?)
    }
    fn key_frame_request(&mut self, datagram: &[u8]) -> Result<KeyFrameRequest, WireError> {
        Native.key_frame_request(plain(datagram)?)
    }
    fn control<'a>(&mut self, datagram: &'a [u8]) -> Result<Control<'a>, WireError> {
        Native.control(plain(datagram)?)
    }
    fn write(&mut self, packet: Outgoing<'_>, out: &mut [u8]) -> usize {
        out[..PREFIX.len()].copy_from_slice(&PREFIX);
        PREFIX.len() + Native.write(packet, &mut out[PREFIX.len()..])
    }
    fn write_feedback(
        &mut self,
        draft: &Draft<'_>,
        ranges: &mut dyn Iterator<Item = (u64, u64)>,
        out: &mut [u8],
    ) -> (usize, usize) {
        out[..PREFIX.len()].copy_from_slice(&PREFIX);
        let (length, written) = Native.write_feedback(draft, ranges, &mut out[PREFIX.len()..]);
        (PREFIX.len() + length, written)
    }
}

/// Frames shown in two seconds, and the longest datagram.
fn shown(other: bool) -> (u64, u64) {
    let mut world = World::new(1, None);
    let queue: QueueSpec = "droptail:100ms".parse().unwrap();
    let there =
        LinkConfig::bottleneck(RateProcess::Constant(Rate::from_mbps(8)), queue, Span::from_millis(20));
    let there = world.add_link("there", there);
    let back = world.add_link("back", LinkConfig::delay(Span::from_millis(20)));
    let encoder = Box::new(EncoderModel::new(ModelConfig::perfect(Table::big_buck_bunny())).unwrap());
    let tap = world.next_host_tap(HostClock::default());
    let builder = SenderBuilder::default().controller("fixed").rates(
        Rate::from_mbps(2),
        Rate::from_mbps(2),
        Rate::from_mbps(2),
    );
    let sender = builder.video(Video { encoder, source: None, interval: Span::from_millis(20) }).tap(tap);
    let sender = sender.build().unwrap();
    let tap = world.next_host_tap(HostClock::default());
    let receiver = Receiver::new(ReceiverConfig::default(), None, None, tap);
    let (sender, receiver) = if other {
        (sender.speaking(Box::new(Other)), receiver.speaking(Box::new(Other)))
    } else {
        (sender, receiver)
    };
    let sender = world.add_host(HostConfig::new("sender"), sender);
    let receiver = world.add_host(HostConfig::new("receiver"), receiver);
    world.connect(sender, 0, &[there], receiver);
    world.connect(receiver, 0, &[back], sender);
    world.run_until(Time::from_secs(2));
    let counters = world.endpoint::<Receiver>(receiver).counters();
    assert_eq!(counters.refused(), 0);
    (counters.displayed, counters.bytes)
}

#[test]
fn sender_and_receiver_do_not_notice() {
    let ((native, bytes), (other, more)) = (shown(false), shown(true));
    assert!(native > 90 && other.abs_diff(native) <= 1, "{native} and {other} frames");
    assert!(more.abs_diff(bytes) < bytes / 20, "{bytes} and {more} bytes");
}
