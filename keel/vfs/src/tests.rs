//! Tests over a directory of the host.
