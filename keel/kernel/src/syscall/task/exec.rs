//! Executes a program; execve(2).

use crate::fs;
use crate::mm::Program;
use crate::mm::{ExecRequest, Mm, StartPoint, user};
use crate::sched::wait::{Interrupt, wait_until};
use crate::signal::{AltStack, send};
use crate::syscall::mm::calls::READ_IMPLIES_EXEC;
use crate::task::{Task, cred, current, exit, oom, pid};
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use hal::trap::TrapFrame;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::io::KernelDst;

/// Bytes at the start of a file that identify its format.
const HEAD: usize = 256;
/// Maximum depth of script interpreters.
const MAX_SCRIPTS: usize = 5;
/// Longest argument or environment string with its terminator: 32 pages.
const MAX_STRING: usize = 32 * PAGE_SIZE;
/// Minimum room for strings, whatever the stack limit is.
const MIN_STRINGS: u64 = 32 * PAGE_SIZE as u64;
/// Maximum room for strings.
const MAX_STRINGS: u64 = 6 << 20;
const PATH_MAX: usize = 4096;

/// A loaded program that is ready to replace the current one.
struct Loaded {
    mm: Rc<Mm>,
    start: StartPoint,
    file: PathRef,
    cred: cred::AfterExec,
    /// The program or its interpreter is executable but not readable: the process is not dumpable.
    unreadable: bool,
    comm: Vec<u8>,
}

/// Of execveat(2), since Linux 6.14: only checks whether the file may be executed.
const AT_EXECVE_CHECK: u32 = 0x1_0000;

/// execve(2). E2BIG, EACCES, EFAULT, EINVAL, EISDIR, ELIBBAD, ELOOP, EMFILE, ENAMETOOLONG, ENOENT,
/// ENOEXEC, ENOMEM, ENOTDIR, ETXTBSY.
pub fn sys_execve(frame: &mut TrapFrame, path: usize, argv: usize, envp: usize) -> Result<usize> {
    run(frame, g::AT_FDCWD, path, argv, envp, 0)
}

/// execveat(2). As execve, and EBADF.
pub fn sys_execveat(
    frame: &mut TrapFrame,
    dir: i32,
    path: usize,
    argv: usize,
    envp: usize,
    flags: u32,
) -> Result<usize> {
    if flags & !(g::AT_EMPTY_PATH | g::AT_SYMLINK_NOFOLLOW | AT_EXECVE_CHECK) != 0 {
        return Err(Errno::EINVAL);
    }
    run(frame, dir, path, argv, envp, flags)
}

fn run(frame: &mut TrapFrame, dir: i32, path: usize, argv: usize, envp: usize, flags: u32) -> Result<usize> {
    let path = user::read_cstr(path, PATH_MAX)?;
    if path.is_empty() && flags & g::AT_EMPTY_PATH == 0 {
        return Err(Errno::ENOENT);
    }
    let file = fs::open_exec(dir, &path, flags & !AT_EXECVE_CHECK)?;
    let stack_limit = crate::task::with_current(|t| t.limit(g::RLIMIT_STACK));
    let mut room = (stack_limit / 4).clamp(MIN_STRINGS, MAX_STRINGS) as usize;
    let argv = read_strings(argv, &mut room)?;
    let envp = read_strings(envp, &mut room)?;
    if flags & AT_EXECVE_CHECK != 0 {
        // Linux ends here, before the file's format and its interpreter are looked at.
        return Ok(0);
    }
    // The path as given if it is absolute or relative to the working directory, else /dev/fd/N.
    let shown = match (path.first(), dir) {
        (Some(b'/'), _) | (Some(_), g::AT_FDCWD) => path.clone(),
        (None, _) => alloc::format!("/dev/fd/{dir}").into_bytes(),
        (Some(_), _) => {
            let mut shown = alloc::format!("/dev/fd/{dir}/").into_bytes();
            shown.extend_from_slice(&path);
            shown
        }
    };
    let me = current();
    // An interpreter could not open a script through a close-on-exec descriptor.
    let by_descriptor = path.first() != Some(&b'/') && dir != g::AT_FDCWD;
    let inaccessible = by_descriptor && me.files().close_on_exec_flag(dir).unwrap_or(false);
    let mut loaded = load(file, &shown, inaccessible, argv, &envp, stack_limit)?;
    if path.is_empty() {
        // The name of the file that runs, of a script that of its interpreter; nameless files are shown with a slash.
        let name = loaded.file.name();
        loaded.comm = name.strip_prefix(b"/").unwrap_or(&name).to_vec();
    }
    let old_tid = me.tid();
    de_thread(&me)?;
    commit(&me, frame, loaded);
    drop(me);
    crate::task::ptrace::executed(frame, old_tid);
    Ok(0)
}

