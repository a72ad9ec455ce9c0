//! The standard streams and other inherited descriptors of the first program: terminals, pipes, files and devices of
//! the host, accessed through the monitor.

mod attributes;
mod requests;

use super::terminal::Control;
use crate::file::{Abilities, File, FileOps, Queues};
use crate::sched::connector;
use crate::sched::wait::WaitQueue;
use crate::signal::{self, SigInfo};
use crate::task::Process;
use abi::boot::{PodConfig, StreamKind};
use abi::operation::Word;
use abi::request::{SignalWait, StreamPoll, StreamPosition, StreamRead, StreamSeek, StreamStat, StreamWrite, Whence};
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::chunk;
use vfs::tree::Tree;
use vfs::{Attachments, Attr, Change, Dst, Src};

/// Maximum bytes of one request.
const CHUNK: usize = 256 << 10;

const IN: u32 = g::POLLIN | g::POLLRDNORM;
const OUT: u32 = g::POLLOUT | g::POLLWRNORM;

/// Device, number and device number of `/dev/console`, which the terminal has.
static CONSOLE: Global<Cell<(u64, u64, u64)>> = Global::new(Cell::new((0, 0, 0)));

/// Makes the terminal the file with these attributes.
pub fn set_console(attr: &Attr) {
    CONSOLE.set((attr.dev, attr.ino, attr.rdev));
}

/// Owner of the standard streams in a container, as container engines give them to the container's user: so it can open
/// `/dev/stdout`, whatever user started `hull`. The host's object keeps its own.
static OWNER: Global<Cell<Option<u32>>> = Global::new(Cell::new(None));

/// Group and permissions of a container's terminal, those of a pseudo-terminal for the group `tty`.
const TERMINAL: (u32, u32) = (5, 0o620);

/// Gives the standard streams to the user of a container, and `/dev/console` to it if one of them is the terminal.
pub fn give_owner(config: &PodConfig, tree: &Tree) -> Result<()> {
    if config.container.is_none() {
        return Ok(());
    }
    OWNER.set(Some(config.uid));
    if !config.streams.contains(&StreamKind::Terminal) {
        return Ok(());
    }
    let (gid, mode) = TERMINAL;
    let change = Change { mode: Some(mode), uid: Some(config.uid), gid: Some(gid), ..Change::default() };
    tree.root().lookup(b"dev", &[], false)?.lookup(b"console", &[], false)?.inode().change(&change)
}

/// A standard stream, or another inherited descriptor.
pub struct Stream {
    /// Itself.
    me: Weak<Self>,
    /// Its number in requests.
    number: u64,
    kind: StreamKind,
    /// Stream numbers for reads and writes: one terminal may be on three descriptors.
    reader: Cell<u64>,
    writer: Cell<u64>,
    readiness: Rc<Readiness>,
}

/// Cached readiness of a stream.
#[derive(Default)]
struct Readiness {
    stream: u64,
    /// Events that hold.
    ready: Cell<u32>,
    /// Events of the pending poll request to the monitor; none was ready when it was sent.
    armed: Cell<u32>,
    /// Input was read since the poll request was sent: its answer may be outdated.
    stale: Cell<bool>,
    queue: Rc<WaitQueue>,
}

impl Readiness {
    /// Requests a notification of the monitor when one of `events` is ready, unless one is pending.
    fn arm(self: &Rc<Self>, events: u32) {
        let asked = events & !self.armed.get();
        if asked == 0 {
            return;
        }
        self.armed.set(self.armed.get() | asked);
        let me = self.clone();
        let poll = StreamPoll { stream: self.stream, events: asked as u16, nonblocking: false };
        connector::start(poll, move |answer| me.answered(asked, answer));
    }

    fn answered(self: &Rc<Self>, asked: u32, answer: Result<u64>) {
        self.armed.set(self.armed.get() & !asked);
        let Ok(events) = answer else { return };
        if self.stale.take() && !self.queue.is_empty() {
            self.arm(asked);
            return;
        }
        self.ready.set(self.ready.get() | events as u32);
        self.queue.wake_all();
    }

