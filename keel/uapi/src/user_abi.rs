//! Structures that may be copied to and from programs byte by byte.
#![allow(unsafe_code)]

use crate::raw::general as g;

/// A structure that may be copied to and from program memory byte by byte.
///
/// # Safety
/// Every bit pattern is a valid value and the type holds no references. Padding is allowed: values for a program are
/// built from [`zeroed`], so padding leaks no data of keel.
pub unsafe trait UserAbi: Sized {}

macro_rules! user_abi { ($($t:ty),* $(,)?) => { $(
    // SAFETY: a C structure of integers (and pointers as raw addresses) from the kernel's headers.
    unsafe impl UserAbi for $t {}
)* } }
user_abi!(u8, i8, u16, i16, u32, i32, u64, i64, usize, isize);
user_abi!(
    g::stat,
    g::statx,
    g::statfs64,
    g::__kernel_timespec,
    g::__kernel_old_timeval,
    g::timezone,
    g::rlimit,
    g::rlimit64,
    g::rusage,
    g::pollfd,
    g::epoll_event,
    g::flock,
    g::iovec,
    g::open_how,
    g::clone_args,
    g::__kernel_itimerspec,
    g::__kernel_old_itimerval,
    g::__kernel_fsid_t,
    g::robust_list_head,
    g::__user_cap_header_struct,
    g::__user_cap_data_struct,
    g::winsize,
    g::termios,
    linux_raw_sys::system::sysinfo,
    linux_raw_sys::system::new_utsname,
);
// SAFETY: an array of such values is plain bytes too.
unsafe impl<T: UserAbi, const N: usize> UserAbi for [T; N] {}

/// A value whose every byte, padding included, is zero.
pub fn zeroed<T: UserAbi>() -> T {
    // SAFETY: `UserAbi` guarantees that every bit pattern is valid.
    unsafe { core::mem::zeroed() }
}
