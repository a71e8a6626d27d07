//! What the sheets say each controller does on the common link S20 (20 Mbit/s, 20 ms each way, 120 ms of queue), a file each.
#![allow(missing_docs, reason = "tests")]

mod gcc;
mod newreno;
#[path = "../path/mod.rs"]
mod path;
mod steady;
