//! A virtual CPU's thread while keel has no runnable thread.

use super::{Shared, Signal, finish_if_ended, wait_for};
use crate::server::clock_ns;
use crate::vcpu::Vcpu;
use rustix::event::{PollFd, PollFlags};
use rustix::time::ClockId;
use std::time::{Duration, Instant};

/// Idles a virtual CPU. The first one to idle is *on duty*: it serves the ring and waits for the first event of any
/// kind; the others wait for a wake-up.
pub(super) fn idle(vcpu: &Vcpu, index: u32, shared: &Shared) {
    let state = &shared.state;
    state.begin_idle(index);
    while !state.is_over() && !state.take_wake(index) && !vcpu.kick_pending() {
        let wake = state.event(index);
        if !state.takes_duty(index) {
            state.leave_to_duty(&shared.ring);
            wait_for(&mut [PollFd::new(wake, PollFlags::IN)], None);
            wake.clear();
            continue;
        }
        let mut server = shared.server();
        server.serve();
        server.serve_late();
        finish_if_ended(&server, shared);
        if server.has_urgent() {
            break;
        }
        let now = clock_ns(ClockId::Monotonic);
        let Some(deadline) = state.begin_wait(&shared.ring) else { continue };
        if deadline <= now {
            break;
        }
        let mut wait = (deadline != u64::MAX).then(|| Duration::from_nanos(deadline - now));
        if let Some(end) = shared.end_at {
            let left = end.saturating_duration_since(Instant::now());
            wait = Some(wait.map_or(left, |w| w.min(left)));
        }
        let streams = server.waiting();
        drop(server);
        let mut fds: Vec<PollFd<'_>> = vec![PollFd::new(wake, PollFlags::IN)];
        fds.extend(streams.iter().map(|(fd, flags)| PollFd::new(fd, *flags)));
        wait_for(&mut fds, wait);
        wake.clear();
        shared.clocks.tell(Instant::now(), &shared.ring);
        shared.check_timeout();
    }
    let was_on_duty = state.end_idle(index, &shared.ring);
    // While programs run and no virtual CPU is on duty, the helper polls the streams.
    let unwatched = || {
        let mut server = shared.server();
        server.streams().pending() > 0 || server.has_sockets() && !state.minds_sockets()
    };
    if shared.is_tick_missing() || was_on_duty && unwatched() {
        state.call_helper();
    }
}
