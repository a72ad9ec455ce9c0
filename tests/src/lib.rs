//! Tools of the differential tests: build the C programs, run a command on the host and in a pod, compare what they
//! print and how they end. See `docs/testing.md`.

pub mod cases;
pub mod compare;
pub mod compile;
pub mod debian;
pub mod environment;
pub mod hull;
pub mod process;
pub mod registry;
pub mod root;
