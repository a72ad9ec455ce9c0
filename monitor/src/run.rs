//! Running a pod: the virtual CPU's thread, the helper thread, and who waits for what.
//!
//! The virtual CPU's own thread serves the ring when keel exits for it and waits when keel has
//! nothing to run. The helper thread waits for the doorbell, the tick, deadlines while a program
//! runs, and polls the ring when keel asks for that.

use crate::config::RunConfig;
use crate::connectors::files::FilesConnector;
use crate::connectors::streams::{StreamsConnector, TerminalGuard, signals};
use crate::error::Error;
use crate::event::Event;
use crate::machine::{Doorbell, Machine};
use crate::ring::RingEnd;
use crate::server::{Ending, Server, clock_ns};
use crate::vcpu::{Death, Event as VcpuEvent, Kick, Vcpu};
use abi::layout::port;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, Timespec};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Length of a tick: what a thread may run while others wait.
const TICK: Duration = Duration::from_millis(10);
/// How long the helper polls an empty ring before it sleeps.
const POLL_PATIENCE: Duration = Duration::from_micros(300);
/// How long the helper polls before it looks after ticks, deadlines and the time limit again.
const POLL_STRETCH: Duration = Duration::from_millis(5);
/// How long after `--timeout` a pod that can't be ended takes the process with it.
const STUCK: Duration = Duration::from_secs(2);
/// Exit code of a pod that ran out of `--timeout`, as timeout(1) has it.
pub const EXIT_TIMEOUT: u8 = 124;

/// What the threads of a monitor share.
#[derive(Debug)]
struct Shared {
    server: Mutex<Server>,
    ring: RingEnd,
    kick: Arc<Kick>,
    doorbell: Arc<Event>,
    /// Wakes the virtual CPU's thread while it waits.
    wake: Event,
    /// Wakes the helper for other reasons than the doorbell.
    attend: Event,
    /// The virtual CPU's thread waits in the monitor.
    idle: AtomicBool,
    /// The pod is over: all threads leave.
    over: AtomicBool,
    /// `--timeout` passed.
    timed_out: AtomicBool,
    end_at: Option<Instant>,
}

impl Shared {
    fn server(&self) -> MutexGuard<'_, Server> {
        // A panic while serving is a bug of ours; the state of the queues is still usable for the end.
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the virtual CPU that there is something new for it.
    fn notify(&self, force: bool) {
        if self.idle.load(Ordering::SeqCst) {
            self.wake.signal();
        } else if force || self.ring.kick_wanted() {
            self.kick.send();
        }
    }

    fn finish(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.attend.signal();
        self.wake.signal();
        self.kick.send();
    }

    fn check_timeout(&self) {
        if self.end_at.is_some_and(|end| Instant::now() >= end) {
            self.timed_out.store(true, Ordering::SeqCst);
            self.finish();
        }
    }
}

