//! The table of thread, process, group and session ids.

use super::process::Session;
use super::{Process, Task};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use uapi::{Errno, Result};

/// Keel's own process id.
pub const INIT: i32 = 1;
/// Process id of the pod's first program.
pub const FIRST: i32 = 2;
/// Ids are below this, as on 64-bit Linux (`/proc/sys/kernel/pid_max`).
pub const PID_MAX: i32 = 4_194_304;

#[derive(Default)]
struct Entry {
    task: Option<Rc<Task>>,
    process: Option<Rc<Process>>,
}

static TABLE: Global<RefCell<BTreeMap<i32, Entry>>> = Global::new(RefCell::new(BTreeMap::new()));
static LAST: Global<Cell<i32>> = Global::new(Cell::new(INIT));
static ROOT: Global<RefCell<Option<Rc<Process>>>> = Global::new(RefCell::new(None));

/// Keel's own process, which adopts orphans.
pub fn init_process() -> Rc<Process> {
    if let Some(init) = ROOT.borrow().as_ref() {
        return init.clone();
    }
    let init = Process::new(INIT, 0, Session::new(0), [(u64::MAX, u64::MAX); 16], None);
    *ROOT.borrow_mut() = Some(init.clone());
    init
}

/// The last allocated id, for `/proc/loadavg`.
pub fn last() -> i32 {
    LAST.get()
}

/// Whether ids were chosen by clone3(2): then an id that was not allocated yet may be in use by a group or a session.
static CHOSEN: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Whether an id belongs to a thread, process, group or session. Groups and sessions may outlive their leaders: for
/// those, searches all processes.
pub(super) fn is_used(id: i32, with_groups: bool) -> bool {
    let table = TABLE.borrow();
    let of_group = |p: &Rc<Process>| p.group() == id || p.sid() == id;
    table.contains_key(&id) || with_groups && table.values().filter_map(|e| e.process.as_ref()).any(of_group)
}

/// Allocates the id that clone3(2) requested. EEXIST.
pub(super) fn choose(id: i32) -> Result<i32> {
    CHOSEN.set(true);
    if id == INIT || is_used(id, true) { Err(Errno::EEXIST) } else { Ok(id) }
}

/// Allocates a free id: of no thread, process, group or session. EAGAIN.
pub fn allocate() -> Result<i32> {
    let mut pid = LAST.get();
    for _ in 0..PID_MAX {
        pid = if pid + 1 >= PID_MAX { 300 } else { pid + 1 };
        // Ids can be reused only after they have wrapped.
        let wrapped = pid <= LAST.get() || LAST.get() >= PID_MAX;
        if !is_used(pid, wrapped || CHOSEN.get()) {
            LAST.set(pid);
            return Ok(pid);
        }
    }
    Err(Errno::EAGAIN)
}

/// Registers a thread, and the process that it leads.
pub(crate) fn enter(tid: i32, task: Rc<Task>, process: Option<Rc<Process>>) {
    let mut table = TABLE.borrow_mut();
    let entry = table.entry(tid).or_default();
    entry.task = Some(task);
    if process.is_some() {
        entry.process = process;
    }
}

/// Removes a thread. The entry stays while it names a process.
pub(crate) fn remove_task(tid: i32) -> Option<Rc<Task>> {
    let mut table = TABLE.borrow_mut();
    let entry = table.get_mut(&tid)?;
    let task = entry.task.take();
    if entry.process.is_none() {
        table.remove(&tid);
        drop(table);
        release(tid, task.as_ref().map(|task| &**task.process()));
    }
    task
}

/// The ids of a thread or process that has left the table are free in its PID namespaces, too.
fn release(id: i32, process: Option<&Process>) {
    if let Some(ns) = process.and_then(|process| process.pid_ns()) {
        ns.release(id);
    }
}

/// Removes a reaped process.
pub(crate) fn remove_process(pid: i32) {
    let gone = {
        let mut table = TABLE.borrow_mut();
        let Some(entry) = table.get_mut(&pid) else { return };
        let process = entry.process.take();
        if entry.task.is_none() {
            table.remove(&pid);
        }
        process
    };
    if !is_used(pid, false) {
        release(pid, gone.as_deref());
    }
    drop(gone);
}

/// The thread with this id.
pub fn find_task(tid: i32) -> Option<Rc<Task>> {
    TABLE.borrow().get(&tid)?.task.clone()
}

/// The thread with this id, for a call that requires rights over it: EPERM for keel's own process (pid 1). EPERM,
/// ESRCH.
pub fn find_subject(tid: i32) -> Result<Rc<Task>> {
    if tid == INIT {
        return Err(Errno::EPERM);
    }
    find_task(tid).ok_or(Errno::ESRCH)
}

/// The process with this id; zombies too.
pub fn find_process(pid: i32) -> Option<Rc<Process>> {
    TABLE.borrow().get(&pid)?.process.clone()
}

/// All processes by id.
pub fn processes() -> impl Iterator<Item = Rc<Process>> {
    let mut after = 0;
    core::iter::from_fn(move || {
        let table = TABLE.borrow();
        let mut later = table.range(after + 1..).filter_map(|(id, entry)| Some((*id, entry.process.clone()?)));
        let (id, process) = later.next()?;
        after = id;
        Some(process)
    })
}

/// Most threads of the pod, and how often one more was refused.
static LIMIT: Global<Cell<(Option<u64>, u64)>> = Global::new(Cell::new((None, 0)));

/// Limits the number of threads in the pod.
pub fn limit_threads(most: Option<u64>) {
    LIMIT.set((most, 0));
}

/// The limit for threads in the pod, and how often it was met.
pub fn thread_limit() -> (Option<u64>, u64) {
    LIMIT.get()
}

/// Whether the pod may have one more thread; counts refusals.
pub fn may_add_thread() -> bool {
    let (most, refused) = LIMIT.get();
    let may = most.is_none_or(|most| (thread_count() as u64) < most);
    if !may {
        LIMIT.set((most, refused.saturating_add(1)));
    }
    may
}

/// Number of threads in the pod.
pub fn thread_count() -> usize {
    TABLE.borrow().values().filter(|e| e.task.is_some()).count()
}
