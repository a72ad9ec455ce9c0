//! Programs of tests: functions that make system calls to a kernel in the simulated machine.
//!
//! The kernel boots once in the process that runs the tests, with a tree of files in memory. Its first program waits for
//! tests; each runs as a child of it ([`run`]), one after the other, whatever the number of test threads. A program is a
//! function that gets a [`Program`]: registers, memory, and calls by number. Its threads, children and signal handlers are
//! closures; each has an address that registers name, as if it were code there.
//!
//! Time is the machine's: it passes when all threads wait, and by [`Program::compute`]. If all of them wait without an end the
//! test fails.

use abi::boot::{Given, PodConfig, StreamKind};
use abi::operation::{Encoded, Reply};
use abi::request::{PodRequest, Request};
use hal::cell::Global;
use hal::harness::{Answer, Cpu, End, Machine, Monitor, leave};
use hal::hooks::Hooks;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use uapi::raw::general as g;

/// The numbers of calls, by their names.
#[expect(non_upper_case_globals, reason = "names of calls")]
#[allow(dead_code, reason = "all of the table")]
pub mod numbers {
    macro_rules! syscalls {
        ($($number:literal $name:ident $level:ident [$($h:tt)*] ($($arg:ident : $kind:ident),*) $note:literal;)*) => {
            $(pub const $name: u64 = $number;)*
        };
    }
    include!("../../src/syscall/table.rs");
}

/// A system call: its result, or the negative error number.
#[macro_export]
macro_rules! call {
    ($p:expr, $name:ident $(, $argument:expr)* $(,)?) => {
        $p.call($crate::harness::numbers::$name, &[$($crate::harness::Word::word($argument)),*])
    };
}

/// A system call that must succeed: its result.
#[macro_export]
macro_rules! ok {
    ($p:expr, $name:ident $(, $argument:expr)* $(,)?) => {{
        let arguments: &[u64] = &[$($crate::harness::Word::word($argument)),*];
        let result = $p.call($crate::harness::numbers::$name, arguments);
        assert!(result >= 0, "{} {arguments:x?}: {:?}", stringify!($name), uapi::Errno::from_code(-result));
        result as u64
    }};
}

/// A system call that must fail with this error.
#[macro_export]
macro_rules! fails {
    ($p:expr, $errno:ident, $name:ident $(, $argument:expr)* $(,)?) => {{
        let arguments: &[u64] = &[$($crate::harness::Word::word($argument)),*];
        let result = $p.call($crate::harness::numbers::$name, arguments);
        assert_eq!(
            uapi::Errno::from_code(-result),
            uapi::Errno::$errno,
            "{} {arguments:x?}: result {result}",
            stringify!($name)
        );
    }};
}

/// An argument of a call.
pub trait Word {
    /// As a register holds it.
    fn word(self) -> u64;
}

macro_rules! words {
    ($($integer:ty),*) => {$(
        impl Word for $integer {
            fn word(self) -> u64 {
                self as u64
            }
        }
    )*};
}
words!(i32, u32, i64, u64, usize);

/// Where programs' instruction pointers are; closures have addresses from here on.
const CODE: u64 = 0x40_1000;
/// Bytes between two of them.
const STEP: u64 = 16;
/// Scratch memory of a program.
const SCRATCH: usize = 1 << 20;

type Handler = Rc<dyn Fn(&mut Program, i32, u64)>;
type Executable = Rc<dyn Fn(&mut Program) -> i32>;
type Body = Box<dyn FnOnce(&mut Program) -> i32>;

/// Number and arguments.
type Call = (u64, Vec<u64>);

/// A thread or process that did not begin yet.
struct Spawned {
    body: Body,
    scratch: u64,
    is_thread: bool,
}

/// What the closures' addresses lead to.
struct Code {
    next: u64,
    executables: BTreeMap<u64, Executable>,
    handlers: BTreeMap<u64, Handler>,
    /// Threads and children that did not begin yet.
    spawned: BTreeMap<u64, Spawned>,
}

static CODES: Global<RefCell<Code>> = Global::new(RefCell::new(Code {
    next: CODE,
    executables: BTreeMap::new(),
    handlers: BTreeMap::new(),
    spawned: BTreeMap::new(),
}));
/// The test that the first program runs next.
static TEST: Global<RefCell<Option<Body>>> = Global::new(RefCell::new(None));
/// What went wrong in the programs of a test.
static FAILURE: Global<RefCell<Option<Box<dyn Any + Send>>>> = Global::new(RefCell::new(None));
/// Calls that programs are in, by the address that the program began at.
static UNDER_WAY: Global<RefCell<BTreeMap<u64, Call>>> = Global::new(RefCell::new(BTreeMap::new()));
/// Lines for the user.
static LINES: Global<RefCell<Vec<String>>> = Global::new(RefCell::new(Vec::new()));

