//! Performance model and serving simulator of the fleet planner.
//!
//! Reading guide: `request.rs` (one request's life), `event.rs` (what happens next), `cell.rs` (one independently
//! simulated part of a fleet) for the simulator; `chip.rs`, `model.rs`, `layout.rs`, `step.rs` for what a step costs.

#![forbid(unsafe_code)]

pub mod chip;
pub mod collective;
pub mod cost;
pub mod deployment;
pub mod error;
pub mod kv;
pub mod layout;
pub mod memory;
pub mod model;
pub mod power;
pub mod rng;
pub mod sample;
#[cfg(test)]
mod samples;
pub mod step;
pub mod time;
