//! Datagrams that are received: several at once, with what the host tells of them where the pod asked for it.

use super::super::super::payload::Output;
use super::super::super::{Errno, Result};
use super::super::options;
use super::super::told::{self, Told};
use super::Socket;
use abi::request::{DatagramFacts, DatagramRecord, MAX_DATAGRAM, tell};
use rustix::fd::AsFd;

/// Most datagrams that one operation receives.
pub const MAX_BATCH: usize = 64;

/// A datagram that was received and not delivered.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What the host told of it.
    pub told: Told,
}

impl Socket {
    /// What is told of datagrams from now on. ENOTCONN; EINVAL for unknown bits.
    pub fn tell(&mut self, what: u32, addresses: bool) -> Result<()> {
        let fd = self.fd()?;
        if what & !tell::ALL != 0 {
            return Err(Errno::INVAL);
        }
        options::tell(fd, what, addresses);
        self.tells = what;
        Ok(())
    }

    /// Receives datagrams as records; how many bytes. `None`: there are none yet.
    pub fn receive_datagrams(
        &mut self,
        into: &[crate::memory::io::GuestSlice],
        scratch: &mut [u8],
    ) -> Option<Result<usize>> {
        let mut output = Output::new(into);
        for _ in 0..MAX_BATCH {
            if let Some(held) = self.held.pop_front() {
                if let Err(error) = self.put(&mut output, &held.bytes, &held.told) {
                    self.held.push_front(held);
                    if output.written() == 0 {
                        return Some(Err(error));
                    }
                    break;
                }
                continue;
            }
            let (bytes, told) = match self.next_datagram(scratch) {
                Ok((length, told)) => (scratch.get(..length).unwrap_or_default(), told),
                Err(Errno::AGAIN) => break,
                // Reported alone, next time.
                Err(error) if output.written() == 0 => return Some(Err(error)),
                Err(_) => break,
            };
            if let Err(error) = self.put(&mut output, bytes, &told) {
                self.held.push_front(Datagram { bytes: bytes.to_vec(), told });
                if output.written() == 0 {
                    return Some(Err(error));
                }
                break;
            }
        }
        (output.written() > 0).then(|| Ok(output.written()))
    }

    fn next_datagram(&mut self, scratch: &mut [u8]) -> Result<(usize, Told)> {
        if !self.readable {
            return Err(Errno::AGAIN);
        }
        let fd = self.fds.first().ok_or(Errno::NOTCONN)?;
        loop {
            let received = match self.tells {
                0 => rustix::io::read(fd, &mut *scratch).map(|length| (length, Told::default())),
                _ => told::receive(fd.as_fd(), scratch).map(|(length, _, told)| (length, told)),
            };
            match received {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.readable = false;
                    return Err(Errno::AGAIN);
                }
                other => return other,
            }
        }
    }

    /// Adds a datagram as a record. ENOBUFS if it does not fit.
    fn put(&self, output: &mut Output<'_>, bytes: &[u8], told: &Told) -> Result<()> {
        // What was received before it was asked for, or by the broker, need not be told.
        let (bits, facts) = if self.tells == 0 { Default::default() } else { told.record() };
        let facts = if bits == 0 { &[][..] } else { bytemuck::bytes_of(&facts) };
        let padding = bytes.len().next_multiple_of(8) - bytes.len();
        let head = DatagramRecord { len: bytes.len() as u32, told: bits };
        let size = size_of::<DatagramRecord>() + facts.len() + bytes.len() + padding;
        if bytes.len() > MAX_DATAGRAM || output.room() < size {
            return Err(Errno::NOBUFS);
        }
        output.put(bytemuck::bytes_of(&head))?;
        output.put(facts)?;
        output.put(bytes)?;
        output.put(&[0; 8][..padding])
    }
}

const _: () = assert!(size_of::<DatagramFacts>().is_multiple_of(8));