static HOOKS: Hooks = keel_kernel::HOOKS;

fn new_address() -> u64 {
    let mut codes = CODES.borrow_mut();
    codes.next += STEP;
    codes.next
}

/// The program's registers lead to another program: execve.
struct Replaced;

/// Without files of a host, and without streams.
struct Alone;

impl Monitor for Alone {
    fn serve(&mut self, request: &Encoded, input: &[u8], _output: &mut Vec<u8>, _room: usize) -> Answer {
        match Request::decode(request) {
            Ok(Request::Pod(PodRequest::Log(_))) => {
                LINES.borrow_mut().push(String::from_utf8_lossy(input).into_owned());
                Some(Ok(Reply::default()))
            }
            // Signals of the host that never come.
            _ => None,
        }
    }
}

/// An executable file (ELF, static) that starts at `entry`: a page of code and one of data.
fn image(entry: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    for half in [2u16, 62] {
        bytes.extend_from_slice(&half.to_le_bytes());
    }
    bytes.extend_from_slice(&1u32.to_le_bytes());
    for word in [entry, 64, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&0u32.to_le_bytes());
    for half in [64u16, 56, 1, 0, 0, 0] {
        bytes.extend_from_slice(&half.to_le_bytes());
    }
    // PT_LOAD, all rights.
    for word in [1u64 | 7 << 32, 0, 0x40_0000, 0x40_0000, 0x1000, 0x2000, 0x1000] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.resize(0x1000, 0xcc);
    bytes
}

fn config() -> PodConfig {
    let init = Given { at: b"/init".to_vec(), mode: 0o755, uid: 0, gid: 0, content: Some(image(CODE)) };
    PodConfig {
        argv: vec![b"/init".to_vec()],
        env: vec![b"HOME=/root".to_vec()],
        cwd: b"/".to_vec(),
        cwd_named: false,
        uid: 0,
        gid: 0,
        groups: Vec::new(),
        umask: 0o022,
        hostname: b"hosted".to_vec(),
        host_release: b"6.1.0".to_vec(),
        host_version: b"#1".to_vec(),
        limits: Vec::new(),
        exports: Vec::new(),
        links: Vec::new(),
        given: vec![init],
        container: None,
        private_limit: None,
        streams: [StreamKind::Closed; 3],
        passed: Vec::new(),
        window: None,
        trace: None,
        network: None,
        rights: Default::default(),
        stop_signal: 15,
    }
}

/// Runs a test as a program of its own: a child of the first process, as root.
///
/// # Panics
/// If it fails: a program of the test panicked, the kernel did, or nothing can run any more.
pub fn run(body: impl FnOnce(&mut Program) + Send + 'static) {
    let mut machine = Machine::take();
    assert!(!machine.is_broken(), "an earlier test broke the kernel");
    if !machine.is_booted() {
        CODES.borrow_mut().executables.insert(CODE, Rc::new(first));
        machine.boot(&HOOKS, &config(), Box::new(Alone), begin);
        go_on(&mut machine);
    }
    *TEST.borrow_mut() = Some(Box::new(|p| {
        body(p);
        0
    }));
    go_on(&mut machine);
    let failure = FAILURE.take();
    drop(machine);
    if let Some(failure) = failure {
        resume_unwind(failure);
    }
}

fn go_on(machine: &mut Machine) {
    match machine.go_on() {
        Ok(()) => {}
        Err(End::Panicked(panic)) => resume_unwind(panic),
        Err(End::Exited(code, text)) => panic!("the pod ended with {code}: {text} {:?}", LINES.take()),
        Err(End::Stuck) => {
            let calls = UNDER_WAY.take();
            panic!(
                "all threads wait for ever, in these calls: {calls:x?}; failure before: {:?}",
                text_of(FAILURE.take())
            )
        }
    }
}

fn text_of(panic: Option<Box<dyn Any + Send>>) -> Option<String> {
    let panic = panic?;
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| String::from(*text)))
}

/// The first program: runs the tests.
fn first(p: &mut Program) -> i32 {
    loop {
        leave();
        let Some(test) = TEST.take() else { continue };
        let child = p.fork(test);
        p.wait(child);
        // What the test left behind.
        call!(p, kill, -1, g::SIGKILL);
        while call!(p, wait4, -1, 0, 0, 0) > 0 {}
        let mut codes = CODES.borrow_mut();
        codes.handlers.clear();
        codes.spawned.clear();
        UNDER_WAY.borrow_mut().clear();
    }
}

