//! A disk that fills up: a real file system of one megabyte, in a mount namespace of the test's own.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use framewire_real::storage::{Kind, Settings, Storage};
use proptest::prelude::*;

/// Says where the small file system is, to the process that lives beside it.
const PLACE: &str = "FRAMEWIRE_TEST_FULL_DISK";
const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_full_disk_tears_nothing_and_what_waits_is_stored_when_there_is_room() {
    if let Some(place) = std::env::var_os(PLACE) {
        return on_a_small_disk(Path::new(&place));
    }
    let place = std::env::temp_dir().join(format!("framewire-full-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg("mount -t tmpfs -o size=1m none \"$1\" || { echo unshare: no mount; exit 9; }; exec \"$0\"");
    let output = command.arg(this).arg(&place).env(PLACE, &place).output();
    let _ = fs::remove_dir_all(&place);
    let Ok(output) = output else { return println!("skipped: a full disk: there is no unshare") };
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if said.starts_with("unshare") || output.status.code() == Some(9) {
        return println!("skipped: a full disk: {}", said.lines().next().unwrap_or_default());
    }
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Every segment that the stored playlist lists is stored whole.
fn listed_are_whole(folder: &Path, put: &BTreeMap<String, Bytes>) {
    let Ok(list) = fs::read_to_string(folder.join("a/live.m3u8")) else { return };
    assert!(list.ends_with("end\n"), "a torn playlist: {list}");
    for name in list.lines().filter(|line| *line != "end") {
        let stored = fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name} is lost: {error}"));
        assert!(stored == put[name], "{name} is torn");
    }
}

fn on_a_small_disk(place: &Path) {
    let sizes = prop::collection::vec(1..40_000usize, 1..16);
    let config = ProptestConfig::with_cases(12);
    proptest!(config, |(sizes in sizes, full_from in any::<prop::sample::Index>(), room in 0..4096usize)| {
        let (folder, ballast) = (place.join("case"), place.join("ballast"));
        let (first_retry, longest_retry) = (Duration::from_millis(1), Duration::from_millis(4));
        let settings = Settings { recent: 0, first_retry, longest_retry, ..Settings::default() };
        let storage = Storage::open(folder.to_str().unwrap(), settings).unwrap();
        let (mut put, mut list) = (BTreeMap::new(), String::new());
        for (at, &size) in sizes.iter().enumerate() {
            if at == full_from.index(sizes.len()) {
                storage.flush(LONG).unwrap();
                fill(&ballast, room);
            }
            let (path, bytes) = (format!("a/{at:06}.m4s"), Bytes::from(vec![at as u8 + 1; size]));
            put.insert(path.clone(), bytes.clone());
            storage.put(&path, bytes, Kind::Segment).unwrap();
            list.push_str(&format!("{path}\n"));
            storage.put("a/live.m3u8", Bytes::from(format!("{list}end\n")), Kind::Playlist).unwrap();
            listed_are_whole(&folder, &put);
        }
        // Small files may still have found room.
        let most = std::time::Duration::from_millis(30);
        let stuck = storage.flush(most).err().map(|error| error.to_string());
        listed_are_whole(&folder, &put);
        if let Some(error) = &stuck {
            prop_assert!(error.contains("os error 28") && !error.contains('\n'), "{}", error);
            prop_assert!(storage.counters().failures > 0);
        }
        prop_assert!(stuck.is_some() || sizes[full_from.index(sizes.len())..].iter().sum::<usize>() < 40_000);
        fs::remove_file(&ballast).unwrap();
        storage.flush(LONG).unwrap();
        listed_are_whole(&folder, &put);
        prop_assert_eq!(fs::read_to_string(folder.join("a/live.m3u8")).unwrap(), format!("{list}end\n"));
        prop_assert_eq!(fs::read_dir(folder.join("a")).unwrap().count(), sizes.len() + 1, "nothing else");
        fs::remove_dir_all(&folder).unwrap();
    });
}

/// Takes all the space there is but `room`, which is less than a page or none.
fn fill(ballast: &Path, room: usize) {
    use std::io::Write;
    let mut file = fs::File::create(ballast).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    let length = file.metadata().unwrap().len();
    file.set_len(length - (room as u64).min(length)).unwrap();
}
