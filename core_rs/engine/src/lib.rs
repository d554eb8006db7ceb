//! Performance model and serving simulator of the fleet planner.
//!
//! Reading guide: `request.rs` (one request's life), `event.rs` (what happens next), `cell.rs` (one independently
//! simulated part of a fleet) for the simulator; `chip.rs`, `model.rs`, `layout.rs`, `step.rs` for what a step costs.

#![forbid(unsafe_code)]

pub mod agenda;
pub mod batches;
pub mod blocks;
pub mod cell;
pub mod chip;
pub mod class_meter;
pub mod collective;
pub mod cost;
pub mod deployment;
pub mod error;
pub mod event;
pub mod few;
pub mod gaps;
pub mod host;
pub mod inbox;
pub mod kv;
pub mod layout;
pub mod leg;
pub mod link;
pub mod mean_loop;
pub mod memory;
pub mod meter;
pub mod model;
pub mod near;
pub mod offered;
pub mod operation;
pub mod placed;
pub mod policy;
pub mod power;
pub mod prefix;
pub mod replica;
pub mod request;
pub mod rng;
pub mod router;
pub mod sample;
#[cfg(test)]
mod samples;
pub mod sketch;
pub mod slab;
pub mod spec;
pub mod speculation;
pub mod split;
pub mod steady;
pub mod step;
pub mod sums;
pub mod table;
pub mod time;
pub mod timeline;
