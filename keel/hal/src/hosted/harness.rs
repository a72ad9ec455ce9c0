//! How a test runs a kernel in the simulated machine.
//!
//! The machine is a coroutine of the test: [`Machine::go_on`] runs it until the code in it calls [`leave`], or until it ends.
#![allow(unsafe_code)]

use super::mmu::{self, Access};
use super::{boot, doorbell, gate, instructions, stacks};
use crate::cell::Global;
use crate::frame::FRAME_SIZE;
use crate::hooks::{Hooks, QUICK_CALLS};
use crate::switch::{first_switch_to, keel_switch};
use crate::trap::{Entry, FaultInfo, TrapFrame};
use abi::boot::PodConfig;
use abi::layout::{KICK_VECTOR, USER_TOP};
use core::any::Any;
use core::cell::{Cell, RefCell};
use std::boxed::Box;
use std::string::String;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use super::doorbell::{Answer, Monitor};

/// Vector of page faults.
const PAGE_FAULT: u8 = 14;

/// Reason for the end of a machine.
#[derive(Debug)]
pub enum End {
    /// Code of keel panicked.
    Panicked(Box<dyn Any + Send>),
    /// Keel ended the pod: exit code, and a line for the user.
    Exited(u8, String),
    /// No thread can run, no timer is set and no request is under way.
    Stuck,
}

/// Code of a program's threads, after their first return from keel. Never returns: a program ends by a call.
pub type Program = fn(Cpu) -> !;

/// Saved stack pointers of the test and of the machine, while the other one runs.
static OUTSIDE: Global<Cell<usize>> = Global::new(Cell::new(0));
static INSIDE: Global<Cell<usize>> = Global::new(Cell::new(0));
/// Counter of the machine while it does not run.
static TIME: Global<Cell<u64>> = Global::new(Cell::new(0));
static PROGRAM: Global<Cell<Option<Program>>> = Global::new(Cell::new(None));
static ENDED: Global<RefCell<Option<End>>> = Global::new(RefCell::new(None));

/// The machine of this process; one host thread at a time uses it.
#[derive(Debug)]
pub struct Machine {
    booted: bool,
    broken: bool,
}

static MACHINE: Mutex<Machine> = Mutex::new(Machine { booted: false, broken: false });

impl Machine {
    /// Locks the machine against other host threads.
    pub fn take() -> MutexGuard<'static, Self> {
        MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a kernel was booted.
    pub const fn is_booted(&self) -> bool {
        self.booted
    }

    /// Whether it has ended and can't continue.
    pub const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Prepares the machine to run a kernel's boot hook, by [`Machine::go_on`].
    ///
    /// # Panics
    /// If it was booted before.
    pub fn boot(&mut self, hooks: &'static Hooks, config: &PodConfig, monitor: Box<dyn Monitor>, program: Program) {
        assert!(!self.booted, "a machine boots once");
        self.booted = true;
        crate::direct_map::prepare();
        boot::set_config(config.encode());
        gate::set_hooks(hooks);
        doorbell::set_monitor(monitor);
        PROGRAM.set(Some(program));
        super::init_cpu(0);
        let flags = boot::boot_info().flags;
        crate::ring::init(flags);
        crate::fpu::init(boot::boot_info().xcr0);
        let stack = stacks::take().expect("the host has memory for a stack");
        let words = first_switch_to(gate::boot_entry_address());
        let top = stack + stacks::STACK_BYTES;
        let pointer = top - size_of_val(&words);
        // SAFETY: the stack was just allocated, and the words are at its top.
        unsafe { (pointer as *mut [usize; 7]).write(words) };
        INSIDE.set(pointer);
    }

    /// Runs the machine until it leaves.
    ///
    /// # Errors
    /// If it ended.
    ///
    /// # Panics
    /// If it has ended before, or was not booted.
    pub fn go_on(&mut self) -> Result<(), End> {
        assert!(self.booted && !self.broken, "no machine that can go on");
        self.broken = true;
        instructions::set_counter(TIME.get());
        // SAFETY: `boot` prepared the stack pointer, or the last switch away from the machine stored it; the mutex lets
        // one host thread run it at a time.
        unsafe { keel_switch(OUTSIDE.as_ptr(), INSIDE.get()) };
        TIME.set(instructions::counter());
        match ENDED.take() {
            Some(end) => Err(end),
            None => {
                self.broken = false;
                Ok(())
            }
        }
    }
}

/// Leaves the machine, from a program in it; returns when the test continues it.
pub fn leave() {
    // SAFETY: code in the machine runs because `go_on` stored the test's stack pointer and waits there.
    unsafe { keel_switch(INSIDE.as_ptr(), OUTSIDE.get()) };
}

/// The machine ends.
pub(super) fn end(end: End) -> ! {
    ENDED.replace(Some(end));
    leave();
    unreachable!("a machine that ended does not go on")
}

pub(super) fn run_program(cpu: Cpu) -> ! {
    let program = PROGRAM.get().expect("a machine has programs");
    program(cpu)
}

