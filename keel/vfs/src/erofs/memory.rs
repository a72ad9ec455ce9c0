//! An image in memory, for tests and random input.

use super::{BLOCK, Image, Source};
use crate::acl::Kind;
use crate::io::KernelDst;
use crate::node::{Private, Space};
use crate::{FileType, Inode};
use hal::frame::{FRAME_SIZE, Frame};
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec::Vec;
use uapi::{Errno, Result};

/// Bytes of an image.
pub struct Bytes(pub Vec<u8>);

impl Source for Bytes {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn page(&self, index: u64) -> Result<Frame> {
        let start = index as usize * FRAME_SIZE;
        let bytes = self.0.get(start..).filter(|bytes| !bytes.is_empty()).ok_or(Errno::EIO)?;
        let frame = Frame::alloc_zeroed().ok_or(Errno::ENOMEM)?;
        frame.write(0, &bytes[..bytes.len().min(FRAME_SIZE)]);
        Ok(frame)
    }

    fn pages(&self, first: u64, count: u64, _size: u64, _often: bool) -> Result<Vec<Frame>> {
        (first..first + count.min(16)).map(|index| self.page(index)).collect()
    }

    fn content(&self, index: u64, _wanted: u64) -> Result<Option<Frame>> {
        self.page(index).map(Some)
    }

    fn copies(&self, first: u64, count: u64) -> Result<Vec<Frame>> {
        self.pages(first, count, 0, false)
    }
}

/// Most files that one input makes visited, and most bytes read of one.
const MOST_FILES: usize = 200;
const MOST_BYTES: usize = 64 << 10;

/// Opens an image of any bytes and uses what it seems to hold: everything ends in a result or an errno.
pub fn visit(mut bytes: Vec<u8>) {
    // The checksum would keep all others out.
    if let Some(flags) = bytes.get_mut(1024 + 8) {
        *flags &= !1;
    }
    let Ok(root) = Image::open(Rc::new(Bytes(bytes)), 1) else { return };
    let mut files = VecDeque::from([root]);
    let mut buffer = std::vec![0; MOST_BYTES];
    for _ in 0..MOST_FILES {
        let Some(file) = files.pop_front() else { break };
        let pages = file.attr().size.div_ceil(BLOCK);
        for offset in [0, 1, BLOCK - 1, file.attr().size / 2, file.attr().size.saturating_sub(1), file.attr().size] {
            let _ = file.read_content(offset, &mut KernelDst(&mut buffer));
            let _ = (file.content_pages(offset / BLOCK, 16), file.content_copies(offset / BLOCK, 16));
            let _ = (file.seek_content(offset, true), file.seek_content(offset, false));
        }
        let _ = (file.content_pages(pages, 1), file.content_pages(u64::MAX, 1), file.link_target());
        let names = file.xattr_names().unwrap_or_default();
        assert!(names.iter().all(|name| file.get_xattr(name).is_ok() || !name.is_empty()));
        let _ = (file.acl(Kind::Access), file.acl(Kind::Default), file.find(b"."), file.find(b"zzz"));
        let layer = Private::overlay(2, Space::new(64)).over(file.clone());
        if file.kind() == FileType::Regular && file.attr().size < MOST_BYTES as u64 {
            let _ = layer.truncate(file.attr().size / 2);
        }
        let Ok(listing) = layer.readdir() else { continue };
        for entry in listing.iter().take(MOST_FILES) {
            if let Ok(found) = file.find(entry.name) {
                files.push_back(found);
            }
        }
    }
}
