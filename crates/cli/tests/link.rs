//! `framewire link` as people use it: a command in a namespace, servers outside. How exact it is, is for
//! `framewire bench link`; here it must work. Where namespaces or TUN devices can't be had, each test says so
//! and passes.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "these tests watch processes in real time")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

const FRAMEWIRE: &str = env!("CARGO_BIN_EXE_framewire");

/// `framewire link FLAGS -- sh -c SCRIPT`.
fn link(flags: &[&str], script: &str) -> Command {
    let mut command = Command::new(FRAMEWIRE);
    command.arg("link").args(flags).args(["--", "sh", "-c", script]).env("FRAMEWIRE", FRAMEWIRE);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(flags: &[&str], script: &str) -> Output {
    link(flags, script).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Takes the calling thread, its sockets and its children to a network namespace of their own, so that each
/// test has the first link of its machine. False, with the reason printed, where links can't be had.
fn alone(name: &str) -> bool {
    let tried = run(&["-q"], "exit 0");
    if tried.status.code() != Some(0) {
        println!("skipped: {name}: {}", text(&tried.stderr).trim());
        return false;
    }
    // SAFETY: changes a property of this thread only.
    let left = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(left, 0, "links can be had, but no namespace: {}", std::io::Error::last_os_error());
    true
}

/// Our devices in this thread's namespace, and how many processes tidy up there.
fn remains() -> (Vec<String>, usize) {
    let table = fs::read_to_string("/proc/thread-self/net/dev").expect("there is a table of devices");
    let devices =
        table.lines().filter_map(|line| line.trim().split_once(':')).map(|(name, _)| name.to_owned());
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let here = namespace("thread-self");
    let processes = fs::read_dir("/proc").expect("there is /proc").flatten();
    let guards = processes.filter(|entry| {
        let process = entry.file_name().to_string_lossy().into_owned();
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        name.trim() == "framewire-guard" && namespace(&process) == here
    });
    (devices.filter(|name| name.starts_with("fw")).collect(), guards.count())
}

/// Waits until nothing of ours is left.
fn nothing_remains() {
    let begun = Instant::now();
    while remains() != (Vec::new(), 0) {
        assert!(begun.elapsed() < Duration::from_secs(10), "left behind: {:?}", remains());
        thread::sleep(Duration::from_millis(20));
    }
}

fn is_alive(process: &str) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// A UDP echo outside, for as long as the test runs; its port.
fn echo() -> u16 {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("there is a port");
    let port = socket.local_addr().expect("it has an address").port();
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    });
    port
}

/// Python inside, as most machines have one: prints the least of five round trips in ms.
fn round_trip(port: u16) -> String {
    format!(
        "python3 -c 'import os, socket, time\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); best = 1e9\n\
         for i in range(5):\n  t = time.monotonic()\n  s.sendto(b\"x\" * 100, (os.environ[\"MAHIMAHI_BASE\"], {port}))\n  \
         s.recv(2000); best = min(best, time.monotonic() - t)\n\
         print(best * 1e3)'"
    )
}

fn has_python() -> bool {
    Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn the_command_has_its_streams_and_its_exit_code() {
    if !alone("exit codes") {
        return;
    }
    let output = run(&["-q"], "echo out; echo err >&2; exit 7");
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("out\n", "err\n"));
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(run(&["-q"], "kill -KILL $$").status.code(), Some(137));
    let missing =
        Command::new(FRAMEWIRE).args(["link", "--", "no-such-command"]).output().expect("it starts");
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("cannot run `no-such-command`"), "{}", text(&missing.stderr));
    nothing_remains();
}

