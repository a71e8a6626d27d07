//! This process in metrics.

use instruments::Process;
use prometheus_client::registry::Unit;

use super::Exposition;

/// The names under which every Prometheus exporter shows its process.
pub fn of_process(out: &mut Exposition<'_>) {
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    out.gauge("framewire_build_info", "Always 1; the version is in the label", None, [(version, 1.0)]);
    let Some(process) = Process::now() else { return };
    let bytes = Some(Unit::Bytes);
    out.gauge("process_resident_memory", "Memory in use", bytes, [(vec![], process.resident as f64)]);
    out.seconds("process_cpu", "CPU time used", [(vec![], process.cpu)]);
    out.gauge("process_threads", "Threads", None, [(vec![], process.threads as f64)]);
    out.gauge("process_open_fds", "Open files and sockets", None, [(vec![], process.descriptors as f64)]);
}
