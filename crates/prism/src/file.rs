//! Tables as files: JSON that people can read and compare, a line for each pair of rates.
//!
//! ```text
//! {
//!   "format": "framewire-prism-table",
//!   "version": 1,
//!   "style": "racing",
//!   "origins": [{"clip": "cocoa_temple.mp4", "frames": 210, "fingerprint": "..."}],
//!   "encoder": "OpenH264 ...",
//!   "width": 640, "height": 360, "fps": 25.0,
//!   "step_bps": 100000, "steps": 20, "frames": 10,
//!   "horizon": 60, "weight": 0.5, "starts": 12,
//!   "rows": [
//!     {"before": 1, "during": 1, "key": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]},
//!     ...
//! ```
//!
//! `before`, `during` and `key` are in steps of `step_bps`; rows go through the rates before and, for each,
//! through the rates during. `key` is at least 1 and at most `during`, which means key frames alone.

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use units::Rate;

use crate::table::{About, MOST_FRAMES, MOST_STEPS, Origin, Pictures, Table, TableError};

const FORMAT: &str = "framewire-prism-table";
const VERSION: u32 = 1;
/// Largest file that is read, in bytes: about twice what the widest grid with the longest recovery takes.
const LARGEST: u64 = 4 << 20;
/// What helps where a file is beyond repair.
const REMAKE: &str = "make it again with `framewire prism table`";

/// What every version of the format begins with.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: String,
    #[serde(default)]
    version: u64,
}

/// The fields of a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    style: String,
    origins: Vec<Origin>,
    encoder: String,
    width: u32,
    height: u32,
    fps: f64,
    step_bps: u64,
    steps: usize,
    frames: usize,
    horizon: usize,
    weight: f64,
    starts: usize,
    rows: Vec<Row>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    before: usize,
    during: usize,
    key: Vec<u8>,
}

/// Errors about one file.
struct Judge<'a> {
    file: &'a str,
}

impl Judge<'_> {
    fn refuse<T>(
        &self,
        place: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Result<T, TableError> {
        let (place, found, remedy) = (place.into(), found.into(), remedy.into());
        // A name or a value from the file may hold a line's end.
        let line = |text: String| text.replace(|c: char| c.is_control(), " ");
        Err(TableError {
            file: line(self.file.to_owned()),
            place: line(place),
            found: line(found),
            remedy: line(remedy),
        })
    }

    /// What the JSON reader said, which names line and column.
    fn torn<T>(&self, error: &serde_json::Error) -> Result<T, TableError> {
        let said = error.to_string();
        let what = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what);
        self.refuse(format!("line {} column {}", error.line(), error.column()), what, REMAKE)
    }

    fn within(&self, field: &str, value: f64, low: f64, high: f64) -> Result<(), TableError> {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        self.refuse(field, format!("{value}"), format!("{low} to {high} is possible; {REMAKE}"))
    }

    fn head(&self, text: &str) -> Result<(), TableError> {
        let head: Head = serde_json::from_str(text).or_else(|error| self.torn(&error))?;
        if head.format != FORMAT {
            let found =
                if head.format.is_empty() { "missing".to_owned() } else { format!("`{}`", head.format) };
            return self.refuse("format", found, format!("a table has `{FORMAT}`; {REMAKE}"));
        }
        if head.version != u64::from(VERSION) {
            return self.refuse(
                "version",
                format!("{}", head.version),
                format!("this build reads {VERSION}; {REMAKE}"),
            );
        }
        Ok(())
    }

    fn numbers(&self, file: &File) -> Result<(), TableError> {
        self.within("width", f64::from(file.width), 16.0, 16_384.0)?;
        self.within("height", f64::from(file.height), 16.0, 16_384.0)?;
        self.within("fps", file.fps, 1.0, 1_000.0)?;
        // 1 kbit/s to 1 Gbit/s.
        self.within("step_bps", file.step_bps as f64, 1e3, 1e9)?;
        self.within("steps", file.steps as f64, 1.0, MOST_STEPS as f64)?;
        self.within("frames", file.frames as f64, 1.0, MOST_FRAMES as f64)?;
        self.within("horizon", file.horizon as f64, 0.0, 10_000.0)?;
        self.within("weight", file.weight, 0.0, 1.0)?;
        self.within("starts", file.starts as f64, 0.0, 1e6)?;
        let names = [("style", &file.style), ("encoder", &file.encoder)];
        names.iter().try_for_each(|(field, name)| {
            self.within(&format!("length of {field}"), name.len() as f64, 1.0, 200.0)
        })
    }

    fn row(&self, index: usize, row: &Row, file: &File) -> Result<(), TableError> {
        let place = |field: &str| format!("rows[{index}].{field}");
        let (before, during) = (index / file.steps + 1, index % file.steps + 1);
        for (field, found, expected) in [("before", row.before, before), ("during", row.during, during)] {
            if found != expected {
                return self.refuse(
                    place(field),
                    format!("{found}"),
                    format!("{expected} stands there in order; {REMAKE}"),
                );
            }
        }
        if row.key.len() != file.frames {
            let found = format!("{} decisions", row.key.len());
            return self.refuse(place("key"), found, format!("`frames` says {}; {REMAKE}", file.frames));
        }
        match row.key.iter().position(|&x| !(1..=during).contains(&usize::from(x))) {
            None => Ok(()),
            Some(frame) => self.refuse(
                place(&format!("key[{frame}]")),
                format!("{}", row.key[frame]),
                format!("1 to {during}, the rate during recovery, is possible; {REMAKE}"),
            ),
        }
    }

    fn table(&self, text: &str) -> Result<Table, TableError> {
        self.head(text)?;
        let file: File = serde_json::from_str(text).or_else(|error| self.torn(&error))?;
        self.numbers(&file)?;
        if file.rows.len() != file.steps * file.steps {
            let wanted = format!("{} steps take {}; {REMAKE}", file.steps, file.steps * file.steps);
            return self.refuse("rows", format!("{}", file.rows.len()), wanted);
        }
        for (index, row) in file.rows.iter().enumerate() {
            self.row(index, row, &file)?;
        }
        let about = About {
            style: file.style,
            origins: file.origins,
            encoder: file.encoder,
            pictures: Pictures { width: file.width, height: file.height, fps: file.fps },
            horizon: file.horizon,
            weight: file.weight,
            starts: file.starts,
        };
        let key = file.rows.into_iter().flat_map(|row| row.key).collect();
        Ok(Table::new(about, Rate::from_bps(file.step_bps), file.steps, file.frames, key))
    }
}

