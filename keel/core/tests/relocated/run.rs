//! Runs a site with and without its patch, and compares.

use std::collections::BTreeSet;
use std::fmt;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind, Register};
use keel_core::patch::{Form, Patch, Planned, Window};

use crate::machine::{General, Machine, REGION, REGION_LEN, SCRATCH, SCRATCH_LEN, State, Step};
use crate::random::Random;

/// Offset of the gate's address from the GS base.
pub const GATE_OFFSET: u32 = 0x40;
const GS_BASE: u64 = REGION + 0x1000;
/// Address of the gate; unmapped, the test emulates it.
const GATE: u64 = REGION + 0x2000;
/// Registers point near this address.
const MIDDLE: u64 = SCRATCH + SCRATCH_LEN as u64 / 2;
/// Maximum size of an operand in bytes.
const OPERAND: usize = 64;
/// Maximum steps and system calls of a run; detects endless loops.
const STEPS: usize = 64;
const CALLS: usize = 4;
/// Flags of arithmetic, and the direction.
const FLAGS: u64 = 0x8d5 | 0x400;
/// The same without the direction, which a system call keeps.
const ARITHMETIC: u64 = 0x8d5;
/// Always set, and interrupts.
const FIXED_FLAGS: u64 = 0x202;
/// Set by steps, and by processors that resume behind a fault.
const STEP_FLAGS: u64 = 0x1_0100;
const RAX: usize = 0;
const RCX: usize = 1;
const RSP: usize = 4;
const R11: usize = 11;

/// What was compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Patches.
    pub patches: usize,
    /// Instructions that they moved, calls not counted.
    pub instructions: usize,
    /// Different kinds of them, by operation and operands' types.
    pub kinds: BTreeSet<Code>,
    /// Pairs of runs.
    pub runs: usize,
    /// Of those, runs that left the patch. The others ended with the same exception at the same place.
    pub ended: usize,
    /// Of those, aborted endless loops.
    pub endless: usize,
    /// Patches that behave differently.
    pub differing: usize,
    /// Skipped patches: see [`reads_itself`].
    pub left_out: usize,
}

impl Count {
    pub fn add(&mut self, other: &Self) {
        self.patches += other.patches;
        self.instructions += other.instructions;
        self.kinds.extend(&other.kinds);
        self.runs += other.runs;
        self.ended += other.ended;
        self.endless += other.endless;
        self.differing += other.differing;
        self.left_out += other.left_out;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { patches, instructions, runs, ended, endless, left_out, .. } = self;
        let kinds = self.kinds.len();
        write!(
            f,
            "{patches} patches with {instructions} moved instructions of {kinds} kinds, {runs} pairs of runs \
             ({ended} to the end, {endless} endless); {left_out} patches left out"
        )
    }
}

/// The instructions that a patch moved, decoded where they were.
pub fn covered(window: &Window<'_>, planned: &Planned) -> Vec<Instruction> {
    let patch = &planned.patch;
    let from = (patch.at - window.addr) as usize;
    let until = (patch.end - window.addr) as usize;
    Decoder::with_ip(64, &window.bytes[from..until.min(window.bytes.len())], patch.at, DecoderOptions::NONE)
        .into_iter()
        .filter(|i| i.ip() < patch.end && i.code() != Code::Syscall && !i.is_invalid())
        .collect()
}

/// Whether an operand is addressed by rcx, which contains the return address of a system call: a program that reads its
/// own text sees the patch.
fn reads_itself(instruction: &Instruction) -> bool {
    [instruction.memory_base(), instruction.memory_index()].into_iter().any(|r| r.full_register() == Register::RCX)
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    /// Left the patch; the instruction pointer is the target.
    Left,
    /// An exception.
    Signal(i32),
    /// Too many calls.
    Calls,
    /// Too many steps.
    Steps,
}

