//! Properties of the running thread, for memory management, open files and sockets.

use super::cred::cap;
use super::{current, descriptors, oom, pid, pidfd, pidns, process, try_with_current, with_current};
use crate::cred::Cred;
use crate::file::caller::ProcessRef;
use crate::file::{self, FdTable, File};
use crate::mm::Mm;
use crate::mm::caller::Caller;
use crate::siginfo::{SigInfo, code};
use crate::signal;
use crate::socket::netns::NetNs;
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::{Inode, PathRef};

/// The running thread.
#[derive(Debug)]
pub struct Current;

impl Caller for Current {
    fn space(&self) -> Rc<Mm> {
        with_current(|me| me.mm())
    }

    fn make_room(&self, address: usize) {
        oom::make_room(address);
    }

    fn may_lock(&self, locked: u64, bytes: u64) -> Result<()> {
        let me = current();
        let limit = me.limit(g::RLIMIT_MEMLOCK);
        match () {
            () if me.cred().capable(cap::IPC_LOCK) => Ok(()),
            () if limit == 0 => Err(Errno::EPERM),
            () if locked.saturating_add(bytes) <= limit => Ok(()),
            () => Err(Errno::ENOMEM),
        }
    }

    fn may_map_low(&self) -> bool {
        with_current(|me| me.cred().capable(cap::SYS_RAWIO))
    }
}

impl file::caller::Caller for Current {
    fn cred(&self) -> Rc<Cred> {
        with_current(|me| me.cred())
    }

    fn pid(&self) -> i32 {
        with_current(|me| me.pid())
    }

    fn named(&self, id: i32) -> i32 {
        pidns::named(id)
    }

    fn shown(&self, id: i32) -> i32 {
        pidns::shown(id)
    }

    fn limit(&self, resource: u32) -> u64 {
        try_with_current(|me| Some(me.limit(resource))).unwrap_or(u64::MAX)
    }

    fn file(&self, fd: i32) -> Result<Rc<File>> {
        super::descriptors::current_file_raw(fd)
    }

    fn install_at(&self, address: usize, file: Rc<File>, flags: u32) -> Result<()> {
        super::descriptors::install_at(address, file, flags)
    }

    fn close(&self, fd: i32) {
        // Another thread may have closed it.
        let _ = current().files().close(fd);
    }

    fn process(&self) -> ProcessRef {
        current().process().clone()
    }

    fn find_process(&self, pid: i32) -> Option<ProcessRef> {
        pid::find_process(pid).map(|process| process as ProcessRef)
    }

    fn open_pidfd(&self, process: &ProcessRef) -> Result<i32> {
        let process = process.clone().downcast().map_err(|_| Errno::ESRCH)?;
        pidfd::open(&process, 0)
    }

    fn broken_pipe(&self) {
        let me = current();
        let info = SigInfo::from_process(g::SIGPIPE, code::USER, me.pid(), me.cred().uid);
        // Never fails: there is always room for standard signals.
        let _ = signal::send_to_task(&me, info);
    }

    fn is_process(&self, pid: i32) -> bool {
        pid::find_process(pid).is_some()
    }

    fn is_owner(&self, id: i32) -> bool {
        id == pid::INIT
            || pid::find_task(id).is_some()
            || pid::find_process(id).is_some()
            || process::of_group(id).next().is_some()
    }

    fn signal(&self, kind: u32, id: i32, info: SigInfo) -> bool {
        match kind {
            g::F_OWNER_TID => pid::find_task(id).is_none_or(|task| signal::send_to_task(&task, info).is_ok()),
            g::F_OWNER_PGRP => {
                signal::send_to_group(id, info);
                true
            }
            _ => pid::find_process(id).is_none_or(|process| signal::send_to_process(&process, info).is_ok()),
        }
    }

    fn each_table(&self, f: &mut dyn FnMut(&FdTable) -> Result<()>) -> Result<()> {
        for process in process::all() {
            if let Some(files) = process.main_thread().and_then(|thread| thread.try_files()) {
                f(&files)?;
            }
        }
        Ok(())
    }

    fn install(&self, file: Rc<File>, flags: u32) -> Result<i32> {
        descriptors::install(file, flags)
    }
}

impl crate::socket::caller::Caller for Current {
    fn net(&self) -> Rc<NetNs> {
        super::namespaces::net_here()
    }

    fn create_node(&self, name: &[u8], mode: u32) -> Result<PathRef> {
        super::path::create_socket_node(name, mode)
    }

    fn find_node(&self, name: &[u8]) -> Result<Rc<dyn Inode>> {
        super::path::find_socket_node(name)
    }
}
