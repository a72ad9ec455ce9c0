//! A virtual CPU's thread while keel has no runnable thread.

use super::{Shared, Signal, finish_if_ended, wait_for};
use crate::server::clock_ns;
use crate::vcpu::Vcpu;
use rustix::event::{PollFd, PollFlags};
use rustix::time::ClockId;
use std::time::{Duration, Instant};

/// How long the one on duty looks at the sockets before it sleeps, if its last waits were short: to be woken takes as long.
const EAGER: Duration = Duration::from_micros(50);
/// Such a wait.
const SHORT: Duration = Duration::from_micros(150);

/// Whether the last wait of a virtual CPU was short.
#[derive(Debug, Default)]
pub(super) struct Eagerness(bool);

impl Eagerness {
    /// Waits for the first of `fds`. Before it sleeps it looks for a while, and lets other threads of the host run meanwhile.
    fn wait(&mut self, fds: &mut [PollFd<'_>], wait: Option<Duration>, has_sockets: bool) {
        let start = Instant::now();
        let looks = self.0 && has_sockets && wait.is_none_or(|wait| wait > EAGER);
        while looks && start.elapsed() < EAGER {
            wait_for(fds, Some(Duration::ZERO));
            if fds.iter().any(|fd| !fd.revents().is_empty()) {
                return;
            }
            std::thread::yield_now();
        }
        wait_for(fds, wait);
        self.0 = start.elapsed() < SHORT;
    }
}

/// Idles a virtual CPU. The first one to idle is *on duty*: it serves the ring and waits for the first event of any
/// kind; the others wait for a wake-up.
pub(super) fn idle(vcpu: &Vcpu, index: u32, eagerness: &mut Eagerness, shared: &Shared) {
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
        let has_sockets = server.has_sockets();
        drop(server);
        let mut fds: Vec<PollFd<'_>> = vec![PollFd::new(wake, PollFlags::IN)];
        fds.extend(streams.iter().map(|(fd, flags)| PollFd::new(fd, *flags)));
        eagerness.wait(&mut fds, wait, has_sockets);
        wake.clear();
        shared.clocks.tell(Instant::now(), &shared.ring);
        shared.check_timeout();
    }
    let was_on_duty = state.end_idle(index, &shared.ring);
    let attended = state.is_attended();
    // While programs run and no virtual CPU is on duty, the helper polls the streams.
    let unwatched = || {
        let mut server = shared.server();
        server.streams().pending() > 0 || server.has_sockets() && !state.minds_sockets()
    };
    let polls = || shared.ring.poll_wanted() && shared.may_begin_to_poll();
    if shared.is_tick_missing() || !attended && (polls() || was_on_duty && unwatched()) {
        state.call_helper();
    }
}
