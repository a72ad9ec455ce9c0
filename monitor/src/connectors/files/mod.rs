//! The files connector: host directories and files that the policy grants.
//!
//! Every path is opened beneath a descriptor that was opened before the guest ran, with
//! `openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)`: the monitor follows no symbolic link, ever.

mod ahead;
mod attr;
mod change;
mod covers;
mod dir;
mod export;
mod handles;
mod kernelfs;
mod late;
mod open;
mod path;
mod recent;
mod subject;
#[cfg(test)]
mod tests;
mod walk;
mod xattr;

pub use export::ExportConfig;
pub use kernelfs::OfKernel;
pub use late::Waker;
pub use path::RelPath;

use super::payload::{Output, copy_in};
use super::{Errno, Reply, Result, Window};
use crate::memory::GuestMemory;
use crate::memory::io::{GuestSlice, Wait};
use abi::request::{NodeAttr, Op, SetAttr};
use handles::Handles;
use late::{Late, SyncTimes};
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use subject::Subject;

/// Attributes of an open file in the guest's form.
pub fn attr_of_fd(fd: BorrowedFd<'_>) -> Result<NodeAttr> {
    attr::of_fd(fd).map(|stat| attr::node_attr(&stat))
}

/// Longest input of an operation on names: two paths, a name and a value.
const MAX_INPUT: usize = 2 * (path::MAX_PATH + 1) + 256 + xattr::MAX_SIZE;

/// fallocate(2) of this many bytes may take long.
const LONG_RANGE: u64 = 16 << 20;

/// Serves the file operations of one pod.
#[derive(Debug)]
pub struct FilesConnector {
    exports: Vec<ExportConfig>,
    handles: Handles,
    late: Late,
    syncs: Arc<SyncTimes>,
}

impl FilesConnector {
    /// A connector for `exports`, whose numbers must differ. Sets the process's file mode creation mask
    /// to 0: modes come from the guest, which has applied its program's mask already.
    pub fn new(mut exports: Vec<ExportConfig>) -> Self {
        rustix::process::umask(rustix::fs::Mode::empty());
        let share = (recent::MAX / exports.len().max(1)).max(1);
        exports.iter_mut().for_each(|export| export.recent.max = share);
        exports.sort_by_key(|export| export.id);
        Self { exports, handles: Handles::new(), late: Late::default(), syncs: Arc::default() }
    }

    /// Whether an operation is served here.
    pub fn serves(op: Op) -> bool {
        (Op::Walk as u32..=Op::Seek as u32).contains(&(op as u32))
    }

    /// Whom to wake when operations that took long are done.
    pub fn set_waker(&self, waker: Waker) {
        self.late.set_waker(waker);
    }

    /// Operations under way that complete late.
    pub fn pending(&self) -> usize {
        self.late.pending()
    }

    /// Late operations that are done by now.
    pub fn ready(&mut self) -> Vec<(u64, Result)> {
        let done = self.late.take();
        done.into_iter().map(|(id, finish)| (id, finish(&mut self.handles))).collect()
    }

    /// Serves an operation: at once, or late where it may take long (`None`). Everything in `args`, `input` and
    /// `output` is the guest's.
    pub fn start(
        &mut self,
        id: u64,
        op: Op,
        args: &[u64; 6],
        payload: (&[GuestSlice], &[GuestSlice]),
        memory: &Arc<GuestMemory>,
    ) -> Option<Result> {
        let work = match op {
            Op::Sync if self.syncs.are_slow() => open::late_sync(&self.handles, args, &self.syncs),
            Op::Fallocate if args[3] >= LONG_RANGE => open::late_fallocate(&self.handles, args),
            Op::Read => match open::read(&self.handles, args[0], args[1], payload.1, Wait::Never) {
                // Not in the page cache: a disk or server has to be read.
                Err(Errno::AGAIN) => open::late_read(&self.handles, args, payload.1, memory),
                Err(Errno::OPNOTSUPP) => return Some(self.handle(op, args, payload.0, payload.1, &**memory)),
                other => return Some(other),
            },
            _ => return Some(self.handle(op, args, payload.0, payload.1, &**memory)),
        };
        match work {
            Ok(work) => self.late.start(id, work, &mut self.handles),
            Err(errno) => Some(Err(errno)),
        }
    }

    /// Serves one operation at once. Everything in `args`, `input` and `output` is the guest's.
    pub fn handle(
        &mut self,
        op: Op,
        args: &[u64; 6],
        input: &[GuestSlice],
        output: &[GuestSlice],
        window: &dyn Window,
    ) -> Result {
        let handles = &mut self.handles;
        match op {
            Op::Close => return handles.remove(args[0]).map(|_| Reply::default()),
            Op::Read => return open::read(handles, args[0], args[1], output, Wait::Default),
            Op::Write => return open::write(handles, args[0], args[1], input, &mut Output::new(output)),
            Op::HandleAttr => return open::handle_attr(handles, args[0], &mut Output::new(output)),
            Op::Truncate => return open::truncate(handles, args[0], args[1]),
            Op::Fallocate => return open::fallocate(handles, args[0], args[1], args[2], args[3]),
            Op::Sync => return open::sync(handles, args, &self.syncs),
            Op::Seek => return open::seek(handles, args),
            Op::Map => return open::map(&self.exports, handles, args, window),
            Op::Unmap => return open::unmap(args, window),
            Op::Populate => return open::populate(args, window),
            _ if !Self::serves(op) => return Err(Errno::NOSYS),
            _ => {}
        }
        let id = u32::try_from(args[0]).map_err(|_| Errno::INVAL)?;
        let export = ExportConfig::find(&self.exports, id)?;
        let input = copy_in(input, MAX_INPUT)?;
        let out = &mut Output::new(output);
        let path = || RelPath::new(&input);
        match op {
            Op::Walk => walk::walk(export, args[1], path()?, out),
            Op::ReadDir => dir::read(export, handles, args, &input, out),
            Op::Open => open::open(export, handles, args, path()?, out),
            Op::Fetch => open::fetch(export, handles, args, path()?, out),
            Op::ReadLink => walk::read_link(export, path()?, out),
            Op::Mkdir => change::mkdir(export, args, path()?, out),
            Op::Mknod => change::mknod(export, args, path()?, out),
            Op::Symlink => change::symlink(export, args, &input, out),
            Op::Link => change::link(export, handles, args, &input, out),
            Op::Unlink => change::unlink(export, args, path()?),
            Op::Rename => change::rename(export, args, &input, out),
            Op::SetAttr => {
                let (head, rest) = input.split_at_checked(size_of::<SetAttr>()).ok_or(Errno::INVAL)?;
                attr::set(export, handles, (args[1], RelPath::new(rest)?), &bytemuck::pod_read_unaligned(head), out)
            }
            Op::StatFs => attr::stat_fs(export, path()?, out),
            Op::GetXattr => xattr::get(export, handles, args, &input, out),
            Op::ListXattr => xattr::list(&Subject::find(export, handles, args[1], path()?)?, out),
            Op::SetXattr => xattr::set(export, handles, args, &input),
            Op::RemoveXattr => xattr::remove(export, handles, args, &input),
            _ => Err(Errno::NOSYS),
        }
    }
}
