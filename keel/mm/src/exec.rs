//! Loading programs, execve(2): static and position-independent ELF executables and their interpreter.

use super::area::{Area, AreaFlags, Backing, FileBacking, FileName, STACK_GUARD_GAP};
use super::text::PatchedText;
use super::{Access, ExecRequest, Inner, Layout, Limits, Mm, StartPoint, page_down};
use abi::layout::{PAGE_SIZE, USER_MIN, USER_TOP};
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use hal::frame::Frame;
use hal::paging::Prot;
use keel_core::elf::{self, HEADER_SIZE, Header, Image, Kind, Segment};
use keel_core::stack::{self, Contents};
use uapi::raw::auxvec as a;
use uapi::{Errno, Result};
use vfs::Inode;
use vfs::io::KernelDst;

/// Load address of position-independent programs: Linux's ELF_ET_DYN_BASE without randomisation.
const DYNAMIC_BASE: usize = 0x5555_5555_4000;
/// First address above the stack.
const STACK_TOP: usize = USER_TOP;
/// The stack's mapping extends this far below its initial contents.
const STACK_ROOM: usize = 128 << 10;
/// Pages below the initial contents that are populated at the start.
const STACK_PRESENT: usize = 12;
/// Maximum pages of a text or read-only segment that are populated at the start.
const TEXT_PRESENT: usize = 512;
/// Maximum pages of a data segment that are copied at the start.
const DATA_PRESENT: usize = 64;
/// Zero pages after a data segment that are populated at the start.
const ZERO_PRESENT: usize = 8;

/// An executable or interpreter with its parsed headers.
struct Program {
    file: Rc<FileBacking>,
    image: Image,
}

/// Used bytes of `struct rseq`, `AT_RSEQ_FEATURE_SIZE`.
const RSEQ_FEATURE_SIZE: u32 = 28;
/// Alignment of `struct rseq`, `AT_RSEQ_ALIGN`.
pub const RSEQ_ALIGN: usize = 32;

/// Errno if memory is accessed while a program is loaded and the file can't be read.
const LOAD_FAILED: Errno = Errno::EFAULT;

impl Mm {
    /// Loads a program into a new address space. ENOEXEC, ENOMEM, E2BIG, ELIBBAD, EACCES … The caller activates it
    /// afterwards.
    pub fn exec(request: &ExecRequest<'_>) -> Result<(Rc<Self>, StartPoint)> {
        let name = FileName::Text(request.filename.to_vec());
        let program = Program::read(request.inode.clone(), name)?;
        let interpreter = program.interpreter(request)?;

        let mut inner = Inner::new(request.stack_limit)?;
        inner.rules = request.before.map_or_else(Default::default, Mm::inherited_rules);
        let mut layout = Layout::default();
        let bias = program.choose_bias(&inner, interpreter.is_some())?;
        let at = |addr: u64| bias.wrapping_add(addr as usize);
        inner.add_segments(&program, bias)?;
        program.describe(bias, &mut layout);
        let heap = match program.image.header.kind {
            // A program without interpreter may be an interpreter itself: keep its heap away from the programs that it
            // loads.
            Kind::Dynamic if interpreter.is_none() => DYNAMIC_BASE,
            _ => at(program.image.end()),
        };
        layout.start_brk = heap;
        inner.brk = heap;
        inner.freestanding = interpreter.is_none() && program.image.header.kind == Kind::Fixed;

        layout.vdso = inner.map_vdso();
        let mut loaded = None;
        if let Some(interpreter) = &interpreter {
            let bias = interpreter.choose_bias(&inner, false).map_err(interpreter_error)?;
            inner.add_segments(interpreter, bias).map_err(interpreter_error)?;
            loaded = Some(bias);
        }
        let entry = match (&interpreter, loaded) {
            (Some(interpreter), Some(bias)) => bias.wrapping_add(interpreter.image.header.entry as usize),
            _ => at(program.image.header.entry),
        };
        let contents = Contents {
            argv: if request.argv.is_empty() { &[Vec::new()] } else { request.argv },
            envp: request.envp,
            filename: request.given,
            random: sched::random::bytes(),
            auxv: auxiliary(request, &program.image, bias, loaded.unwrap_or(0), layout.vdso),
            limit: request.stack_limit,
        };
        let stack = stack::build(&contents, STACK_TOP)?;
        (layout.arg_start, layout.arg_end) = (stack.args.start, stack.args.end);
        (layout.env_start, layout.env_end) = (stack.env.start, stack.env.end);
        layout.start_stack = stack.start;
        let exec_stack = program.image.exec_stack == Some(true);
        inner.add_stack(&stack, exec_stack, request.stack_limit)?;

        // Only after all mappings exist: trampolines of patched text need free address space.
        inner.fill(&program, bias)?;
        if let (Some(interpreter), Some(bias)) = (&interpreter, loaded) {
            inner.fill(interpreter, bias)?;
        }
        let limits = Limits { stack: request.stack_limit, ..Limits::default() };
        let start = StartPoint { instruction: entry as u64, stack: stack.start as u64 };
        Ok((Self::new(inner, layout, limits, Some(program.file), stack.auxv), start))
    }
}