/// Runs a pod to its end; the exit code of its first program. `jailed` is called when the process is in its jail:
/// the caller's own threads start there.
pub fn run(config: RunConfig, jailed: impl FnOnce() -> std::io::Result<()>) -> Result<u8, Error> {
    let kvm = crate::kvm::open()?;
    let Machine { mut vcpu, memory, mut doorbell } = Machine::new(&kvm, &config)?;
    crate::jail::enter(&config.exports)?;
    jailed().map_err(|e| Error::host("a thread", e))?;
    let streams = StreamsConnector::new();
    let files = FilesConnector::new(config.exports);
    let ring = RingEnd::new(memory.clone());
    let shared = Arc::new(Shared {
        server: Mutex::new(Server::new(memory, ring.clone(), files, streams).with_trace_output(config.trace_output)),
        ring,
        kick: vcpu.kick(),
        doorbell: doorbell.event().clone(),
        wake: Event::new()?,
        attend: Event::new()?,
        idle: AtomicBool::new(false),
        over: AtomicBool::new(false),
        timed_out: AtomicBool::new(false),
        end_at: config.timeout.map(|t| Instant::now() + t),
    });
    let helper = {
        let shared = shared.clone();
        std::thread::Builder::new()
            .name("helper".into())
            .spawn(move || help(&shared))
            .map_err(|e| Error::host("the helper thread", e))?
    };
    if let Some(limit) = config.timeout {
        watch(limit, &shared)?;
    }
    let waker = {
        let shared = shared.clone();
        move || {
            match shared.server.try_lock() {
                Ok(server) => drop(attend_with(server, &shared)),
                // Somebody serves, perhaps for long: the caller is there for signals and must not wait for that.
                Err(_) => shared.attend.signal(),
            }
            shared.notify(true);
        }
    };
    signals::set_waker(Some(Arc::new(waker)));
    let done = {
        let shared = Arc::downgrade(&shared);
        move || {
            if let Some(shared) = shared.upgrade()
                && attend(&shared)
            {
                shared.notify(false);
            }
        }
    };
    shared.server().set_waker(Arc::new(done));
    let result = drive(&mut vcpu, &mut doorbell, &shared);
    signals::set_waker(None);
    shared.finish();
    // The helper has no failure of its own to report; a panic there was printed.
    let _ = helper.join();
    if shared.timed_out.load(Ordering::SeqCst) {
        return Ok(EXIT_TIMEOUT);
    }
    let death = result?;
    let ending = shared.server().ending().cloned();
    match (ending, death) {
        (Some(Ending::Exit(code)), _) => Ok(code),
        (Some(Ending::Crash(report)), _) => Err(Error::Keel(crate::image::symbolise(&report))),
        (Some(Ending::Hostile(why)), _) => Err(Error::Keel(why.into())),
        (None, Some(death)) => Err(Error::Keel(crate::image::symbolise(&format!("{death}; {}", vcpu.describe())))),
        (None, None) => Err(Error::Internal("the pod ended without a reason")),
    }
}

/// Runs the virtual CPU until the pod is over; how it died, if it did.
fn drive(vcpu: &mut Vcpu, doorbell: &mut Doorbell, shared: &Shared) -> Result<Option<Death>, Error> {
    vcpu.bind_thread();
    loop {
        if shared.over.load(Ordering::SeqCst) {
            return Ok(None);
        }
        match vcpu.run()? {
            VcpuEvent::Port(port::IDLE) => idle(vcpu, shared),
            VcpuEvent::Port(port::SERVE) => {
                let mut server = shared.server();
                server.serve();
                server.serve_late(); // reports what was cancelled just now
                finish_if_ended(&server, shared);
            }
            VcpuEvent::Port(port::DOORBELL) => doorbell.rung(),
            VcpuEvent::Port(port::PANIC) => return Ok(Some(Death::Halted)),
            // A program wrote some port: nothing listens there.
            VcpuEvent::Port(_) | VcpuEvent::Interrupted => {}
            VcpuEvent::Dead(Death::HostPage) if lose_pages(shared) => shared.kick.send(),
            VcpuEvent::Dead(death) => return Ok(Some(death)),
        }
    }
}

/// The host could not provide a page: whether the virtual CPU can go on without it.
fn lose_pages(shared: &Shared) -> bool {
    let _nobody_maps_meanwhile = shared.server();
    shared.ring.lose_pages()
}

fn finish_if_ended(server: &Server, shared: &Shared) {
    if server.ending().is_some() {
        shared.finish();
    }
}

/// Keel has nothing to run: serves the ring and waits for the first event.
fn idle(vcpu: &Vcpu, shared: &Shared) {
    shared.idle.store(true, Ordering::SeqCst);
    loop {
        let mut server = shared.server();
        server.serve();
        server.serve_late();
        finish_if_ended(&server, shared);
        if shared.over.load(Ordering::SeqCst) || shared.ring.has_completion() || vcpu.kick_pending() {
            break;
        }
        let now = clock_ns(ClockId::Monotonic);
        let deadline = shared.ring.deadline_ns();
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
        let mut fds: Vec<PollFd<'_>> = vec![PollFd::new(&shared.wake, PollFlags::IN)];
        fds.extend(streams.iter().map(|(fd, flags)| PollFd::new(fd, *flags)));
        wait_for(&mut fds, wait);
        shared.wake.clear();
        shared.check_timeout();
    }
    shared.idle.store(false, Ordering::SeqCst);
    if shared.server().streams().pending() > 0 {
        // While the program runs, the helper watches the streams.
        shared.attend.signal();
    }
}

