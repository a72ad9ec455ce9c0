//! Paths of archives.

use crate::{
    Limits,
    error::{Fault, Limit},
};

/// The names of a path: `.` and empty names are dropped and `..` is applied lexically, as Docker does. A path that leads
/// above the root is refused. The root has no names.
pub(crate) fn names<'a>(path: &'a [u8], limits: &Limits) -> Result<Vec<&'a [u8]>, Fault> {
    if path.is_empty() || path.contains(&0) {
        return Err(Fault::BadName);
    }
    if path.len() > limits.path {
        return Err(Fault::Limit(Limit::Path(limits.path)));
    }
    let mut names = Vec::new();
    for name in path.split(|&b| b == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop().ok_or(Fault::Outside)?;
            }
            _ if name.len() > limits.name => return Err(Fault::Limit(Limit::Name(limits.name))),
            _ => names.push(name),
        }
    }
    if names.len() > limits.depth {
        return Err(Fault::Limit(Limit::Depth(limits.depth)));
    }
    Ok(names)
}