/// Maps errors of the interpreter to those of execve.
fn interpreter_error(errno: Errno) -> Errno {
    if errno == Errno::ENOEXEC { Errno::ELIBBAD } else { errno }
}

impl Program {
    /// Reads and checks the headers. ENOEXEC, EINVAL, ENOMEM.
    fn read(inode: Rc<dyn Inode>, name: FileName) -> Result<Self> {
        // Linkers put the table after the header: one read gets both.
        let mut head = vec![0; 1024];
        let len = inode.read_at(0, &mut KernelDst(&mut head))?;
        head.truncate(len);
        let header = Header::parse(head.get(..HEADER_SIZE.min(len)).unwrap_or(&[]))?;
        let table_start = usize::try_from(header.table_offset).map_err(|_| Errno::ENOEXEC)?;
        let table_end = table_start.checked_add(header.table_len()).ok_or(Errno::ENOEXEC)?;
        let image = match head.get(table_start..table_end) {
            Some(table) => Image::parse(header, table, USER_TOP as u64)?,
            None => {
                let table = read_exactly(&inode, header.table_offset, header.table_len())?;
                Image::parse(header, &table.ok_or(Errno::ENOEXEC)?, USER_TOP as u64)?
            }
        };
        PatchedText::refresh(&inode);
        Ok(Self { file: FileBacking::new(inode, name), image })
    }

    /// The interpreter that the program names.
    fn interpreter(&self, request: &ExecRequest<'_>) -> Result<Option<Self>> {
        let Some((offset, len)) = self.image.interpreter else { return Ok(None) };
        let path = elf::interpreter_path(&read_exactly(&self.file.inode, offset, len)?.ok_or(Errno::EIO)?)?;
        let opened = (request.open_interpreter)(&path)?;
        let place = opened.place.clone();
        let interpreter = Self::read(place.inode().clone(), FileName::Path(place)).map_err(interpreter_error)?;
        Ok(Some(interpreter))
    }

    /// The load bias. ENOMEM.
    fn choose_bias(&self, inner: &Inner, has_interpreter: bool) -> Result<usize> {
        if self.image.header.kind == Kind::Fixed {
            return Ok(0);
        }
        let (start, end) = (self.image.start() as usize, self.image.end() as usize);
        let align = (self.image.align as usize).max(PAGE_SIZE);
        let len = end - start;
        let place = if has_interpreter {
            let place = DYNAMIC_BASE & !(align - 1);
            if place.checked_add(len).is_none_or(|end| end > USER_TOP) {
                return Err(Errno::ENOMEM);
            }
            place
        } else {
            let slack = align - PAGE_SIZE;
            let gap = super::area::TRAMPOLINE_ROOM;
            let room = len.checked_add(slack).ok_or(Errno::ENOMEM)?;
            let found = inner.vmas.find_free(room, USER_MIN, inner.mmap_base, gap).ok_or(Errno::ENOMEM)?;
            (found + slack) & !(align - 1)
        };
        // Keep the alignment: segments have the same offset within an alignment unit.
        Ok(place.wrapping_sub(start & !(align - 1)))
    }

