//! Looks at a soak from time to time, and what may not have grown in between.

use serde_json::{Value, json};
use tracing::info;
use units::{Rate, Span};

use super::server::SoakServer;
use crate::Process;

/// Threads and open files come and go with peers: a visitor has a runtime's thread and three files at its
/// end, a thread and four files at the server's. This many may be there beyond those of the first look.
const THREADS: u64 = 24;
const FILES: u64 = 64;
/// CPU time between two looks may double, and this much of a core be added: restarts and handshakes do not
/// fall evenly.
const CPU: f64 = 0.25;
/// Of what it should get between two looks, a stream has at least this share: the rest is for restarts and
/// what the flood displaces.
const SHARE: f64 = 0.5;

/// What is held against the first look.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of memory that may be added.
    pub growth: u64,
    /// The rate of each honest stream.
    pub rate: Rate,
}

/// How things stood at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    after: Span,
    process: Process,
    tasks: usize,
    /// Of a core, since the look before.
    cpu: f64,
    /// Of what the honest streams should have got since the look before, the least that one did.
    share: f64,
}

/// The looks so far.
pub struct Watch {
    bounds: Bounds,
    pub looks: Vec<Look>,
    /// CPU time and the honest streams' bytes at the look before.
    cpu: f64,
    arrived: Vec<(String, u64)>,
}

impl Watch {
    /// Before the first look.
    pub fn new(bounds: Bounds, streams: u8) -> Watch {
        let arrived = (0..streams).map(|number| (super::peers::honest_name(number), 0)).collect();
        let cpu = Process::now().map_or(0.0, |process| process.cpu);
        Watch { bounds, looks: Vec::new(), cpu, arrived }
    }

    /// Looks; what is not as it should be, in words.
    pub fn look(&mut self, after: Span, server: &SoakServer) -> Option<String> {
        let Some(process) = Process::now() else {
            return Some("this system does not tell what a process holds; soak needs Linux".to_owned());
        };
        let since = after - self.looks.last().map_or(Span::ZERO, |look| look.after);
        let expected = self.bounds.rate.bytes_in(since).get() as f64;
        let mut share = f64::INFINITY;
        for (name, before) in &mut self.arrived {
            let arrived = server.arrived(name);
            share = share.min((arrived - *before) as f64 / expected);
            *before = arrived;
        }
        let cpu = (process.cpu - self.cpu) / since.as_secs_f64();
        self.cpu = process.cpu;
        let look = Look { after, process, tasks: server.tasks(), cpu, share };
        info!(
            target: "framewire::soak::watch",
            megabytes = look.megabytes(),
            threads = process.threads,
            files = process.descriptors,
            tasks = look.tasks,
            cpu,
            share,
            "look"
        );
        let excess = judge(self.looks.first(), &look, &self.bounds, server.most_tasks());
        self.looks.push(look);
        excess.map(|excess| format!("after {:.0} s: {excess}", after.as_secs_f64()))
    }
}

/// What of a look exceeds its bounds.
fn judge(first: Option<&Look>, look: &Look, bounds: &Bounds, most_tasks: usize) -> Option<String> {
    if look.share < SHARE {
        let share = 100.0 * look.share;
        return Some(format!(
            "an honest stream got {share:.0} % of what it should, where {:.0} % is the least",
            100.0 * SHARE
        ));
    }
    if look.tasks > most_tasks {
        return Some(format!("the server has {} tasks, where its limits allow {most_tasks}", look.tasks));
    }
    let first = first?;
    let (was, is) = (&first.process, &look.process);
    if is.resident > was.resident + bounds.growth {
        let grown = (is.resident - was.resident) as f64 / 1e6;
        return Some(format!(
            "memory grew by {grown:.1} MB since the first look, to {:.1} MB",
            look.megabytes()
        ));
    }
    if is.threads > was.threads + THREADS {
        return Some(format!("there are {} threads, {} at the first look", is.threads, was.threads));
    }
    if is.descriptors > was.descriptors + FILES {
        return Some(format!(
            "there are {} open files, {} at the first look",
            is.descriptors, was.descriptors
        ));
    }
    let most = 2.0 * first.cpu + CPU;
    (look.cpu > most)
        .then(|| format!("{:.0} % of a core was used, {:.0} % at first", 100.0 * look.cpu, 100.0 * first.cpu))
}

impl Look {
    /// Memory in use, in 10^6 bytes.
    pub fn megabytes(&self) -> f64 {
        self.process.resident as f64 / 1e6
    }

    /// For people, as the table's columns have it.
    pub fn cells(&self) -> [String; 7] {
        [
            format!("{:.0} s", self.after.as_secs_f64()),
            format!("{:.1}", self.megabytes()),
            self.process.threads.to_string(),
            self.process.descriptors.to_string(),
            self.tasks.to_string(),
            format!("{:.0}", 100.0 * self.cpu),
            format!("{:.2}", self.share),
        ]
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "after_s": self.after.as_secs_f64(), "resident_bytes": self.process.resident, "threads": self.process.threads,
            "open_files": self.process.descriptors, "tasks": self.tasks, "cpu_share": self.cpu, "least_stream_share": self.share,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look() -> Look {
        let process = Process { resident: 50_000_000, cpu: 1.0, threads: 20, descriptors: 60 };
        Look { after: Span::from_secs(60), process, tasks: 12, cpu: 0.2, share: 0.97 }
    }

    #[test]
    fn every_excess_is_named() {
        let bounds = Bounds { growth: 10_000_000, rate: Rate::from_mbps(2) };
        let judged = |change: fn(&mut Look)| {
            let mut later = look();
            change(&mut later);
            judge(Some(&look()), &later, &bounds, 40)
        };
        assert_eq!(judged(|look| look.process.resident += 10_000_000), None);
        let excess = |change| judged(change).expect("it is too much");
        assert!(excess(|look| look.process.resident += 10_000_001).contains("memory grew by 10.0 MB"));
        assert!(excess(|look| look.process.threads += THREADS + 1).contains("45 threads"));
        assert!(excess(|look| look.process.descriptors += FILES + 1).contains("125 open files"));
        assert!(excess(|look| look.tasks = 41).contains("41 tasks"));
        assert!(excess(|look| look.share = 0.49).contains("49 %"));
        assert!(excess(|look| look.cpu = 0.7).contains("70 % of a core"));
        // A stream that starves is found at the first look already.
        let starved = Look { share: 0.0, ..look() };
        assert!(judge(None, &starved, &bounds, 40).is_some());
    }
}