/// Final state of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    exit: Exit,
    state: State,
    vectors: Vec<u8>,
    memory: Vec<Vec<u8>>,
}

/// Initial state of a run.
#[derive(Clone, Debug)]
struct Begin {
    general: General,
    flags: u64,
    xmm: Box<[u8; 256]>,
    /// Address and content.
    memory: Vec<(u64, Vec<u8>)>,
    /// Results of the calls in order: return value, r11 and flags. The gate may leave any flags and r11.
    calls: [(u64, u64, u64); CALLS],
}

/// The text that a run executes, and events during it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum World {
    Original,
    /// The original, with calls that preserve the flags as Linux does: moved instructions must not read them.
    Kept,
    Patched,
    /// The first call is restarted.
    Restarted,
    /// Before this step a signal interrupts the program, which then resumes at its frame's address.
    Interrupted(usize),
}

impl World {
    fn is_patched(self) -> bool {
        !matches!(self, Self::Original | Self::Kept)
    }
}

/// A segment in the machine.
pub struct Bench<'a> {
    machine: &'a Machine,
    segment: Window<'a>,
}

impl<'a> Bench<'a> {
    pub fn new(machine: &'a Machine, segment: Window<'a>) -> Self {
        machine.write(segment.addr, segment.bytes);
        machine.write(GS_BASE + u64::from(GATE_OFFSET), &GATE.to_le_bytes());
        Self { machine, segment }
    }

    /// Calls `f` while there is a `syscall` at `site`.
    pub fn with_site(&mut self, site: u64, f: impl FnOnce(&mut Self)) {
        self.machine.write(site, &[0x0f, 0x05]);
        f(self);
        let at = (site - self.segment.addr) as usize;
        self.machine.write(site, &self.segment.bytes[at..at + 2]);
    }

    /// Compares a patch in several states; fails if it differs.
    pub fn compare(&mut self, planned: &Planned, random: &mut Random, states: usize, count: &mut Count) {
        if let Some(difference) = self.first_difference(planned, random, states, count) {
            panic!("{difference}");
        }
    }

