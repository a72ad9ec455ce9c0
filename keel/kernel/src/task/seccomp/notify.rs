//! Calls that a supervisor process handles, seccomp_unotify(2).
//!
//! A filter may have one [`Listener`], which is a file. A thread whose filter returned SECCOMP_RET_USER_NOTIF queues a
//! [`Notification`] there and waits. The supervisor receives notifications by ioctl(2) and answers them by id.

use crate::file::{self, Abilities, File, FileOps, Queues};
use crate::mm::user;
use crate::sched::wait::{Interrupt, WaitQueue, wait_until};
use crate::task::descriptors;
use crate::task::descriptors::current_file;
use crate::task::{Task, current};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use keel_core::bpf::seccomp::DATA_LEN;
use keel_core::pieces::Pieces;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::Attr;

/// Requests of ioctl(2).
const RECV: u32 = 0xc050_2100;
const SEND: u32 = 0xc018_2101;
const ID_VALID: u32 = 0x4008_2102;
/// The original definition, with the wrong direction.
const ID_VALID_OLD: u32 = 0x8008_2102;
const ADDFD: u32 = 0x4018_2103;
const SET_FLAGS: u32 = 0x4008_2104;
/// Direction and size, which may differ for [`ADDFD`].
const DIRECTION: u32 = 0xc000_0000;
const SIZE: u32 = 0x3fff_0000;

/// Bytes of `struct seccomp_notif`, `seccomp_notif_resp` and `seccomp_data`, for `SECCOMP_GET_NOTIF_SIZES`.
pub(super) const SIZES: [u16; 3] = [NOTIFICATION_LEN as u16, 24, DATA_LEN as u16];
const NOTIFICATION_LEN: usize = 16 + DATA_LEN;
/// Bytes of `struct seccomp_notif_addfd`.
const ADDFD_LEN: usize = 24;

/// Flag of an answer: make the call (`SECCOMP_USER_NOTIF_FLAG_CONTINUE`).
const CONTINUE: u32 = 1;
/// Flags of ADDFD: use this number; and answer the call with it.
const ADDFD_SETFD: u32 = 1;
const ADDFD_SEND: u32 = 2;
/// Flag of a listener: wake on the same processor. A hint.
const SYNC_WAKE_UP: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not received yet.
    New,
    /// Received by the supervisor.
    Taken,
    /// Answered with this result.
    Answered(i64),
    /// The call must be made.
    Passed,
}

/// A call that waits for its answer.
#[derive(Debug)]
struct Notification {
    id: u64,
    task: Rc<Task>,
    call: [u8; DATA_LEN],
    state: Cell<State>,
    changed: Rc<WaitQueue>,
}

impl Notification {
    fn become_(&self, state: State) {
        self.state.set(state);
        self.changed.wake_all();
    }
}

/// Queue of the calls that a filter passes to its listener (SECCOMP_RET_USER_NOTIF).
#[derive(Debug)]
pub(super) struct Listener {
    waiting: RefCell<Pieces<Rc<Notification>>>,
    next_id: Cell<u64>,
    /// The listener is closed.
    closed: Cell<bool>,
    /// No thread uses the filter any more.
    orphaned: Cell<bool>,
    /// After it was received, only a fatal signal interrupts the wait.
    wait_killable: bool,
    changed: Rc<WaitQueue>,
}

/// Outcome of a notification.
pub(super) enum Outcome {
    /// Make the call.
    Pass,
    /// Return this result.
    Result(i64),
    /// Interrupted by a signal: restart the call or fail with EINTR.
    Interrupted,
}

impl Listener {
    pub(super) fn new(wait_killable: bool) -> Rc<Self> {
        Rc::new(Self {
            waiting: RefCell::default(),
            // Linux starts with a random id.
            next_id: Cell::new(hal::clock::monotonic_ns()),
            closed: Cell::new(false),
            orphaned: Cell::new(false),
            wait_killable,
            changed: Rc::default(),
        })
    }

