//! Running a pod: the virtual CPUs' threads, the helper thread, and who waits for what.
//!
//! A virtual CPU's own thread serves the ring when keel exits for it and waits when keel has
//! nothing to run for it. The helper thread waits for the doorbell, the tick, deadlines while a program
//! runs, and polls the ring when keel asks for that.

use crate::clocks::Clocks;
use crate::config::RunConfig;
use crate::connectors::files::FilesConnector;
use crate::connectors::streams::{StreamsConnector, TerminalGuard, signals};
use crate::cpus::{Cpus, Watch};
use crate::error::Error;
use crate::event::Event;
use crate::machine::{Doorbell, Machine, MoreCpus};
use crate::ring::RingEnd;
use crate::server::{Ending, Server, clock_ns};
use crate::vcpu::{Death, Event as VcpuEvent, Vcpu};
use abi::layout::port;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, Timespec};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Length of a tick: what a thread may run while others wait.
const TICK: Duration = Duration::from_millis(10);
/// How long the helper polls an empty ring before it sleeps.
const POLL_PATIENCE: Duration = Duration::from_micros(300);
/// How long the helper polls before it looks after ticks, deadlines and the time limit again.
const POLL_STRETCH: Duration = Duration::from_millis(5);
/// How long after `--timeout` a pod that can't be ended takes the process with it.
const STUCK: Duration = Duration::from_secs(2);
/// How long a virtual CPU that waits for another one leaves its processor to others.
const YIELD_NAP: Duration = Duration::from_micros(50);
/// Exit code of a pod that ran out of `--timeout`, as timeout(1) has it.
pub const EXIT_TIMEOUT: u8 = 124;

/// What the threads of a monitor share.
#[derive(Debug)]
struct Shared {
    server: Mutex<Server>,
    ring: RingEnd,
    cpus: Cpus,
    clocks: Clocks,
    /// Keel's doorbell, when it comes as an exit.
    bell: Mutex<Doorbell>,
    doorbell: Arc<Event>,
    /// Wakes the helper for other reasons than the doorbell.
    attend: Event,
    more: MoreCpus,
    /// The helper sees to the tick.
    ticks: AtomicBool,
    /// Threads of further virtual CPUs.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// How a further virtual CPU failed.
    failure: Mutex<Option<Error>>,
    /// The pod is over: all threads leave.
    over: AtomicBool,
    /// `--timeout` passed.
    timed_out: AtomicBool,
    end_at: Option<Instant>,
}

/// A panic of another thread while it held the lock is a bug of ours; the state is still usable for the end.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn server(&self) -> MutexGuard<'_, Server> {
        lock(&self.server)
    }

    /// Tells keel that there is something new for it: by the virtual CPU on duty, another idle one, or by an
    /// interrupt if keel wants that.
    fn notify(&self, force: bool) {
        if !self.cpus.tell_idle() && (force || self.ring.kick_wanted()) {
            self.cpus.kick_one();
        }
    }

    /// Whether the helper should see to the tick and does not know.
    fn is_tick_missing(&self) -> bool {
        self.ring.tick_wanted() && !self.ticks.load(Ordering::SeqCst) && self.cpus.any_runs()
    }

    fn finish(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.attend.signal();
        self.cpus.disturb_all();
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
    let count = config.cpus;
    let Machine { mut vcpu, more, memory, doorbell } = Machine::new(kvm, &config)?;
    let clocks = Clocks::new(vcpu.tsc_offset()?);
    crate::jail::enter(&config.exports)?;
    jailed().map_err(|e| Error::host("a thread", e))?;
    let streams = StreamsConnector::new();
    let files = FilesConnector::new(config.exports);
    let ring = RingEnd::new(memory.clone());
    let shared = Arc::new(Shared {
        server: Mutex::new(Server::new(memory, ring.clone(), files, streams).with_trace_output(config.trace_output)),
        ring,
        cpus: Cpus::new(count)?,
        clocks,
        doorbell: doorbell.event().clone(),
        bell: Mutex::new(doorbell),
        attend: Event::new()?,
        more,
        ticks: AtomicBool::new(false),
        threads: Mutex::new(Vec::new()),
        failure: Mutex::new(None),
        over: AtomicBool::new(false),
        timed_out: AtomicBool::new(false),
        end_at: config.timeout.map(|t| Instant::now() + t),
    });
    shared.cpus.exists(0, vcpu.kick());
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
    let result = drive(&mut vcpu, 0, &shared);
    signals::set_waker(None);
    shared.finish();
    // No thread has a failure of its own to report beyond what it noted; a panic there was printed.
    let threads = std::mem::take(&mut *lock(&shared.threads));
    for thread in threads {
        let _ = thread.join();
    }
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
        (None, Some(death)) => Err(died(death, &vcpu)),
        (None, None) => Err(lock(&shared.failure).take().unwrap_or(Error::Internal("the pod ended without a reason"))),
    }
}

