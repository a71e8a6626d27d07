//! `framewire upload` and `framewire ingest` as processes: over a relay whose link pauses, and over QUIC
//! where one or the other is killed, and with viewers.
#![allow(clippy::disallowed_methods, reason = "real processes are waited for in real time")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ingest::playlist::check;
use serde_json::Value;

fn spawn(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_framewire"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command starts")
}

/// An endpoint that ends with its first upload, with more flags than these.
fn ingest(listen: &str, out: &str, delays: &str, more: &[&str]) -> Child {
    let of_all = ["--http", "127.0.0.1:0", "--segment", "1s", "--once", "--json"];
    let usual = ["ingest", "--listen", listen, "--out", out, "--delays", delays];
    spawn(&[&usual[..], &of_all, more].concat())
}

/// The JSON that the process printed, once it has ended well.
fn finish(child: Child) -> Value {
    let output = child.wait_with_output().expect("the command ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// An address nobody listens on at present.
fn free() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
    socket.local_addr().expect("it has an address").to_string()
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// What an endpoint says on standard error before anybody comes, after each of these words.
fn announced<const N: usize>(endpoint: &mut Child, words: [&str; N]) -> [String; N] {
    let mut said = BufReader::new(endpoint.stderr.take().expect("it was asked for")).lines();
    let found = words.map(|word| {
        let line = said.find_map(|line| line.expect("it is text").strip_prefix(word).map(str::to_owned));
        line.expect("the endpoint says how to reach it")
    });
    // What it says later has somewhere to go until it ends.
    std::thread::spawn(move || said.count());
    found
}

fn json_of(file: &Path) -> Value {
    let bytes = std::fs::read(file).expect("the file is there");
    serde_json::from_slice(&bytes).expect("it is JSON")
}

/// What became of each segment of a class.
fn history(folder: &Path, class: &str) -> Vec<Value> {
    json_of(&folder.join(format!("{class}.json")))["segments"].as_array().expect("a list").clone()
}

/// Sums over a class's history.
fn sum(folder: &Path, class: &str, key: &str) -> u64 {
    history(folder, class).iter().map(|segment| segment[key].as_u64().expect("a count")).sum()
}

/// Waits until an endpoint has stored a file.
fn wait_for(file: &Path) {
    for _ in 0..200 {
        if file.is_file() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{} does not come", file.display());
}

fn get(site: &str, path: &str) -> String {
    get_as("test", site, path)
}

/// The answer to a client of this name.
fn get_as(agent: &str, site: &str, path: &str) -> String {
    let address = site.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).expect("the endpoint serves files");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let fields = format!("Host: here\r\nUser-Agent: {agent}\r\nConnection: close");
    write!(stream, "GET {path} HTTP/1.1\r\n{fields}\r\n\r\n").expect("it is taken");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

const CLIP: [&str; 6] = ["--input", "synthetic", "--size", "160x96", "--name", "stage"];

#[test]
fn a_pause_of_the_link_is_repaired_for_those_who_watch_later() {
    let (folder, trace) = (folder("pause"), folder("pause.trace"));
    // 3 Mbit/s, and nothing from 2 to 4 s.
    let instants = (1..15_000u32).map(|packet| packet * 4).filter(|at| !(2_000..4_000).contains(at));
    let lines: Vec<String> = instants.map(|at| at.to_string()).collect();
    std::fs::write(&trace, lines.join("\n") + "\n").expect("the trace is written");
    let (near, far) = (free(), free());
    let far = format!("udp://{far}");
    let (out, trace) = (folder.display().to_string(), trace.display().to_string());
    let mut endpoint = ingest(&far, &out, "0.5s,10s", &[]);
    let [site, _] = announced(&mut endpoint, ["watch at ", "listening on "]);
    let relay = spawn(&["relay", "--listen", &near, "--to", &far, "--trace", &trace, "--duration", "40s"]);
    let target = format!("udp://{near}");
    let rest = ["--duration", "7s", "--delays", "0s:1,10s:5", "--json"];
    let upload = spawn(&[&["upload", &target][..], &CLIP[..4], &rest].concat());
    // Asked for while pictures come: the endpoint ends soon after they do.
    wait_for(&folder.join("upload/live.m3u8"));
    let playlist = get(&site, "/upload/live.m3u8");
    assert!(playlist.contains("200 OK") && playlist.contains("mpegurl"), "{playlist}");
    assert!(get(&site, "/upload/../../etc/passwd").starts_with("HTTP/1.1 404"));
    let uploaded = finish(upload);
    let ingested = finish(endpoint);
    let mut relay = relay;
    let _ = relay.kill();
    let _ = relay.wait();
    assert_eq!(uploaded["frames"]["captured"].as_u64(), Some(210), "{uploaded}");
    assert!(uploaded["frames"]["repaired"].as_u64() >= Some(20), "{uploaded}");
    let folder = folder.join("upload");
    let missing = ["live", "10s"].map(|class| sum(&folder, class, "missing"));
    assert!(missing[0] >= 30 && missing[1] < missing[0] / 2, "{missing:?} {ingested}");
    assert!(sum(&folder, "10s", "repaired") >= 20, "{ingested}");
    assert!(std::fs::metadata(folder.join("movie.mp4")).expect("the whole").len() > 10_000);
    // Over UDP there is nothing to say it by: unknown is not zero.
    assert!(history(&folder, "10s").iter().all(|segment| segment["ssim"].is_null() && segment["rated"] == 0));
    assert!(uploaded["viewers"].is_null() && uploaded["ratings"].is_null(), "{uploaded}");
    let watched = json_of(&folder.join("viewers.json"));
    assert!(watched["classes"].as_array().is_some_and(|classes| classes.len() == 2), "{watched}");
}

#[test]
fn an_uploader_that_is_killed_comes_back_and_strangers_do_not_come_in() {
    let folder = folder("killed");
    let out = folder.display().to_string();
    let mut endpoint = ingest("quic://127.0.0.1:0", &out, "0.5s,5s", &["--token", "right"]);
    let [at, pin] = announced(&mut endpoint, ["listening on ", "pin "]);
    let target = format!("{at}?pin={pin}");
    let upload = |token: &'static str, duration: &'static str| {
        let rest = ["--token", token, "--duration", duration, "--json"];
        spawn(&[&["upload", target.as_str()][..], &CLIP, &rest].concat())
    };
    let stranger = upload("wrong", "1s").wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&stranger.stderr).into_owned();
    assert!(stranger.status.code() == Some(2) && error.contains("the token is wrong"), "{error}");
    let mut first = upload("right", "60s");
    wait_for(&folder.join("stage/live.m3u8"));
    first.kill().expect("it runs");
    let _ = first.wait();
    let second = finish(upload("right", "3s"));
    assert_eq!(second["frames"]["captured"].as_u64(), Some(90), "{second}");
    let ingested = finish(endpoint);
    let streams = ingested["streams"].as_array().expect("a list");
    assert_eq!((streams.len(), streams[0]["name"].as_str()), (1, Some("stage")), "{ingested}");
    assert!(streams[0]["seconds"].as_f64() > Some(3.5), "both uploads: {ingested}");
}

#[test]
fn an_endpoint_knows_how_good_frames_are_and_an_uploader_who_watches() {
    let folder = folder("watched");
    let out = folder.display().to_string();
    let mut endpoint =
        ingest("quic://127.0.0.1:0", &out, "0.5s,3s", &["--metrics", "127.0.0.1:0", "--token", "right"]);
    let words = ["metrics at ", "watch at ", "listening on ", "pin "];
    let [metrics, site, at, pin] = announced(&mut endpoint, words);
    let target = format!("{at}?pin={pin}");
    let rest = ["--token", "right", "--duration", "9s", "--json"];
    let uploading = spawn(&[&["upload", target.as_str()][..], &CLIP, &rest].concat());
    let folder = folder.join("stage");
    wait_for(&folder.join("3s.m3u8"));
    for (agent, class) in [("one", "live"), ("two", "live"), ("two", "live"), ("two", "3s")] {
        let playlist = get_as(agent, &site, &format!("/stage/{class}.m3u8"));
        assert!(playlist.starts_with("HTTP/1.1 200"), "{playlist}");
    }
    // Whoever asks for anything else does not watch.
    get_as("three", &site, "/stage/live.json");
    let shown = get(metrics.trim_end_matches("/metrics"), "/metrics");
    assert!(shown.contains("framewire_viewers{name=\"stage\",delay=\"live\"} 2.0\n"), "{shown}");
    assert!(shown.contains("framewire_viewers{name=\"stage\",delay=\"3s\"} 1.0\n"), "{shown}");
    let uploaded = finish(uploading);
    let ingested = finish(endpoint);
    let viewers = serde_json::json!([{ "delay_s": 0.5, "viewers": 2 }, { "delay_s": 3.0, "viewers": 1 }]);
    assert_eq!(uploaded["viewers"], viewers, "{uploaded}");
    let watched = json_of(&folder.join("viewers.json"));
    assert_eq!(watched["classes"][0], serde_json::json!({ "name": "live", "delay_s": 0.5, "viewers": 2 }));
    assert!(uploaded["ratings"]["told"].as_u64() >= Some(250), "{uploaded}");
    assert_eq!(uploaded["ratings"]["dropped"], 0, "{uploaded}");
    // By the end of a class's delay nearly all that is shown has been rated, and none other.
    for (class, least) in [("live", 0.8), ("3s", 0.95)] {
        let [shown, rated] = [["arrived", "repaired"].as_slice(), &["rated"]]
            .map(|keys| keys.iter().map(|key| sum(&folder, class, key)).sum::<u64>());
        assert!(
            shown >= 200 && rated <= shown && rated as f64 >= least * shown as f64,
            "{class}: {ingested}"
        );
        for segment in history(&folder, class).iter().filter(|segment| segment["rated"] != 0) {
            let ssim = segment["ssim"].as_f64().expect("it is known");
            assert!((0.7..1.0).contains(&ssim), "{segment}");
        }
    }
    let first = &json_of(&folder.join("s/000001.json"))["frames"][0]["arrived"][0];
    assert!(first[2].as_f64().is_some_and(|ssim| (0.5..1.0).contains(&ssim)), "{first}");
    assert!(ingested["streams"][0]["classes"][1]["ssim"].as_f64() > Some(0.7), "{ingested}");
}

/// Writes a certificate for this machine and its key: an endpoint that is started again is known by them.
fn certificate(folder: &Path) -> [String; 2] {
    std::fs::create_dir_all(folder).expect("a folder");
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("it signs");
    let files = ["cert.pem", "key.pem"].map(|name| folder.join(name));
    for (file, text) in files.iter().zip([certificate.pem(), key.serialize_pem()]) {
        std::fs::write(file, text).expect("it is written");
    }
    files.map(|file| file.display().to_string())
}

/// Looks at playlists as they change, like a player that never sleeps.
struct Watch {
    lists: Vec<(PathBuf, Option<String>)>,
}

impl Watch {
    fn of(folder: &Path, classes: &[&str]) -> Watch {
        let list = |class: &&str| (folder.join(format!("{class}.m3u8")), None);
        Watch { lists: classes.iter().map(list).collect() }
    }

    /// Looks until `until`.
    fn watch(&mut self, mut until: impl FnMut(&[Option<&str>]) -> bool) {
        let begun = Instant::now();
        loop {
            for (path, before) in &mut self.lists {
                let after = std::fs::read_to_string(&*path).ok();
                if let (Some(before), Some(after)) = (&before, &after) {
                    assert_eq!(check(before, after), Ok(()), "{}:\n{before}\n{after}", path.display());
                }
                *before = after.or(before.take());
            }
            let now: Vec<Option<&str>> = self.lists.iter().map(|(_, text)| text.as_deref()).collect();
            if until(&now) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{now:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Samples in a movie: the count of its table of sizes.
fn samples(movie: &[u8]) -> u32 {
    let at = movie.windows(4).position(|window| window == b"stsz").expect("a movie has a table of sizes");
    u32::from_be_bytes(movie[at + 12..at + 16].try_into().expect("four bytes"))
}

#[test]
fn an_endpoint_that_is_killed_goes_on_with_the_stream() {
    let folder = folder("endpoint-killed");
    let [cert, key] = certificate(&folder);
    let out = folder.join("out");
    let (at, out_text) = (format!("quic://{}", free()), out.display().to_string());
    let start = || {
        let mut endpoint =
            ingest(&at, &out_text, "0.5s,10s", &["--token", "right", "--cert", &cert, "--key", &key]);
        let [pin] = announced(&mut endpoint, ["pin "]);
        (endpoint, pin)
    };
    let (mut first, pin) = start();
    let target = format!("{at}?pin={pin}");
    let rest = ["--token", "right", "--duration", "9s", "--delays", "0s:1,10s:5", "--json"];
    let uploader = spawn(&[&["upload", &target][..], &CLIP, &rest].concat());
    let mut watch = Watch::of(&out.join("stage"), &["live", "10s"]);
    watch.watch(|lists| lists[0].is_some_and(|live| live.matches(".m4s").count() >= 3));
    first.kill().expect("it runs");
    let _ = first.wait();
    std::thread::sleep(Duration::from_millis(500));
    let (second, _) = start();
    watch.watch(|lists| lists.iter().all(|list| list.is_some_and(|list| list.contains("ENDLIST"))));
    let (uploaded, ingested) = (finish(uploader), finish(second));
    let streams = ingested["streams"].as_array().expect("a list");
    assert_eq!((streams.len(), streams[0]["name"].as_str()), (1, Some("stage")), "{ingested}");
    assert!(!out.join("stage-2").exists() && uploaded["connections"] == 2, "{uploaded} {ingested}");
    let folder = out.join("stage");
    let (live, late) = (sum(&folder, "live", "missing"), frames(&folder));
    println!("{live} missing at once, {} frames after 10 s: {uploaded} {ingested}", late.len());
    assert!(live >= 30, "the endpoint was away: {ingested}");
    // Of 270. On a busy machine a picture may be dropped between decoder and packaging, which the uploader
    // takes for arrived.
    assert!(late.len() >= 265 && longest_gap(&late) < 0.15, "{late:?}");
    let movie = std::fs::read(folder.join("movie.mp4")).expect("the whole");
    assert!(samples(&movie) as usize >= late.len(), "{} samples", samples(&movie));
}

/// Media times of the frames that the last class shows, in s.
fn frames(folder: &Path) -> Vec<f64> {
    let read = |number: u32| std::fs::read(folder.join(format!("s/{number:06}.json"))).ok();
    let mut times = Vec::new();
    for notes in (0..).map_while(read) {
        let notes: Value = serde_json::from_slice(&notes).expect("it is JSON");
        let frames = notes["frames"].as_array().expect("a list").iter();
        times.extend(frames.map(|frame| frame["at_s"].as_f64().expect("a time")));
    }
    times
}

fn longest_gap(times: &[f64]) -> f64 {
    times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
}

#[test]
fn an_uploader_that_is_killed_sends_again_what_it_had_filmed() {
    let (folder, trace) = (folder("uploader-killed"), folder("uploader-killed.trace"));
    std::fs::create_dir_all(&folder).expect("a folder");
    // 3 Mbit/s, and nothing from 2.5 s on.
    let mut instants: Vec<String> = (1..625u32).map(|packet| (packet * 4).to_string()).collect();
    instants.push("60000".to_owned());
    std::fs::write(&trace, instants.join("\n") + "\n").expect("the trace is written");
    let (near, far) = (free(), free());
    let (out, trace) = (folder.join("out"), trace.display().to_string());
    let (out_text, listen) = (out.display().to_string(), format!("quic://{far}"));
    let mut endpoint = ingest(&listen, &out_text, "0.5s,10s", &["--token", "right"]);
    let [pin] = announced(&mut endpoint, ["pin "]);
    let to = format!("udp://{far}");
    let mut relay = spawn(&["relay", "--listen", &near, "--to", &to, "--trace", &trace, "--duration", "40s"]);
    let archive = folder.join("archive").display().to_string();
    let upload = |at: &str, duration: &'static str| {
        let target = format!("quic://{at}?pin={pin}");
        let rest = ["--token", "right", "--delays", "0s:1,10s:5", "--archive-file", &archive, "--json"];
        spawn(&[&["upload", &target, "--duration", duration][..], &CLIP, &rest].concat())
    };
    let mut first = upload(&near, "60s");
    let mut watch = Watch::of(&out.join("stage"), &["live", "10s"]);
    watch.watch(|lists| lists[0].is_some_and(|live| live.contains("000001-1.m4s")));
    // What is filmed from now on for two seconds does not get through.
    std::thread::sleep(Duration::from_millis(2_500));
    first.kill().expect("it runs");
    let _ = (first.wait(), relay.kill(), relay.wait());
    let second = upload(&far, "5s").wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    watch.watch(|lists| lists.iter().all(|list| list.is_some_and(|list| list.contains("ENDLIST"))));
    let ingested = finish(endpoint);
    assert!(second.status.success() && said.contains("frames of an upload that was killed"), "{said}");
    let times = frames(&out.join("stage"));
    println!("{said}{} frames, the longest gap {}: {ingested}", times.len(), longest_gap(&times));
    let uploaded: Value = serde_json::from_slice(&second.stdout).expect("one JSON object");
    assert!(uploaded["frames"]["repaired"].as_u64() >= Some(40), "{uploaded}");
    // Nobody filmed from one process to the other.
    assert!(longest_gap(&times) < 1.0, "{times:?}");
    assert!(!Path::new(&archive).exists() && !Path::new(&format!("{archive}.journal")).exists());
}
