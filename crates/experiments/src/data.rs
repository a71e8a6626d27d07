//! Real data that experiments name: `data:FILE`, or `data:ARCHIVE!MEMBER` for a series of rates inside a
//! gzipped tar file.
//!
//! `FILE` lies in the folder that the environment variable `FRAMEWIRE_DATA` names, or in `../shared/data`
//! beside the project.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;
use prism::encodes::Coder;
use toml::Value;

use lab::files::write_whole;

/// Bytes one opportunity of a Mahimahi trace carries.
const OPPORTUNITY: f64 = 1504.0;
/// How far apart the bunches are in which a Wi-Fi access point sends (aggregates of a transmit opportunity of
/// 4 ms, `TXOP_S` of `netsim::models`).
const BUNCH_MS: u32 = 4;
/// The need of an ffmpeg, for clips that are coded.
const FFMPEG: &str = "ffmpeg";
/// The need of an ffmpeg with libx264.
const X264: &str = "x264";
/// Unpacked archives are larger than this only by mistake.
const LARGEST: u64 = 256 << 20;

fn folder() -> PathBuf {
    std::env::var_os("FRAMEWIRE_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from)
}

/// Where a file of the real data lies, if it is there.
pub fn data_file(name: &str) -> PathBuf {
    folder().join(name)
}

fn parts(text: &str) -> Option<(PathBuf, Option<&str>)> {
    let name = text.strip_prefix("data:")?;
    let (file, member) = name.split_once('!').map_or((name, None), |(file, member)| (file, Some(member)));
    Some((folder().join(file), member))
}

/// A value that names real data which is not there.
pub(crate) fn is_missing(text: &str) -> bool {
    parts(text).is_some_and(|(file, _)| !file.is_file())
}

/// What an experiment may need.
pub(crate) fn is_need(text: &str) -> bool {
    text == FFMPEG || text == X264 || parts(text).is_some()
}

/// A need that is not met here.
pub(crate) fn is_lacking(need: &str) -> bool {
    match need {
        FFMPEG => Command::new(FFMPEG).arg("-version").stdin(Stdio::null()).output().is_err(),
        X264 => Coder::x264().is_none(),
        file => is_missing(file),
    }
}

/// The Mahimahi trace that `data:FILE` or `data:ARCHIVE!MEMBER` names; none if the data are not there.
///
/// # Errors
/// A line that says what is wrong with the file.
pub fn data_trace(name: &str) -> Result<Option<PathBuf>, String> {
    if is_missing(name) {
        return Ok(None);
    }
    let path = resolve(&Value::String(name.to_owned()))?;
    Ok(path.as_str().map(PathBuf::from))
}

/// A value with a name of real data replaced by the path of a Mahimahi trace.
pub(crate) fn resolve(value: &Value) -> Result<Value, String> {
    let Some((file, member)) = value.as_str().and_then(parts) else { return Ok(value.clone()) };
    let absolute = |path: &Path| std::path::absolute(path).map_err(|error| error.to_string());
    let path = match member {
        None => absolute(&file)?,
        Some(member) => absolute(&unpacked(&file, member)?)?,
    };
    Ok(Value::String(path.to_string_lossy().into_owned()))
}

/// The trace made of an archive's member; it is kept for the next time.
fn unpacked(archive: &Path, member: &str) -> Result<PathBuf, String> {
    let trace = PathBuf::from("out/lab/traces").join(format!("{member}.trace"));
    if trace.is_file() {
        return Ok(trace);
    }
    let trouble = |error: &dyn std::fmt::Display| format!("{}: {error}", archive.display());
    let bytes = fs::read(archive).map_err(|error| trouble(&error))?;
    let mut tar = Vec::new();
    GzDecoder::new(bytes.as_slice()).take(LARGEST).read_to_end(&mut tar).map_err(|error| trouble(&error))?;
    let text = member_of(&tar, member).ok_or_else(|| trouble(&format!("holds no file `{member}`")))?;
    let millis =
        bunches(&series(&text).ok_or_else(|| trouble(&format!("`{member}` is no list of `time rate`")))?);
    let lines: String = millis.iter().map(|at| format!("{at}\n")).collect();
    fs::create_dir_all("out/lab/traces").map_err(|error| trouble(&error))?;
    write_whole(&trace, |file| file.write_all(lines.as_bytes())).map_err(|error| error.to_string())?;
    Ok(trace)
}

/// A file of a tar archive (POSIX ustar: 512-byte blocks, name at 0, size in octal at 124).
fn member_of(tar: &[u8], wanted: &str) -> Option<String> {
    let mut at = 0;
    while let Some(header) = tar.get(at..at + 512).filter(|header| header[0] != 0) {
        let field = |from: usize, to: usize| {
            let text = String::from_utf8_lossy(&header[from..to]);
            text.trim_matches(['\0', ' ']).to_owned()
        };
        let size = usize::from_str_radix(&field(124, 136), 8).ok()?;
        let name = field(0, 100);
        let body = tar.get(at + 512..(at + 512).checked_add(size)?)?;
        if Path::new(&name).file_stem().is_some_and(|stem| stem == wanted) {
            return Some(String::from_utf8_lossy(body).into_owned());
        }
        at += 512 + size.div_ceil(512) * 512;
    }
    None
}

/// Lines `seconds Mbit/s`, from the first on.
fn series(text: &str) -> Option<Vec<(f64, f64)>> {
    let pair = |line: &str| {
        let (time, rate) = line.split_once(char::is_whitespace)?;
        Some((time.trim().parse().ok()?, rate.trim().parse().ok()?))
    };
    let rows: Vec<(f64, f64)> =
        text.lines().filter(|line| !line.trim().is_empty()).map(pair).collect::<Option<_>>()?;
    let start = rows.first()?.0;
    Some(rows.into_iter().map(|(time, rate): (f64, f64)| (time - start, rate.max(0.0))).collect())
}

/// Opportunities in bunches: every few milliseconds as many as the rate of that moment fills.
fn bunches(series: &[(f64, f64)]) -> Vec<u32> {
    let end = series.last().map_or(0.0, |row| row.0);
    let (mut millis, mut owed, mut row) = (Vec::new(), 0.0, 0);
    for at in (BUNCH_MS..).step_by(BUNCH_MS as usize).take_while(|&at| f64::from(at) <= end * 1e3) {
        while series.get(row + 1).is_some_and(|next| next.0 * 1e3 <= f64::from(at)) {
            row += 1;
        }
        owed += series[row].1 * 1e6 / 8.0 * f64::from(BUNCH_MS) / 1e3;
        while owed >= OPPORTUNITY {
            millis.push(at);
            owed -= OPPORTUNITY;
        }
    }
    if millis.is_empty() { vec![1000] } else { millis }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_becomes_bunches_of_the_same_rate() {
        let rows = series("100.0 12.032\n101.0 24.064\n102.0 0\n").unwrap();
        let millis = bunches(&rows);
        let in_second = |k: u32| millis.iter().filter(|&&at| at > 1000 * k && at <= 1000 * (k + 1)).count();
        // 12.032 Mbit/s are one opportunity a millisecond.
        assert!((996..=1004).contains(&in_second(0)) && (1990..=2010).contains(&in_second(1)));
        assert!(millis.iter().all(|at| at % BUNCH_MS == 0) && millis.is_sorted());
        assert!(series("no numbers").is_none());
    }

    #[test]
    fn a_file_is_found_in_an_archive() {
        let mut tar = vec![0; 512];
        tar[..11].copy_from_slice(b"d/b.x-trace");
        tar[124..135].copy_from_slice(b"00000000005");
        tar.extend_from_slice(b"1 2\n3");
        tar.resize(3 * 512, 0);
        assert_eq!(member_of(&tar, "b").as_deref(), Some("1 2\n3"));
        assert_eq!(member_of(&tar, "c"), None);
        assert_eq!(member_of(&tar[..514], "b"), None);
    }

    #[test]
    fn other_values_stay_as_they_are() {
        let value = Value::String("droptail:5p".into());
        assert_eq!(resolve(&value), Ok(value));
        assert!(!is_missing("droptail:5p") && is_missing("data:no/such/file"));
    }
}
