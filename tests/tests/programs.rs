//! Placeholder until the table is read.
fn main() {}