/// Why the first program does not run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotRun {
    /// The error.
    pub errno: Errno,
    /// The file itself was found: the error is that of its interpreter or its content.
    pub opened: bool,
}

/// Runs the pod's first program; errors as execve(2).
pub(crate) fn run_first(
    frame: &mut TrapFrame,
    path: &[u8],
    argv: &[Vec<u8>],
    envp: &[Vec<u8>],
) -> core::result::Result<(), NotRun> {
    let stack_limit = crate::task::with_current(|t| t.limit(g::RLIMIT_STACK));
    let failed = |opened| move |errno| NotRun { errno, opened };
    let file = fs::open_exec(g::AT_FDCWD, path, 0).map_err(failed(false))?;
    let loaded = load(file, path, false, argv.to_vec(), envp, stack_limit).map_err(failed(true))?;
    commit(&current(), frame, loaded);
    Ok(())
}

/// Number of strings between two checks of free memory.
const STRINGS_AT_ONCE: usize = 64;

/// Reads a null-terminated array of strings. E2BIG, EFAULT, ENOMEM.
fn read_strings(mut at: usize, room: &mut usize) -> Result<Vec<Vec<u8>>> {
    let mut strings = Vec::new();
    if at == 0 {
        return Ok(strings);
    }
    loop {
        let pointer = user::read::<usize>(at)?;
        if pointer == 0 {
            return Ok(strings);
        }
        let string = user::read_cstr(pointer, MAX_STRING).map_err(|errno| match errno {
            Errno::ENAMETOOLONG => Errno::E2BIG,
            other => other,
        })?;
        if strings.len().is_multiple_of(STRINGS_AT_ONCE) {
            vfs::memory::check()?;
        }
        let need = string.len() + 1 + size_of::<usize>();
        *room = room.checked_sub(need).ok_or(Errno::E2BIG)?;
        strings.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        strings.push(string);
        at = at.checked_add(size_of::<usize>()).ok_or(Errno::EFAULT)?;
    }
}

/// Follows the `#!` lines of an open program, and loads the final interpreter or program into a new address space. A
/// script must not be `inaccessible` after the call.
fn load(
    mut program: Rc<Program>,
    shown: &[u8],
    inaccessible: bool,
    mut argv: Vec<Vec<u8>>,
    envp: &[Vec<u8>],
    stack_limit: u64,
) -> Result<Loaded> {
    let me = current();
    let mut filename = shown.to_vec();
    if argv.is_empty() {
        // Programs rely on argv[0].
        argv.push(Vec::new());
    }
    let mut depth = 0;
    loop {
        let mut head = [0; HEAD];
        let len = program.place.inode().read_at(0, &mut KernelDst(&mut head))?;
        let Some(line) = head[..len].strip_prefix(b"#!") else { break };
        let (interpreter, argument) = parse_script(line, len == HEAD)?;
        if inaccessible {
            return Err(Errno::ENOENT);
        }
        depth += 1;
        if depth > MAX_SCRIPTS {
            return Err(Errno::ELOOP);
        }
        // interpreter [argument] script arguments…
        let old = core::mem::take(&mut argv);
        argv.try_reserve(old.len() + 3).map_err(|_| Errno::ENOMEM)?;
        argv.push(interpreter.to_vec());
        argv.extend(argument.map(<[u8]>::to_vec));
        argv.push(core::mem::replace(&mut filename, interpreter.to_vec()));
        argv.extend(old.into_iter().skip(1));
        program = fs::open_exec(g::AT_FDCWD, interpreter, 0)?;
    }
    let file = program.place.clone();
    let after = cred::after_exec(&me, &file)?;
    let cred = &after.cred;
    let unreadable = Cell::new(!fs::may_read(&file));
    let before = crate::task::current().try_mm();
    let request = ExecRequest {
        inode: file.inode().clone(),
        open_interpreter: &|path| {
            let interpreter = fs::open_exec(g::AT_FDCWD, path, 0)?;
            unreadable.set(unreadable.get() || !fs::may_read(&interpreter.place));
            Ok(interpreter)
        },
        argv: &argv,
        envp,
        filename: if depth == 0 { shown } else { &filename },
        given: shown,
        ids: [cred.uid, cred.euid, cred.gid, cred.egid],
        secure: after.secure,
        stack_limit,
        before: before.as_deref(),
    };
    let (mm, start) = oom::with_memory(|| Mm::exec(&request))?;
    mm.set_exe(program);
    // The last step that can fail.
    me.unshare_files()?;
    let comm = shown.rsplit(|b| *b == b'/').next().unwrap_or(shown).to_vec();
    Ok(Loaded { mm, start, file, cred: after, unreadable: unreadable.get(), comm })
}

