//! `/proc/PID/task/TID/children`.

use super::subject::Subject;
use alloc::vec::Vec;
use uapi::Result;
use vfs::memory::Text;

/// Ids of the children, which all belong to the leader here.
pub fn text(subject: &Subject) -> Result<Vec<u8>> {
    let process = subject.process()?;
    if subject.id() != process.pid() {
        return Ok(Vec::new());
    }
    let mut ids = Text::default();
    process.children().for_each(|child| ids.print(format_args!("{} ", subject.shown(child.pid()))));
    ids.done()
}
