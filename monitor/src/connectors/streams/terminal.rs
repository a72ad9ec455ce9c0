//! Terminal attributes, and their restoration when the pod ends.

use super::super::{Errno, Result};
use abi::request::TermiosWhen;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, SpecialCodes, Termios,
    tcgetattr, tcsetattr,
};
use std::sync::{Mutex, PoisonError};

/// Bytes of the kernel's `struct termios`.
pub const SIZE: usize = 36;
/// Offset of `c_line`.
const LINE: usize = 16;
/// Offset of `c_cc`, 19 bytes; the last two are unused.
const CODES: usize = 17;

/// Indices of `c_cc` in order.
const CODE: [SpecialCodeIndex; 17] = [
    SpecialCodeIndex::VINTR,
    SpecialCodeIndex::VQUIT,
    SpecialCodeIndex::VERASE,
    SpecialCodeIndex::VKILL,
    SpecialCodeIndex::VEOF,
    SpecialCodeIndex::VTIME,
    SpecialCodeIndex::VMIN,
    SpecialCodeIndex::VSWTC,
    SpecialCodeIndex::VSTART,
    SpecialCodeIndex::VSTOP,
    SpecialCodeIndex::VSUSP,
    SpecialCodeIndex::VEOL,
    SpecialCodeIndex::VREPRINT,
    SpecialCodeIndex::VDISCARD,
    SpecialCodeIndex::VWERASE,
    SpecialCodeIndex::VLNEXT,
    SpecialCodeIndex::VEOL2,
];

/// The terminal's attributes as the kernel's `struct termios`.
pub fn attributes(fd: BorrowedFd<'_>) -> Result<[u8; SIZE]> {
    let termios = tcgetattr(fd)?;
    let mut bytes = [0; SIZE];
    let modes = [
        termios.input_modes.bits(),
        termios.output_modes.bits(),
        termios.control_modes.bits(),
        termios.local_modes.bits(),
    ];
    for (place, mode) in bytes.chunks_exact_mut(4).zip(modes) {
        place.copy_from_slice(&mode.to_ne_bytes());
    }
    bytes[LINE] = termios.line_discipline;
    for (place, index) in bytes[CODES..].iter_mut().zip(CODE) {
        *place = termios.special_codes[index];
    }
    Ok(bytes)
}

/// Sets terminal attributes, except the line discipline and the speed, which belong to the host.
pub fn set_attributes(fd: BorrowedFd<'_>, when: TermiosWhen, bytes: &[u8]) -> Result<()> {
    let when = match when {
        TermiosWhen::Now => OptionalActions::Now,
        TermiosWhen::Drain => OptionalActions::Drain,
        TermiosWhen::Flush => OptionalActions::Flush,
    };
    let bytes: &[u8; SIZE] = bytes.try_into().map_err(|_| Errno::INVAL)?;
    let mut termios = tcgetattr(fd)?;
    let mut modes = bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap_or_default()));
    let mut next = || modes.next().unwrap_or_default();
    termios.input_modes = InputModes::from_bits_retain(next());
    termios.output_modes = OutputModes::from_bits_retain(next());
    let speed = SPEED & termios.control_modes.bits();
    termios.control_modes = ControlModes::from_bits_retain(next() & !SPEED | speed);
    termios.local_modes = LocalModes::from_bits_retain(next());
    set_codes(&mut termios.special_codes, &bytes[CODES..]);
    tcsetattr(fd, when, &termios)
}

/// `CBAUD | CIBAUD`.
const SPEED: u32 = 0o010017 | 0o2003600000;

fn set_codes(codes: &mut SpecialCodes, bytes: &[u8]) {
    for (index, byte) in CODE.into_iter().zip(bytes) {
        codes[index] = *byte;
    }
}

/// The terminal to restore and its saved attributes; one per process, so that a signal handler's thread and a panic
/// hook can reach it.
static SAVED: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// Saves a terminal's attributes and restores them when dropped.
#[derive(Debug)]
pub struct TerminalGuard(());

impl TerminalGuard {
    /// Saves the attributes of this terminal; ENOTTY if it is none.
    pub fn new(fd: BorrowedFd<'_>) -> Result<Self> {
        let termios = tcgetattr(fd)?;
        let fd = rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 3)?;
        let mut saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner);
        saved.get_or_insert((fd, termios));
        Ok(Self(()))
    }

    /// [`Self::restore`] for a signal handler, which must not wait for a lock of the interrupted thread.
    pub(crate) fn restore_from_handler() {
        if let Ok(mut saved) = SAVED.try_lock()
            && let Some((fd, termios)) = saved.as_ref()
        {
            let _ = tcsetattr(fd, OptionalActions::Now, termios);
            *saved = None;
        }
    }

    /// Restores the saved attributes, if any. For ends of the process without destructors: a panic, a fatal signal,
    /// `process::exit`.
    pub fn restore() {
        let saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((fd, termios)) = saved {
            // Ignore errors: the terminal may be gone.
            let _ = tcsetattr(fd, OptionalActions::Now, &termios);
        }
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        Self::restore();
    }
}
