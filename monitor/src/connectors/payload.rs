//! Payloads of requests: lists of guest memory, copied in and out once.

use super::{Errno, Result};
use crate::memory::io::{GuestSlice, total};

/// Copies a whole input in; E2BIG if it is longer than `limit` bytes.
pub fn copy_in(input: &[GuestSlice], limit: usize) -> Result<Vec<u8>> {
    let len = total(input);
    if len > limit {
        return Err(Errno::TOOBIG);
    }
    let mut bytes = vec![0; len];
    let mut rest = bytes.as_mut_slice();
    for slice in input {
        let (head, tail) = rest.split_at_mut_checked(slice.len()).ok_or(Errno::FAULT)?;
        slice.read(head)?;
        rest = tail;
    }
    Ok(bytes)
}

/// Writes an output piece by piece into the guest's buffers.
#[derive(Debug)]
pub struct Output<'a> {
    slices: &'a [GuestSlice],
    /// Bytes used of `slices[0]`.
    used: usize,
    room: usize,
    written: usize,
}

impl<'a> Output<'a> {
    /// An output that fills `slices` from the beginning.
    pub fn new(slices: &'a [GuestSlice]) -> Self {
        Self { slices, used: 0, room: total(slices), written: 0 }
    }

    /// Bytes that still fit.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Bytes written so far.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Appends `bytes`; ERANGE, and nothing written, if they don't fit.
    pub fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.room {
            return Err(Errno::RANGE);
        }
        while !bytes.is_empty() {
            let slice = self.slices.first().ok_or(Errno::RANGE)?;
            let part = slice.part(self.used, bytes.len());
            if part.is_empty() {
                self.slices = self.slices.get(1..).unwrap_or_default();
                self.used = 0;
                continue;
            }
            let (head, tail) = bytes.split_at_checked(part.len()).ok_or(Errno::FAULT)?;
            part.write(head)?;
            self.used += head.len();
            self.room -= head.len();
            self.written += head.len();
            bytes = tail;
        }
        Ok(())
    }

    /// The remaining room, without its first `skip` bytes.
    pub fn rest(&self, skip: usize) -> Vec<GuestSlice> {
        let mut skip = skip.saturating_add(self.used);
        let mut rest = Vec::with_capacity(self.slices.len());
        for slice in self.slices {
            let part = slice.part(skip, usize::MAX);
            skip -= slice.len() - part.len();
            if !part.is_empty() {
                rest.push(part);
            }
        }
        rest
    }

    /// Appends `value` if the guest offered room for it; otherwise does nothing.
    pub fn put_optional<T: bytemuck::Pod>(&mut self, value: &T) -> Result<()> {
        let bytes = bytemuck::bytes_of(value);
        if bytes.len() > self.room { Ok(()) } else { self.put(bytes) }
    }
}
