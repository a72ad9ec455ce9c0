//! The files connector: requests of the vfs crate go to the monitor.

use crate::sched::connector;
use crate::sched::timer::{SECOND, Timer};
use crate::sched::wait::{Interrupt, WaitQueue, wait_until};
use abi::operation::{Encoded, Operation, Reply};
use abi::request::{Close, Read, Unmap, Walk};
use abi::ring::{MAX_SEGMENTS, Segment};
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, OnceCell};
use hal::clock::monotonic_ns;
use hal::frame::{FRAME_SIZE, Frame};
use uapi::{Errno, Result};
use vfs::host::{Done, HostFiles, Part, Parts};

/// Initial estimate and maximum of the cost of a short request, in ns: the virtual CPU's exit, and other threads' work
/// meanwhile.
const TRIP_NS: u64 = 30_000;
const MOST_TRIP_NS: u64 = 60_000;

/// How long window pages of removed files may stay, in ns: the time doubles while programs map them.
const TIDY_NS: core::ops::RangeInclusive<u64> = SECOND / 2..=SECOND * 32;

/// Releases window pages of removed files.
#[derive(Debug)]
struct Tidying {
    timer: Rc<Timer>,
    interval_ns: Cell<u64>,
}

impl Tidying {
    fn new() -> Rc<Self> {
        Rc::new_cyclic(|this: &Weak<Self>| {
            let this = this.clone();
            let timer = Timer::new(Rc::new(move || {
                if let Some(this) = this.upgrade() {
                    this.tidy();
                }
            }));
            Self { timer, interval_ns: Cell::new(*TIDY_NS.start()) }
        })
    }

    /// Pages have lost their file.
    fn soon(&self) {
        if !self.timer.is_armed() || self.interval_ns.get() > *TIDY_NS.start() {
            self.wait(*TIDY_NS.start());
        }
    }

    fn wait(&self, interval_ns: u64) {
        self.interval_ns.set(interval_ns);
        self.timer.arm(monotonic_ns() + interval_ns);
    }

    fn tidy(&self) {
        if super::setup::tidy() {
            self.wait((self.interval_ns.get() * 2).min(*TIDY_NS.end()));
        }
        connector::let_go();
    }
}

/// The monitor.
#[derive(Debug)]
pub struct Monitor {
    trip_ns: Cell<u64>,
    /// Timer that sends gathered writes.
    timer: OnceCell<Rc<Timer>>,
    /// Timer that releases window pages of removed files.
    tidying: OnceCell<Rc<Tidying>>,
    /// Threads in [`HostFiles::wait`].
    waiting: OnceCell<Rc<WaitQueue>>,
}

impl Default for Monitor {
    fn default() -> Self {
        Self { trip_ns: Cell::new(TRIP_NS), timer: OnceCell::new(), tidying: OnceCell::new(), waiting: OnceCell::new() }
    }
}

/// The segments of bytes `start` to `start + len` of consecutive `frames` in memory: contiguous ones are merged,
/// limited to the maximum of a request.
fn segments(frames: &[Frame], start: usize, len: usize) -> Vec<Segment> {
    let mut pieces: Vec<Segment> = Vec::new();
    let (mut at, end) = (start, start + len);
    while at < end {
        let Some(frame) = frames.get(at / FRAME_SIZE) else { break };
        let in_frame = at % FRAME_SIZE;
        let n = (FRAME_SIZE - in_frame).min(end - at) as u64;
        let gpa = frame.gpa() + in_frame as u64;
        let is_full = pieces.len() == MAX_SEGMENTS;
        match pieces.last_mut() {
            Some(last) if last.gpa + last.len == gpa => last.len += n,
            _ if is_full => break,
            _ => pieces.push(Segment { gpa, len: n }),
        }
        at += n as usize;
    }
    pieces
}

impl HostFiles for Monitor {
    fn call(&self, operation: Encoded, input: &[u8], output: &mut [u8]) -> Result<Reply> {
        let start = (operation.number == Walk::NUMBER).then(monotonic_ns);
        let reply = connector::call_encoded(operation, input, output);
        if let Some(start) = start {
            let taken = monotonic_ns().saturating_sub(start).min(MOST_TRIP_NS);
            self.trip_ns.set((self.trip_ns.get() * 7 + taken) / 8);
        }
        reply
    }

    fn read_frames(&self, read: Read, frames: &[Frame], start: usize, len: usize) -> Result<usize> {
        let bytes = connector::call_list(read, &segments(frames, start, len))?;
        Ok((bytes as usize).min(len))
    }

    fn wait(&self, is_so: &dyn Fn() -> bool) -> Result<()> {
        let queue = self.waiting.get_or_init(|| Rc::new(WaitQueue::new()));
        wait_until(core::slice::from_ref(queue), None, Interrupt::Never, || is_so().then_some(()))
    }

    fn pause(&self, ns: u64) -> Result<()> {
        match wait_until(&[], Some(monotonic_ns().saturating_add(ns)), Interrupt::ByKill, || None::<()>) {
            Err(Errno::ETIMEDOUT) | Ok(()) => Ok(()),
            Err(_) => Err(Errno::EINTR),
        }
    }

    fn wake(&self) {
        self.waiting.get().inspect(|queue| queue.wake_all());
    }

    fn close(&self, close: Close) {
        connector::start_quietly(close, |_| {});
    }

    fn send(&self, operation: Encoded, input: Parts<'_>, output: Part<'_>, done: Done) {
        let (frame, start, len) = output;
        let output = Segment { gpa: frame.gpa() + start as u64, len: len as u64 };
        connector::send_encoded(operation, segments(input.0, input.1, input.2), Vec::from([output]), done);
    }

    fn collect(&self) {
        connector::poll_completions();
    }

    fn gathered(&self, ns: u64) {
        connector::hold(super::setup::flush);
        let timer = self.timer.get_or_init(|| Timer::new(Rc::new(connector::let_go)));
        if !timer.is_armed() {
            timer.arm(monotonic_ns() + ns);
        }
    }

    fn all_landed(&self) {
        if let Some(timer) = self.timer.get().filter(|timer| timer.is_armed()) {
            timer.cancel();
            // Otherwise the program is interrupted at that time without effect.
            hal::percpu::set_work_pending();
        }
    }

    fn unmap(&self, unmap: Unmap) {
        connector::start_quietly(unmap, |_| {});
    }

    fn unlock(&self, operation: Encoded) {
        connector::post(operation);
        connector::let_go();
    }

    fn retired(&self) {
        self.tidying.get_or_init(Tidying::new).soon();
    }

    fn window_page(&self, gpa: u64) -> Option<Frame> {
        Some(Frame::from_window(gpa))
    }

    fn has_losses(&self) -> bool {
        hal::ring::has_losses()
    }

    fn is_polled(&self) -> bool {
        hal::ring::is_polled()
    }

    fn trip_ns(&self) -> u64 {
        self.trip_ns.get()
    }

    fn memory_is_short(&self) -> bool {
        let ram = hal::frame::ram_usage();
        ram.limit.saturating_sub(ram.total) + ram.free < ram.limit / 4
    }
}
