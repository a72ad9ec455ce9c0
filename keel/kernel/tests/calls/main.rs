//! System calls to a kernel in a process of the host, without a virtual machine: `cargo test -p keel-kernel --features
//! hal/hosted --test calls`.

mod any_call;
mod files;
mod futex;
mod harness;
mod ipc;
mod memory;
mod pipes;
mod proc;
mod process;
mod signals;
mod sockets;
mod traced;
mod tty;
mod waiting;
