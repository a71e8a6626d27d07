//! `framewire link`: a command behind an emulated link, in a network namespace of its own.

mod flags;
#[cfg(target_os = "linux")]
mod meter;
#[cfg(target_os = "linux")]
mod parquet;
#[cfg(target_os = "linux")]
mod report;

pub use flags::Link;

use crate::failure::Failure;

/// Runs the command; its exit code is ours.
#[cfg(target_os = "linux")]
pub fn link(args: &Link) -> Result<(), Failure> {
    linux::link(args)
}

/// Other systems have no such namespaces.
#[cfg(not(target_os = "linux"))]
pub fn link(_: &Link) -> Result<(), Failure> {
    Err(Failure::input(
        "link: network namespaces are Linux's; `framewire relay` emulates a link for UDP here",
    ))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::os::unix::process::ExitStatusExt;
    use std::path::{Path, PathBuf};
    use std::process::{Command, ExitStatus};
    use std::sync::Arc;
    use std::time::SystemTime;

    use netsim::{Impairments, Link, LinkConfig, MahimahiTrace, Opportunities, RateProcess, TUN_FRAMING};
    use real::link::{Emulator, Heading, Keeper, LinkError, MahimahiLog, Plan};
    use record::Tap;
    use units::{Span, Time};

    use super::meter::Meters;
    use super::parquet::PacketFile;
    use super::{flags, report};
    use crate::failure::Failure;
    use crate::shipped;

    /// Runs the command behind the link; what was given is looked at before anything is begun.
    pub fn link(args: &flags::Link) -> Result<(), Failure> {
        let (up, down) = (Plans::of(&args.up(), args)?, Plans::of(&args.down(), args)?);
        for (flag, file) in [("--log", &args.log), ("--mahimahi-log", &args.mahimahi_log)] {
            file.as_deref().map_or(Ok(()), |file| has_folder(flag, file))?;
        }
        // Before any thread: it forks.
        let mut keeper = Keeper::start().map_err(Failure::work)?;
        let metrics = args.metrics.start()?;
        let mut emulator = Emulator::open(args.mtu).map_err(refused)?;
        if args.nat {
            emulator.translate(&mut keeper).map_err(refused)?;
        }
        let packets = args.log.as_deref().map(PacketFile::create).transpose()?;
        let (up_log, down_log) = (up.mahimahi(args)?, down.mahimahi(args)?);
        let (mut ahead, mut back) =
            (up.plan(args.seed, &up_log, &packets), down.plan(args.seed, &down_log, &packets));
        if args.metrics.metrics.is_some() {
            // With --json what stands on standard error is one object.
            if !args.json && !args.quiet {
                metrics.announce();
            }
            let mut meters = Meters::default();
            ahead.logs.push(meters.meter("up"));
            back.logs.push(meters.meter("down"));
            metrics.board.show(move |out| meters.show(out));
        }
        emulator.start(ahead, back).map_err(Failure::work)?;
        let began = emulator.clock().date_of(Time::ZERO);
        let ended = emulator.run(command(&args.command), &mut keeper);
        let addresses = (emulator.outside(), emulator.inside());
        let outcome = emulator.finish();
        drop(keeper);
        let unlogged = finish(packets, [&up_log, &down_log])?;
        let status = ended.map_err(refused)?;
        if let (Some(outcome), false) = (outcome, args.quiet) {
            report::print(
                &report::Figures { outcome: &outcome, addresses, began, unlogged, code: code(status) },
                args.json,
            );
        }
        match code(status) {
            0 => Ok(()),
            code => Err(Failure::Command(code)),
        }
    }

    /// What one direction is to be, with its trace read.
    struct Plans {
        name: &'static str,
        config: LinkConfig,
        capacity: String,
        queue: String,
    }

    impl Plans {
        fn of(direction: &flags::Direction<'_>, args: &flags::Link) -> Result<Plans, Failure> {
            let (rate, capacity) = match (direction.trace, direction.rate) {
                (Some(file), _) => {
                    let trace =
                        Arc::new(MahimahiTrace::open(&shipped::or_shipped(file)?).map_err(Failure::input)?);
                    let process = Opportunities { trace, once: args.once, framing: TUN_FRAMING };
                    (RateProcess::Trace(process), file.display().to_string())
                }
                (None, Some(rate)) if rate.as_bps() > 0 => (RateProcess::Constant(rate), rate.to_string()),
                (None, Some(_)) => return Err(Failure::input("--rate: a rate above zero, such as 5mbit")),
                (None, None) => (RateProcess::Infinite, "no limit".to_owned()),
            };
            if direction.delay < Span::ZERO || direction.jitter < Span::ZERO {
                return Err(Failure::input("--delay and --jitter: a time of zero or more, such as 20ms"));
            }
            let config = LinkConfig {
                jitter: direction.jitter,
                impairments: Impairments { loss: direction.loss, ..Impairments::default() },
                ..LinkConfig::bottleneck(rate, direction.queue.clone(), direction.delay)
            };
            Ok(Plans { name: direction.name, config, capacity, queue: direction.queue.to_string() })
        }

        /// Mahimahi's log of this direction, if one was asked for.
        fn mahimahi(&self, args: &flags::Link) -> Result<Option<MahimahiLog>, Failure> {
            let Some(file) = &args.mahimahi_log else { return Ok(None) };
            let path = with_ending(file, self.name);
            let out = super::parquet::text_file(&path)?;
            let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let heading = Heading {
                link: if self.name == "up" { "uplink" } else { "downlink" },
                capacity: self.capacity.clone(),
                command_line: std::env::args().collect::<Vec<_>>().join(" "),
                queue: self.queue.clone(),
                date_ms: date.as_millis() as u64,
            };
            Ok(Some(MahimahiLog::new(self.config.rate.clone(), &heading, out)))
        }

        fn plan(&self, seed: u64, mahimahi: &Option<MahimahiLog>, packets: &Option<PacketFile>) -> Plan {
            let tap = mahimahi.as_ref().map_or_else(Tap::default, MahimahiLog::tap);
            let mut plan = Plan::from(Link::new(self.config.clone(), seed, self.name, tap));
            plan.logs.extend(mahimahi.clone().map(|log| Box::new(log) as _));
            plan.logs.extend(packets.as_ref().map(|file| Box::new(file.log(self.name)) as _));
            plan
        }
    }

    /// Closes the logs; how many of the packets and bytes of text they lack.
    fn finish(packets: Option<PacketFile>, texts: [&Option<MahimahiLog>; 2]) -> Result<u64, Failure> {
        let mut unlogged = packets.map_or(Ok(0), PacketFile::finish).map_err(Failure::Work)?;
        for log in texts.into_iter().flatten() {
            unlogged += log.finish().map_err(Failure::Work)?;
        }
        Ok(unlogged)
    }

    /// Files are made only once there is a link, but where none can be made there need be no link.
    fn has_folder(flag: &str, file: &Path) -> Result<(), Failure> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        if !file.is_dir() && folder.is_none_or(Path::is_dir) {
            return Ok(());
        }
        Err(Failure::Input(format!("{flag} {}: not a file in a folder that is there", file.display())))
    }

    fn with_ending(file: &Path, ending: &str) -> PathBuf {
        let mut path = file.as_os_str().to_owned();
        path.push(".");
        path.push(ending);
        path.into()
    }

    fn command(words: &[OsString]) -> Command {
        let shell = || std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
        let mut command = Command::new(words.first().cloned().unwrap_or_else(shell));
        command.args(words.iter().skip(1));
        command
    }

    /// As shells have it: 128 and the signal for a command that a signal ended.
    fn code(status: ExitStatus) -> u8 {
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        u8::try_from(code).unwrap_or(u8::MAX)
    }

    fn refused(error: LinkError) -> Failure {
        match error {
            LinkError::System { .. } => Failure::work(error),
            _ => Failure::input(error),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_command_ended_by_a_signal_has_the_shells_code() {
            assert_eq!(code(ExitStatus::from_raw(7 << 8)), 7);
            assert_eq!(code(ExitStatus::from_raw(libc::SIGKILL)), 137);
            assert_eq!(with_ending(Path::new("a/link"), "up"), PathBuf::from("a/link.up"));
        }
    }
}
