//! The doorbell: the ports that keel writes to reach the monitor ([`abi::layout::port`]). All but [`ring`] are exits.

use crate::instructions::write_port;
use abi::layout::port;

/// Submissions are pending: wakes the helper thread; the virtual CPU continues.
pub(crate) fn ring() {
    write_port(port::DOORBELL, 0);
}

/// Makes the monitor serve the ring; returns afterwards.
pub(crate) fn serve() {
    write_port(port::SERVE, 0);
}

/// No runnable thread: returns at the first event.
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

/// Wakes a virtual CPU that is idle or about to be.
pub(crate) fn wake(cpu: usize) {
    write_port(port::WAKE, cpu as u8);
}

/// Creates and starts a virtual CPU, whose per-CPU data is ready.
pub(crate) fn start(cpu: usize) {
    write_port(port::START, cpu as u8);
}

/// Yields the host's processor.
pub(crate) fn yield_now() {
    write_port(port::YIELD, 0);
}
