//! Writes the traces that are shipped, each a minute of a model in `netsim::models`:
//!
//! `cargo run --release -p framewire-netsim --example make_traces`

use std::path::Path;

use framewire_netsim::models;

/// The seed the shipped files were made with.
const SEED: u64 = 1;

const MILLIS: u32 = 60_000;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    for name in models::SHIPPED {
        let trace = models::shipped(name, SEED, MILLIS).expect("every shipped model carries something");
        let text = trace.to_text();
        std::fs::write(folder.join(format!("{name}.trace")), &text)?;
        println!(
            "{name}: mean {}, longest gap {}, {} kB",
            trace.mean_rate(),
            trace.longest_gap(),
            text.len() / 1_000
        );
    }
    Ok(())
}