    /// Installs a descriptor of it in the current process. EMFILE.
    pub(super) fn install(self: &Rc<Self>) -> Result<i32> {
        descriptors::install(File::new(Rc::new(ListenerFile(self.clone())), g::O_RDWR, None), g::O_CLOEXEC)
    }

    /// Whether it is open.
    pub(super) fn is_open(&self) -> bool {
        !self.closed.get()
    }

    /// No thread uses the filter any more.
    pub(super) fn orphan(&self) {
        self.orphaned.set(true);
        self.changed.wake_all();
    }

    /// Queues the current thread's call and waits.
    pub(super) fn ask(&self, call: [u8; DATA_LEN]) -> Outcome {
        if self.closed.get() {
            return Outcome::Result(-i64::from(Errno::ENOSYS.code()));
        }
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        let notification =
            Rc::new(Notification { id, task: current(), call, state: Cell::new(State::New), changed: Rc::default() });
        self.waiting.borrow_mut().push_back(notification.clone());
        self.changed.wake_all();
        let outcome = self.wait(&notification);
        self.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, &notification));
        outcome
    }

    fn wait(&self, notification: &Notification) -> Outcome {
        loop {
            let state = notification.state.get();
            match state {
                State::Answered(result) => return Outcome::Result(result),
                State::Passed => return Outcome::Pass,
                State::New | State::Taken => {}
            }
            let is_killable = |state| self.wait_killable && state == State::Taken;
            let interrupt = if is_killable(state) { Interrupt::ByKill } else { Interrupt::BySignal };
            let moved = || (notification.state.get() != state).then_some(());
            if wait_until(core::slice::from_ref(&notification.changed), None, interrupt, moved).is_err() {
                return Outcome::Interrupted;
            }
        }
    }

    fn find(&self, id: u64) -> Result<Rc<Notification>> {
        self.waiting.borrow().iter().find(|n| n.id == id).cloned().ok_or(Errno::ENOENT)
    }

    /// Like [`Listener::find`]; the notification must have been received and not answered. ENOENT, EINPROGRESS.
    fn find_taken(&self, id: u64) -> Result<Rc<Notification>> {
        let found = self.find(id)?;
        if found.state.get() == State::Taken { Ok(found) } else { Err(Errno::EINPROGRESS) }
    }

    fn first_new(&self) -> Option<Rc<Notification>> {
        self.waiting.borrow().iter().find(|n| n.state.get() == State::New).cloned()
    }

    /// Writes the next notification to `at`. EFAULT, EINVAL, ENOTCONN, ERESTARTSYS.
    fn receive(&self, at: usize) -> Result<()> {
        let mut bytes = [0; NOTIFICATION_LEN];
        user::read_bytes(at, &mut bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Err(Errno::EINVAL);
        }
        let next = || match self.first_new() {
            Some(found) => Some(Ok(found)),
            None => self.orphaned.get().then_some(Err(Errno::ENOTCONN)),
        };
        let found = wait_until(core::slice::from_ref(&self.changed), None, Interrupt::BySignal, next)??;
        found.become_(State::Taken);
        self.changed.wake_all();
        bytes[..8].copy_from_slice(&found.id.to_le_bytes());
        bytes[8..12].copy_from_slice(&crate::task::pidns::shown(found.task.tid()).to_le_bytes());
        bytes[16..].copy_from_slice(&found.call);
        user::write_bytes(at, &bytes).inspect_err(|_| {
            // Requeue it.
            if found.state.get() == State::Taken {
                found.become_(State::New);
                self.changed.wake_all();
            }
        })
    }

    /// An answer. EFAULT, EINPROGRESS, EINVAL, ENOENT.
    fn send(&self, at: usize) -> Result<()> {
        let [id, value, rest]: [u64; 3] = user::read(at)?;
        let (error, flags) = (rest as i32, (rest >> 32) as u32);
        if flags & !CONTINUE != 0 || flags & CONTINUE != 0 && (error != 0 || value != 0) {
            return Err(Errno::EINVAL);
        }
        let result = if error != 0 { i64::from(error) } else { value as i64 };
        let answer = if flags & CONTINUE != 0 { State::Passed } else { State::Answered(result) };
        self.find_taken(id)?.become_(answer);
        Ok(())
    }

    fn is_valid(&self, at: usize) -> Result<()> {
        let id: u64 = user::read(at)?;
        self.find_taken(id).map(|_| ()).map_err(|_| Errno::ENOENT)
    }

    /// Installs a descriptor in the caller; returns its number. EBADF, EFAULT, EINPROGRESS, EINVAL, EMFILE, ENOENT,
    /// ESRCH.
    fn add_descriptor(&self, at: usize, size: usize) -> Result<i32> {
        if !(ADDFD_LEN..abi::layout::PAGE_SIZE).contains(&size) {
            return Err(Errno::EINVAL);
        }
        let [id, head, tail]: [u64; 3] = user::read(at)?;
        for i in ADDFD_LEN..size {
            if user::read::<u8>(at.wrapping_add(i))? != 0 {
                return Err(Errno::E2BIG);
            }
        }
        let (flags, source) = (head as u32, (head >> 32) as i32);
        let (wanted, descriptor_flags) = (tail as i32, (tail >> 32) as u32);
        let sets = flags & ADDFD_SETFD != 0;
        if descriptor_flags & !g::O_CLOEXEC != 0 || flags & !(ADDFD_SETFD | ADDFD_SEND) != 0 || wanted != 0 && !sets {
            return Err(Errno::EINVAL);
        }
        let file = current_file(source)?;
        let target = self.find_taken(id)?;
        let files = target.task.try_files().ok_or(Errno::ESRCH)?;
        let close_on_exec = descriptor_flags & g::O_CLOEXEC != 0;
        let descriptor = if sets {
            files.replace(wanted, file, close_on_exec)?;
            wanted
        } else {
            files.insert(file, close_on_exec)?
        };
        if flags & ADDFD_SEND != 0 {
            target.become_(State::Answered(i64::from(descriptor)));
        }
        Ok(descriptor)
    }
}