#[test]
fn delay_and_addresses_inside_one_link_and_two() {
    if !alone("delay") {
        return;
    }
    if !has_python() {
        return println!("skipped: delay: there is no python3 to ask for round trips");
    }
    let port = echo();
    let ms =
        |output: Output| text(&output.stdout).trim().parse::<f64>().unwrap_or_else(|_| panic!("{output:?}"));
    let one = ms(run(&["-q", "--up-delay", "20ms", "--down-delay", "5ms"], &round_trip(port)));
    assert!((25.0..60.0).contains(&one), "{one} ms");
    let inner = round_trip(port).replace('"', "\\\"").replace('\'', "\"");
    let nested = format!("exec \"$FRAMEWIRE\" link -q --delay 10ms -- sh -c '{inner}'");
    let two = ms(run(&["-q", "--delay", "15ms"], &nested));
    assert!((50.0..90.0).contains(&two), "{two} ms");
    nothing_remains();
}

#[test]
fn a_rate_limits_tcp_and_every_byte_is_counted() {
    if !alone("rate") {
        return;
    }
    if !has_python() {
        return println!("skipped: rate: there is no python3 to send by TCP");
    }
    let listener = TcpListener::bind("0.0.0.0:0").expect("there is a port");
    let port = listener.local_addr().expect("it has an address").port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody connects");
        let (mut bytes, mut buffer) = (0, vec![0; 1 << 16]);
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            bytes += count;
        }
        let _ = stream.write(b"x");
        bytes
    });
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (log, mahimahi) = (folder.join("link.parquet"), folder.join("link"));
    let (log, mahimahi) = (log.display().to_string(), mahimahi.display().to_string());
    let script = format!(
        "python3 -c 'import os, socket\n\
         s = socket.create_connection((os.environ[\"FRAMEWIRE_OUTSIDE\"], {port}))\n\
         s.sendall(bytes(1000000)); s.shutdown(socket.SHUT_WR); s.recv(1)'"
    );
    let begun = Instant::now();
    let flags = [
        "--json",
        "--rate",
        "8mbit",
        "--delay",
        "5ms",
        "--queue",
        "fq_codel",
        "--log",
        &log,
        "--mahimahi-log",
        &mahimahi,
    ];
    let output = run(&flags, &script);
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!(server.join().expect("the server ends"), 1_000_000);
    assert!(seconds >= 1.0, "1 MB through 8 Mbit/s in {seconds} s");
    let figures: Value = serde_json::from_slice(&output.stderr).unwrap_or_else(|_| panic!("{output:?}"));
    let date =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later than 1970");
    let since = date.as_secs_f64() * 1e3 - figures["began_ms"].as_f64().expect("a date");
    assert!((1_000.0..60_000.0).contains(&since), "{since} ms ago");
    let up = &figures["up"];
    let count =
        |path: &str| up.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {figures}"));
    assert!(count("/bytes/delivered") > 1_000_000 && count("/sent") > 690, "{figures}");
    assert_eq!(count("/bytes/offered"), count("/bytes/delivered") + count("/bytes/dropped"), "{figures}");
    let machine = ["overruns", "foreign", "refused", "unsent"].map(|name| count(&format!("/machine/{name}")));
    assert_eq!(machine, [0; 4], "{figures}");
    let parquet = fs::read(&log).expect("the log is there");
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let lines = fs::read_to_string(format!("{mahimahi}.up")).expect("Mahimahi's log is there");
    let bytes = |kind: &str| -> u64 {
        let rows = lines.lines().filter(|line| line.split(' ').nth(1) == Some(kind));
        rows.filter_map(|line| line.split(' ').nth(2)?.parse::<u64>().ok()).sum()
    };
    // Mahimahi counts four more for each packet.
    assert_eq!(bytes("-"), count("/bytes/delivered") + 4 * count("/sent"));
    assert_eq!(bytes("+"), count("/bytes/offered") + 4 * count("/received"));
    assert!(fs::metadata(format!("{mahimahi}.down")).is_ok_and(|file| file.len() > 100));
    nothing_remains();
}

