//! Runs a pod: the threads of the virtual CPUs, the helper thread, and their waits ([`state`]).
//!
//! The thread of a virtual CPU serves the ring when keel exits for it and waits while keel has no runnable thread
//! ([`idle`]). The helper thread waits for the doorbell, the tick and deadlines while a program runs, and polls the
//! ring when keel requests that ([`helper`]).

mod counters;
mod helper;
mod idle;
mod prefault;
mod quota;
mod state;

use crate::clocks::Clocks;
use crate::config::RunConfig;
use crate::connectors::files::FilesConnector;
use crate::connectors::sockets::SocketsConnector;
use crate::connectors::sockets::broker::Broker;
use crate::connectors::sockets::prepared::Table;
use crate::connectors::streams::{StreamsConnector, signals};
use crate::cpus::Cpus;
use crate::error::Error;
use crate::event::Event;
use crate::machine::{Doorbell, Machine, MoreCpus};
use crate::memory::GuestMemory;
use crate::pace::Pacer;
use crate::ring::RingEnd;
use crate::server::{Ending, Server, clock_ns};
use crate::vcpu::{Death, Event as VcpuEvent, Vcpu};
use abi::layout::port;
use broker::address;
use rustix::event::{PollFd, poll};
use rustix::time::{ClockId, Timespec};
pub use state::{Signal, State, Words};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time after `--timeout` after which the process ends even if the pod can't be ended; after twice that, SIGKILL.
const STUCK: Duration = Duration::from_secs(2);
/// How long a virtual CPU that spins for another one sleeps.
const YIELD_NAP: Duration = Duration::from_micros(50);
/// Exit code of a pod that exceeded `--timeout`, as timeout(1) has it.
pub const EXIT_TIMEOUT: u8 = 124;

/// State that the monitor's threads share.
#[derive(Debug)]
struct Shared {
    server: Mutex<Server>,
    ring: RingEnd,
    memory: Arc<GuestMemory>,
    prefault: prefault::Prefault,
    cpus: Cpus,
    clocks: Clocks,
    /// Keel's doorbell, while it is an exit.
    bell: Mutex<Doorbell>,
    doorbell: Arc<Event>,
    counters: counters::Counters,
    /// Which threads wait.
    state: State<Event>,
    more: MoreCpus,
    /// Processors that the pod may keep busy: the helper polls only if a virtual CPU leaves one idle.
    processors: usize,
    /// Limit of the processor time.
    quota: Option<quota::Quota>,
    /// Threads of further virtual CPUs.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The first error of a further virtual CPU.
    failure: Mutex<Option<Error>>,
    end_at: Option<Instant>,
}

/// A thread that panicked while it held the lock is a bug in the monitor; the state is still usable to end the pod.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn server(&self) -> MutexGuard<'_, Server> {
        lock(&self.server)
    }

    /// Notifies keel of new completions or events: wakes the virtual CPU on duty or another idle one, or interrupts a
    /// program if keel requests that.
    fn notify(&self, force: bool) {
        if !self.state.tell_idle() && (force || self.ring.kick_wanted()) {
            self.cpus.kick_one(&self.state);
        }
    }

    /// Whether the helper must start the tick and has not been woken for it.
    fn is_tick_missing(&self) -> bool {
        self.ring.tick_wanted() && !self.state.has_ticks() && self.cpus.any_runs(&self.state)
    }

    /// Whether the helper may poll: the host has an idle processor for it.
    fn may_poll(&self) -> bool {
        self.cpus.count_running(&self.state) + usize::from(self.prefault.is_busy()) < self.processors
    }

    /// Whether the helper may start to poll.
    fn may_begin_to_poll(&self) -> bool {
        self.may_poll() && self.state.may_poll_at(clock_ns(ClockId::Monotonic))
    }

    fn finish(&self) {
        self.state.finish();
        self.prefault.stop();
        if let Some(quota) = &self.quota {
            quota.end();
        }
        for index in 0..self.cpus.count() {
            self.state.disturb(index);
            self.cpus.kick(index);
        }
    }

    fn check_timeout(&self) {
        if self.end_at.is_some_and(|end| Instant::now() >= end) {
            self.state.set_timed_out();
            self.finish();
        }
    }
}