/// First code of every thread.
fn begin(cpu: Cpu) -> ! {
    let mut program = Program { cpu, began: 0, scratch: 0, used: 0 };
    loop {
        let at = program.cpu.registers().rip;
        program.began = at;
        let spawned = CODES.borrow_mut().spawned.remove(&at);
        let executable = CODES.borrow().executables.get(&at).cloned();
        let outcome = catch_unwind(AssertUnwindSafe(|| match (spawned, executable) {
            (Some(spawned), _) => {
                program.scratch = spawned.scratch;
                let code = (spawned.body)(&mut program);
                if spawned.is_thread {
                    call!(program, exit, code);
                }
                code
            }
            (None, Some(body)) => {
                program.scratch = program.map(SCRATCH);
                body(&mut program)
            }
            (None, None) => panic!("no program is at {at:#x}"),
        }));
        let code = match outcome {
            Ok(code) => code,
            Err(panic) if panic.is::<Replaced>() => continue,
            Err(panic) => {
                FAILURE.borrow_mut().get_or_insert(panic);
                101
            }
        };
        call!(program, exit_group, code);
    }
}

/// A running program.
pub struct Program {
    pub cpu: Cpu,
    /// Address that it began at.
    began: u64,
    scratch: u64,
    used: usize,
}

impl Program {
    /// A system call: its result, after the handlers of signals that came.
    pub fn call(&mut self, number: u64, arguments: &[u64]) -> i64 {
        let at = self.cpu.registers().rip;
        UNDER_WAY.borrow_mut().insert(self.began, (number, arguments.to_vec()));
        self.cpu.call(number, six(arguments));
        UNDER_WAY.borrow_mut().remove(&self.began);
        self.settle(at);
        self.cpu.registers().rax as i64
    }

    /// A system call by the instruction, which traps.
    pub fn trap(&mut self, number: u64, arguments: &[u64]) -> i64 {
        let at = self.cpu.registers().rip;
        self.cpu.trap(number, six(arguments));
        self.settle(at);
        self.cpu.registers().rax as i64
    }

    /// Runs handlers until the program is at `at` again.
    fn settle(&mut self, at: u64) {
        loop {
            let here = self.cpu.registers().rip;
            if here == at {
                return;
            }
            if here == at - 2 {
                // A call is made again: behind the instruction it is where it was.
                let registers = self.cpu.registers();
                registers.rip = at;
                let (number, arguments) = (registers.rax, registers.arguments());
                self.cpu.trap(number, arguments);
                continue;
            }
            let handler = CODES.borrow().handlers.get(&here).cloned();
            if let Some(handler) = handler {
                self.handle(&*handler);
                continue;
            }
            if CODES.borrow().executables.contains_key(&here) {
                resume_unwind(Box::new(Replaced));
            }
            panic!("the program is at {here:#x}");
        }
    }

    /// Gives an instruction up that faulted, after the handler: the program goes on at `at`.
    pub fn resume(&mut self, at: u64) {
        self.settle(at);
    }

    fn handle(&mut self, handler: &dyn Fn(&mut Self, i32, u64)) {
        let registers = self.cpu.registers();
        let (signal, info, stack) = (registers.rdi as i32, registers.rsi, registers.rsp);
        handler(self, signal, info);
        // The handler returns to the restorer, which makes the call.
        self.cpu.registers().rsp = stack + 8;
        self.cpu.trap(numbers::rt_sigreturn, [0; 6]);
    }

    /// The program computes for `ns`, and handles the signals that come.
    pub fn compute(&mut self, ns: u64) {
        let at = self.cpu.registers().rip;
        self.cpu.compute(ns);
        self.settle(at);
    }

    /// Computes for so many milliseconds, in pieces of one.
    pub fn compute_ms(&mut self, ms: u64) {
        (0..ms).for_each(|_| self.compute(1_000_000));
    }

    /// Address that a signal's handler has; it gets the signal and the address of its `siginfo_t`.
    pub fn handler(&mut self, handler: impl Fn(&mut Self, i32, u64) + 'static) -> u64 {
        let address = new_address();
        CODES.borrow_mut().handlers.insert(address, Rc::new(handler));
        address
    }

    /// Sets a signal's handler, with flags of sigaction(2).
    pub fn on_signal(&mut self, signal: u32, flags: u32, handler: impl Fn(&mut Self, i32, u64) + 'static) {
        let address = self.handler(handler);
        let action = self.words(&[address, u64::from(flags | g::SA_RESTORER), address, 0]);
        ok!(self, rt_sigaction, signal, action, 0, 8);
    }