    /// Records the addresses of text and data.
    fn describe(&self, bias: usize, layout: &mut Layout) {
        let at = |addr: u64| bias.wrapping_add(addr as usize);
        layout.start_code = usize::MAX;
        for s in &self.image.segments {
            let (start, end) = (at(s.addr), at(s.addr + s.file_len));
            layout.start_code = layout.start_code.min(start);
            layout.start_data = layout.start_data.max(start);
            if s.exec {
                layout.end_code = layout.end_code.max(end);
            }
            layout.end_data = layout.end_data.max(end);
        }
    }
}

/// Reads `len` bytes at `offset`; `None` at the end of the file.
fn read_exactly(inode: &Rc<dyn Inode>, offset: u64, len: usize) -> Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; len];
    let got = inode.read_at(offset, &mut KernelDst(&mut bytes))?;
    Ok((got == len).then_some(bytes))
}

fn segment_prot(s: &Segment) -> Prot {
    let mut prot = Prot::empty();
    prot.set(Prot::READ, s.read);
    prot.set(Prot::WRITE, s.write);
    prot.set(Prot::EXEC, s.exec);
    prot
}

/// The auxiliary vector, getauxval(3), in Linux's order.
fn auxiliary(request: &ExecRequest<'_>, image: &Image, bias: usize, base: usize, vdso: usize) -> Vec<[u64; 2]> {
    let at = |addr: u64| bias.wrapping_add(addr as usize) as u64;
    let (hwcap, hwcap2) = hal::cpu::hwcap();
    let [uid, euid, gid, egid] = request.ids.map(u64::from);
    let mut list = Vec::new();
    let mut add = |kind: u32, value: u64| list.push([u64::from(kind), value]);
    if vdso != 0 {
        add(a::AT_SYSINFO_EHDR, vdso as u64);
    }
    add(a::AT_MINSIGSTKSZ, min_signal_stack());
    add(a::AT_HWCAP, hwcap);
    add(a::AT_PAGESZ, PAGE_SIZE as u64);
    add(a::AT_CLKTCK, 100);
    add(a::AT_PHDR, image.table_addr.map_or(0, at));
    add(a::AT_PHENT, elf::PROGRAM_HEADER_SIZE as u64);
    add(a::AT_PHNUM, u64::from(image.header.table_count));
    add(a::AT_BASE, base as u64);
    add(a::AT_FLAGS, 0);
    add(a::AT_ENTRY, at(image.header.entry));
    add(a::AT_UID, uid);
    add(a::AT_EUID, euid);
    add(a::AT_GID, gid);
    add(a::AT_EGID, egid);
    add(a::AT_SECURE, u64::from(request.secure));
    add(a::AT_HWCAP2, hwcap2);
    add(a::AT_RSEQ_FEATURE_SIZE, u64::from(RSEQ_FEATURE_SIZE));
    add(a::AT_RSEQ_ALIGN, RSEQ_ALIGN as u64);
    list
}

/// Size of the largest signal frame: return address, context, siginfo, extended registers with their trailer, and
/// alignment.
fn min_signal_stack() -> u64 {
    (8 + 304 + 128 + hal::fpu::xsave_size() + 4 + 63 + 8).next_multiple_of(16) as u64
}

impl Inner {
    /// Adds the mappings of an image. ENOMEM, EEXIST: the range is in use.
    fn add_segments(&mut self, program: &Program, bias: usize) -> Result<()> {
        let at = |addr: u64| bias.wrapping_add(addr as usize);
        let (start, end) = (at(program.image.start()), at(program.image.end()));
        if start >= end || end > USER_TOP - STACK_GUARD_GAP {
            return Err(Errno::ENOMEM);
        }
        if start < USER_MIN {
            return Err(Errno::EPERM);
        }
        if !self.vmas.is_free(start, end) {
            return Err(Errno::EEXIST);
        }
        for (i, s) in program.image.segments.iter().enumerate() {
            let prot = segment_prot(s);
            let (start, file_end, end) = (at(s.page_start()), at(s.file_end()), at(s.page_end()));
            if s.file_len != 0 {
                let mut flags = AreaFlags::IMAGE;
                flags.set(AreaFlags::TRAMPOLINES, i == 0);
                let zeroes = s.mem_len > s.file_len && (s.addr + s.file_len) % PAGE_SIZE as u64 != 0;
                flags.set(AreaFlags::WAS_WRITABLE, s.write || zeroes);
                let backing = Backing::File(program.file.clone(), s.page_offset() / PAGE_SIZE as u64);
                self.vmas.insert(start, file_end, Area { flags, backing, ..Area::anonymous(prot) });
            }
            // A page shared with the previous segment belongs to that.
            let zero_start = if s.file_len == 0 { self.first_free(start) } else { file_end };
            self.vmas.insert(zero_start, end, Area::anonymous(prot));
        }
        Ok(())
    }

