//! Messages of netlink: headers, attributes, common replies.

use super::super::netns::NetNs;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};
use vfs::memory::Text;

/// Bytes of `struct nlmsghdr`.
pub const HEADER: usize = 16;
/// Flags of messages.
const NLM_F_REQUEST: u16 = 1;
const NLM_F_MULTI: u16 = 2;
pub const NLM_F_ACK: u16 = 4;
/// The object must not exist yet; it may, and is replaced.
pub const NLM_F_EXCL: u16 = 0x200;
pub const NLM_F_REPLACE: u16 = 0x100;
/// The object is made.
pub const NLM_F_CREATE: u16 = 0x400;
/// Requests a whole table (`NLM_F_ROOT | NLM_F_MATCH`).
pub const NLM_F_DUMP: u16 = 0x300;
/// Types of messages.
const NLMSG_MIN_TYPE: u16 = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// An answer has no more of the request in it than its header.
const NLM_F_CAPPED: u16 = 0x100;

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its type.
    pub kind: u16,
    /// `NLM_F_*`.
    pub flags: u16,
    sequence: u32,
    /// The bytes after the header.
    pub body: &'a [u8],
    /// Header and body.
    whole: &'a [u8],
    /// Address of the requesting socket.
    from: u32,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_ne_bytes)
}

/// The word at `at`; 0 beyond the end.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// Takes the first request off `data`.
fn next<'a>(data: &mut &'a [u8], from: u32) -> Option<Request<'a>> {
    let len = u32_at(data, 0) as usize;
    if data.len() < HEADER || len < HEADER || len > data.len() {
        return None;
    }
    let whole = &data[..len];
    *data = data.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    let (kind, flags) = (u16_at(whole, 4), u16_at(whole, 6));
    Some(Request { kind, flags, sequence: u32_at(whole, 8), body: &whole[HEADER..], whole, from })
}

/// Passes the answers to all requests in `data` of the socket with address `from` to `take`; `handle` fills each.
pub fn answers(
    ns: &Rc<NetNs>,
    mut data: &[u8],
    from: u32,
    handle: fn(&Rc<NetNs>, &Request<'_>, &mut Answer<'_>) -> Result<()>,
    take: impl Fn(Vec<u8>),
) {
    while let Some(request) = next(&mut data, from) {
        let mut answer = Answer::new(request);
        let result = if request.flags & NLM_F_REQUEST == 0 || request.kind < NLMSG_MIN_TYPE {
            Ok(())
        } else {
            handle(ns, &request, &mut answer)
        };
        answer.finish(result).into_iter().for_each(&take);
    }
}

/// The attributes in `data`: type and value.
pub fn attributes(mut data: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let len = usize::from(u16_at(data, 0));
        let value = data.get(4..len)?;
        let kind = u16_at(data, 2) & 0x3fff;
        data = data.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// Several messages in one answer.
#[derive(Debug)]
pub struct Answer<'a> {
    request: Request<'a>,
    bytes: Text,
    start: usize,
    flags: u16,
    /// The request is for a table.
    is_dump: bool,
}

impl Answer<'static> {
    /// A message that answers no request.
    pub fn notice() -> Self {
        Self::new(Request { kind: 0, flags: 0, sequence: 0, body: &[], whole: &[], from: 0 })
    }

    /// The messages. ENOMEM.
    pub fn bytes(self) -> Result<Vec<u8>> {
        self.bytes.done()
    }
}

impl<'a> Answer<'a> {
    /// An empty one.
    pub fn new(request: Request<'a>) -> Self {
        let is_dump = request.flags & NLM_F_DUMP != 0;
        let flags = if is_dump { NLM_F_MULTI } else { 0 };
        Self { request, bytes: Text::default(), start: 0, flags, is_dump }
    }

    /// The request is for a change, whose flags have another meaning.
    pub fn of_change(&mut self) {
        (self.flags, self.is_dump) = (0, false);
    }

    /// Begins a message with its fixed part.
    pub fn begin(&mut self, kind: u16, fixed: &[u8]) {
        self.start = self.bytes.len();
        self.bytes.add(&[0; 4]);
        self.bytes.add(&kind.to_ne_bytes());
        self.bytes.add(&self.flags.to_ne_bytes());
        self.bytes.add(&self.request.sequence.to_ne_bytes());
        self.bytes.add(&self.request.from.to_ne_bytes());
        self.bytes.add(fixed);
    }

    /// Adds an attribute.
    pub fn add(&mut self, kind: u16, value: &[u8]) {
        self.bytes.add(&(4 + value.len() as u16).to_ne_bytes());
        self.bytes.add(&kind.to_ne_bytes());
        self.bytes.add(value);
        self.pad();
    }

    /// Adds a number.
    pub fn word(&mut self, kind: u16, value: u32) {
        self.add(kind, &value.to_ne_bytes());
    }

    /// Ends the message.
    pub fn end(&mut self) {
        let len = (self.bytes.len() - self.start) as u32;
        self.bytes.replace(self.start, &len.to_ne_bytes());
        self.pad();
    }

    fn pad(&mut self) {
        let len = self.bytes.len();
        self.bytes.add(&[0; 4][..len.next_multiple_of(4) - len]);
    }

    /// The messages, and the end of a table or an acknowledgement.
    pub fn finish(self, result: Result<()>) -> [Vec<u8>; 2] {
        let (request, is_dump) = (self.request, self.is_dump);
        let (bytes, result) = match self.bytes.done() {
            Ok(bytes) => (bytes, result),
            Err(errno) => (Vec::new(), Err(errno)),
        };
        let mut last = Answer { request, bytes: Text::default(), start: 0, flags: 0, is_dump };
        match result {
            Ok(()) if is_dump => {
                last.flags = NLM_F_MULTI;
                last.begin(NLMSG_DONE, &[0; 4]);
            }
            Ok(()) if request.flags & NLM_F_ACK != 0 => {
                last.flags = NLM_F_CAPPED;
                last.begin(NLMSG_ERROR, &[0; 4]);
                last.bytes.add(&request.whole[..HEADER]);
            }
            Ok(()) => return [bytes, Vec::new()],
            Err(errno) => last.error(errno),
        }
        last.end();
        // Out of memory, the program gets no answer.
        [bytes, last.bytes.done().unwrap_or_default()]
    }

    fn error(&mut self, errno: Errno) {
        self.begin(NLMSG_ERROR, &(-errno.code()).to_ne_bytes());
        self.bytes.add(self.request.whole);
    }
}
