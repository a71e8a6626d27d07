//! Arbitrary bytes as the datagrams that both ends of a TCP connection receive: neither panics, and what they
//! answer is as long as it says.
#![no_main]

use smol::Config;
use units::Time;
use wire::{Endpoint, MAX_DATAGRAM, RxMeta};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (mut sender, mut receiver) = smol::pair(&Config::default(), Default::default());
    let mut out = [0; MAX_DATAGRAM];
    for (turn, datagram) in bytes.chunks(48).enumerate() {
        let now = Time::from_millis(turn as u64);
        let ends: [&mut dyn Endpoint; 2] = [&mut sender, &mut receiver];
        for end in ends {
            end.wake(now);
            end.receive(now, datagram, RxMeta { length: datagram.len(), ..RxMeta::default() });
            while let Some(meta) = end.transmit(now, &mut out) {
                assert!(meta.head <= meta.length && meta.length <= 1472);
            }
        }
    }
});
