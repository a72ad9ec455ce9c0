//! Turns `syscall` instructions of a program's text into jumps to keel's gate.
//!
//! A `syscall` has two bytes, a `jmp rel32` to a trampoline five. [`plan`] makes room in one of two ways:
//!
//! * **Before the site** ([`Form::Number`]), used for four sites in five: the instruction in front is `mov eax,
//!   number`, itself five bytes long. It becomes the jump and moves into the trampoline; the `syscall` stays in place.
//!   No code can branch into the middle of one instruction, the program continues right behind the `syscall` as before,
//!   and a restarted call executes the original instruction.
//! * **Behind the site** ([`Form::Displace`]): the jump covers the `syscall` and the instructions behind it, which move
//!   into the trampoline. A program may still resume at one of the covered instructions, from a jump table, a stopped
//!   thread or a signal frame. So the trampoline's address is chosen such that the bytes of the jump at each such
//!   instruction raise an exception (`int3` or an undefined opcode); keel's fault handler calls [`Patch::resume_for`]
//!   and resumes the program at the moved copy. If a nearby direct branch would make this frequent, the site is not
//!   patched. Covered instructions may be further `syscall`s: one trampoline then makes all of these calls.
//!
//! A site that can't be patched keeps trapping, which is always correct.
//!
//! Addresses are plain numbers in one coordinate system of the caller's choice: the generated code is
//! position-independent, so it is valid wherever the file and its trampolines are mapped at the same distance.

mod area;
mod decode;
mod displace;
mod scan;
mod sites;
#[cfg(test)]
mod tests;

pub use area::Area;
pub use scan::{Candidates, candidates};
pub use sites::{ORIGIN, Sites, Verdict};

use smallvec::SmallVec;

/// Length of a `jmp rel32`.
const JUMP_LEN: usize = 5;
/// The `syscall` instruction.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `mov eax, 15` and such: the number of rt_sigreturn(2). Unwinders and debuggers recognise signal
/// frames by the bytes of its site, so it stays as it is.
const RT_SIGRETURN: u32 = 15;
/// Upper bound of system call numbers; a larger constant in front of a site is not a number.
const NUMBER_LIMIT: u32 = 1024;
/// Pages are replaced one by one, so a patch must not cross a page boundary.
const PAGE: u64 = 4096;

/// The bytes in a program's memory from `addr` on.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Address of the first byte.
    pub addr: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> Window<'a> {
    /// The bytes of `[start, start + len)`, if the window contains all.
    fn get(&self, start: u64, len: usize) -> Option<&'a [u8]> {
        let at = usize::try_from(start.checked_sub(self.addr)?).ok()?;
        self.bytes.get(at..at.checked_add(len)?)
    }

    /// The bytes from `start` to the end of the window.
    fn from(&self, start: u64) -> Option<&'a [u8]> {
        let at = usize::try_from(start.checked_sub(self.addr)?).ok()?;
        self.bytes.get(at..)
    }
}

/// Kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The jump replaces the instruction in front that loads the number.
    Number,
    /// The jump replaces the `syscall` and the instructions behind it.
    Displace,
}

/// Reasons for not patching a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No `syscall` there, or the window is too small.
    NotASite,
    /// The site of rt_sigreturn(2).
    Sigreturn,
    /// The jump would cross a page boundary.
    CrossesPage,
    /// An instruction behind it can't be moved.
    Immovable,
    /// An instruction behind it may need the full decoder.
    Unusual,
    /// A branch targets an instruction behind the site.
    BranchTarget,
    /// An instruction behind it reads the flags.
    FlagsUsed,
    /// No suitable place for a trampoline within reach.
    NoRoom,
}

/// An instruction in a trampoline and the original that it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    /// Offset from the trampoline's start.
    moved: u8,
    /// Offset from the site of the equivalent original instruction.
    original: i8,
    /// A program that resumes at the original may enter here: in particular, rcx is not expected to come from the gate.
    entry: bool,
}

