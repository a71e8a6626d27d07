//! What is measured, as pure functions of columns of numbers.
//!
//! Every figure Framewire prints comes from here, and every function states its definition, because most of
//! these words ("loss", "frame delay", "stall") mean several things in the literature. The functions know
//! nothing of scenarios or runs: [`crate::summary`] feeds them what [`crate::collect`] kept.

mod bins;
mod change;
mod distribution;
mod fairness;
mod latency;
mod percentile;
mod picture;
mod rates;
mod simulated;
mod sqi;

pub use bins::{bin_of, burst_width_of};
pub use change::{convergence_time, spike_duration};
pub use distribution::{Distribution, Variation};
pub use fairness::{Activity, jain, jain_of_slots, jain_windows};
pub use latency::{Latencies, LatencyOf, StallFinder, Stalls, latencies, stalls, stalls_between};
pub use percentile::{Spread, nearest_place, nearest_rank, pantheon_percentile};
pub use picture::{
    PSNR_CAP, dssim, psnr_all_planes, psnr_of_counted, psnr_of_mse, psnr_summary, ssim_all_planes,
};
pub use rates::{coefficient_of_variation, slots, throughput, windowed_rate};
pub use simulated::{PathPacket, SimulatedFrame, Simulator, Slot, eq10, simulate};
pub use sqi::{SQI, SqiConstants, SqiFrame, sqi, sqi_slots};