/// The descriptor of a listener.
struct ListenerFile(Rc<Listener>);

impl FileOps for ListenerFile {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::NONE
    }

    fn attr(&self) -> Result<Attr> {
        Ok(file::anon::anon_attr())
    }

    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:seccomp notify".to_vec()
    }

    fn ioctl(&self, _file: &File, command: u32, arg: usize) -> Result<usize> {
        let listener = &self.0;
        match command {
            RECV => listener.receive(arg).map(|()| 0),
            SEND => listener.send(arg).map(|()| 0),
            ID_VALID | ID_VALID_OLD => listener.is_valid(arg).map(|()| 0),
            SET_FLAGS if arg & !SYNC_WAKE_UP == 0 => Ok(0),
            _ if command & !(DIRECTION | SIZE) == ADDFD & !(DIRECTION | SIZE) => {
                listener.add_descriptor(arg, ((command & SIZE) >> 16) as usize).map(|fd| fd as usize)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn poll(&self, _file: &File) -> u32 {
        let mut events = if self.0.orphaned.get() { g::POLLHUP } else { 0 };
        for notification in self.0.waiting.borrow().iter() {
            events |= match notification.state.get() {
                State::New => g::POLLIN | g::POLLRDNORM,
                State::Taken => g::POLLOUT | g::POLLWRNORM,
                _ => 0,
            };
        }
        events
    }

    fn poll_queues(&self, _file: &File, _events: u32, out: &mut Queues) {
        out.push(self.0.changed.clone());
    }

    fn release(&self, _file: &File) {
        self.0.closed.set(true);
        for notification in vfs::memory::items(&self.0.waiting) {
            if matches!(notification.state.get(), State::New | State::Taken) {
                notification.become_(State::Answered(-i64::from(Errno::ENOSYS.code())));
            }
        }
    }
}