/// A patch: the replaced bytes, and the data to translate addresses in it.
#[derive(Clone, Debug)]
pub struct Patch {
    /// Address of the `syscall`.
    pub site: u64,
    /// First overwritten byte.
    pub at: u64,
    /// End of the bytes that the patch depends on: overwritten bytes, the site, moved instructions.
    pub end: u64,
    /// Address of the trampoline.
    pub trampoline: u64,
    /// Kind of the patch.
    pub form: Form,
    /// Bytes of the trampoline.
    len: u8,
    /// The new bytes at `at`; within one page.
    pub bytes: SmallVec<[u8; 8]>,
    points: SmallVec<[Point; 8]>,
}

/// A trampoline's code; within one page.
pub type TrampolineCode = SmallVec<[u8; 64]>;

/// A patch that was just planned.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The patch.
    pub patch: Patch,
    /// The code of its trampoline, to be written first.
    pub code: TrampolineCode,
}

impl Patch {
    /// The address at which a program must resume whose next instruction, `rip`, was moved by the patch.
    pub fn resume_for(&self, rip: u64) -> Option<u64> {
        // The first byte of the patch is the jump itself. Behind a number's load no instruction was moved, and
        // instructions that were not overwritten run in place.
        if self.form == Form::Number || rip <= self.at || rip >= self.at + self.bytes.len() as u64 {
            return None;
        }
        let offset = i8::try_from(rip.checked_sub(self.site)?).ok()?;
        let point = self.points.iter().find(|p| p.entry && p.original == offset)?;
        Some(self.trampoline + u64::from(point.moved))
    }

    /// Whether `rip` lies in the trampoline.
    pub fn in_trampoline(&self, rip: u64) -> bool {
        rip.checked_sub(self.trampoline).is_some_and(|offset| offset < u64::from(self.len))
    }

    /// The original address that corresponds to a place in the trampoline: signal handlers, unwinders and restarted
    /// system calls must see it. All registers are equivalent except rcx, which the `syscall` clobbers.
    pub fn original_for(&self, rip: u64) -> Option<u64> {
        let offset = u8::try_from(rip.checked_sub(self.trampoline)?).ok()?;
        let point = self.points.iter().find(|p| p.moved == offset)?;
        Some(self.site.wrapping_add_signed(i64::from(point.original)))
    }
}

/// Plans the patch of the `syscall` at `site`, and allocates its trampoline from `area`.
///
/// `window` contains at least the site's page from its start, and a few bytes more if the site is near its end.
/// `number` is the value of rax at the trap. `gate_offset` is the offset of the gate's address from the GS base.
/// Without `thorough`, sites that need the full decoder are rejected as [`Refusal::Unusual`]: its first use takes most
/// of a millisecond.
pub fn plan(
    window: &Window<'_>,
    site: u64,
    number: u64,
    area: &mut Area,
    gate_offset: u32,
    thorough: bool,
) -> Result<Planned, Refusal> {
    if window.get(site, 2) != Some(&SYSCALL) {
        return Err(Refusal::NotASite);
    }
    if number == u64::from(RT_SIGRETURN) || scan::loads_sigreturn(window, site) {
        return Err(Refusal::Sigreturn);
    }
    if decode::reads_flags(window, site + 2, thorough) {
        return Err(Refusal::FlagsUsed);
    }
    match scan::number_load(window, site, true) {
        Some(load) if u64::from(load.number) == number => plan_number(site, load, area, gate_offset),
        _ => displace::plan(window, site, area, gate_offset, thorough),
    }
}

