//! Terminals: pseudo-terminals, the standard streams of the pod's first program, and job control.

pub mod pty;
pub mod stream;
pub mod terminal;
pub(crate) mod termio;
