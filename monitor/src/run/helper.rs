//! The helper thread: its work while virtual CPUs run.

use super::{Shared, Signal, Words, attend, prefault, wait_for};
use crate::cpus::QueueWatch;
use crate::server::clock_ns;
use rustix::event::{PollFd, PollFlags};
use rustix::time::ClockId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Length of a tick: the time slice of a thread while others are runnable.
const TICK: Duration = Duration::from_millis(10);
/// How long the helper polls an empty ring before it sleeps.
const POLL_PATIENCE: Duration = Duration::from_micros(500);
/// Polls between two sched_yield calls: some 20 us.
const LOOKS: u32 = 600;
/// If sched_yield takes longer than this, other threads need the processor.
const GIVEN_AWAY: Duration = Duration::from_micros(300);
/// Maximum number of consecutive unsuccessful polling phases.
const MOST_IN_VAIN: u32 = 3;
/// How long the helper does not poll after either.
const RESPITE: Duration = Duration::from_millis(20);
/// Maximum polling time between checks of ticks, deadlines and the time limit.
const POLL_STRETCH: Duration = Duration::from_millis(5);

/// Longest sleep of the helper while a virtual CPU waits in the guest, which does so for a shorter time.
const LONGEST_WATCH: Duration = Duration::from_millis(1);

/// How often the helper looks at the sockets while virtual CPUs run, and at least.
const SOCKETS_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(4);
/// After how many looks in a row that found a virtual CPU on duty it looks no more.
const MOST_ATTENDED: u32 = 4;