/// Plans the patch of a site that has not trapped, if its bytes are unambiguous. A number load right behind another
/// site is left for that site's patch.
pub fn plan_unseen(window: &Window<'_>, site: u64, area: &mut Area, gate_offset: u32) -> Result<Planned, Refusal> {
    let load = scan::number_load(window, site, false).ok_or(Refusal::NotASite)?;
    let at = site - load.bytes.len() as u64;
    let near = |distance: u64| window.get(at.wrapping_sub(distance), SYSCALL.len()) == Some(&SYSCALL);
    if (SYSCALL.len()..JUMP_LEN).any(|distance| near(distance as u64)) {
        return Err(Refusal::NotASite);
    }
    plan(window, site, u64::from(load.number), area, gate_offset, false)
}

/// Plans [`Form::Number`].
fn plan_number(site: u64, load: scan::NumberLoad<'_>, area: &mut Area, gate_offset: u32) -> Result<Planned, Refusal> {
    let at = site - load.bytes.len() as u64;
    if at / PAGE != (at + JUMP_LEN as u64 - 1) / PAGE {
        return Err(Refusal::CrossesPage);
    }
    let len = load.bytes.len() + ENTER_LEN;
    let trampoline = area.take(len, |_| true).ok_or(Refusal::NoRoom)?;
    let planned = (|| {
        let mut code = TrampolineCode::from_slice(load.bytes);
        let load_len = code.len() as u8;
        emit_enter(&mut code, trampoline + u64::from(load_len), site + 2, gate_offset)?;
        let mut points = SmallVec::new();
        points.push(Point { moved: 0, original: -(load_len as i8), entry: true });
        points.push(Point { moved: load_len, original: 0, entry: true });
        points.push(Point { moved: load_len + LEA_LEN as u8, original: 0, entry: false });
        let bytes = SmallVec::from_slice(&jump(at, trampoline)?);
        let len = code.len() as u8;
        let patch = Patch { site, at, end: site + 2, trampoline, form: Form::Number, len, bytes, points };
        Some(Planned { patch, code })
    })();
    planned.ok_or_else(|| {
        area.give_back(trampoline, len);
        Refusal::NoRoom
    })
}

/// Bytes of `lea rcx, [rip + …]`.
const LEA_LEN: usize = 7;
/// Length of the code of [`emit_enter`].
const ENTER_LEN: usize = LEA_LEN + 8;

/// Bytes of a moved `syscall`: entry, the `syscall` for restarts, rcx for what follows.
const CALL_LEN: usize = ENTER_LEN + SYSCALL.len() + LEA_LEN;

/// `lea rcx, [rip + back]; jmp qword ptr gs:[gate_offset]`: the gate returns to rcx. Uses neither the stack (the
/// caller's red zone) nor the flags.
fn emit_enter(code: &mut TrampolineCode, at: u64, back: u64, gate_offset: u32) -> Option<()> {
    emit_rcx(code, at, back)?;
    emit_gate(code, gate_offset);
    Some(())
}

/// `jmp qword ptr gs:[gate_offset]`.
fn emit_gate(code: &mut TrampolineCode, gate_offset: u32) {
    code.extend_from_slice(&[0x65, 0xff, 0x24, 0x25]);
    code.extend_from_slice(&gate_offset.to_le_bytes());
}

/// `lea rcx, [rip + value]`.
fn emit_rcx(code: &mut TrampolineCode, at: u64, value: u64) -> Option<()> {
    code.extend_from_slice(&[0x48, 0x8d, 0x0d]);
    code.extend_from_slice(&distance(at + LEA_LEN as u64, value)?.to_le_bytes());
    Some(())
}

/// `jmp rel32` at `at` to `target`.
fn jump(at: u64, target: u64) -> Option<[u8; JUMP_LEN]> {
    let d = distance(at.wrapping_add(JUMP_LEN as u64), target)?.to_le_bytes();
    Some([0xe9, d[0], d[1], d[2], d[3]])
}

/// Displacement from the end of an instruction to `target`, if 32 bits hold it.
fn distance(end: u64, target: u64) -> Option<i32> {
    i32::try_from(target.wrapping_sub(end) as i64).ok()
}
