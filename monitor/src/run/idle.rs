//! A virtual CPU's thread while keel has nothing to run.

use super::{Shared, finish_if_ended, wait_for};
use crate::server::clock_ns;
use crate::vcpu::Vcpu;
use rustix::event::{PollFd, PollFlags};
use rustix::time::ClockId;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A virtual CPU has nothing to run. The first one that idles is *on duty*: it serves the ring and waits for
/// the first event of any kind; the others wait until they are woken.
pub(super) fn idle(vcpu: &Vcpu, index: u32, shared: &Shared) {
    shared.cpus.begin_idle(index);
    while !shared.over.load(Ordering::SeqCst) && !shared.cpus.take_wake(index) && !vcpu.kick_pending() {
        let wake = shared.cpus.event(index);
        if !shared.cpus.takes_duty(index) {
            // The thread on duty may not have seen what keel posted for an idle virtual CPU.
            if shared.ring.has_submission() || shared.ring.deadline_ns() < shared.cpus.duty_deadline() {
                shared.cpus.remind_duty();
            }
            wait_for(&mut [PollFd::new(wake, PollFlags::IN)], None);
            wake.clear();
            continue;
        }
        let mut server = shared.server();
        server.serve();
        server.serve_late();
        finish_if_ended(&server, shared);
        if shared.ring.has_completion() {
            break;
        }
        let now = clock_ns(ClockId::Monotonic);
        let deadline = shared.ring.deadline_ns();
        shared.cpus.set_duty_deadline(deadline);
        shared.ring.set_duty_looks(deadline);
        if shared.ring.deadline_ns() != deadline {
            continue;
        }
        if deadline <= now {
            break;
        }
        let mut wait = (deadline != u64::MAX).then(|| Duration::from_nanos(deadline - now));
        if let Some(end) = shared.end_at {
            let left = end.saturating_duration_since(Instant::now());
            wait = Some(wait.map_or(left, |w| w.min(left)));
        }
        let streams = server.streams().waiting();
        drop(server);
        let mut fds: Vec<PollFd<'_>> = vec![PollFd::new(wake, PollFlags::IN)];
        fds.extend(streams.iter().map(|(fd, flags)| PollFd::new(fd, *flags)));
        wait_for(&mut fds, wait);
        wake.clear();
        shared.clocks.tell(Instant::now(), &shared.ring);
        shared.check_timeout();
    }
    if shared.cpus.is_on_duty(index) {
        // Keel asks who looks at its deadline whenever a program goes on, and this virtual CPU gets there.
        shared.ring.set_duty_looks(u64::MAX);
    }
    let was_on_duty = shared.cpus.end_idle(index);
    // While programs run and no thread is on duty, the helper polls the streams.
    if shared.is_tick_missing() || was_on_duty && shared.server().streams().pending() > 0 {
        shared.attend.signal();
    }
}