/// Interpreter and its optional argument of a `#!` line (without the `#!`). ENOEXEC.
fn parse_script(line: &[u8], whole_head: bool) -> Result<(&[u8], Option<&[u8]>)> {
    let is_blank = |b: &u8| matches!(b, b' ' | b'\t');
    let end = line.iter().position(|b| *b == b'\n' || *b == 0);
    let line = match end {
        Some(end) => &line[..end],
        // Truncated: the interpreter's path must end within the buffer.
        None if whole_head => {
            // Linux leaves room for a terminator.
            let line = line.split_last().map_or(line, |(_, rest)| rest);
            let start = line.iter().position(|b| !is_blank(b)).ok_or(Errno::ENOEXEC)?;
            if !line[start..].iter().any(is_blank) {
                return Err(Errno::ENOEXEC);
            }
            line
        }
        None => line,
    };
    let line = trim(line);
    let split = line.iter().position(is_blank).unwrap_or(line.len());
    let (interpreter, rest) = line.split_at(split);
    if interpreter.is_empty() {
        return Err(Errno::ENOEXEC);
    }
    let argument = trim(rest);
    Ok((interpreter, (!argument.is_empty()).then_some(argument)))
}

fn trim(mut line: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = line {
        line = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = line {
        line = rest;
    }
    line
}

/// Ends all other threads and takes over the process's id. EAGAIN if the process is being killed.
fn de_thread(me: &Rc<Task>) -> Result<()> {
    let process = me.process();
    if process.signals.group_exit.get().is_some() {
        return Err(Errno::EAGAIN);
    }
    for task in process.threads() {
        if !Rc::ptr_eq(&task, me) {
            send::kill_thread(&task);
        }
    }
    let alone = || (process.thread_count() == 1).then_some(());
    wait_until(core::slice::from_ref(&process.exit_events), None, Interrupt::ByKill, alone)
        .map_err(|_| Errno::EAGAIN)?;
    if !me.is_leader() {
        drop(pid::remove_task(me.tid()));
        me.set_tid_number(process.pid());
        pid::enter(process.pid(), me.clone(), None);
    }
    Ok(())
}

/// The point of no return.
fn commit(me: &Rc<Task>, frame: &mut TrapFrame, new: Loaded) {
    crate::task::robust::release_all(me);
    exit::release_memory(me);
    let process = me.process();
    hal::paging::activate_unlocked(new.mm.root());
    new.mm.set_limits(crate::task::limits::of_memory(process));
    let old_mm = me.set_mm(Some(new.mm));
    if let Some(old) = old_mm
        && Rc::strong_count(&old) == 1
    {
        old.clear();
    }

    me.robust_list.set(0);
    me.rseq.forget();
    me.user_dispatch.clear();
    me.clear_tid.set(0);
    // Resets handlers; ignored signals stay ignored. Copies the actions if they are shared.
    let actions = me.signals.actions();
    let own = if Rc::strong_count(&actions) > 2 { actions.fork() } else { actions };
    own.reset_handlers();
    let _shared = me.signals.actions.replace(own);
    me.signals.alt_stack.set(AltStack::NONE);
    me.signals.restart.set(None);
    process.posix_timers.clear();

    let after = new.cred;
    let is_set_id = after.cred.euid != after.cred.uid || after.cred.egid != after.cred.gid;
    let hides = cred::hides(&me.cred(), &after.cred);
    process.dumpable.set(i32::from(!(is_set_id || hides || new.unreadable)));
    if after.secure || hides {
        me.parent_death_signal.set(0);
    }
    crate::task::securebits::executed(me);
    me.set_cred(after.cred);
    me.set_comm(&new.comm);
    let _old_exe = process.exe.replace(Some(new.file));
    process.did_exec.set(true);
    let cleared = if after.gained { PERSONALITY_SECURE } else { READ_IMPLIES_EXEC };
    me.personality.set(me.personality.get() & !cleared);

    me.files().close_on_exec();

    me.thread.reset_fpu();
    me.thread.set_fs_base(0);
    *frame = TrapFrame::new(new.start.instruction, new.start.stack);
    // The whole frame changed: do not use the fast return path.
    me.set_work();
}

/// Personality bits that are cleared for programs that gain ids: that one, `ADDR_NO_RANDOMIZE`, `MMAP_PAGE_ZERO` and
/// `ADDR_COMPAT_LAYOUT`.
const PERSONALITY_SECURE: u32 = READ_IMPLIES_EXEC | 0x0004_0000 | 0x0010_0000 | 0x0020_0000;
