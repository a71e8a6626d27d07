//! Frames out of the qlog files of both processes.

use std::path::Path;

use serde_json::Value;
use units::Time;

use crate::Failure;

/// One frame's way, on the clock of the link's trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Frame {
    /// Its picture was read.
    pub captured: Option<Time>,
    /// The encoder was done with it.
    pub encoded: Option<Time>,
    /// It was shown.
    pub displayed: Option<Time>,
    /// Coded bytes; 0 if it was skipped.
    pub size: u32,
}

/// Adds what a qlog file says of frames, on a clock that began at the date `began_ms`.
pub fn read(path: &Path, began_ms: f64, frames: &mut Vec<Frame>) -> Result<(), Failure> {
    let wrong = |what: String| Failure::Work(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let records = text.split('\x1e').filter(|record| !record.is_empty());
    let mut records =
        records.map(|record| serde_json::from_str::<Value>(record).map_err(|e| wrong(e.to_string())));
    let head = records.next().ok_or_else(|| wrong("empty".to_owned()))??;
    let from = head["trace"]["common_fields"]["framewire_began_ms"].as_f64().unwrap_or_default() - began_ms;
    for record in records {
        let record = record?;
        let Some(frame) = record["data"]["frame"].as_u64().filter(|frame| *frame < 1 << 24) else { continue };
        let at = from + record["time"].as_f64().unwrap_or_default();
        let at = Some(Time::from_nanos((at * 1e6).max(0.0) as u64));
        let frame = frame as usize;
        if frames.len() <= frame {
            frames.resize(frame + 1, Frame::default());
        }
        let row = &mut frames[frame];
        match record["name"].as_str() {
            Some("framewire:frame_captured") => row.captured = at,
            Some("framewire:frame_encoded") => {
                row.encoded = at;
                row.size = record["data"]["size"].as_u64().unwrap_or_default() as u32;
            }
            Some("framewire:frame_displayed") => row.displayed = row.displayed.or(at),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    #[test]
    fn both_logs_are_read_onto_the_links_clock() {
        let folder = std::env::temp_dir();
        let name = |end: &str| folder.join(format!("framewire-twin-{}-{end}", std::process::id()));
        let head = |date: f64| {
            format!("\x1e{{\"trace\":{{\"common_fields\":{{\"framewire_began_ms\":{date}}}}}}}\n")
        };
        let event = |ms: u32, name: &str, data: &str| {
            format!("\x1e{{\"time\":{ms},\"name\":\"framewire:{name}\",\"data\":{{\"frame\":1{data}}}}}\n")
        };
        let near =
            [head(5_000.5), event(10, "frame_captured", ""), event(14, "frame_encoded", ",\"size\":900")];
        let far = [head(4_900.0), event(170, "frame_displayed", ""), event(180, "frame_displayed", "")];
        std::fs::write(name("near"), near.concat()).unwrap();
        std::fs::write(name("far"), far.concat()).unwrap();
        let mut frames = Vec::new();
        read(&name("near"), 5_000.0, &mut frames).unwrap();
        read(&name("far"), 5_000.0, &mut frames).unwrap();
        let us = |us| Some(Time::ZERO + Span::from_micros(us));
        assert_eq!(frames.len(), 2);
        assert_eq!(
            frames[1],
            Frame { captured: us(10_500), encoded: us(14_500), displayed: us(70_000), size: 900 }
        );
        ["near", "far"].iter().for_each(|end| std::fs::remove_file(name(end)).unwrap());
    }
}