#[test]
fn addresses_are_translated_and_the_rule_is_undone() {
    if !alone("translation") {
        return;
    }
    if !has_python() {
        return println!("skipped: translation: there is no python3 to send by UDP");
    }
    let server = UdpSocket::bind("0.0.0.0:0").expect("there is a port");
    let port = server.local_addr().expect("it has an address").port();
    let _ = server.set_read_timeout(Some(Duration::from_secs(10)));
    // In the outer link's namespace packets are forwarded, so that this machine's own settings stay as they
    // are.
    let script = format!(
        "\"$FRAMEWIRE\" link -q --nat -- python3 -c 'import os, socket\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b\"x\", (os.environ[\"MAHIMAHI_BASE\"], {port}))\n\
         print(os.environ[\"FRAMEWIRE_INSIDE\"])' || exit 1\n\
         nft list ruleset 2>/dev/null | grep masquerade; iptables -w -t nat -S 2>/dev/null | grep MASQUERADE; exit 0"
    );
    let output = run(&["-q"], &script);
    if output.status.code() != Some(0) {
        return println!("skipped: translation: {}", text(&output.stderr).trim());
    }
    assert_eq!(text(&output.stdout), "100.64.32.2\n", "a rule is left, or the addresses are others");
    let (_, from) = server.recv_from(&mut [0; 16]).expect("the packet arrives");
    assert_eq!(from.ip().to_string(), "100.64.0.2", "it seems to come from the outer link's inside");
    nothing_remains();
}

/// A link whose command prints a line once it runs; that line.
fn begin(script: &str) -> (Child, String) {
    let mut child = link(&["-q"], script).spawn().expect("the command starts");
    let mut first = [0; 64];
    let length = child.stdout.as_mut().expect("it is piped").read(&mut first).expect("it says something");
    (child, text(&first[..length]).trim().to_owned())
}

#[test]
fn nothing_is_left_when_the_emulator_is_killed() {
    if !alone("kill") {
        return;
    }
    // A background process of the command's, which has let go of its session and its streams.
    let background = "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $$ $!; exec sleep 1000";
    let (mut child, line) = begin(background);
    let processes: Vec<_> = line.split(' ').map(str::to_owned).collect();
    assert!(processes.len() == 2 && processes.iter().all(|p| is_alive(p)), "{line}");
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    nothing_remains();
    assert!(!processes.iter().any(|p| is_alive(p)), "{line}");
}

#[test]
fn a_background_process_ends_with_the_command() {
    if !alone("background") {
        return;
    }
    let output = run(&["-q"], "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $!");
    assert_eq!(output.status.code(), Some(0));
    assert!(!is_alive(text(&output.stdout).trim()));
    nothing_remains();
}

#[test]
fn a_signal_goes_to_the_command() {
    if !alone("signals") {
        return;
    }
    let (child, _) = begin("trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.05; done");
    // SAFETY: sends a signal to a child that has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(3), "caught\n"), "{output:?}");
    nothing_remains();
}

#[test]
fn marks_are_written_into_packets() {
    if !alone("marks") {
        return;
    }
    if !has_python() {
        return println!("skipped: marks: there is no python3 to send by UDP");
    }
    let socket = UdpSocket::bind("0.0.0.0:0").expect("there is a port");
    let port = socket.local_addr().expect("it has an address").port();
    let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("marks.parquet").display().to_string();
    // 2 Mbit/s offered to 1 Mbit/s for a second: CoDel marks what could be dropped.
    let script = format!(
        "python3 -c 'import os, socket, time\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)\n\
         for i in range(200):\n  s.sendto(bytes(1222), (os.environ[\"FRAMEWIRE_OUTSIDE\"], {port})); time.sleep(0.005)'"
    );
    let flags = ["--json", "--rate", "1mbit", "--queue", "codel:ecn", "--log", &log];
    let output = run(&flags, &script);
    let marked = received_marks(&socket);
    let figures = text(&output.stderr);
    // What was marked and not dropped arrived with an intact header: the kernel drops a packet whose checksum
    // is wrong.
    assert!(marked > 0, "{figures}");
    nothing_remains();
}

