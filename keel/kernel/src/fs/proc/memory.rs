//! Contents of a process's memory: `cmdline`, `environ`, `auxv`, `mem`, and its name, `comm`.

use super::subject::Subject;
use crate::mm::Mm;
use crate::task;
use abi::layout::{PAGE_SIZE, USER_TOP};
use alloc::rc::{Rc, Weak};
use alloc::vec;
use alloc::vec::Vec;
use uapi::{Errno, Result};
use vfs::Dst;
use vfs::synth::SynthFile;

/// Maximum bytes of arguments or environment that are read: the limit of execve(2).
const MOST: usize = 8 << 20;

/// Bytes of `[start, end)`, up to the first that is not there. ENOMEM.
fn read_range(mm: &Mm, start: usize, end: usize) -> Result<Vec<u8>> {
    let mut bytes = vfs::memory::buffer(end.saturating_sub(start).min(MOST))?;
    let n = mm.peek(start, &mut bytes);
    bytes.truncate(n);
    Ok(bytes)
}

/// The first bytes of the arguments. ENOMEM.
pub fn first_arguments(mm: &Mm, most: usize) -> Result<Vec<u8>> {
    let layout = mm.layout();
    read_range(mm, layout.arg_start, layout.arg_end.min(layout.arg_start.saturating_add(most)))
}

/// `cmdline`: the arguments as they are in memory now.
pub fn command_line(subject: &Subject) -> Result<Vec<u8>> {
    // World-readable.
    let Some(mm) = subject.task()?.and_then(|t| t.try_mm()) else { return Ok(Vec::new()) };
    let layout = mm.layout();
    let mut line = read_range(&mm, layout.arg_start, layout.arg_end)?;
    let overwritten =
        line.last().is_some_and(|&b| b != 0) && line.len() == layout.arg_end.saturating_sub(layout.arg_start);
    if overwritten {
        // A program that overwrote its arguments with a title may have continued into the environment.
        if layout.env_start == layout.arg_end {
            vfs::memory::append(&mut line, &read_range(&mm, layout.env_start, layout.env_end)?)?;
        }
        if let Some(end) = line.iter().position(|&b| b == 0) {
            line.truncate(end + 1);
        }
    }
    Ok(line)
}

/// `environ`: the environment that the program was started with.
pub fn environment(_subject: &Subject, mm: &Rc<Mm>) -> Result<Vec<u8>> {
    let layout = mm.layout();
    read_range(mm, layout.env_start, layout.env_end)
}

/// `auxv`.
pub fn auxiliary_vector(_subject: &Subject, mm: &Rc<Mm>) -> Result<Vec<u8>> {
    Ok(mm.auxv().iter().flat_map(|word| word.to_ne_bytes()).collect())
}

/// Name of a process or thread.
pub fn comm(subject: &Subject) -> Result<Vec<u8>> {
    if subject.is_keel() {
        return Ok(b"keel".to_vec());
    }
    Ok(match subject.task()? {
        Some(task) => {
            let (name, len) = task.comm();
            name[..len].to_vec()
        }
        None => subject.process()?.ended_comm(),
    })
}

/// `comm`.
pub fn name(subject: &Subject) -> Result<Vec<u8>> {
    let mut name = comm(subject)?;
    name.push(b'\n');
    Ok(name)
}

/// A write to `comm`: threads of the same process may. EINVAL.
pub fn rename(subject: &Subject, data: &[u8]) -> Result<()> {
    if task::with_current(|t| t.pid()) != subject.pid() {
        return Err(Errno::EINVAL);
    }
    let name = data.split(|&b| b == 0).next().unwrap_or_default();
    let name = &name[..name.len().min(15)];
    subject.living()?.set_comm(name);
    Ok(())
}

/// `ksm_stat`: no pages are merged.
pub fn merged_pages(subject: &Subject) -> Result<Vec<u8>> {
    subject.inspected()?;
    let names = ["ksm_rmap_items", "ksm_zero_pages", "ksm_merging_pages", "ksm_process_profit"];
    let mut text = names.map(|name| alloc::format!("{name} 0\n")).concat();
    text.push_str("ksm_merge_any: no\nksm_mergeable: no\n");
    Ok(text.into_bytes())
}

/// `mem`: the memory itself, by address.
pub struct Memory(pub Subject);

impl SynthFile for Memory {
    fn content(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn bind(&self) -> Result<Option<Rc<dyn SynthFile>>> {
        Ok(Some(Rc::new(OpenMemory(of_open_file(&self.0, false)?))))
    }
}

/// The memory for a file that is opened now. Keel's own is not accessible. EACCES, ESRCH.
pub fn of_open_file(subject: &Subject, read: bool) -> Result<Weak<Mm>> {
    match subject.memory_to_open(read)? {
        Some(mm) => Ok(Rc::downgrade(&mm)),
        None if subject.is_keel() => Ok(Weak::new()),
        None => Err(Errno::ESRCH),
    }
}

/// `mem` that is open.
struct OpenMemory(Weak<Mm>);

impl SynthFile for OpenMemory {
    fn has_pwrite(&self) -> bool {
        true
    }

    fn content(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn read_at(&self, offset: u64, dst: &mut dyn Dst) -> Option<Result<usize>> {
        Some(self.read(offset, dst))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let Some(mm) = self.0.upgrade() else { return Ok(0) };
        let address = address(offset)?;
        match mm.poke_forced(address, data) {
            0 if !data.is_empty() => Err(Errno::EIO),
            n => Ok(n),
        }
    }
}

impl OpenMemory {
    fn read(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        let Some(mm) = self.0.upgrade() else { return Ok(0) };
        let mut at = address(offset)?;
        let mut page = vec![0; PAGE_SIZE];
        let mut done = 0;
        while dst.remaining() > 0 {
            let want = dst.remaining().min(PAGE_SIZE - at % PAGE_SIZE);
            let got = mm.peek(at, &mut page[..want]);
            let put = if got == 0 { Err(Errno::EIO) } else { dst.put(&page[..got]) };
            match put {
                Ok(n) => (done, at) = (done + n, at + n),
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
            if got < want {
                break;
            }
        }
        Ok(done)
    }
}

/// Converts an offset to an address. EIO beyond the user address range.
fn address(offset: u64) -> Result<usize> {
    usize::try_from(offset).ok().filter(|&at| at < USER_TOP).ok_or(Errno::EIO)
}
