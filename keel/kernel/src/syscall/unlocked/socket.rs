//! Sends and receives without the big lock: of connected sockets, without addresses and control data.

use super::{Use, outcome, with_core};
use crate::file::unlocked::Buffers;
use crate::mm::user::access_ok;
use hal::hooks::Unlocked;
use hal::smp;
use hal::trap::TrapFrame;
use hal::user as raw;
use uapi::raw::general as g;
use uapi::raw::net;

/// Flags that make no difference to a call that does not wait and does not fail.
pub const IGNORED: u32 = net::MSG_DONTWAIT | net::MSG_NOSIGNAL;
/// Most buffers of a message.
const MOST_BUFFERS: usize = 4;
/// Where `struct msghdr` has the words that a receive sets: `msg_controllen`, `msg_flags`.
const CONTROL_LEN: usize = 40;
const FLAGS: usize = 48;

/// sendto(2), recvfrom(2), sendmsg(2), recvmsg(2). `None`: left to the handler.
pub(super) fn attempt(frame: &TrapFrame, number: u32) -> Option<(isize, Unlocked)> {
    let [fd, address, third, fourth, peer, _] = frame.arguments();
    let address = address as usize;
    let is_message = matches!(number, g::__NR_sendmsg | g::__NR_recvmsg);
    let sends = matches!(number, g::__NR_sendto | g::__NR_sendmsg);
    let flags = if is_message { third } else { fourth } as u32;
    if flags & !IGNORED != 0 || !is_message && peer != 0 {
        return None;
    }
    let mut list = [(0, 0); MOST_BUFFERS];
    let list = if is_message { import(address, sends, &mut list)? } else { single(address, third, &mut list)? };
    let buffers = Buffers(list);
    with_core(fd, Use::Looks, |core, _| {
        let moved = if sends {
            core.send(&buffers, smp::enter)
        } else {
            let finish = || if is_message { finish_header(address) } else { Some(()) };
            core.receive(&buffers, finish, smp::enter)
        };
        moved.map(outcome)
    })
}

fn single(address: usize, count: u64, list: &mut [(usize, usize); MOST_BUFFERS]) -> Option<&[(usize, usize)]> {
    access_ok(address, count as usize).ok()?;
    list[0] = (address, count as usize);
    list.get(..1)
}

/// The buffers of a `struct msghdr` without an address; one to be sent has no control data either.
fn import(header: usize, sends: bool, list: &mut [(usize, usize); MOST_BUFFERS]) -> Option<&[(usize, usize)]> {
    let [name, name_len, iov, count, control, control_len, _] = raw::copy_in_value::<[usize; 7]>(header).ok()?;
    let has_control = control != 0 && control_len != 0;
    if name != 0 || (name_len as i32) < 0 || sends && has_control || count > MOST_BUFFERS {
        return None;
    }
    for (i, place) in list.iter_mut().enumerate().take(count) {
        let [base, len] = raw::copy_in_value::<[usize; 2]>(iov.checked_add(i * 16)?).ok()?;
        access_ok(base, len).ok()?;
        *place = (base, len);
    }
    list.get(..count)
}

/// Nothing came along.
fn finish_header(header: usize) -> Option<()> {
    raw::copy_out_value(header.checked_add(CONTROL_LEN)?, &0usize).ok()?;
    raw::copy_out_value(header.checked_add(FLAGS)?, &0u32).ok()
}