pub(crate) fn parse(text: &str, name: &str) -> Result<Table, TableError> {
    Judge { file: name }.table(text)
}

pub(crate) fn read(path: &Path) -> Result<Table, TableError> {
    let name = path.display().to_string();
    let judge = Judge { file: &name };
    let fail = |error: std::io::Error| {
        judge.refuse::<()>("file", error.to_string(), "name a table that can be read")
    };
    let mut text = Vec::new();
    let taken = std::fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut text));
    if let Err(error) = taken {
        fail(error)?;
    }
    if text.len() as u64 > LARGEST {
        return judge.refuse("size", format!("more than {LARGEST} bytes"), "no table is so large");
    }
    match std::str::from_utf8(&text) {
        Ok(text) => judge.table(text),
        Err(error) => judge.refuse(format!("byte {}", error.valid_up_to()), "no UTF-8", REMAKE),
    }
}

pub(crate) fn text(table: &Table) -> String {
    let about = table.about();
    let file = File {
        format: FORMAT.to_owned(),
        version: VERSION,
        style: about.style.clone(),
        origins: about.origins.clone(),
        encoder: about.encoder.clone(),
        width: about.pictures.width,
        height: about.pictures.height,
        fps: about.pictures.fps,
        step_bps: table.step().as_bps(),
        steps: table.steps(),
        frames: table.frames(),
        horizon: about.horizon,
        weight: about.weight,
        starts: about.starts,
        rows: Vec::new(),
    };
    let head = serde_json::to_string_pretty(&file).expect("numbers and texts");
    let head = head.strip_suffix("[]\n}").expect("rows are the last field, and there are none yet");
    let row = |(before, during)| {
        let numbers: Vec<String> = table.row(before, during).iter().map(u8::to_string).collect();
        format!("    {{\"before\": {before}, \"during\": {during}, \"key\": [{}]}}", numbers.join(", "))
    };
    let rows: Vec<String> = table.points().map(row).collect();
    format!("{head}[\n{}\n  ]\n}}\n", rows.join(",\n"))
}