fn wait_for(fds: &mut [PollFd<'_>], wait: Option<Duration>) {
    let timeout = wait.map(|w| Timespec { tv_sec: w.as_secs() as i64, tv_nsec: i64::from(w.subsec_nanos()) });
    // EINTR (a kick) and ENOMEM: the caller looks around in either case.
    let _ = poll(fds, timeout.as_ref());
}

/// The helper thread.
fn help(shared: &Shared) {
    let mut next_tick = None;
    while !shared.over.load(Ordering::SeqCst) {
        let now = Instant::now();
        shared.check_timeout();
        let running = !shared.idle.load(Ordering::SeqCst);
        let mut wait = shared.end_at.map(|end| end.saturating_duration_since(now));
        let mut until = |left: Duration| wait = Some(wait.map_or(left, |w| w.min(left)));
        if running && shared.ring.tick_wanted() {
            let tick = *next_tick.get_or_insert(now + TICK);
            if now >= tick {
                shared.kick.send();
                next_tick = Some(now + TICK);
            }
            until(next_tick.unwrap_or(now).saturating_duration_since(now));
        } else {
            next_tick = None;
        }
        let deadline = shared.ring.deadline_ns();
        if running && deadline != u64::MAX {
            let left = deadline.saturating_sub(clock_ns(ClockId::Monotonic));
            if left == 0 {
                // Again after a tick if keel could not take it (it was just leaving).
                shared.kick.send();
                until(TICK);
            } else {
                until(Duration::from_nanos(left));
            }
        }
        let streams = if running { shared.server().streams().waiting() } else { Vec::new() };
        let mut fds: Vec<PollFd<'_>> =
            vec![PollFd::new(&*shared.doorbell, PollFlags::IN), PollFd::new(&shared.attend, PollFlags::IN)];
        fds.extend(streams.iter().map(|(fd, flags)| PollFd::new(fd, *flags)));
        if !shared.ring.has_submission() {
            wait_for(&mut fds, wait);
        }
        shared.doorbell.clear();
        shared.attend.clear();
        if attend(shared) {
            shared.notify(false);
        }
        if shared.ring.poll_wanted() {
            poll_ring(shared);
        }
    }
}

/// Ends the process some time after `--timeout` if the pod did not end of itself: a call of the host may wait for
/// ever, for a file system whose server is gone or a reader of standard error that does not read.
fn watch(limit: Duration, shared: &Arc<Shared>) -> Result<(), Error> {
    let shared = Arc::downgrade(shared);
    let watch = move || {
        std::thread::sleep(limit.saturating_add(STUCK));
        if shared.upgrade().is_some() {
            TerminalGuard::restore_from_handler();
            std::process::exit(EXIT_TIMEOUT.into());
        }
    };
    let thread = std::thread::Builder::new().name("timeout".into()).spawn(watch);
    thread.map(drop).map_err(|e| Error::host("the timeout's thread", e))
}

/// Serves what there is. Whether anything was done.
fn attend(shared: &Shared) -> bool {
    attend_with(shared.server(), shared)
}

fn attend_with(mut server: MutexGuard<'_, Server>, shared: &Shared) -> bool {
    let served = server.serve();
    let streamed = server.serve_late();
    finish_if_ended(&server, shared);
    served || streamed
}

/// Polls the ring until it stayed empty for a while.
fn poll_ring(shared: &Shared) {
    shared.ring.set_polling(true);
    let start = Instant::now();
    let mut last = start;
    while start.elapsed() < POLL_STRETCH && shared.ring.poll_wanted() && !shared.over.load(Ordering::SeqCst) {
        if shared.ring.has_submission() {
            if attend(shared) {
                shared.notify(false);
            }
            last = Instant::now();
        } else if last.elapsed() > POLL_PATIENCE {
            break;
        } else {
            std::hint::spin_loop();
        }
    }
    shared.ring.set_polling(false);
    if attend(shared) {
        shared.notify(false);
    }
}
