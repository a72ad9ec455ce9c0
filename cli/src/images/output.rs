//! Files that a command writes as a whole.

use crate::failure::{Failure, Result, reason};
use image::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes a file beside its place and moves it there when it is complete. Devices and pipes are written directly.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> image::Result<()>) -> Result<()> {
    let fail = |error: std::io::Error| {
        Failure::Image(Error::new(path.display(), reason(&error), "name a file that can be written"))
    };
    if fs::metadata(path).is_ok_and(|data| !data.is_file()) {
        let mut file = File::options().write(true).open(path).map_err(fail)?;
        return Ok(write(&mut file)?);
    }
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let temp = path.with_file_name(format!(".{name}.hull-{}", std::process::id()));
    let file = File::create_new(&temp).map_err(fail)?;
    let mut buffered = BufWriter::with_capacity(1 << 18, &file);
    let written = write(&mut buffered).map_err(Failure::from).and_then(|()| buffered.flush().map_err(fail));
    drop(buffered);
    let written = written.and_then(|()| file.sync_all().and_then(|()| fs::rename(&temp, path)).map_err(fail));
    written.inspect_err(|_| {
        // The first error counts.
        let _ = fs::remove_file(&temp);
    })
}
