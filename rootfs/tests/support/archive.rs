//! Archives made byte by byte, so that they may be wrong.

/// A tar archive.
#[derive(Clone, Default)]
pub struct Archive(pub Vec<u8>);

/// A header before its checksum.
pub struct Header(pub [u8; 512]);

impl Header {
    /// A ustar header of `kind` with mode 0644 and time 1.
    pub fn new(name: &str, kind: u8, size: u64) -> Header {
        let mut header = Header([0; 512]);
        header.text(0, name).octal(100, 7, 0o644).octal(108, 7, 0).octal(116, 7, 0);
        header.octal(124, 11, size).octal(136, 11, 1).text(257, "ustar\x0000");
        header.0[156] = kind;
        header
    }

    pub fn text(&mut self, at: usize, text: &str) -> &mut Header {
        self.0[at..at + text.len()].copy_from_slice(text.as_bytes());
        self
    }

    pub fn octal(&mut self, at: usize, digits: usize, value: u64) -> &mut Header {
        self.text(at, &format!("{value:0digits$o}"))
    }

    pub fn bytes(&mut self, at: usize, bytes: &[u8]) -> &mut Header {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }
}

impl Archive {
    pub fn new() -> Archive {
        Archive::default()
    }

    /// Adds a header, with its checksum, and data with padding.
    pub fn raw(mut self, header: &Header, data: &[u8]) -> Archive {
        let mut block = header.0;
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend(block);
        self.0.extend(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub fn file(self, name: &str, data: &[u8]) -> Archive {
        self.raw(&Header::new(name, b'0', data.len() as u64), data)
    }

    pub fn directory(self, name: &str) -> Archive {
        self.raw(Header::new(name, b'5', 0).octal(100, 7, 0o750), b"")
    }

    pub fn symlink(self, name: &str, target: &str) -> Archive {
        self.raw(Header::new(name, b'2', 0).text(157, target), b"")
    }

    pub fn link(self, name: &str, target: &str) -> Archive {
        self.raw(Header::new(name, b'1', 0).text(157, target), b"")
    }

    /// A whiteout or any other empty file.
    pub fn empty(self, name: &str) -> Archive {
        self.file(name, b"")
    }

    /// A PAX header.
    pub fn pax(self, records: &[(&str, &[u8])]) -> Archive {
        let mut data = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let mut len = rest + 1;
            while len != rest + len.to_string().len() {
                len = rest + len.to_string().len();
            }
            data.extend(format!("{len} {key}=").bytes());
            data.extend(*value);
            data.push(b'\n');
        }
        self.raw(&Header::new("PaxHeaders/x", b'x', data.len() as u64), &data)
    }

    /// A GNU long name (`L`) or link target (`K`).
    pub fn long(self, kind: u8, text: &str) -> Archive {
        let data = [text.as_bytes(), b"\0"].concat();
        self.raw(&Header::new("././@LongLink", kind, data.len() as u64), &data)
    }

    /// The archive with its end.
    pub fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}
