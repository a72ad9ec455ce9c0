//! `/proc/PID/task/TID/children`.

use super::subject::Subject;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use uapi::Result;

/// Ids of the children, which all belong to the leader here.
pub fn text(subject: &Subject) -> Result<Vec<u8>> {
    let process = subject.process()?;
    if subject.id() != process.pid() {
        return Ok(Vec::new());
    }
    let ids: String = process.children().iter().map(|child| format!("{} ", child.pid())).collect();
    Ok(ids.into_bytes())
}