#[test]
fn flows_are_told_apart_by_their_ports() {
    if !alone("flows") {
        return;
    }
    if !has_python() {
        return println!("skipped: flows: there is no python3 to send by UDP");
    }
    // Two flows share one of the 1,024 queues once in as many pairs of ports, and nothing tells them apart.
    let arrived = [(), (), ()].map(|()| of_flood_and_trickle());
    let apart = |&[flood, trickle]: &[usize; 2]| flood < 300 && trickle == 5;
    assert!(arrived.iter().filter(|arrived| apart(arrived)).count() >= 2, "{arrived:?}");
    nothing_remains();
}

/// How many datagrams of two flows arrive that share a link: one offers far more than the queue holds, the
/// other five. Only the destination's port differs.
fn of_flood_and_trickle() -> [usize; 2] {
    let sockets = [(), ()].map(|()| UdpSocket::bind("0.0.0.0:0").expect("there is a port"));
    let [flood, trickle] =
        sockets.each_ref().map(|socket| socket.local_addr().expect("it has an address").port());
    let script = format!(
        "python3 -c 'import os, socket, time\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); to = os.environ[\"FRAMEWIRE_OUTSIDE\"]\n\
         for i in range(400):\n  s.sendto(bytes(1222), (to, {flood}))\n  \
         if i % 80 == 40: s.sendto(bytes(1222), (to, {trickle}))\n\
         time.sleep(0.5)'"
    );
    let output = run(&["-q", "--rate", "2mbit", "--queue", "fq_codel:30p"], &script);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    sockets.each_ref().map(|socket| {
        let _ = socket.set_read_timeout(Some(Duration::from_millis(200)));
        std::iter::from_fn(|| socket.recv(&mut [0; 2048]).ok()).count()
    })
}

/// How many of the datagrams that wait in the socket carry `congestion experienced`.
fn received_marks(socket: &UdpSocket) -> usize {
    use std::os::fd::AsRawFd;
    let on: libc::c_int = 1;
    let (value, size) = ((&raw const on).cast(), size_of_val(&on) as u32);
    // SAFETY: the option's value is the int `on`, of the length beside it.
    unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_RECVTOS, value, size) };
    let _ = socket.set_read_timeout(Some(Duration::from_millis(200)));
    let mut marks = 0;
    let mut buffer = [0u8; 2048];
    let mut control = [0u64; 16];
    loop {
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all zeros is a valid msghdr, and every pointer put into it outlives the call.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: as above; the notes are read as cmsg(3) has it.
        unsafe {
            if libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) < 0 {
                return marks;
            }
            let note = libc::CMSG_FIRSTHDR(&raw const message);
            if !note.is_null() && (*note).cmsg_type == libc::IP_TOS {
                marks += usize::from(*libc::CMSG_DATA(note) & 3 == 3);
            }
        }
    }
}

#[test]
fn a_user_namespace_will_do() {
    if !alone("user namespace") {
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", FRAMEWIRE, "link", "-q", "--delay", "5ms", "--"]);
    let Ok(output) = command.args(["sh", "-c", "echo $FRAMEWIRE_INSIDE"]).output() else {
        return println!("skipped: user namespace: there is no unshare");
    };
    let error = text(&output.stderr);
    if error.starts_with("unshare") {
        return println!("skipped: user namespace: {}", error.trim());
    }
    assert_eq!((text(&output.stdout).as_str(), error.as_str()), ("100.64.0.2\n", ""));
}

#[test]
fn without_rights_it_says_what_is_missing() {
    // Nobody's rights, if this is run by somebody who may give his own away.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", FRAMEWIRE]);
    let Ok(output) = command.args(["link", "--", "true"]).output() else {
        return println!("skipped: rights: there is no setpriv");
    };
    let error = text(&output.stderr);
    if error.contains("setpriv") || error.contains("Permission denied") {
        return println!("skipped: rights: {}", error.trim());
    }
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("as root") || error.contains("modprobe tun"), "{error}");
    assert_eq!(error.trim().lines().count(), 1, "{error}");
}
