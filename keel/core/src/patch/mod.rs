//! Turns `syscall` instructions of a program's text into jumps to keel's gate.
//!
//! A `syscall` is two bytes, a `jmp rel32` to a trampoline is five. [`plan`] finds room in one of two
//! ways:
//!
//! * **Before the site** ([`Form::Number`]), used for four sites in five: the instruction in front is
//!   `mov eax, number`, itself five bytes long. It becomes the jump and moves into the trampoline; the
//!   `syscall` stays where it is. Nothing can branch into the middle of one instruction, the program
//!   continues right behind the `syscall` as it always did, and a restarted call finds the original
//!   instruction.
//! * **Behind the site** ([`Form::Displace`]): the jump covers the `syscall` and the instructions
//!   behind it, which move into the trampoline. Something may still want to continue at one of the
//!   covered instructions: a jump table, a thread that was stopped there, a signal frame. So the
//!   trampoline is placed where the bytes of the jump that lie at such an instruction raise an
//!   exception (`int3` or an undefined opcode); keel's fault handler asks [`Patch::resume_for`] and
//!   sends the program to the moved copy. Direct branches nearby that would make this frequent are
//!   looked for, and the site is left alone. Covered instructions may be further `syscall`s: one
//!   trampoline then makes all of their calls.
//!
//! A site that doesn't fit keeps trapping, which is always correct.
//!
//! Addresses are plain numbers in one coordinate system of the caller's choice: everything generated
//! is relative, so it holds wherever the file and its trampolines are mapped at the same distance.

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

/// Bytes of a `jmp rel32`.
const JUMP_LEN: usize = 5;
/// The instruction that this is about.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `mov eax, 15` and such: the number of rt_sigreturn(2). Unwinders and debuggers recognise signal
/// frames by the bytes of its site, so it stays as it is.
const RT_SIGRETURN: u32 = 15;
/// System call numbers are below this; larger constants in front of a site are something else.
const NUMBER_LIMIT: u32 = 1024;
/// Pages are replaced one by one, so a patch lies within one.
const PAGE: u64 = 4096;

/// Bytes that a program has in memory from `addr` on.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Address of the first byte.
    pub addr: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> Window<'a> {
    /// The bytes of `[start, start + len)`, if the window has them all.
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

/// How room for the jump was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The jump replaces the instruction in front that loads the number.
    Number,
    /// The jump replaces the `syscall` and what follows.
    Displace,
}

/// Why a site keeps trapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No `syscall` there, or its surroundings are not in the window.
    NotASite,
    /// The site of rt_sigreturn(2).
    Sigreturn,
    /// The jump would lie in two pages.
    CrossesPage,
    /// What follows can't be moved.
    Immovable,
    /// What follows is known to the thorough decoder at best.
    Unusual,
    /// A branch lands behind the site.
    BranchTarget,
    /// What follows looks at the flags.
    FlagsUsed,
    /// No fitting place for a trampoline, or none near enough.
    NoRoom,
}

/// An instruction in a trampoline and the one that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    /// Bytes from the trampoline's start.
    moved: u8,
    /// Bytes from the site to where the program would be without the patch.
    original: i8,
    /// A program that wants to continue at the original may continue here: in particular it does not
    /// come from the gate, for which rcx is set before.
    entry: bool,
}

/// A patch: what is written over the program's text, and what is needed to find one's way in it.
#[derive(Clone, Debug)]
pub struct Patch {
    /// Address of the `syscall`.
    pub site: u64,
    /// First overwritten byte.
    pub at: u64,
    /// First byte behind what the patch relies on: overwritten bytes, the site, moved instructions.
    pub end: u64,
    /// Address of the trampoline.
    pub trampoline: u64,
    /// How room was found.
    pub form: Form,
    /// Bytes of the trampoline.
    len: u8,
    /// What replaces the bytes at `at`; stays within one page.
    pub bytes: SmallVec<[u8; 8]>,
    points: SmallVec<[Point; 8]>,
}

/// A trampoline's code; stays within one page.
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
    /// Where a program must continue that wants to continue at `rip`, an instruction that the patch
    /// has moved away.
    pub fn resume_for(&self, rip: u64) -> Option<u64> {
        // The first byte of the patch is the jump itself. A number's load has nothing behind it, and what
        // was not overwritten is executed where it is.
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

    /// Where a program that stopped in the trampoline would be without the patch: what signal
    /// handlers, unwinders and restarted system calls must see. Equivalent in every register but
    /// rcx, which belongs to the `syscall`.
    pub fn original_for(&self, rip: u64) -> Option<u64> {
        let offset = u8::try_from(rip.checked_sub(self.trampoline)?).ok()?;
        let point = self.points.iter().find(|p| p.moved == offset)?;
        Some(self.site.wrapping_add_signed(i64::from(point.original)))
    }
}

/// Plans the patch of the `syscall` at `site`, taking room for its trampoline from `area`.
///
/// `window` holds at least the site's page from its start, and a few bytes more if the site is near its end.
/// `number` is what rax held when the site was seen at work. `gate_offset` is where the gate's
/// address lies relative to the GS base. Without `thorough`, sites that need a complete decoder are
/// refused as [`Refusal::Unusual`]: its first use takes most of a millisecond.
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

/// Plans the patch of a site that was not seen at work: only if its bytes leave no doubt. A number that
/// is loaded right behind another site is left for that one's patch to cover.
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
/// Bytes of what [`emit_enter`] emits.
const ENTER_LEN: usize = LEA_LEN + 8;

/// Bytes of a moved `syscall`: entry, the `syscall` for restarts, rcx for what follows.
const CALL_LEN: usize = ENTER_LEN + SYSCALL.len() + LEA_LEN;

/// `lea rcx, [rip + back]; jmp qword ptr gs:[gate_offset]`: the gate continues the program at rcx.
/// Touches neither the stack (the caller's red zone) nor the flags.
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
