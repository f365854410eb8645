//! Tests burn's training loop on one to four ranks against that of burn on one device.

mod digits;
mod loader;
mod strategy;
mod toy;
