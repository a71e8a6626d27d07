//! Segments that leave together because Linux's TCP hands them to the device as one (segmentation offload),
//! whether the device cuts them or the kernel does.

use units::{Rate, Span};

/// tcp_output.c tcp_tso_autosize (sk_pacing_shift 10): what the pace carries in about this long goes as one
/// ...
const TOGETHER: Span = Span::from_millis(1);
/// ... of at least so many segments (net.ipv4.tcp_min_tso_segs; tcp_bbr.c bbr_min_tso_segs above 1.2 Mbit/s)
/// ...
const LEAST: u64 = 2;
/// ... and at most this many bytes (GSO_MAX_SIZE).
const MOST: u64 = 65_536;

/// Segments of `datagram` bytes that leave together at `pacing`.
///
/// Deviation: below 1.2 Mbit/s Linux's BBR sends one at a time, here two.
pub fn segments(pacing: Rate, datagram: u32) -> u32 {
    let carried = pacing.bytes_in(TOGETHER).get().min(MOST) / u64::from(datagram.max(1));
    carried.max(LEAST) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_or_what_the_pace_carries_in_a_millisecond() {
        let together = [0, 1, 20, 36, 60, 10_000].map(|mbps| segments(Rate::from_mbps(mbps), 1472));
        assert_eq!(together, [2, 2, 2, 3, 5, 44]);
    }
}
