//! Attributes of a terminal.

use uapi::raw::general as g;

/// Bytes of the kernel's `struct termios`.
pub const SIZE: usize = 36;

/// The kernel's `struct termios`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termios {
    /// Input modes.
    pub iflag: u32,
    /// Output modes.
    pub oflag: u32,
    /// Control modes.
    pub cflag: u32,
    /// Local modes.
    pub lflag: u32,
    /// Line discipline: stored, without effect.
    pub line: u8,
    /// Keys.
    pub keys: [u8; 19],
}

impl Default for Termios {
    /// Defaults of a new pseudo-terminal: cooked, with echo, 38400 bit/s.
    fn default() -> Self {
        let mut keys = [0; 19];
        let ctrl = |c: u8| c & 0x1f;
        let defaults = [
            (g::VINTR, ctrl(b'C')),
            (g::VQUIT, ctrl(b'\\')),
            (g::VERASE, 0x7f),
            (g::VKILL, ctrl(b'U')),
            (g::VEOF, ctrl(b'D')),
            (g::VMIN, 1),
            (g::VSTART, ctrl(b'Q')),
            (g::VSTOP, ctrl(b'S')),
            (g::VSUSP, ctrl(b'Z')),
            (g::VREPRINT, ctrl(b'R')),
            (g::VDISCARD, ctrl(b'O')),
            (g::VWERASE, ctrl(b'W')),
            (g::VLNEXT, ctrl(b'V')),
        ];
        for (key, byte) in defaults {
            if let Some(place) = keys.get_mut(key as usize) {
                *place = byte;
            }
        }
        let local = g::ISIG | g::ICANON | g::ECHO | g::ECHOE | g::ECHOK | g::ECHOCTL | g::ECHOKE | g::IEXTEN;
        Self {
            iflag: g::ICRNL | g::IXON,
            oflag: g::OPOST | g::ONLCR,
            cflag: g::B38400 | g::CS8 | g::CREAD,
            lflag: local,
            line: 0,
            keys,
        }
    }
}

impl Termios {
    /// Decodes the kernel's structure.
    pub fn from_bytes(bytes: &[u8; SIZE]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_ne_bytes(word)
        };
        let mut keys = [0; 19];
        keys.copy_from_slice(&bytes[17..]);
        Self { iflag: word(0), oflag: word(4), cflag: word(8), lflag: word(12), line: bytes[16], keys }
    }

    /// Encodes the kernel's structure.
    pub fn to_bytes(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        for (place, word) in bytes.chunks_exact_mut(4).zip([self.iflag, self.oflag, self.cflag, self.lflag]) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes[16] = self.line;
        bytes[17..].copy_from_slice(&self.keys);
        bytes
    }

    /// Whether a local mode is on.
    pub fn is(&self, flag: u32) -> bool {
        self.lflag & flag != 0
    }

    /// Whether an input mode is on.
    pub fn input_flag(&self, flag: u32) -> bool {
        self.iflag & flag != 0
    }

    /// Whether `byte` is this key; 0 is none.
    pub fn is_key(&self, key: u32, byte: u8) -> bool {
        byte != 0 && self.key(key) == byte
    }

    /// The byte of a key, or the value of `VMIN` and `VTIME`.
    pub fn key(&self, key: u32) -> u8 {
        self.keys.get(key as usize).copied().unwrap_or(0)
    }
}
