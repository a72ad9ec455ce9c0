//! The doorbell: the ports that keel writes to reach the monitor ([`abi::layout::port`]). All but [`ring`] are exits.

use crate::instructions::write_port;
use abi::layout::port;

/// The ring holds requests: wakes the helper thread; the virtual CPU goes on.
pub(crate) fn ring() {
    write_port(port::DOORBELL, 0);
}

/// Has the ring served; returns when it was.
pub(crate) fn serve() {
    write_port(port::SERVE, 0);
}

/// The virtual CPU has nothing to run: returns at the first event.
pub(crate) fn idle() {
    write_port(port::IDLE, 0);
}

/// The contract with the monitor is broken: ends the pod.
pub(crate) fn panic() {
    write_port(port::PANIC, 0);
}

/// Interrupts a virtual CPU that runs a program.
pub(crate) fn kick(cpu: usize) {
    write_port(port::KICK, cpu as u8);
}

/// Lets a virtual CPU go on that is idle or about to be.
pub(crate) fn wake(cpu: usize) {
    write_port(port::WAKE, cpu as u8);
}

/// Makes a virtual CPU, whose data are ready, and lets it run.
pub(crate) fn start(cpu: usize) {
    write_port(port::START, cpu as u8);
}

/// Lets other threads of the host run for a moment.
pub(crate) fn yield_now() {
    write_port(port::YIELD, 0);
}
