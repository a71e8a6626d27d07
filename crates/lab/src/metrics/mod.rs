//! What is measured, as pure functions of columns of numbers.
//!
//! Every figure Framewire prints comes from here, and every function states its definition, because most of these words
//! ("loss", "frame delay", "stall") mean several things in the literature. The functions know nothing of scenarios or
//! runs: [`crate::summary`] feeds them what [`crate::collect`] kept.

mod change;
mod fairness;
mod latency;
mod percentile;
mod picture;
mod rates;
mod simulated;

pub use change::{convergence_time, spike_duration};
pub use fairness::{jain, jain_windows, Activity};
pub use latency::{latencies, stalls, Latencies, Stalls};
pub use percentile::{nearest_rank, pantheon_percentile, Spread};
pub use picture::{dssim, psnr_all_planes, psnr_of_mse, psnr_summary, ssim_all_planes, PSNR_CAP};
pub use rates::{coefficient_of_variation, slots, throughput, windowed_rate};
pub use simulated::{eq10, simulate, PathPacket, SimulatedFrame, Slot};
