//! The tests that cross packages and can share a process.

mod abi;
mod algorithms;
mod cann_path;
mod capture;
mod checked;
mod collectives;
mod communicators;
mod executors;
mod faults;
mod groups;
mod in_flight;
mod kernels;
mod launches;
mod operator_pages;
mod operators;
mod programs;
mod ranks;
mod recording;
mod shared_libraries;
mod subcommunicators;
mod support;
mod tiling;
mod timelines;
mod turns;
mod waits;
mod walkthrough;
