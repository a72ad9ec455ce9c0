//! getrandom(2).

use crate::mm::user;
use crate::random::fill;
use crate::task::with_current;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Bytes generated at once.
const CHUNK: usize = 1024;

/// getrandom(2). EFAULT, EINVAL.
pub fn sys_getrandom(at: usize, len: usize, flags: u32) -> Result<usize> {
    let known = g::GRND_NONBLOCK | g::GRND_RANDOM | g::GRND_INSECURE;
    let both = g::GRND_RANDOM | g::GRND_INSECURE;
    if flags & !known != 0 || flags & both == both {
        return Err(Errno::EINVAL);
    }
    let len = len.min(i32::MAX as usize);
    let mut done = 0;
    let mut chunk = [0; CHUNK];
    while done < len {
        let n = (len - done).min(CHUNK);
        fill(&mut chunk[..n]);
        match user::write_bytes(at.wrapping_add(done), &chunk[..n]) {
            Ok(()) => done += n,
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
        if done < len && with_current(|t| t.is_killed()) {
            break;
        }
    }
    Ok(done)
}