fn died(death: Death, vcpu: &Vcpu) -> Error {
    Error::Keel(crate::image::symbolise(&format!("{death}; {}", vcpu.describe())))
}

/// Runs a virtual CPU until the pod is over; how it died, if it did.
fn drive(vcpu: &mut Vcpu, index: u32, shared: &Arc<Shared>) -> Result<Option<Death>, Error> {
    vcpu.bind_thread();
    let mut yields = 0;
    loop {
        if shared.over.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let event = vcpu.run()?;
        if let VcpuEvent::Port(port::YIELD, _) = event {
            give_way(yields);
            yields += 1;
            continue;
        }
        yields = 0;
        match event {
            VcpuEvent::Port(port::IDLE, _) => idle(vcpu, index, shared),
            VcpuEvent::Port(port::SERVE, _) => {
                let mut server = shared.server();
                server.serve();
                server.serve_late(); // reports what was cancelled just now
                finish_if_ended(&server, shared);
            }
            VcpuEvent::Port(port::DOORBELL, _) => lock(&shared.bell).rung(),
            VcpuEvent::Port(port::KICK, cpu) => shared.cpus.kick(u32::from(cpu)),
            VcpuEvent::Port(port::WAKE, cpu) => shared.cpus.wake(u32::from(cpu)),
            VcpuEvent::Port(port::START, cpu) => start(u32::from(cpu), shared),
            VcpuEvent::Port(port::PANIC, _) => return Ok(Some(Death::Halted)),
            // A program wrote some port: nothing listens there.
            VcpuEvent::Port(..) | VcpuEvent::Interrupted => {}
            VcpuEvent::Dead(Death::HostPage) if lose_pages(shared) => shared.cpus.kick(index),
            VcpuEvent::Dead(death) => return Ok(Some(death)),
        }
    }
}

/// The host could not provide a page: whether the virtual CPU can go on without it.
fn lose_pages(shared: &Shared) -> bool {
    let _nobody_maps_meanwhile = shared.server();
    shared.ring.lose_pages()
}

/// A virtual CPU waits for another one, whose thread may need this processor.
fn give_way(before: u32) {
    if before < 4 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(YIELD_NAP);
    }
}

/// Makes a further virtual CPU with a thread of its own, unless it exists or the pod may not have it.
fn start(index: u32, shared: &Arc<Shared>) {
    if !shared.cpus.claim(index) {
        return;
    }
    let own = shared.clone();
    let thread = std::thread::Builder::new().name(format!("cpu {index}")).spawn(move || {
        let outcome = own.more.make(index).and_then(|mut vcpu| {
            own.cpus.exists(index, vcpu.kick());
            match drive(&mut vcpu, index, &own)? {
                Some(death) => Err(died(death, &vcpu)),
                None => Ok(()),
            }
        });
        if let Err(error) = outcome {
            lock(&own.failure).get_or_insert(error);
            own.finish();
        }
    });
    match thread {
        Ok(thread) => lock(&shared.threads).push(thread),
        Err(error) => {
            lock(&shared.failure).get_or_insert(Error::host("the thread of a virtual CPU", error));
            shared.finish();
        }
    }
}

fn finish_if_ended(server: &Server, shared: &Shared) {
    if server.ending().is_some() {
        shared.finish();
    }
}

