//! System information and resource usage: uname(2), sysinfo(2), getrusage(2), times(2).

use crate::mm::user;
use crate::sched::load;
use crate::task::{current, pid, reap, uts};
use crate::time::{SECOND, clock};
use alloc::vec::Vec;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Bytes of a field of `struct new_utsname`.
const FIELD: usize = 65;
/// ns of a clock tick of times(2).
const TICK_NS: u64 = 10_000_000;

/// uname(2). EFAULT.
pub fn sys_uname(at: usize) -> Result<()> {
    let (names, system) = (uts::here(), uts::system());
    let mut out = [0u8; 6 * FIELD];
    let persona = crate::task::with_current(|t| t.personality.get());
    let machine: &[u8] = if persona & PER_MASK == PER_LINUX32 { b"i686" } else { b"x86_64" };
    let release = if persona & UNAME26 != 0 { release_26(&system.release) } else { system.release };
    let fields: [&[u8]; 6] = [b"Linux", &names.host(), &release, &system.version, machine, &names.domain()];
    for (to, from) in out.chunks_exact_mut(FIELD).zip(fields) {
        let n = from.len().min(FIELD - 1);
        to[..n].copy_from_slice(&from[..n]);
    }
    user::write_bytes(at, &out)
}

/// Mask of the execution domain in a personality, and the one of 32-bit programs.
const PER_MASK: u32 = 0xff;
const PER_LINUX32: u32 = 8;
/// Personality bit: report a 2.6 release.
const UNAME26: u32 = 0x0002_0000;

/// The release with UNAME26, for programs that support only Linux 2.6: 6.1.2-x is 2.6.61.2-x.
fn release_26(release: &[u8]) -> Vec<u8> {
    let mut dots = 0;
    let rest = release.iter().position(|b| {
        dots += usize::from(*b == b'.');
        !(b.is_ascii_digit() || *b == b'.' && dots < 3)
    });
    let minor = release.split(|b| *b == b'.').nth(1).unwrap_or_default();
    let minor: u32 =
        minor.iter().map_while(|b| (*b as char).to_digit(10)).fold(0, |n, d| n.wrapping_mul(10).wrapping_add(d));
    let mut out = alloc::format!("2.6.{}", minor.wrapping_add(60)).into_bytes();
    out.extend_from_slice(&release[rest.unwrap_or(release.len())..]);
    out
}

fn read_name(at: usize, len: usize) -> Result<Vec<u8>> {
    if !current().cred().capable_in(uts::here().user_ns(), crate::task::cred::cap::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    // `len` is a signed int in Linux.
    if (len as i32) < 0 || len >= FIELD {
        return Err(Errno::EINVAL);
    }
    user::read_array::<u8>(at, len)
}

/// sethostname(2). EFAULT, EINVAL, EPERM.
pub fn sys_sethostname(at: usize, len: usize) -> Result<()> {
    uts::here().set_host(read_name(at, len)?);
    Ok(())
}

/// setdomainname(2). EFAULT, EINVAL, EPERM.
pub fn sys_setdomainname(at: usize, len: usize) -> Result<()> {
    uts::here().set_domain(read_name(at, len)?);
    Ok(())
}

/// sysinfo(2). EFAULT.
pub fn sys_sysinfo(at: usize) -> Result<()> {
    let ram = hal::frame::ram_usage();
    // The pod's limit, not its current size.
    let used = ram.total.saturating_sub(ram.free);
    let mut words = [0u64; 14];
    words[0] = clock::boottime_ns() / SECOND;
    words[1..4].copy_from_slice(&load::averages());
    words[4] = ram.limit;
    words[5] = ram.limit.saturating_sub(used);
    // Shared, buffers, swap: 0. Then the number of threads and the unit of the sizes.
    words[10] = pid::thread_count() as u64 & 0xffff;
    words[13] = 1;
    user::write(at, &words)
}

/// getrusage(2). EFAULT, EINVAL.
pub fn sys_getrusage(who: i32, at: usize) -> Result<()> {
    const SELF: i32 = g::RUSAGE_SELF as i32;
    const THREAD: i32 = g::RUSAGE_THREAD as i32;
    let me = current();
    let mut usage = match who {
        SELF => me.process().usage(),
        -1 => me.process().children_usage(),
        THREAD => me.sched.usage(),
        _ => return Err(Errno::EINVAL),
    };
    if who != -1 {
        usage.max_resident = usage.max_resident.max(me.mm().resident_bytes());
    }
    reap::write_rusage(at, &usage)
}

/// times(2). EFAULT.
pub fn sys_times(at: usize) -> Result<u64> {
    if at != 0 {
        let me = current();
        let (own, children) = (me.process().usage(), me.process().children_usage());
        let ticks = [own.user_ns, own.system_ns, children.user_ns, children.system_ns].map(|ns| ns / TICK_NS);
        user::write(at, &ticks)?;
    }
    Ok(clock::boottime_ns() / TICK_NS)
}