/// Runs a pod to its end; returns the exit code of its first program. Calls `jailed` when the process is in its jail,
/// so that the caller can start its own threads.
pub fn run(mut config: RunConfig, jailed: impl FnOnce() -> std::io::Result<()>) -> Result<u8, Error> {
    if config.broker.is_some() {
        config.jail.network = true;
        config.pod.network.get_or_insert_with(network);
    }
    let kvm = crate::kvm::open()?;
    let count = config.cpus;
    let processors = match config.doorbell {
        crate::config::Doorbell::Poll => usize::MAX,
        // To poll would use up what the virtual CPUs have.
        _ if config.cpu_share.is_some() => crate::cpus::processors().min(count as usize),
        _ => crate::cpus::processors(),
    };
    let Machine { mut vcpu, more, memory, doorbell, clocks } = Machine::new(kvm, &config)?;
    if let Some(limit) = config.timeout {
        crate::jail::limit_time(limit, STUCK)?;
    }
    let end_at = config.timeout.and_then(crate::jail::end_of);
    let sockets = match config.broker {
        Some(socket) => {
            let opener = Box::new(Broker::new(socket));
            let place = crate::jail::PREPARED_PEERS;
            // Without the table the broker is asked for each connection.
            let table = config.prepared.and_then(|file| Table::map(&file, Some(place)).ok());
            config.jail.prepared = table.is_some();
            let host = config.pod.network.is_some_and(|network| network.host);
            let sockets = SocketsConnector::new(opener, table).map_err(|error| Error::host("epoll", error))?;
            sockets.of_host(host)
        }
        None => SocketsConnector::none(),
    };
    crate::jail::enter(&mut config.exports, &config.jail)?;
    jailed().map_err(|source| Error::Thread { what: "the thread for signals", source })?;
    let streams = StreamsConnector::new().and(config.passed);
    let files = FilesConnector::new(config.exports);
    let ring = RingEnd::new(memory.clone());
    let pacer = Pacer::new(config.rates);
    let alarm = pacer.alarm();
    let cpus = Cpus::new(count, config.busy_cpus);
    let events = (0..cpus.count()).map(|_| Event::new()).collect::<Result<Vec<_>, _>>()?;
    let shared = Arc::new(Shared {
        server: Mutex::new(
            Server::new(memory.clone(), ring.clone(), files, streams)
                .with_sockets(sockets)
                .with_pacer(pacer)
                .with_trace_output(config.trace_output),
        ),
        ring,
        memory,
        prefault: prefault::Prefault::new()?,
        cpus,
        clocks,
        doorbell: doorbell.event().clone(),
        bell: Mutex::new(doorbell),
        counters: counters::Counters::default(),
        state: State::new(events, Event::new()?),
        more,
        processors,
        quota: config.cpu_share.map(quota::Quota::new),
        threads: Mutex::new(Vec::new()),
        failure: Mutex::new(None),
        end_at,
    });
    shared.cpus.exists(0, vcpu.kick());
    let helper = {
        let shared = shared.clone();
        std::thread::Builder::new()
            .name("helper".into())
            .spawn(move || helper::help(&shared))
            .map_err(|source| Error::Thread { what: "the helper thread", source })?
    };
    quota::start(&shared)?;
    let waker = {
        let shared = shared.clone();
        move || {
            match shared.server.try_lock() {
                Ok(server) => drop(attend_with(server, &shared)),
                // Another thread serves the ring, perhaps for long: the caller handles signals and must not block on
                // the lock.
                Err(_) => shared.state.call_helper(),
            }
            shared.notify(true);
        }
    };
    signals::set_waker(Some(Arc::new(waker)));
    let done = {
        let shared = Arc::downgrade(&shared);
        move || {
            let Some(shared) = shared.upgrade() else { return false };
            if attend(&shared) {
                shared.notify(false);
            }
            true
        }
    };
    if let Some(alarm) = alarm {
        let done = done.clone();
        std::thread::Builder::new()
            .name("rates".into())
            .spawn(move || alarm.ring(done))
            .map_err(|source| Error::Thread { what: "the thread for rates", source })?;
    }
    let wake = move || {
        done();
    };
    shared.server().set_waker(Arc::new(wake));
    let result = drive(&mut vcpu, 0, &shared);
    signals::set_waker(None);
    shared.finish();
    // Ignore join errors: a thread stores its error itself, and the panic hook prints a panic.
    let threads = std::mem::take(&mut *lock(&shared.threads));
    for thread in threads {
        let _ = thread.join();
    }
    let _ = helper.join();
    if let Some(file) = config.counters {
        // The pod has ended in any case.
        let _ = shared.counters.write(file);
    }
    if shared.state.is_timed_out() {
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

/// The network of a pod whose sockets a broker opens.
fn network() -> abi::boot::Network {
    abi::boot::Network {
        address4: (address::POD_V4.octets(), 24),
        gateway4: address::HOST_V4.octets(),
        address6: (address::POD_V6.octets(), 64),
        gateway6: address::HOST_V6.octets(),
        host: false,
    }
}

fn died(death: Death, vcpu: &Vcpu) -> Error {
    Error::Keel(crate::image::symbolise(&format!("{death}; {}", vcpu.describe())))
}

/// Runs a virtual CPU until the pod ends; returns how it died, if it did.
fn drive(vcpu: &mut Vcpu, index: u32, shared: &Arc<Shared>) -> Result<Option<Death>, Error> {
    vcpu.bind_thread();
    let mut yields = 0;
    let mut eagerness = idle::Eagerness::default();
    loop {
        if let Some(quota) = &shared.quota {
            quota.wait();
        }
        if shared.state.is_over() {
            return Ok(None);
        }
        let event = vcpu.run()?;
        shared.counters.left(&event);
        if let VcpuEvent::Port(port::YIELD, _) = event {
            give_way(yields);
            yields += 1;
            continue;
        }
        yields = 0;
        match event {
            VcpuEvent::Port(port::IDLE, _) => idle::idle(vcpu, index, &mut eagerness, shared),
            VcpuEvent::Port(port::SERVE, _) => {
                let mut server = shared.server();
                server.serve();
                server.serve_late(); // completes operations that were just cancelled
                finish_if_ended(&server, shared);
                have_watched(&mut server, shared);
                drop(server);
                if shared.ring.poll_wanted() && shared.may_begin_to_poll() {
                    shared.state.call_helper();
                }
                prefault::look(shared);
            }
            VcpuEvent::Port(port::DOORBELL, _) => lock(&shared.bell).rung(),
            VcpuEvent::Port(port::KICK, cpu) => shared.cpus.kick(u32::from(cpu)),
            VcpuEvent::Port(port::WAKE, cpu) => shared.state.wake(u32::from(cpu)),
            VcpuEvent::Port(port::START, cpu) => start(u32::from(cpu), shared),
            VcpuEvent::Port(port::PANIC, _) => return Ok(Some(Death::Halted)),
            // A program wrote to a port that has no device: ignored.
            VcpuEvent::Port(..) | VcpuEvent::Interrupted => {}
            VcpuEvent::Dead(Death::HostPage(at)) if lose_pages(at, shared) => shared.cpus.kick(index),
            VcpuEvent::Dead(death) => return Ok(Some(death)),
        }
    }
}

/// Handles a page that the host can't provide. Returns whether the virtual CPU can continue.
fn lose_pages(at: Option<u64>, shared: &Shared) -> bool {
    let _nobody_maps_meanwhile = shared.server();
    shared.ring.lose_pages(at)
}

/// Yields the host processor: a virtual CPU spins for another one, whose thread may need it.
fn give_way(before: u32) {
    if before < 4 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(YIELD_NAP);
    }
}

/// Creates a further virtual CPU with a thread, unless it exists or the pod may not have it.
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
        Err(source) => {
            lock(&shared.failure).get_or_insert(Error::Thread { what: "the thread of a virtual CPU", source });
            shared.finish();
        }
    }
}

fn finish_if_ended(server: &Server, shared: &Shared) {
    if server.ending().is_some() {
        shared.finish();
    }
}

/// Ensures that a thread polls the streams of new operations, and the sockets if there were none: a virtual CPU or a helper that polls
/// already uses the set of descriptors from when it began.
fn have_watched(server: &mut Server, shared: &Shared) {
    if server.take_unwatched() && !shared.state.remind_duty() {
        shared.state.call_helper();
    }
}

fn wait_for(fds: &mut [PollFd<'_>], wait: Option<Duration>) {
    let timeout = wait.map(|w| Timespec { tv_sec: w.as_secs() as i64, tv_nsec: i64::from(w.subsec_nanos()) });
    // Ignore EINTR (a kick) and ENOMEM: the caller checks its events in either case.
    let _ = poll(fds, timeout.as_ref());
}

/// Serves the ring. Returns whether keel must be told of completions.
fn attend(shared: &Shared) -> bool {
    attend_with(shared.server(), shared)
}

fn attend_with(mut server: MutexGuard<'_, Server>, shared: &Shared) -> bool {
    let served = server.serve();
    let late = server.serve_late();
    finish_if_ended(&server, shared);
    have_watched(&mut server, shared);
    (late || served) && server.has_urgent()
}
