//! What the sheets say each controller does on the common link S20 (20 Mbit/s, 20 ms each way, 120 ms of
//! queue), a file each.
#![allow(missing_docs, reason = "tests")]

mod announced;
mod bbr;
mod bbr2;
mod copa;
mod cubic;
mod gcc;
mod ledbat;
mod newreno;
mod nimbus;
#[path = "../path/mod.rs"]
mod path;
mod pcc;
mod quic_dc;
mod robust;
mod rocc;
mod scream;
mod sprout;
mod steady;
mod vegas;
mod westwood;