/// The helper thread.
pub(super) fn help(shared: &Arc<Shared>) {
    let mut next_tick = None;
    let mut watch = QueueWatch::default();
    let mut vain = 0;
    let mut pause = SOCKETS_PAUSE;
    let mut attended = MOST_ATTENDED;
    let mut again = false;
    while !shared.state.is_over() {
        let now = Instant::now();
        shared.check_timeout();
        shared.clocks.tell(now, &shared.ring);
        // While no virtual CPU polls the streams, this thread does.
        let unattended = !shared.state.has_duty();
        let mut wait = shared.end_at.map(|end| end.saturating_duration_since(now));
        let mut until = |left: Duration| wait = Some(wait.map_or(left, |w| w.min(left)));
        let ticks = shared.ring.tick_wanted() && shared.cpus.any_runs(&shared.state);
        shared.state.set_ticks(ticks);
        if ticks {
            let tick = *next_tick.get_or_insert(now + TICK);
            if now >= tick {
                shared.cpus.kick_running(&shared.state);
                next_tick = Some(now + TICK);
            }
            until(next_tick.unwrap_or(now).saturating_duration_since(now));
            if let Some(pause) = watch.look(now, &shared.ring, &shared.cpus, &shared.state) {
                until(pause);
            }
        } else {
            next_tick = None;
            watch = QueueWatch::default();
        }
        let deadline = shared.ring.deadline_ns();
        if deadline != u64::MAX {
            // Also while a virtual CPU is on duty: it may stop idling.
            let left = deadline.saturating_sub(clock_ns(ClockId::Monotonic));
            if left == 0 {
                if !shared.state.duty_checks_by(deadline) {
                    shared.notify(true);
                }
                until(TICK);
            } else {
                until(Duration::from_nanos(left));
            }
        }
        // A virtual CPU that waits for a peer is on duty most of the time: it need not call this thread each time it leaves.
        attended = if unattended { 0 } else { attended.saturating_add(1) };
        let has_sockets = shared.server().has_sockets();
        let minds = attended < MOST_ATTENDED && has_sockets;
        if !shared.state.set_minds_sockets(minds) && has_sockets {
            // A virtual CPU left the duty meanwhile.
            continue;
        }
        if minds {
            until(pause);
        }
        if std::mem::take(&mut again) {
            until(Duration::ZERO);
        }
        let streams = match unattended {
            false => Vec::new(),
            // A thread waits for what arrives; otherwise nobody is in a hurry.
            true if shared.ring.kick_wanted() => shared.server().waiting(),
            true => shared.server().streams().waiting(),
        };
        let mut fds: Vec<PollFd<'_>> =
            vec![PollFd::new(&*shared.doorbell, PollFlags::IN), PollFd::new(shared.state.attend(), PollFlags::IN)];
        fds.extend(streams.iter().map(|(fd, flags)| PollFd::new(fd, *flags)));
        let looks = wait.map_or(u64::MAX, |wait| {
            let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
            clock_ns(ClockId::Monotonic).saturating_add(wait)
        });
        // keel did not ring for requests that it posted before it could see `looks`.
        let slept = Instant::now();
        let mut only_ready = false;
        if shared.state.begin_sleep(&shared.ring, deadline, looks, || shared.is_tick_missing()) {
            wait_for(&mut fds, wait);
            shared.counters.helper_woke();
            only_ready = is_any_ready(fds.get(2..)) && !is_any_ready(fds.get(..2));
        }
        if slept.elapsed() < pause {
            // Called: others will be.
            attended = 0;
        }
        shared.state.end_sleep(&shared.ring, &shared.doorbell);
        // What is ready is for the virtual CPU on duty, if there is one: it was woken, too.
        let others = only_ready && shared.state.has_duty() && !shared.ring.has_submission();
        let any = !others && attend(shared);
        if any {
            shared.notify(false);
        }
        pause = if any || !minds { SOCKETS_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        if shared.ring.poll_wanted() && shared.may_begin_to_poll() {
            shared.state.set_attended(true);
            again = poll_ring(shared, deadline, &mut vain);
            shared.state.set_attended(false);
        }
    }
}

/// Polls the ring until it stayed empty for a while, a deadline other than `seen` is due, or the virtual CPUs need the
/// processor. Yields to other host threads; while the virtual CPU waits in the guest, sleeps until a socket or stream is ready.
/// Returns whether it goes on after a check of the rest.
fn poll_ring(shared: &Arc<Shared>, seen: u64, vain: &mut u32) -> bool {
    shared.ring.set_polling(true);
    // Also while this thread yields: a virtual CPU without work waits for it.
    shared.ring.set_watching(true);
    let start = Instant::now();
    let mut last = start;
    let mut in_vain = true;
    while start.elapsed() < POLL_STRETCH && shared.ring.poll_wanted() && !shared.state.is_over() {
        if shared.ring.has_submission() {
            if attend(shared) {
                shared.notify(false);
            }
            prefault::look(shared);
            (in_vain, *vain) = (false, 0);
            last = Instant::now();
        } else if shared.ring.lingers() {
            if !watch(shared) {
                break;
            }
            last = Instant::now();
        } else if last.elapsed() > POLL_PATIENCE || is_due(shared.ring.deadline_ns(), seen) || !shared.may_poll() {
            break;
        } else if !(0..LOOKS).any(|_| look(shared)) {
            // Requests that arrive meanwhile are not delayed: their virtual CPU exits.
            let came = shared.state.end_polling(&shared.ring);
            let now = Instant::now();
            if !came {
                std::thread::yield_now();
            }
            if now.elapsed() > GIVEN_AWAY {
                *vain = MOST_IN_VAIN;
                break;
            }
            shared.ring.set_polling(true);
        }
    }
    shared.ring.set_watching(false);
    shared.state.end_polling(&shared.ring);
    if attend(shared) {
        shared.notify(false);
    }
    *vain = if in_vain { *vain + 1 } else { *vain };
    if *vain >= MOST_IN_VAIN {
        *vain = 0;
        let respite = RESPITE.as_nanos() as u64;
        shared.state.pause_polling(clock_ns(ClockId::Monotonic) + respite);
        return false;
    }
    start.elapsed() >= POLL_STRETCH
}

/// The virtual CPU waits in the guest and submits nothing: sleeps until something is ready, and completes it. Returns whether to
/// poll the ring again.
fn watch(shared: &Arc<Shared>) -> bool {
    let ready = shared.server().waiting();
    let (mut rung, mut attends) = (false, true);
    if !shared.state.end_polling(&shared.ring) {
        let mut fds: Vec<PollFd<'_>> =
            vec![PollFd::new(&*shared.doorbell, PollFlags::IN), PollFd::new(shared.state.attend(), PollFlags::IN)];
        fds.extend(ready.iter().map(|(fd, flags)| PollFd::new(fd, *flags)));
        wait_for(&mut fds, Some(LONGEST_WATCH));
        (rung, attends) = (is_any_ready(fds.get(..1)), !is_any_ready(fds.get(1..2)));
    }
    if rung {
        shared.doorbell.clear();
    }
    // Before keel goes on: its next request comes soon.
    shared.ring.set_polling(true);
    if attend(shared) {
        shared.notify(false);
    }
    attends
}

fn is_any_ready(fds: Option<&[PollFd<'_>]>) -> bool {
    fds.is_some_and(|fds| fds.iter().any(|fd| !fd.revents().is_empty()))
}

/// Whether there is something to do.
fn look(shared: &Shared) -> bool {
    std::hint::spin_loop();
    shared.ring.has_submission() || shared.ring.lingers()
}

/// Whether a deadline other than `seen` has passed.
fn is_due(deadline_ns: u64, seen: u64) -> bool {
    deadline_ns != seen && deadline_ns <= clock_ns(ClockId::Monotonic)
}
