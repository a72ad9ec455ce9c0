//! The ring under fuzz: a guest that writes arbitrary bytes into its memory and sends arbitrary requests.

use crate::connectors::files::{ExportConfig, FilesConnector};
use crate::connectors::sockets::SocketsConnector;
use crate::connectors::sockets::toy::Toy;
use crate::connectors::streams::StreamsConnector;
use crate::error::Error;
use crate::memory::GuestMemory;
use crate::ring::RingEnd;
use crate::server::Server;
use abi::layout::{LARGE_PAGE_SIZE, RING};
use abi::operation::{Arguments, MAX_ARGUMENTS};
use abi::request::{FileRequest, PodRequest, SocketRequest, StreamRequest};
use abi::ring::{ENTRIES, Ring, Submission};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// A server over a few files, and the guest's memory.
#[derive(Debug)]
pub struct Rig {
    memory: Arc<GuestMemory>,
    directory: std::path::PathBuf,
}

/// Random bytes as a source of decisions.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// A number: small, near a limit, or arbitrary.
    fn number(&mut self) -> Option<u64> {
        Some(match self.byte()? % 8 {
            0 => 0,
            1 => 1 + u64::from(self.byte()? % 4),
            2 => u64::from(self.byte()?),
            3 => u64::MAX - u64::from(self.byte()?),
            4 => LARGE_PAGE_SIZE as u64 - u64::from(self.byte()?),
            5 => (LARGE_PAGE_SIZE / 2) as u64 + u64::from(self.byte()?) * 8,
            6 => RING as u64 + u64::from(self.byte()?) * 16,
            _ => (0..8).try_fold(0u64, |n, _| Some(n << 8 | u64::from(self.byte()?)))?,
        })
    }

    /// Arguments: usually as many as the operation has; others are rejected.
    fn arguments(&mut self, op: u32) -> Option<Arguments> {
        let mut all = [PodRequest::ALL, StreamRequest::ALL, FileRequest::ALL, SocketRequest::ALL].into_iter().flatten();
        let known = all.find(|(number, _)| *number == op).map_or(MAX_ARGUMENTS, |(_, count)| *count);
        let extra = usize::from(self.byte()? == 0);
        let mut words = [0; MAX_ARGUMENTS];
        words.iter_mut().take(known + extra).try_for_each(|word| self.number().map(|number| *word = number))?;
        Some(Arguments::raw(words))
    }
}

impl Rig {
    /// A guest with one large page of memory; its files lie in `directory`.
    pub fn new(directory: &Path) -> Result<Self, Error> {
        let vm = crate::kvm::open()?.create_vm().map_err(|e| Error::kvm("KVM_CREATE_VM", e))?;
        let large = LARGE_PAGE_SIZE as u64;
        let memory = GuestMemory::new(Arc::new(vm), large, u64::MAX, 4 * large, 4 * large)?;
        Ok(Self { memory: Arc::new(memory), directory: directory.to_owned() })
    }

    fn server(&self) -> std::io::Result<Server> {
        let open = |id, writable, public| ExportConfig::open(id, &self.directory, writable, public);
        let files = FilesConnector::new(vec![open(1, true, false)?, open(2, false, false)?, open(3, false, true)?]);
        let null =
            || -> std::io::Result<OwnedFd> { Ok(File::options().read(true).write(true).open("/dev/null")?.into()) };
        let streams = StreamsConnector::with([Some(null()?), Some(null()?), None]);
        let trace = File::options().write(true).open("/dev/null")?;
        let ring = RingEnd::new(self.memory.clone());
        let sockets = SocketsConnector::new(Box::new(Toy::new()?), None)?;
        Ok(Server::new(self.memory.clone(), ring, files, streams).with_sockets(sockets).with_trace_output(Some(trace)))
    }

    /// Runs one input.
    ///
    /// # Errors If the server can't be created.
    pub fn run(&self, data: &[u8]) -> std::io::Result<()> {
        let zeros = [0u8; size_of::<Ring>()];
        self.memory.write(RING as u64, &zeros).map_err(std::io::Error::other)?;
        let mut server = self.server()?;
        let mut choices = Choices(data);
        let mut tail = 0u32;
        while server.ending().is_none()
            && let Some(action) = choices.byte()
        {
            if self.act(action, &mut choices, &mut tail).is_none() {
                break;
            }
            server.serve();
            server.serve_late();
        }
        Ok(())
    }

    /// Performs the guest's next action. `None` at the end of the input.
    fn act(&self, action: u8, choices: &mut Choices<'_>, tail: &mut u32) -> Option<()> {
        match action % 8 {
            // Any word anywhere, including the indices of the ring.
            0 => {
                let at = choices.number()? % LARGE_PAGE_SIZE as u64 & !7;
                let value = choices.number()?;
                self.poke(at, &value.to_le_bytes());
            }
            1 => {
                let at = RING as u64 + u64::from(choices.byte()? % 32) * 4;
                let value = choices.number()? as u32;
                self.poke(at, &value.to_le_bytes());
            }
            // A text for paths and names.
            2 => {
                let at = (LARGE_PAGE_SIZE / 2) as u64 + u64::from(choices.byte()?) * 8;
                let len = usize::from(choices.byte()? % 32);
                let (text, rest) = choices.0.split_at_checked(len)?;
                self.poke(at, text);
                choices.0 = rest;
            }
            // A request in the submission queue.
            _ => {
                let op = u32::from(choices.byte()?);
                let arguments = choices.arguments(op)?;
                let request = Submission {
                    op,
                    flags: u32::from(choices.byte()? % 8),
                    id: choices.number()?,
                    arguments,
                    in_gpa: choices.number()?,
                    out_gpa: choices.number()?,
                    in_len: choices.number()? as u32,
                    out_len: choices.number()? as u32,
                };
                let slot =
                    core::mem::offset_of!(Ring, submissions) + *tail as usize % ENTRIES * size_of::<Submission>();
                self.poke((RING + slot) as u64, bytemuck::bytes_of(&request));
                *tail = tail.wrapping_add(1);
                self.poke((RING + core::mem::offset_of!(Ring, sub_tail)) as u64, &tail.to_le_bytes());
                // The guest consumes the completions.
                if action & 0x80 != 0 {
                    self.poke((RING + core::mem::offset_of!(Ring, comp_head)) as u64, &tail.to_le_bytes());
                }
            }
        }
        Some(())
    }

    /// Writes to the guest's memory; ignores writes beyond its end.
    fn poke(&self, at: u64, bytes: &[u8]) {
        let _ = self.memory.write(at, bytes);
    }
}
