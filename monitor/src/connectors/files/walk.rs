//! Attributes along a path, and targets of symbolic links.

use super::super::payload::Output;
use super::super::{Errno, Result};
use super::attr;
use super::export::{Dir, ExportConfig};
use super::path::{MAX_PATH, RelPath};
use abi::request::{NodeAttr, Walk, Walked};
use rustix::fd::AsFd;

/// [`Walk`]: reports every component after the first `skip`, until one does not exist, is no directory or may not be
/// searched, or the output is full.
pub fn walk(export: &ExportConfig, walk: Walk, path: RelPath<'_>, out: &mut Output<'_>) -> Result<Walked> {
    if path.is_empty() {
        out.put(bytemuck::bytes_of(&attr::node_attr(&export.place(path)?.attr()?)))?;
        return Ok(Walked { reported: 1, ..Walked::default() });
    }
    if export.is_file() {
        return Err(Errno::NOTDIR);
    }
    let skip = usize::try_from(walk.skip).map_err(|_| Errno::INVAL)?;
    let (head, tail) = path.split_names(skip);
    let mut dir = export.directory(head)?;
    let covered = export.covers.names_to(path);
    let mut passed = head.names().count();
    let mut reported = 0;
    let mut names = tail.names().peekable();
    let stopped = loop {
        let Some(name) = names.next() else { break None };
        if out.room() < size_of::<NodeAttr>() {
            break None;
        }
        // Stat a directory on the way through its own descriptor, so that its attributes and its children stay
        // consistent during concurrent renames.
        let entered = if names.peek().is_some() { export.enter(dir.as_fd(), name) } else { Err(Errno::NOTDIR) };
        let (stat, next) = match entered {
            Ok((next, stat)) => {
                passed += 1;
                let may_pass = if covered == Some(passed) { Err(Errno::ACCESS) } else { export.check_node(&stat) };
                (stat, Some(may_pass.and_then(|()| export.check_search(&stat)).map(|()| next)))
            }
            // The last component, or no directory.
            Err(Errno::ACCESS) => match attr::at(dir.as_fd(), name) {
                Ok(stat) => (stat, Some(Err(Errno::ACCESS))),
                Err(error) => break Some(error),
            },
            Err(Errno::NOTDIR | Errno::LOOP) => match attr::at(dir.as_fd(), name) {
                Ok(stat) => (stat, None),
                Err(error) => break Some(error),
            },
            Err(error) => break Some(error),
        };
        out.put(bytemuck::bytes_of(&attr::node_attr(&stat)))?;
        reported += 1;
        match next {
            None => break None,
            Some(Err(error)) => break Some(error),
            Some(Ok(next)) => dir = Dir::Beneath(next),
        }
    };
    let exist = head.names().count() as u64 + reported;
    let stopped = stopped.map_or(0, |errno| errno.raw_os_error().unsigned_abs());
    Ok(Walked { reported, stopped, exist })
}

/// [`abi::request::ReadLink`]: the target, truncated to the output.
pub fn read_link(export: &ExportConfig, path: RelPath<'_>, out: &mut Output<'_>) -> Result<u64> {
    let place = export.place(path)?;
    if !export.covers.is_empty() {
        export.check_node(&place.attr()?)?;
    }
    let target = rustix::fs::readlinkat(place.dir.as_fd(), place.name, Vec::with_capacity(256))?;
    let target = target.as_bytes();
    let len = target.len().min(out.room()).min(MAX_PATH);
    out.put(target.get(..len).unwrap_or_default())?;
    Ok(len as u64)
}