    /// Compares a patch in several states.
    pub fn first_difference(
        &mut self,
        planned: &Planned,
        random: &mut Random,
        states: usize,
        count: &mut Count,
    ) -> Option<String> {
        let patch = &planned.patch;
        let mut original = vec![0; (patch.end + 16 - patch.at) as usize];
        self.machine.read(patch.at, &mut original);
        let window = Window { addr: patch.at, bytes: &original };
        let instructions = covered(&window, planned);
        if instructions.iter().any(reads_itself) {
            count.left_out += 1;
            return None;
        }
        count.patches += 1;
        count.instructions += instructions.len();
        count.kinds.extend(instructions.iter().map(Instruction::code));
        self.machine.write(patch.trampoline, &planned.code);
        let mut difference = None;
        'states: for _ in 0..states {
            // Entry points: the site, the start of the patch, and every moved instruction.
            let entries = (patch.at..patch.end)
                .filter(|&rip| rip == patch.at || rip == patch.site || patch.resume_for(rip).is_some());
            let begin = self.begin(&instructions, random);
            for entry in entries {
                let expected = self.run(&begin, entry, planned, World::Original, &original);
                let mut kept = self.run(&begin, entry, planned, World::Kept, &original);
                kept.state.flags = expected.state.flags;
                if let Some(what) = differs(&expected, &kept) {
                    count.differing += 1;
                    difference = Some(describe(&instructions, planned, entry, World::Kept, &begin, &what));
                    break 'states;
                }
                self.machine.write(patch.at, &patch.bytes);
                let interrupted = World::Interrupted(random.below(8) as usize);
                let worlds: &[World] = if entry == patch.at {
                    &[World::Patched, World::Restarted, interrupted]
                } else {
                    &[World::Patched]
                };
                for &world in worlds {
                    let end = self.run(&begin, entry, planned, world, &original);
                    count.runs += 1;
                    count.ended += usize::from(end.exit == Exit::Left);
                    count.endless += usize::from(matches!(end.exit, Exit::Calls | Exit::Steps));
                    if let Some(what) = differs(&expected, &end) {
                        count.differing += 1;
                        difference = Some(describe(&instructions, planned, entry, world, &begin, &what));
                    }
                }
                self.machine.write(patch.at, &original[..patch.bytes.len()]);
                if difference.is_some() {
                    break 'states;
                }
            }
        }
        difference
    }

    /// A state in which most memory operands are mapped.
    fn begin(&self, instructions: &[Instruction], random: &mut Random) -> Begin {
        let mut general = [0; 16].map(|_: u64| random.value(MIDDLE));
        general[RSP] = MIDDLE + random.below(64) * 8;
        let mut xmm = Box::new([0; 256]);
        xmm.iter_mut().for_each(|byte| *byte = random.next() as u8);
        // Popped or loaded words may be used as addresses.
        let words = (0..SCRATCH_LEN / 8).flat_map(|_| random.value(MIDDLE).to_le_bytes());
        let mut memory = vec![(SCRATCH, words.collect())];
        let mut result = None;
        for instruction in instructions {
            if instruction.is_ip_rel_memory_operand() {
                let at = instruction.ip_rel_memory_address();
                let text = self.segment.addr..self.segment.addr + self.segment.bytes.len() as u64;
                let room = REGION + 0x10_0000..REGION + REGION_LEN - 4096;
                // Trampolines are below the text.
                let trampolines = text.start - (1 << 20)..text.start;
                if room.contains(&at) && !text.contains(&at) && !trampolines.contains(&at) {
                    memory.push((at, (0..OPERAND).map(|_| random.next() as u8).collect()));
                }
            } else if (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory)
                && random.below(4) != 0
            {
                let wanted = MIDDLE + random.below(64) * 64;
                let mut rest = wanted.wrapping_sub(instruction.memory_displacement64());
                let (base, index) = (instruction.memory_base(), instruction.memory_index());
                if index.is_gpr64() {
                    let value = random.below(16);
                    if index == Register::RAX {
                        result = Some(value)
                    } else {
                        general[index.number()] = value
                    }
                    rest = rest.wrapping_sub(value * u64::from(instruction.memory_index_scale()));
                }
                if base.is_gpr64() {
                    if base == Register::RAX { result = Some(rest) } else { general[base.number()] = rest }
                }
            }
        }
        let calls = [0; CALLS].map(|_: u64| {
            let flags = FIXED_FLAGS | random.next() & ARITHMETIC;
            (result.unwrap_or_else(|| random.result(MIDDLE)), random.next(), flags)
        });
        let flags = FIXED_FLAGS | random.next() & FLAGS;
        Begin { general, flags, xmm, memory, calls }
    }

    fn run(&self, begin: &Begin, entry: u64, planned: &Planned, world: World, original: &[u8]) -> End {
        let (machine, patch) = (self.machine, &planned.patch);
        begin.memory.iter().for_each(|(at, bytes)| machine.write(*at, bytes));
        machine.set_vectors(&begin.xmm);
        let mut state =
            State { rip: entry, general: begin.general, flags: begin.flags, fs_base: MIDDLE, gs_base: GS_BASE };
        let mut changed = true;
        let (mut calls, mut restarted) = (0, world != World::Restarted);
        let mut steps = 0..STEPS;
        let exit = loop {
            let Some(step) = steps.next() else { break Exit::Steps };
            let trampoline = patch.in_trampoline(state.rip);
            if world == World::Interrupted(step)
                && trampoline
                && let Some(rip) = patch.original_for(state.rip)
            {
                if state.rip == state.general[RCX] {
                    // Right behind a call. Only the rcx that it leaves may be wrong in a frame.
                    state.general[RCX] = rip;
                }
                (state.rip, changed) = (rip, true);
                continue;
            }
            let inside = (patch.at..patch.end).contains(&state.rip);
            if state.rip == GATE && !restarted {
                // keel restarts at the `syscall` in front of the return address.
                (state.rip, restarted, changed) = (state.general[RCX].wrapping_sub(2), true, true);
                continue;
            }
            if state.rip != GATE && !inside && !(trampoline && world.is_patched()) {
                break Exit::Left;
            }
            let bytes = if inside && !world.is_patched() {
                original.get((state.rip - patch.at) as usize..).unwrap_or_default().to_vec()
            } else {
                let mut bytes = vec![0; 2];
                machine.read(state.rip, &mut bytes);
                bytes
            };
            if state.rip == GATE || bytes.starts_with(&[0x0f, 0x05]) {
                let Some(&(result, r11, flags)) = begin.calls.get(calls) else { break Exit::Calls };
                calls += 1;
                state.rip = if state.rip == GATE { state.general[RCX] } else { state.rip + 2 };
                state.general[RAX] = result;
                state.general[RCX] = state.rip;
                state.general[R11] = r11;
                if world != World::Kept {
                    state.flags = flags | state.flags & !ARITHMETIC;
                }
                changed = true;
                continue;
            }
            if changed {
                machine.set(&state);
                changed = false;
            }
            let before = state.rip;
            let stop = machine.step();
            state = machine.get();
            state.flags &= !STEP_FLAGS;
            let landed = match stop {
                Step::Done => continue,
                Step::Breakpoint => (state.rip - 1, libc::SIGTRAP),
                Step::Signal(signal) => (state.rip, signal),
            };
            // As keel does.
            let moved = patch.resume_for(landed.0).filter(|_| world.is_patched() && landed.0 == before);
            match (moved, landed.1) {
                (Some(moved), libc::SIGTRAP | libc::SIGILL) => (state.rip, changed) = (moved, true),
                (_, signal) => break Exit::Signal(signal),
            }
        };
        if world.is_patched() && exit != Exit::Left {
            state.rip = patch.original_for(state.rip).unwrap_or(state.rip);
        }
        let memory = begin.memory.iter().map(|(at, bytes)| {
            let mut now = vec![0; bytes.len()];
            machine.read(*at, &mut now);
            now
        });
        if changed {
            machine.set(&state);
        }
        End { exit, state, vectors: machine.get_vectors(), memory: memory.collect() }
    }
}