    /// Invalidates cached events.
    fn forget(&self, events: u32) {
        self.ready.set(self.ready.get() & !events);
        if self.armed.get() & events != 0 {
            self.stale.set(true);
        }
    }
}

/// A host file behind a stream: its device and inode number, and its attachments (locks, changed attributes).
type HostFile = ((u64, u64), Rc<Attachments>);

/// The host files of the streams, at most one for each.
static HOST_FILES: Global<RefCell<Vec<HostFile>>> = Global::new(RefCell::new(Vec::new()));

/// The controlling terminal of the pod, if one of its streams is a terminal.
static CONTROL: Global<RefCell<Option<Rc<Control>>>> = Global::new(RefCell::new(None));

fn control() -> Rc<Control> {
    CONTROL.borrow_mut().get_or_insert_with(Rc::default).clone()
}

/// The foreground process group of the user's terminal, which gets the signal of keys such as Ctrl-C; `None` without a
/// terminal.
pub fn foreground_group() -> Option<i32> {
    CONTROL.borrow().as_ref().map(|control| control.foreground()).filter(|&group| group > 0)
}

/// The streams of a pod, for descriptors 0, 1 and 2 of its first process.
pub fn standard(config: &PodConfig) -> [Option<Rc<File>>; 3] {
    let is_terminal = |n: usize| config.streams[n] == StreamKind::Terminal;
    core::array::from_fn(|number| {
        let kind = config.streams[number];
        if kind == StreamKind::Closed {
            return None;
        }
        let terminal = kind == StreamKind::Terminal;
        let reader = if terminal && is_terminal(0) { 0 } else { number };
        let writer = match number {
            0 if terminal => (1..3).find(|&n| is_terminal(n)).unwrap_or(0),
            _ => number,
        };
        let access = match number {
            _ if terminal => g::O_RDWR,
            0 => g::O_RDONLY,
            _ => g::O_WRONLY,
        };
        let stream = Stream::new(number, kind, (reader, writer));
        // open(2) sets O_LARGEFILE on 64-bit Linux.
        let opened = if kind == StreamKind::Pipe { 0 } else { g::O_LARGEFILE };
        Some(File::new(stream, access | opened, None))
    })
}

/// Further descriptors of a pod's first process, with their numbers there.
pub fn passed(config: &PodConfig) -> impl Iterator<Item = (u32, Rc<File>)> {
    (3..).zip(&config.passed).filter(|(_, passed)| passed.kind != StreamKind::Closed).map(|(number, passed)| {
        let stream = Stream::new(number, passed.kind, (number, number));
        (passed.number, File::new(stream, passed.flags, None))
    })
}

/// Makes the terminal among the streams, if there is one, the controlling terminal of the session of
/// `process`, with its group in the foreground.
pub fn give_terminal(streams: &[Option<Rc<File>>; 3], process: &Rc<Process>) {
    let terminal = streams.iter().flatten().filter_map(|file| file.downcast::<Stream>()).find(|s| s.is_terminal());
    if let Some(stream) = terminal.and_then(|stream| stream.me.upgrade()) {
        control().attach(stream, process);
    }
    take_signals(process, 0);
}

/// What the first program gets in place of SIGTERM.
static STOP_SIGNAL: Global<Cell<u32>> = Global::new(Cell::new(g::SIGTERM));

/// Sets the signal by which the first program is told to end; others than signals are ignored.
pub fn set_stop_signal(signal: u32) {
    if (1..g::_NSIG).contains(&signal) {
        STOP_SIGNAL.set(signal);
    }
}

/// Subscribes to the user's signals to `hull`. `returned`: a signal to return to `hull`.
fn take_signals(first: &Rc<Process>, returned: u32) {
    let process = Rc::downgrade(first);
    let done = move |answer: Result<u64>| {
        let (Ok(signal), Some(process)) = (answer, process.upgrade()) else { return };
        let signal = signal as u32;
        if (1..g::_NSIG).contains(&signal) {
            let returned = if pass_on(&process, signal) { 0 } else { signal };
            take_signals(&process, returned);
            if returned != 0 {
                hal::ring::serve();
            }
        }
    };
    connector::start_quietly(SignalWait { returned }, done);
}

