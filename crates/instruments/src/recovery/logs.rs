//! What the qlog files of both ends say of packets and pictures, on the sender's clock.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::path::Path;

use serde_json::Value;
use units::{Span, Time};

use crate::Failure;

/// Frame numbers from here on are none: padding has the highest.
const FRAMES: u64 = 1 << 24;

/// A packet of a frame that was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// Its number: a packet that is sent again has another one.
    pub number: u64,
    /// When it left.
    pub at: Time,
    /// Bytes of its datagram.
    pub size: u64,
    /// The stream of its frame.
    pub stream: u8,
    /// Capture index of its frame.
    pub frame: u32,
    /// Its index in the frame.
    pub index: u64,
    /// Its bytes had left before.
    pub again: bool,
}

/// A picture that was shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    /// When it was, on the sender's clock.
    pub at: Time,
    /// The stream that it was decoded from.
    pub stream: u8,
    /// Capture index of its frame.
    pub frame: u32,
}

/// What both ends of one run wrote down.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    /// When each frame was captured.
    pub captured: BTreeMap<u32, Time>,
    /// Stream and number of the frames that were coded as key frames.
    pub keys: BTreeSet<(u8, u32)>,
    /// How many packets each frame of a stream was cut into; those behind them are parity.
    pub cut: BTreeMap<(u8, u32), u64>,
    /// Packets of frames, in the order they left.
    pub sent: Vec<Sent>,
    /// Numbers of the packets that arrived.
    pub received: BTreeSet<u64>,
    /// Pictures, in the order they were shown.
    pub shown: Vec<Shown>,
}

impl Logs {
    /// Reads what sender and receiver wrote.
    ///
    /// # Errors
    /// [`Failure::Work`] where a file is not there, or is no qlog.
    pub fn read(sender: &Path, receiver: &Path) -> Result<Logs, Failure> {
        let mut logs = Logs::default();
        let began = logs.take(sender, None)?;
        logs.take(receiver, Some(began))?;
        Ok(logs)
    }

    /// Adds a file's events, on a clock that began at the date `zero`, in ms; without one at the file's own,
    /// which is returned.
    fn take(&mut self, path: &Path, zero: Option<f64>) -> Result<f64, Failure> {
        let wrong = |what: &dyn std::fmt::Display| Failure::Work(format!("{}: {what}", path.display()));
        let file = std::fs::File::open(path).map_err(|error| wrong(&error))?;
        let mut began = None;
        for line in std::io::BufReader::new(file).lines() {
            let line = line.map_err(|error| wrong(&error))?;
            let record = line.trim_start_matches('\x1e');
            let record: Value = serde_json::from_str(record).map_err(|error| wrong(&error))?;
            match began {
                None => began = record["trace"]["common_fields"]["framewire_began_ms"].as_f64(),
                Some(began) => {
                    let ms = record["time"].as_f64().unwrap_or_default() + began - zero.unwrap_or(began);
                    self.note(Time::ZERO + Span::from_secs_f64(ms.max(0.0) / 1e3), &record);
                }
            }
        }
        began.ok_or_else(|| wrong(&"says not when it began"))
    }

    fn note(&mut self, at: Time, record: &Value) {
        let data = &record["data"];
        let number = |name: &str| data[name].as_u64();
        let Some(frame) = number("frame").filter(|frame| *frame < FRAMES) else { return };
        let (stream, frame) = (number("stream").unwrap_or_default() as u8, frame as u32);
        let packet = number("packet_number").unwrap_or_default();
        match record["name"].as_str() {
            Some("framewire:frame_captured") => {
                self.captured.entry(frame).or_insert(at);
            }
            Some("framewire:frame_encoded") if data["key"] == true => {
                self.keys.insert((stream, frame));
            }
            Some("framewire:packet_sent") => self.sent.push(Sent {
                number: packet,
                at,
                size: number("length").unwrap_or_default(),
                stream,
                frame,
                index: number("index").unwrap_or_default(),
                again: data["retransmission"] == true,
            }),
            Some("framewire:frame_sent") => {
                self.cut.extend(number("packets").map(|packets| ((stream, frame), packets)));
            }
            Some("framewire:packet_received") => {
                self.received.insert(packet);
            }
            Some("framewire:frame_displayed") => self.shown.push(Shown { at, stream, frame }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_laid_over_each_other() {
        let folder = std::env::temp_dir();
        let path = |end: &str| folder.join(format!("framewire-recovery-{}-{end}", std::process::id()));
        let head =
            |ms: f64| format!("\x1e{{\"trace\":{{\"common_fields\":{{\"framewire_began_ms\":{ms}}}}}}}\n");
        let event = |ms: f64, name: &str, data: &str| {
            format!("\x1e{{\"time\":{ms},\"name\":\"framewire:{name}\",\"data\":{{{data}}}}}\n")
        };
        let near = [
            head(1_000.0),
            event(5.0, "frame_captured", "\"stream\":0,\"frame\":3"),
            event(9.0, "frame_encoded", "\"stream\":16,\"frame\":3,\"size\":9,\"key\":true"),
            event(
                10.0,
                "packet_sent",
                "\"packet_number\":7,\"length\":800,\"stream\":16,\"frame\":3,\"retransmission\":false",
            ),
            event(
                11.0,
                "packet_sent",
                "\"packet_number\":8,\"length\":200,\"stream\":0,\"frame\":4294967295,\"retransmission\":false",
            ),
            event(12.0, "observed", "\"name\":\"recovery\",\"value\":1"),
        ];
        let far = [
            head(990.0),
            event(40.0, "packet_received", "\"packet_number\":7,\"length\":800,\"stream\":16,\"frame\":3"),
            event(41.5, "frame_displayed", "\"stream\":16,\"frame\":3,\"late\":false"),
        ];
        std::fs::write(path("near"), near.concat()).unwrap();
        std::fs::write(path("far"), far.concat()).unwrap();
        let logs = Logs::read(&path("near"), &path("far"));
        let torn = path("torn");
        std::fs::write(&torn, &near.concat()[..120]).unwrap();
        let refused = Logs::read(&torn, &path("far"));
        ["near", "far", "torn"].iter().for_each(|end| std::fs::remove_file(path(end)).unwrap());
        let logs = logs.unwrap();
        assert_eq!(logs.captured, BTreeMap::from([(3, Time::from_millis(5))]));
        assert_eq!(logs.keys, BTreeSet::from([(16, 3)]));
        let at = Time::from_millis(10);
        assert_eq!(
            logs.sent,
            [Sent { number: 7, at, size: 800, stream: 16, frame: 3, index: 0, again: false }]
        );
        assert_eq!(logs.received, BTreeSet::from([7]));
        let at = Time::ZERO + Span::from_micros(31_500);
        assert_eq!(logs.shown, [Shown { at, stream: 16, frame: 3 }]);
        assert!(matches!(refused, Err(Failure::Work(_))));
    }
}