    /// `start`, or the next page if `start` is mapped.
    fn first_free(&self, start: usize) -> usize {
        self.vmas.find(start).map_or(start, |v| v.end)
    }

    /// Populates pages of an image: all of small segments, the beginning of large ones.
    fn fill(&mut self, program: &Program, bias: usize) -> Result<()> {
        let at = |addr: u64| bias.wrapping_add(addr as usize);
        for s in &program.image.segments {
            let (start, file_end) = (at(s.page_start()), at(s.file_end()));
            let tail = (s.addr + s.file_len) as usize % PAGE_SIZE;
            if s.file_len != 0 && s.mem_len > s.file_len && tail != 0 {
                self.fill_tail(program, file_end - PAGE_SIZE, segment_prot(s), tail)?;
            }
            if s.file_len != 0 {
                let most = if s.write { DATA_PRESENT } else { TEXT_PRESENT };
                let access = if s.write { Access::Write } else { Access::Read };
                self.prefault(start, file_end.min(start + most * PAGE_SIZE), access);
            }
            if s.write && s.mem_len > s.file_len {
                self.prefault(file_end, at(s.page_end()).min(file_end + ZERO_PRESENT * PAGE_SIZE), Access::Write);
            }
        }
        Ok(())
    }

    /// The last page of a segment's file bytes, followed by zeros.
    fn fill_tail(&mut self, program: &Program, va: usize, prot: Prot, tail: usize) -> Result<()> {
        let vma = self.vmas.find(va).ok_or(LOAD_FAILED)?;
        let Some((_, first)) = vma.attrs.file() else { return Err(LOAD_FAILED) };
        let page = first + ((va - vma.start) / PAGE_SIZE) as u64;
        let frames = program.file.inode.pages(page, 1, false).map_err(|e| match e {
            Errno::ENXIO => LOAD_FAILED,
            other => other,
        })?;
        let source = frames.first().ok_or(LOAD_FAILED)?;
        let copy = Frame::alloc().ok_or(Errno::ENOMEM)?;
        copy.copy_from(source);
        copy.zero(tail, PAGE_SIZE - tail);
        let prot = if prot.is_empty() { prot } else { prot | Prot::READ };
        self.space.map(va, copy, prot).ok_or(Errno::ENOMEM)
    }

    /// Adds the stack with its initial contents. ENOMEM.
    fn add_stack(&mut self, stack: &stack::Image, exec: bool, limit: u64) -> Result<()> {
        let mut prot = Prot::READ | Prot::WRITE;
        prot.set(Prot::EXEC, exec);
        let first = page_down(stack.start);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let lowest = STACK_TOP - page_down(limit.min(USER_TOP / 2));
        let bottom = (first - STACK_ROOM).max(lowest).min(first);
        let flags = AreaFlags::GROWS_DOWN | AreaFlags::MAIN_STACK;
        self.vmas.insert(bottom, STACK_TOP, Area { flags, ..Area::anonymous(prot) });
        for va in (first.saturating_sub(STACK_PRESENT * PAGE_SIZE).max(bottom)..STACK_TOP).step_by(PAGE_SIZE) {
            let frame = Frame::alloc_zeroed().ok_or(Errno::ENOMEM)?;
            let from = stack.start.max(va);
            if from < va + PAGE_SIZE {
                let offset = from - stack.start;
                let len = (va + PAGE_SIZE - from).min(stack.bytes.len() - offset);
                frame.write(from - va, &stack.bytes[offset..offset + len]);
            }
            self.space.map(va, frame, prot).ok_or(Errno::ENOMEM)?;
        }
        Ok(())
    }
}