/// Forwards a signal of the user: signals of terminal keys to the foreground process group, all others to the first
/// program. `false`: `hull` must stop itself, because no process in the pod could continue the foreground.
fn pass_on(first: &Rc<Process>, signal: u32) -> bool {
    let from_keys = matches!(signal, g::SIGINT | g::SIGQUIT | g::SIGTSTP | g::SIGWINCH);
    let group = foreground_group().filter(|_| from_keys);
    if signal == g::SIGTSTP && group.is_none_or(|group| group == first.group()) {
        return false;
    }
    let sent = if signal == g::SIGTERM { STOP_SIGNAL.get() } else { signal };
    if matches!(signal, g::SIGINT | g::SIGTERM)
        && group.is_none_or(|group| group == first.group())
        && signal::send::is_lost(first, sent)
    {
        note_lost(signal);
    }
    let info = SigInfo::from_kernel(sent);
    match group {
        Some(group) => signal::send_to_group(group, info),
        None => {
            // Never fails: there is always room for standard signals from keel.
            let _ = signal::send_to_process(first, info);
        }
    }
    true
}

/// The first program is process 1 and ignores a signal that the user meant to end it with; the third ends the pod.
fn note_lost(signal: u32) {
    const MOST: u32 = 3;
    static LOST: Global<Cell<u32>> = Global::new(Cell::new(0));
    LOST.set(LOST.get() + 1);
    if LOST.get() >= MOST {
        let text =
            b"hull: process 1 has no handler for the signals that should end it; --init makes them end it at once";
        connector::end(128 + signal as u8, text)
    }
}

