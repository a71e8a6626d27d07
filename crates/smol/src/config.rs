//! What both ends are told before they start.

use std::str::FromStr;

use smoltcp::socket::tcp::CongestionControl;

/// smoltcp's congestion controllers, by the names that ours of the same kind have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// Reno: slow start, fast retransmit, fast recovery that the first new acknowledgement ends.
    #[default]
    NewReno,
    /// CUBIC (RFC 9438).
    Cubic,
}

impl Control {
    /// All of them, as people write them.
    pub const NAMES: [&str; 2] = ["newreno", "cubic"];

    pub(crate) fn smoltcps(self) -> CongestionControl {
        match self {
            Control::NewReno => CongestionControl::Reno,
            Control::Cubic => CongestionControl::Cubic,
        }
    }
}

impl FromStr for Control {
    type Err = String;

    fn from_str(text: &str) -> Result<Control, String> {
        match text {
            "newreno" => Ok(Control::NewReno),
            "cubic" => Ok(Control::Cubic),
            _ => Err(format!("smoltcp brings {}, without options", Control::NAMES.join(" and "))),
        }
    }
}

/// A connection's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Seed of all that smoltcp draws: initial sequence numbers.
    pub seed: u64,
    /// Largest datagram (UDP payload) in bytes, 128 to 1472: an IP packet has 28 more.
    pub mtu: u16,
    /// The sender's congestion controller.
    pub control: Control,
    /// Bytes of the stream; `None`: there is always more.
    pub bytes: Option<u64>,
}

impl Default for Config {
    /// An endless stream in IP packets of 1500 bytes under Reno.
    fn default() -> Config {
        Config { seed: 1, mtu: 1472, control: Control::NewReno, bytes: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_known_by_name() {
        let known: Vec<_> = Control::NAMES.iter().map(|name| name.parse()).collect();
        assert_eq!(known, [Ok(Control::NewReno), Ok(Control::Cubic)]);
        assert_eq!("bbr".parse::<Control>(), Err("smoltcp brings newreno and cubic, without options".into()));
    }
}