/// A virtual CPU has nothing to run. The first one that idles is *on duty*: it serves the ring and waits for
/// the first event of any kind; the others wait until somebody wakes them.
fn idle(vcpu: &Vcpu, index: u32, shared: &Shared) {
    shared.cpus.begin_idle(index);
    while !shared.over.load(Ordering::SeqCst) && !shared.cpus.take_wake(index) && !vcpu.kick_pending() {
        let wake = shared.cpus.event(index);
        if !shared.cpus.takes_duty(index) {
            // What keel left for whoever idles, the one on duty may not have seen.
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
    // While programs run and nobody is on duty, the helper watches the streams.
    if shared.is_tick_missing() || was_on_duty && shared.server().streams().pending() > 0 {
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
    let mut watch = Watch::default();
    while !shared.over.load(Ordering::SeqCst) {
        let now = Instant::now();
        shared.check_timeout();
        shared.clocks.tell(now, &shared.ring);
        let on_duty = !shared.cpus.has_duty();
        let mut wait = shared.end_at.map(|end| end.saturating_duration_since(now));
        let mut until = |left: Duration| wait = Some(wait.map_or(left, |w| w.min(left)));
        let ticks = shared.ring.tick_wanted() && shared.cpus.any_runs();
        shared.ticks.store(ticks, Ordering::SeqCst);
        if ticks {
            let tick = *next_tick.get_or_insert(now + TICK);
            if now >= tick {
                shared.cpus.kick_running();
                next_tick = Some(now + TICK);
            }
            until(next_tick.unwrap_or(now).saturating_duration_since(now));
            if let Some(pause) = watch.look(now, &shared.ring, &shared.cpus) {
                until(pause);
            }
        } else {
            next_tick = None;
            watch = Watch::default();
        }
        let deadline = shared.ring.deadline_ns();
        if deadline != u64::MAX {
            // Also while a virtual CPU is on duty: it may leave.
            let left = deadline.saturating_sub(clock_ns(ClockId::Monotonic));
            if left == 0 {
                if !shared.cpus.has_duty() || shared.cpus.duty_deadline() > deadline {
                    shared.notify(true);
                }
                until(TICK);
            } else {
                until(Duration::from_nanos(left));
            }
        }
        let streams = if on_duty { shared.server().streams().waiting() } else { Vec::new() };
        let mut fds: Vec<PollFd<'_>> =
            vec![PollFd::new(&*shared.doorbell, PollFlags::IN), PollFd::new(&shared.attend, PollFlags::IN)];
        fds.extend(streams.iter().map(|(fd, flags)| PollFd::new(fd, *flags)));
        let looks = wait.map_or(u64::MAX, |wait| {
            let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
            clock_ns(ClockId::Monotonic).saturating_add(wait)
        });
        shared.ring.set_helper_looks(looks);
        // What keel asked for before it could see that, it did not ring for.
        let new = shared.ring.deadline_ns();
        let asked_earlier = new != deadline && new < looks || shared.is_tick_missing();
        if !asked_earlier && !shared.ring.has_submission() {
            wait_for(&mut fds, wait);
        }
        shared.ring.set_helper_looks(0);
        shared.doorbell.clear();
        shared.attend.clear();
        if attend(shared) {
            shared.notify(false);
        }
        if shared.ring.poll_wanted() {
            poll_ring(shared, deadline);
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

/// Polls the ring until it stayed empty for a while, or another deadline than `seen` is due.
fn poll_ring(shared: &Shared, seen: u64) {
    shared.ring.set_polling(true);
    let start = Instant::now();
    let mut last = start;
    while start.elapsed() < POLL_STRETCH && shared.ring.poll_wanted() && !shared.over.load(Ordering::SeqCst) {
        if shared.ring.has_submission() {
            if attend(shared) {
                shared.notify(false);
            }
            last = Instant::now();
        } else if last.elapsed() > POLL_PATIENCE || is_due(shared.ring.deadline_ns(), seen) {
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

/// Whether a deadline has passed that is not the one `seen` before.
fn is_due(deadline_ns: u64, seen: u64) -> bool {
    deadline_ns != seen && deadline_ns <= clock_ns(ClockId::Monotonic)
}