impl Stream {
    /// Stream `number` of the host, which reads from one stream and writes to another.
    fn new(number: usize, kind: StreamKind, (reader, writer): (usize, usize)) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            number: number as u64,
            kind,
            reader: Cell::new(reader as u64),
            writer: Cell::new(writer as u64),
            readiness: Rc::new(Readiness { stream: number as u64, ..Readiness::default() }),
        })
    }

    fn is_terminal(&self) -> bool {
        self.kind == StreamKind::Terminal
    }

    /// Attributes on the host; the identity of a terminal is that of `/dev/console`.
    fn host_attr(&self) -> Result<Attr> {
        let mut attr = [Attr::default()];
        connector::call(StreamStat { stream: self.number }, &(), &mut attr)?;
        if self.is_terminal() {
            // ttyname(3) compares it with the file that `link_name` leads to.
            let (dev, ino, rdev) = CONSOLE.get();
            attr[0] = Attr { dev, ino, rdev, ..attr[0] };
        }
        // Devices such as /dev/null belong to all of the host.
        if let Some(uid) = OWNER.get()
            && self.number < 3
            && self.kind != StreamKind::Device
        {
            attr[0].uid = uid;
            if self.is_terminal() {
                let (gid, mode) = TERMINAL;
                attr[0] = Attr { gid, mode: attr[0].mode & g::S_IFMT | mode, ..attr[0] };
            }
        }
        Ok(attr[0])
    }

    /// Whether it has a file position on the host.
    fn is_seekable(&self) -> bool {
        matches!(self.kind, StreamKind::File | StreamKind::Device)
    }

    /// One read request, at the stream's own position or at an offset.
    fn read_once(&self, nonblocking: bool, at: Option<u64>, buffer: &mut [u8]) -> Result<usize> {
        let position = at.map_or(StreamPosition::Current, StreamPosition::At);
        let read = StreamRead { stream: self.reader.get(), nonblocking, position };
        let len = buffer.len();
        let result = connector::call_interruptible(read, &(), buffer);
        self.readiness.forget(IN);
        Ok((result? as usize).min(len))
    }

    /// One write request.
    fn write_once(&self, nonblocking: bool, position: StreamPosition, bytes: &[u8]) -> Result<usize> {
        let write = StreamWrite { stream: self.writer.get(), nonblocking, position };
        let result = connector::call_interruptible(write, bytes, &mut ());
        self.readiness.forget(OUT);
        match result {
            Ok(written) => Ok((written as usize).min(bytes.len())),
            Err(Errno::EPIPE) => Err(crate::file::caller::broken_pipe()),
            Err(errno) => Err(errno),
        }
    }

    /// read(2), or pread(2) at an offset.
    fn read_from(&self, file: &File, at: Option<u64>, dst: &mut dyn Dst) -> Result<usize> {
        if self.is_terminal() {
            control().check_read()?;
        }
        let mut buffer = vfs::memory::buffer(dst.remaining().min(chunk(CHUNK)))?;
        let mut done = 0;
        // Only a regular file fills the whole destination.
        while dst.remaining() > 0 {
            let want = dst.remaining().min(chunk(CHUNK));
            let at = at.map(|at| at.saturating_add(done as u64));
            let got = match self.read_once(file.nonblocking(), at, &mut buffer[..want]) {
                Ok(got) => got,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            };
            match dst.put(&buffer[..got]) {
                Ok(put) => done += put,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
            if got < want || self.kind != StreamKind::File {
                break;
            }
        }
        Ok(done)
    }

    /// write(2), or pwrite(2) at an offset.
    fn write_to(&self, file: &File, at: Option<u64>, src: &mut dyn Src) -> Result<usize> {
        if self.is_terminal() && control().is_background() && self.stops_writers()? {
            control().check_change()?;
        }
        let mut small = [0; 512];
        let mut large;
        let buffer: &mut [u8] = if src.remaining() <= small.len() {
            &mut small
        } else {
            large = vfs::memory::buffer(src.remaining().min(chunk(CHUNK)))?;
            &mut large
        };
        // Linux ignores the offset with O_APPEND.
        let appends = self.kind == StreamKind::File && file.flags.get() & g::O_APPEND != 0;
        let place = |done: usize| match at {
            _ if appends => StreamPosition::Append,
            Some(at) => StreamPosition::At(at.saturating_add(done as u64)),
            None => StreamPosition::Current,
        };
        let mut done = 0;
        let end = |done: usize, errno: Errno| if done > 0 { Ok(done) } else { Err(errno) };
        while src.remaining() > 0 {
            let want = src.remaining().min(buffer.len());
            let got = match src.get(&mut buffer[..want]) {
                Ok(got) => got,
                Err(errno) => return end(done, errno),
            };
            let mut written = 0;
            while written < got {
                match self.write_once(file.nonblocking(), place(done + written), &buffer[written..got]) {
                    Ok(0) => return Ok(done + written),
                    Ok(n) => written += n,
                    Err(errno) => return end(done + written, errno),
                }
            }
            done += written;
            if got < want {
                break;
            }
        }
        Ok(done)
    }

    /// The offset of a transfer: devices have none. ESPIPE for pipes and terminals.
    fn offset(&self, offset: u64) -> Result<Option<u64>> {
        match self.kind {
            StreamKind::File => Ok(Some(offset)),
            StreamKind::Device => Ok(None),
            _ => Err(Errno::ESPIPE),
        }
    }
}