/// Advances time for the calling host thread without a machine, for unit tests that use clocks.
pub fn advance(ns: u64) {
    instructions::set_counter(instructions::counter() + ns);
}

/// A signal interrupted a program's memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// The virtual CPU as a program uses it: registers, memory, and entries into keel.
#[derive(Debug)]
pub struct Cpu {
    /// At the top of the program's stack.
    frame: *mut TrapFrame,
}

impl Cpu {
    /// # Safety
    /// The frame is that of the running thread, at the top of its stack.
    pub(super) unsafe fn new(frame: *mut TrapFrame) -> Self {
        Self { frame }
    }

    /// The program's registers.
    pub fn registers(&mut self) -> &mut TrapFrame {
        // SAFETY: the frame belongs to the running thread; keel does not access it meanwhile.
        unsafe { &mut *self.frame }
    }

    fn enter<R>(&mut self, f: impl FnOnce(&Hooks, &mut TrapFrame) -> R) -> R {
        // SAFETY: the frame is that of the running thread, and `self` is borrowed mutably.
        unsafe { gate::enter(self.frame, f) }
    }

    fn begin_call(&mut self, number: u64, arguments: [u64; 6], entry: Entry) {
        let frame = self.registers();
        frame.rax = number;
        [frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9] = arguments;
        frame.entry = entry as u64;
    }

    /// A system call from a patched site: returns its result. The program then continues where the registers say.
    pub fn call(&mut self, number: u64, arguments: [u64; 6]) -> i64 {
        self.begin_call(number, arguments, Entry::Call);
        self.enter(|hooks, frame| {
            let is_quick = usize::try_from(number).is_ok_and(|n| n < QUICK_CALLS && hooks.quick_calls[n] != 0);
            if is_quick {
                let quick = (hooks.quick)(number, [arguments[0], arguments[1], arguments[2]]);
                if quick.left == 0 {
                    frame.rax = quick.result;
                    return;
                }
            }
            (hooks.syscall)(frame);
        });
        self.registers().rax as i64
    }

    /// A system call by a `syscall` instruction: returns its result.
    pub fn trap(&mut self, number: u64, arguments: [u64; 6]) -> i64 {
        self.begin_call(number, arguments, Entry::Trap);
        self.enter(|hooks, frame| (hooks.syscall)(frame));
        self.registers().rax as i64
    }

    /// An exception of the program, or an interrupt.
    pub fn fault(&mut self, vector: u8, code: u64, address: u64) {
        self.registers().entry = Entry::Fault as u64;
        self.enter(|hooks, frame| (hooks.fault)(frame, FaultInfo { vector, code, address }));
    }

    /// The program computes for `ns`; afterwards it is interrupted if the monitor would do so.
    pub fn compute(&mut self, ns: u64) {
        advance(ns);
        if doorbell::interrupts() {
            self.fault(KICK_VECTOR, 0, 0);
        }
    }

    /// An access of the program to its own memory, page by page.
    fn access(
        &mut self,
        address: usize,
        len: usize,
        access: Access,
        mut f: impl FnMut(*mut u8, usize, usize),
    ) -> Result<(), Interrupted> {
        let mut done = 0;
        while done < len {
            let at = address.wrapping_add(done);
            let place = if at < USER_TOP { mmu::translate(at, access) } else { Err(4) };
            let place = match place {
                Ok(place) => place,
                Err(code) => {
                    let before = self.registers().rip;
                    self.fault(PAGE_FAULT, code, at as u64);
                    if self.registers().rip != before {
                        return Err(Interrupted);
                    }
                    continue;
                }
            };
            let n = (FRAME_SIZE - at % FRAME_SIZE).min(len - done);
            f(place as *mut u8, done, n);
            done += n;
        }
        Ok(())
    }

    /// Reads memory.
    ///
    /// # Errors
    /// If a page fault caused a signal, whose handler runs next.
    pub fn read(&mut self, address: usize, bytes: &mut [u8]) -> Result<(), Interrupted> {
        self.access(address, bytes.len(), Access::Read, |place, done, n| {
            // SAFETY: the piece is in a frame that is mapped now.
            unsafe { core::ptr::copy_nonoverlapping(place, bytes[done..done + n].as_mut_ptr(), n) };
        })
    }

    /// Writes memory.
    ///
    /// # Errors
    /// As [`Cpu::read`].
    pub fn write(&mut self, address: usize, bytes: &[u8]) -> Result<(), Interrupted> {
        self.access(address, bytes.len(), Access::Write, |place, done, n| {
            // SAFETY: as in `read`.
            unsafe { core::ptr::copy_nonoverlapping(bytes[done..done + n].as_ptr(), place, n) };
        })
    }

    /// Fetches an instruction byte.
    ///
    /// # Errors
    /// As [`Cpu::read`].
    pub fn fetch(&mut self, address: usize) -> Result<(), Interrupted> {
        self.access(address, 1, Access::Fetch, |_, _, _| {})
    }
}