    /// Changes the signal mask (SIG_BLOCK, …); the old one.
    pub fn mask(&mut self, how: u32, signals: &[u32]) -> u64 {
        let mask = signals.iter().fold(0, |mask, signal| mask | 1u64 << (signal - 1));
        let (new, old) = (self.words(&[mask]), self.room(8));
        ok!(self, rt_sigprocmask, how, new, old, 8);
        self.word(old)
    }

    /// Makes an executable file.
    pub fn install(&mut self, path: &str, body: impl Fn(&mut Self) -> i32 + 'static) {
        let entry = new_address();
        CODES.borrow_mut().executables.insert(entry, Rc::new(body));
        self.write_file(path, &image(entry));
        let path = self.string(path);
        ok!(self, chmod, path, 0o755);
    }

    /// A child process; it shares nothing with this one but what the closure holds. The child's exit code is the closure's result.
    pub fn fork(&mut self, body: impl FnOnce(&mut Self) -> i32 + 'static) -> u64 {
        let scratch = self.scratch;
        self.spawn(u64::from(g::SIGCHLD), 0, scratch, [0; 3], body)
    }

    /// A thread of this process.
    pub fn thread(&mut self, body: impl FnOnce(&mut Self) + 'static) -> u64 {
        let flags = g::CLONE_VM | g::CLONE_FS | g::CLONE_FILES | g::CLONE_SIGHAND | g::CLONE_THREAD | g::CLONE_SYSVSEM;
        self.clone_vm(u64::from(flags), [0; 3], |p| {
            body(p);
            0
        })
    }

    /// A thread or process in the same memory, with scratch memory and a stack of its own. `more`: addresses of ids, and the
    /// thread's own storage.
    pub fn clone_vm(&mut self, flags: u64, more: [u64; 3], body: impl FnOnce(&mut Self) -> i32 + 'static) -> u64 {
        let scratch = self.map(2 * SCRATCH);
        self.spawn(flags, scratch + 2 * SCRATCH as u64 - 64, scratch, more, body)
    }

    /// clone(2).
    pub fn spawn(
        &mut self,
        flags: u64,
        stack: u64,
        scratch: u64,
        [parent_tid, child_tid, tls]: [u64; 3],
        body: impl FnOnce(&mut Self) -> i32 + 'static,
    ) -> u64 {
        let id = self.try_spawn(flags, stack, scratch, [parent_tid, child_tid, tls], body);
        assert!(id > 0, "clone: {id}");
        id as u64
    }

    /// clone(2), with its result.
    pub fn try_spawn(
        &mut self,
        flags: u64,
        stack: u64,
        scratch: u64,
        [parent_tid, child_tid, tls]: [u64; 3],
        body: impl FnOnce(&mut Self) -> i32 + 'static,
    ) -> i64 {
        let address = new_address();
        let is_thread = flags & u64::from(g::CLONE_THREAD) != 0;
        let spawned = Spawned { body: Box::new(body), scratch, is_thread };
        CODES.borrow_mut().spawned.insert(address, spawned);
        let here = std::mem::replace(&mut self.cpu.registers().rip, address);
        let id = call!(self, clone, flags, stack, parent_tid, child_tid, tls);
        self.cpu.registers().rip = here;
        id
    }

    /// Waits for a child: its wait status.
    pub fn wait(&mut self, child: u64) -> i32 {
        let status = self.room(4);
        let found = ok!(self, wait4, child, status, 0, 0);
        assert_eq!(found, child);
        self.int(status)
    }

    /// A child that must end with exit code 0.
    pub fn in_child(&mut self, body: impl FnOnce(&mut Self) + 'static) {
        let child = self.fork(|p| {
            body(p);
            0
        });
        let status = self.wait(child);
        assert_eq!(status, 0, "wait status of the child");
    }

    /// New anonymous memory.
    pub fn map(&mut self, len: usize) -> u64 {
        let flags = g::MAP_PRIVATE | g::MAP_ANONYMOUS;
        ok!(self, mmap, 0, len, g::PROT_READ | g::PROT_WRITE, flags, -1, 0)
    }

    /// Zeroed scratch memory, which is used again after a megabyte of others.
    pub fn room(&mut self, len: usize) -> u64 {
        let len = len.next_multiple_of(16);
        assert!(len <= SCRATCH / 2, "map it");
        if self.used + len > SCRATCH {
            self.used = 0;
        }
        let address = self.scratch + self.used as u64;
        self.used += len;
        self.store(address, &vec![0; len]);
        address
    }