impl FileOps for Stream {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        match self.kind {
            StreamKind::File => Abilities::TRANSFER.with(Abilities::POSITIONS).with(Abilities::DIRECT),
            StreamKind::Device => Abilities::TRANSFER.with(Abilities::POSITIONS),
            _ => Abilities::STREAM.with(Abilities::DIRECT),
        }
    }

    // The attachments of the host's file: locks and changed attributes, which are local to the pod. `None` if the host does not identify the
    // file, or out of memory.
    fn host_attachments(&self) -> Option<Rc<Attachments>> {
        let attr = self.host_attr().ok()?;
        let key = (attr.dev, attr.ino);
        let mut files = HOST_FILES.borrow_mut();
        if let Some((_, found)) = files.iter().find(|(other, _)| *other == key) {
            return Some(found.clone());
        }
        files.try_reserve(1).ok()?;
        let new = Rc::<Attachments>::default();
        files.push((key, new.clone()));
        Some(new)
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        self.read_from(file, None, dst)
    }

    fn write(&self, file: &File, src: &mut dyn Src) -> Result<usize> {
        self.write_to(file, None, src)
    }

    fn read_at(&self, file: &File, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        self.read_from(file, self.offset(offset)?, dst)
    }

    fn write_at(&self, file: &File, offset: u64, src: &mut dyn Src) -> Result<usize> {
        self.write_to(file, self.offset(offset)?, src)
    }

    fn seek(&self, _file: &File, offset: i64, whence: u32) -> Result<u64> {
        match self.kind {
            StreamKind::File => {}
            // As for /dev/null.
            StreamKind::Device => return Ok(0),
            _ => return Err(Errno::ESPIPE),
        }
        let whence = Whence::from_word(whence.into()).ok_or(Errno::EINVAL)?;
        connector::call(StreamSeek { stream: self.number, offset, whence }, &(), &mut ())
    }

    fn attr(&self) -> Result<Attr> {
        Ok(self.with_replaced(self.host_attr()?))
    }

    fn set_attr(&self, make: &dyn Fn(&Attr) -> Result<Change>) -> Result<()> {
        self.replace(make)
    }

    fn poll(&self, _file: &File) -> u32 {
        if self.is_seekable() { IN | OUT } else { self.readiness.ready.get() }
    }

    fn poll_needs_prepare(&self) -> bool {
        !self.is_seekable()
    }

    fn poll_prepare(&self, _file: &File, events: u32, will_wait: bool) {
        let readiness = &self.readiness;
        let missing = |events: u32| events & (IN | OUT | g::POLLPRI | g::POLLRDHUP) & !readiness.ready.get();
        let asked = missing(events);
        if asked == 0 || readiness.armed.get() & asked == asked && !readiness.stale.get() {
            return;
        }
        let poll = StreamPoll { stream: self.number, events: asked as u16, nonblocking: true };
        // Without an answer no event is ready.
        if let Ok(events) = connector::call(poll, &(), &mut ()) {
            readiness.ready.set(readiness.ready.get() | events as u32);
        }
        if will_wait && readiness.ready.get() & (events | g::POLLHUP | g::POLLERR) == 0 {
            readiness.arm(missing(events));
        }
    }

    fn poll_queues(&self, _file: &File, _events: u32, out: &mut Queues) {
        if !self.is_seekable() {
            out.push(self.readiness.queue.clone());
        }
    }

    fn ioctl(&self, _file: &File, command: u32, arg: usize) -> Result<usize> {
        if self.is_terminal() { self.terminal_ioctl(command, arg) } else { Err(Errno::ENOTTY) }
    }

    /// Returns the same open file description of the host: the offset is shared, and O_TRUNC has no effect.
    fn reopen(&self, _file: &File, flags: u32) -> Result<Rc<File>> {
        let stream = self.me.upgrade().ok_or(Errno::ENXIO)?;
        Ok(File::new(stream, flags, None))
    }

    fn link_name(&self) -> Vec<u8> {
        match self.kind {
            StreamKind::Terminal => b"/dev/console".to_vec(),
            StreamKind::Pipe => {
                let attr = self.attr().unwrap_or_default();
                let kind = if attr.mode & g::S_IFMT == g::S_IFSOCK { "socket" } else { "pipe" };
                alloc::format!("{kind}:[{}]", attr.ino).into_bytes()
            }
            StreamKind::Device => b"/dev/null".to_vec(),
            // Its path on the host is unknown here.
            StreamKind::File | StreamKind::Closed => {
                alloc::format!("file:[{}]", self.attr().unwrap_or_default().ino).into_bytes()
            }
        }
    }
}
