//! `PR_SET_MM` and `PR_GET_AUXV`: where /proc shows a program's parts, and the vector that it was started with; prctl(2).

use crate::mm::{Layout, user};
use crate::task::Task;
use crate::task::cred::cap;
use abi::layout::{USER_MIN, USER_TOP};
use core::mem::size_of;
use uapi::raw::prctl as p;
use uapi::{Errno, Result};

/// `PR_GET_AUXV`, since Linux 6.4: "AUXV".
pub const PR_GET_AUXV: u32 = 0x4155_5856;
/// Words that Linux keeps of the vector on x86-64.
const AUXV_WORDS: usize = 56;

/// Words of `struct prctl_mm_map`: the eleven addresses of [`Places`], then the auxiliary vector's address, and in one word its
/// size and the descriptor of an executable.
type Map = [u64; 13];
/// Start and end of text, of data, of the heap; the stack's; start and end of the arguments and of the environment.
type Places = [u64; 11];

/// `PR_GET_AUXV`: as many bytes as fit; returns the number of all. EFAULT, EINVAL.
pub fn auxiliary_vector(me: &Task, at: usize, room: usize, rest_is_zero: bool) -> Result<i32> {
    if !rest_is_zero {
        return Err(Errno::EINVAL);
    }
    let mut words = [0u64; AUXV_WORDS];
    for (to, from) in words.iter_mut().zip(me.mm().auxv()) {
        *to = *from;
    }
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    user::write_bytes(at, bytes.get(..room).unwrap_or(bytes))?;
    Ok(bytes.len() as i32)
}

/// `PR_SET_MM`. The heap, the auxiliary vector and the executable can't be changed. EFAULT, EINVAL, EPERM.
pub fn set(me: &Task, which: u64, arg: u64, more: u64, last: u64) -> Result<()> {
    let which = which as u32;
    let sized = matches!(which, p::PR_SET_MM_AUXV | p::PR_SET_MM_MAP | p::PR_SET_MM_MAP_SIZE);
    if last != 0 || more != 0 && !sized {
        return Err(Errno::EINVAL);
    }
    let mm = me.mm();
    let now = places(&mm.layout(), mm.brk_end());
    match which {
        p::PR_SET_MM_MAP_SIZE => return user::write(arg as usize, &(size_of::<Map>() as u32)),
        p::PR_SET_MM_MAP => {
            if more as usize != size_of::<Map>() {
                return Err(Errno::EINVAL);
            }
            let [wanted @ .., vector, rest]: Map = user::read(arg as usize)?;
            check(me, &wanted)?;
            let no_executable = (rest >> 32) as u32 == u32::MAX;
            let same_heap = wanted.get(4..6) == now.get(4..6);
            if vector != 0 || rest as u32 != 0 || !no_executable || !same_heap {
                return Err(Errno::EINVAL);
            }
            apply(me, &wanted);
            return Ok(());
        }
        _ => {}
    }
    if !me.cred().capable(cap::SYS_RESOURCE) {
        return Err(Errno::EPERM);
    }
    let at = match which {
        p::PR_SET_MM_START_CODE => 0,
        p::PR_SET_MM_END_CODE => 1,
        p::PR_SET_MM_START_DATA => 2,
        p::PR_SET_MM_END_DATA => 3,
        p::PR_SET_MM_START_STACK => 6,
        p::PR_SET_MM_ARG_START => 7,
        p::PR_SET_MM_ARG_END => 8,
        p::PR_SET_MM_ENV_START => 9,
        p::PR_SET_MM_ENV_END => 10,
        _ => return Err(Errno::EINVAL),
    };
    let mut wanted = now;
    if let Some(place) = wanted.get_mut(at) {
        *place = arg;
    }
    check(me, &wanted)?;
    // The stack's, the arguments' and the environment's must be below the end of something.
    if at >= 6 && mm.area_from(arg as usize, true, |_, _, _| true).is_none() {
        return Err(Errno::EFAULT);
    }
    apply(me, &wanted);
    Ok(())
}

fn places(layout: &Layout, brk: usize) -> Places {
    let Layout { start_code, end_code, start_data, end_data, start_brk, start_stack, .. } = *layout;
    let Layout { arg_start, arg_end, env_start, env_end, .. } = *layout;
    [start_code, end_code, start_data, end_data, start_brk, brk, start_stack, arg_start, arg_end, env_start, env_end]
        .map(|place| place as u64)
}

/// All lie where programs can, starts before ends, and data within its limit. EINVAL.
fn check(me: &Task, places: &Places) -> Result<()> {
    let [start_code, end_code, start_data, end_data, start_brk, brk, _, arg_start, arg_end, env_start, env_end] =
        *places;
    let inside = places.iter().all(|place| (USER_MIN as u64..USER_TOP as u64).contains(place));
    let ordered = start_code < end_code
        && start_data <= end_data
        && start_brk <= brk
        && arg_start <= arg_end
        && env_start <= env_end;
    if !inside || !ordered || (brk - start_brk) + (end_data - start_data) > me.mm().limits().data {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

fn apply(me: &Task, places: &Places) {
    let [start_code, end_code, start_data, end_data, _, _, start_stack, arg_start, arg_end, env_start, env_end] =
        places.map(|place| place as usize);
    let old = me.mm().layout();
    me.mm().set_layout(Layout {
        start_code,
        end_code,
        start_data,
        end_data,
        start_stack,
        arg_start,
        arg_end,
        env_start,
        env_end,
        ..old
    });
}
