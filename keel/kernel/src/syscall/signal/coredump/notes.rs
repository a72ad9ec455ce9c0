//! The notes of a core file: process, registers, signal, mapped files.

use crate::fs::proc::memory::first_arguments;
use crate::mm::Mm;
use crate::mm::area::FileName;
use crate::mm::info::{AreaInfo, AreaName};
use crate::signal::SigInfo;
use crate::task::Task;
use crate::task::ptrace::general_registers;
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use alloc::vec::Vec;
use hal::fpu;
use hal::trap::TrapFrame;
use uapi::Result;
use vfs::memory::Text;

/// Note types.
const NT_PRSTATUS: u32 = 1;
const NT_FPREGSET: u32 = 2;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_X86_XSTATE: u32 = 0x202;
const NT_SIGINFO: u32 = 0x5349_4749;
const NT_FILE: u32 = 0x4649_4c45;

/// Size of the legacy region of an XSAVE image, and offset of XCR0 in it.
const LEGACY: usize = 512;
const XCR0: usize = 464;
/// Maximum bytes of the arguments in `struct elf_prpsinfo`.
const ARGUMENTS: usize = 79;

fn words(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn numbers(out: &mut Vec<u8>, values: &[i32]) {
    values.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Appends a note.
fn note(out: &mut Text, name: &[u8], kind: u32, content: &[u8]) {
    let mut head = Vec::new();
    numbers(&mut head, &[name.len() as i32 + 1, content.len() as i32, kind as i32]);
    head.extend_from_slice(name);
    head.push(0);
    for part in [&head, content] {
        out.add(part);
        out.add(&[0; 4][..part.len().next_multiple_of(4) - part.len()]);
    }
}

/// All notes; the current thread, which the signal ends, is first. ENOMEM.
pub fn all(me: &Rc<Task>, mm: &Mm, areas: &[AreaInfo], frame: &TrapFrame, info: &SigInfo) -> Result<Vec<u8>> {
    let mut out = Text::default();
    note(&mut out, b"CORE", NT_PRSTATUS, &status(me, frame, info));
    note(&mut out, b"CORE", NT_PRPSINFO, &who(me, mm)?);
    note(&mut out, b"CORE", NT_SIGINFO, bytemuck::bytes_of(info));
    let auxv: Vec<u8> = mm.auxv().iter().flat_map(|word| word.to_le_bytes()).collect();
    note(&mut out, b"CORE", NT_AUXV, &auxv);
    note(&mut out, b"CORE", NT_FILE, &files(areas)?);
    extended(&mut out, fpu::capture(frame));
    for task in me.process().threads().filter(|task| !Rc::ptr_eq(task, me)) {
        // Registers of a thread that runs on another processor are not available.
        let Some(frame) = task.thread.registers() else { continue };
        note(&mut out, b"CORE", NT_PRSTATUS, &status(&task, &frame, info));
        if let Some(image) = task.thread.extended_state() {
            extended(&mut out, image);
        }
    }
    out.done()
}

/// The extended registers.
fn extended(out: &mut Text, mut image: Vec<u8>) {
    if let Some(legacy) = image.get(..LEGACY) {
        note(out, b"CORE", NT_FPREGSET, legacy);
    }
    if let Some(place) = image.get_mut(XCR0..XCR0 + 8) {
        place.copy_from_slice(&fpu::xsave_mask().to_le_bytes());
    }
    note(out, b"LINUX", NT_X86_XSTATE, &image);
}

/// `struct elf_prstatus`.
fn status(task: &Task, frame: &TrapFrame, info: &SigInfo) -> Vec<u8> {
    let process = task.process();
    let (own, children) = (task.sched.usage(), process.children_usage());
    let mut out = Vec::new();
    numbers(&mut out, &[info.signo, info.code, info.errno, info.signo]);
    words(&mut out, &[task.signals.pending().0, task.signals.blocked().0]);
    numbers(&mut out, &[task.tid(), process.ppid(), process.group(), process.session().sid]);
    for ns in [own.user_ns, own.system_ns, children.user_ns, children.system_ns] {
        words(&mut out, &[ns / 1_000_000_000, ns / 1000 % 1_000_000]);
    }
    words(&mut out, &general_registers(task, frame));
    numbers(&mut out, &[1, 0]);
    out
}

/// `struct elf_prpsinfo`.
fn who(me: &Task, mm: &Mm) -> Result<Vec<u8>> {
    let (process, cred) = (me.process(), me.cred());
    let mut out = alloc::vec![0, b'R', 0, me.sched.nice.get() as u8];
    out.resize(8, 0);
    words(&mut out, &[0]);
    numbers(&mut out, &[cred.uid as i32, cred.gid as i32]);
    numbers(&mut out, &[process.pid(), process.ppid(), process.group(), process.session().sid]);
    out.extend_from_slice(&me.comm().0);
    let mut arguments = first_arguments(mm, ARGUMENTS)?;
    arguments.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    arguments.resize(ARGUMENTS + 1, 0);
    out.extend_from_slice(&arguments);
    Ok(out)
}

/// The mapped files. ENOMEM.
fn files(areas: &[AreaInfo]) -> Result<Vec<u8>> {
    let named = || {
        areas.iter().filter_map(|area| match &area.name {
            AreaName::File(FileName::Unknown) => None,
            AreaName::File(name) => Some((area, name)),
            _ => None,
        })
    };
    let mut out = Text::default();
    let mut add = |words: &[u64]| out.add(bytemuck::cast_slice(words));
    add(&[named().count() as u64, PAGE_SIZE as u64]);
    named().for_each(|(area, _)| add(&[area.start as u64, area.end as u64, area.offset / PAGE_SIZE as u64]));
    for (_, name) in named() {
        match name {
            FileName::Path(place) => out.add(&place.display_path(None)?),
            FileName::Text(text) => out.add(text),
            FileName::Unknown => {}
        }
        out.add(&[0]);
    }
    out.done()
}