/// Describes the first difference, if any.
fn differs(expected: &End, end: &End) -> Option<String> {
    if matches!(end.exit, Exit::Calls | Exit::Steps) && expected.exit == end.exit {
        // Both were aborted, at different places.
        return None;
    }
    if expected.exit != end.exit {
        return Some(format!("{:?} instead of {:?}", end.exit, expected.exit));
    }
    if expected.state != end.state {
        return Some(format!("{:x?}\ninstead of\n{:x?}", end.state, expected.state));
    }
    if expected.vectors != end.vectors {
        return Some("the vector registers".into());
    }
    let at = expected.memory.iter().zip(&end.memory).position(|(a, b)| a != b)?;
    Some(format!("memory {at}"))
}

fn describe(
    instructions: &[Instruction],
    planned: &Planned,
    entry: u64,
    world: World,
    begin: &Begin,
    what: &str,
) -> String {
    let Patch { site, at, trampoline, form, .. } = &planned.patch;
    let text: Vec<String> = instructions.iter().map(|i| format!("{:x} {i:?}", i.ip())).collect();
    let number = if *form == Form::Number { "number" } else { "displaced" };
    format!(
        "{number} site {site:x} at {at:x}, trampoline {trampoline:x} {:02x?}, entered at {entry:x}, {world:?}:\n\
         {text:#?}\nregisters {:x?} flags {:x} calls {:x?}\n{what}",
        planned.code, begin.general, begin.flags, begin.calls
    )
}