    /// Bytes in scratch memory.
    pub fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let address = self.room(bytes.len().max(1));
        self.store(address, bytes);
        address
    }

    /// A string with its end.
    pub fn string(&mut self, text: &str) -> u64 {
        self.bytes(&[text.as_bytes(), b"\0"].concat())
    }

    /// Words of 64 bits.
    pub fn words(&mut self, words: &[u64]) -> u64 {
        self.bytes(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
    }

    /// Words of 32 bits.
    pub fn ints(&mut self, words: &[u32]) -> u64 {
        self.bytes(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
    }

    /// Stores into memory as the program does, with page faults.
    pub fn store(&mut self, address: u64, bytes: &[u8]) {
        let at = self.cpu.registers().rip;
        while self.cpu.write(address as usize, bytes).is_err() {
            self.settle(at);
        }
    }

    /// Loads from memory as the program does.
    pub fn load(&mut self, address: u64, len: usize) -> Vec<u8> {
        let at = self.cpu.registers().rip;
        let mut bytes = vec![0; len];
        while self.cpu.read(address as usize, &mut bytes).is_err() {
            self.settle(at);
        }
        bytes
    }

    /// A word of 64 bits.
    pub fn word(&mut self, address: u64) -> u64 {
        u64::from_le_bytes(self.load(address, 8).try_into().expect("8 bytes"))
    }

    /// A word of 32 bits.
    pub fn int(&mut self, address: u64) -> i32 {
        i32::from_le_bytes(self.load(address, 4).try_into().expect("4 bytes"))
    }

    /// Stores a word of 32 bits.
    pub fn set_int(&mut self, address: u64, value: i32) {
        self.store(address, &value.to_le_bytes());
    }

    /// Two descriptors that a call stores.
    pub fn pair(&mut self, address: u64) -> [u64; 2] {
        [self.int(address) as u64, self.int(address + 4) as u64]
    }

    /// A pipe: the end to read and the end to write.
    pub fn pipe(&mut self, flags: u32) -> [u64; 2] {
        let ends = self.room(8);
        ok!(self, pipe2, ends, flags);
        self.pair(ends)
    }

    /// Reads up to `len` bytes; they must be there.
    pub fn read(&mut self, fd: u64, len: usize) -> Vec<u8> {
        let to = self.room(len);
        let n = ok!(self, read, fd, to, len);
        self.load(to, n as usize)
    }

    /// Writes bytes: how many were taken, or the error.
    pub fn write(&mut self, fd: u64, bytes: &[u8]) -> i64 {
        let from = self.bytes(bytes);
        call!(self, write, fd, from, bytes.len())
    }

    /// Opens a file.
    pub fn open(&mut self, path: &str, flags: u32) -> u64 {
        let path = self.string(path);
        ok!(self, openat, g::AT_FDCWD, path, flags, 0o644)
    }

    /// The content of a file.
    pub fn content(&mut self, path: &str) -> Vec<u8> {
        let fd = self.open(path, g::O_RDONLY);
        let mut content = Vec::new();
        loop {
            let more = self.read(fd, 4096);
            if more.is_empty() {
                break;
            }
            content.extend(more);
        }
        ok!(self, close, fd);
        content
    }

    /// The content of a file of text.
    pub fn text(&mut self, path: &str) -> String {
        String::from_utf8(self.content(path)).expect("text")
    }

    /// Makes a file.
    pub fn write_file(&mut self, path: &str, bytes: &[u8]) {
        let fd = self.open(path, g::O_WRONLY | g::O_CREAT | g::O_TRUNC);
        for piece in bytes.chunks(SCRATCH / 4) {
            assert_eq!(self.write(fd, piece), piece.len() as i64);
        }
        ok!(self, close, fd);
    }

    /// `CLOCK_MONOTONIC` in ns.
    pub fn now(&mut self) -> u64 {
        let at = self.room(16);
        ok!(self, clock_gettime, g::CLOCK_MONOTONIC, at);
        self.word(at) * 1_000_000_000 + self.word(at + 8)
    }

    /// Sleeps.
    pub fn sleep_ms(&mut self, ms: u64) {
        let time = self.words(&[ms / 1000, ms % 1000 * 1_000_000]);
        ok!(self, nanosleep, time, 0);
    }
}

fn six(arguments: &[u64]) -> [u64; 6] {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    all
}

/// A small generator of numbers: the same sequence for the same seed.
pub struct Random(u64);

impl Random {
    /// Seed: any number.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit` (splitmix64).
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % limit as u64) as usize
    }

    /// Any bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

/// A value that a test's programs share outside of the machine.
pub fn shared<T: Copy>(value: T) -> Rc<Cell<T>> {
    Rc::new(Cell::new(value))
}