/// What must hold of any text: it is refused in one line that names the file, or it is a table that has an
/// answer to whatever is asked, and is written and read again as it is. The body of the fuzz target.
pub fn oracle(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let table = match parse(&text, "fuzz.json") {
        Ok(table) => table,
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("fuzz.json: ") && said.lines().count() == 1, "{said}");
            return;
        }
    };
    for rate in [Rate::ZERO, table.step(), table.step().mul_f64(1.5), Rate::MAX] {
        let split = table.split(table.step(), rate, 0);
        assert_eq!(split.key.as_bps() + split.predicted.as_bps(), rate.as_bps());
    }
    assert_eq!(parse(&self::text(&table), "again.json").as_ref(), Ok(&table));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::table::tests::table;

    fn sample() -> Table {
        table(4, 3, |before, during, frame| ((before * 7 + frame) % during).max(1))
    }

    fn said(text: &str) -> String {
        let error = parse(text, "a.json").expect_err("it is not a table").to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    }

    fn changed(from: &str, to: &str) -> String {
        let text = sample().to_json();
        assert!(text.contains(from), "{from} is in {text}");
        said(&text.replacen(from, to, 1))
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = sample().to_json();
        assert_eq!(parse(&text, "a.json"), Ok(sample()));
        assert!(text.contains("\n    {\"before\": 2, \"during\": 3, \"key\": [2, 1, 1]},\n"), "{text}");
    }

    #[test]
    fn each_fault_has_a_line_that_names_it() {
        assert!(said("").starts_with("a.json: line 1 column 0: "));
        assert!(said("{}").contains("format: missing; a table has `framewire-prism-table`"));
        assert!(changed("framewire-prism-table", "x\\ny").contains("format: `x y`"));
        assert!(changed("\"version\": 1", "\"version\": 2").contains("version: 2; this build reads 1"));
        assert!(changed("\"steps\": 4", "\"steps\": 100000").contains("steps: 100000; 1 to 64 is possible"));
        assert!(changed("\"weight\": 0.5", "\"weight\": 1.5").contains("weight: 1.5; 0 to 1 is possible"));
        assert!(changed("\"weight\": 0.5", "\"weight\": NaN").contains("line 20 column 13"));
        assert!(changed("\"fps\": 30.0", "\"fps\": 1e999").contains("number out of range"));
        assert!(changed("\"step_bps\": 100000", "\"step_bps\": 0").contains("step_bps: 0"));
        assert!(changed("\"starts\"", "\"begins\"").contains("unknown field `begins`"));
        assert!(
            changed("\"before\": 1, \"during\": 2", "\"before\": 1, \"during\": 4")
                .contains("rows[1].during: 4; 2 stands there")
        );
        assert!(
            changed("\"during\": 1, \"key\": [1,", "\"during\": 1, \"key\": [2,")
                .contains("rows[0].key[0]: 2; 1 to 1")
        );
        assert!(
            changed("\"during\": 1, \"key\": [1,", "\"during\": 1, \"key\": [0,")
                .contains("rows[0].key[0]: 0; 1 to 1")
        );
        assert!(
            changed("\"during\": 1, \"key\": [1,", "\"during\": 1, \"key\": [")
                .contains("rows[0].key: 2 decisions")
        );
        assert!(changed("\"steps\": 4", "\"steps\": 5").contains("rows: 16; 5 steps take 25"));
        assert!(changed("\"style\": \"test\"", "\"style\": \"\"").contains("length of style: 0"));
    }

    #[test]
    fn a_torn_file_names_its_end() {
        let text = sample().to_json();
        for end in (0..text.len()).step_by(7) {
            assert!(said(&text[..end]).contains(": line "));
        }
    }

    #[test]
    fn files_that_are_missing_binary_or_huge_are_refused() {
        let folder = std::env::temp_dir().join(format!("framewire-prism-file-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let refused = |name: &str, bytes: Option<&[u8]>| {
            let path = folder.join(name);
            if let Some(bytes) = bytes {
                std::fs::write(&path, bytes).unwrap();
            }
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(name) && error.lines().count() == 1, "{error}");
            error
        };
        assert!(refused("none.json", None).contains("name a table that can be read"));
        assert!(refused("binary.json", Some(&[b'{', 0xff])).contains("byte 1: no UTF-8"));
        let huge = vec![b' '; LARGEST as usize + 1];
        assert!(refused("huge.json", Some(&huge)).contains("no table is so large"));
        std::fs::write(folder.join("good.json"), sample().to_json()).unwrap();
        assert_eq!(read(&folder.join("good.json")), Ok(sample()));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    proptest! {
        #[test]
        fn no_text_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            oracle(&bytes);
        }

        #[test]
        fn a_changed_table_is_refused_or_sound(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), 0x20u8..0x7f), 1..4)
        ) {
            let mut bytes = sample().to_json().into_bytes();
            for (index, byte) in changes {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
            oracle(&bytes);
        }

        #[test]
        fn a_split_adds_up_and_stays_within(before in 0u64..2_000_000, during in 0u64..2_000_000, frame in 0usize..5) {
            let split = sample().split(Rate::from_bps(before), Rate::from_bps(during), frame);
            prop_assert_eq!(split.key.as_bps() + split.predicted.as_bps(), during);
            prop_assert!(during == 0 || split.key > Rate::ZERO);
        }
    }
}
