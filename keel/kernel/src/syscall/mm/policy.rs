//! Calls about memory policies: set_mempolicy(2), mbind(2), move_pages(2) and relatives.

use crate::mm::policy::{
    BIND, DEFAULT, INTERLEAVE, LOCAL, NUMA_BALANCING, ONLY, PREFERRED, PREFERRED_MANY, Policy, RELATIVE_NODES,
    STATIC_NODES, WEIGHTED_INTERLEAVE,
};
use crate::mm::{page_up, user};
use crate::task::cred::cap;
use crate::task::{self, Task, access, pid, pidns};
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use uapi::{Errno, Result};

/// Flags of get_mempolicy(2).
const NODE: u64 = 1;
const ADDR: u64 = 2;
const MEMS_ALLOWED: u64 = 4;

/// Flags of mbind(2) and move_pages(2).
const STRICT: u64 = 1;
const MOVE: u64 = 2;
const MOVE_ALL: u64 = 4;

/// Nodes that a mask may name: `CONFIG_NODES_SHIFT` is 10 in distributions.
const MAX_NODES: usize = 1024;
/// A set of nodes as programs give it: which of the first 64, and whether it has any.
#[derive(Clone, Copy, Debug, Default)]
struct Nodes {
    first: u64,
    any: bool,
}

impl Nodes {
    /// Reads a mask of `most - 1` bits. EFAULT, EINVAL for nodes that can't be.
    fn read(at: usize, most: usize) -> Result<Self> {
        let bits = most.wrapping_sub(1);
        if bits == 0 || at == 0 {
            return Ok(Self::default());
        }
        if bits > PAGE_SIZE * 8 {
            return Err(Errno::EINVAL);
        }
        let mut nodes = Self::default();
        for i in (0..bits.div_ceil(64)).rev() {
            let mut word: u64 = user::read(at.wrapping_add(i * 8))?;
            if bits - i * 64 < 64 {
                word &= (1 << (bits - i * 64)) - 1;
            }
            if word != 0 && i * 64 >= MAX_NODES {
                return Err(Errno::EINVAL);
            }
            nodes.any |= word != 0;
            nodes.first = word;
        }
        Ok(nodes)
    }

    fn has_only_node(&self) -> bool {
        self.first & ONLY != 0
    }
}

/// Writes a mask of `most - 1` bits. EFAULT, EINVAL.
fn write_nodes(at: usize, most: usize, nodes: u64) -> Result<()> {
    let bytes = most.wrapping_sub(1).checked_next_multiple_of(64).ok_or(Errno::EINVAL)? / 8;
    if bytes > PAGE_SIZE {
        return Err(Errno::EINVAL);
    }
    for i in (0..bytes).step_by(8) {
        user::write(at.wrapping_add(i), &if i == 0 { nodes } else { 0 })?;
    }
    Ok(())
}

/// Splits a mode from its flags. EINVAL.
fn split(mode: u32) -> Result<(u16, u16)> {
    const FLAGS: u16 = STATIC_NODES | RELATIVE_NODES | NUMA_BALANCING;
    let flags = mode as u16 & FLAGS;
    let mode = u16::try_from(mode & !u32::from(FLAGS)).map_err(|_| Errno::EINVAL)?;
    let both = flags & STATIC_NODES != 0 && flags & RELATIVE_NODES != 0;
    let balances = flags & NUMA_BALANCING != 0 && mode != BIND && mode != PREFERRED_MANY;
    if mode > WEIGHTED_INTERLEAVE || both || balances { Err(Errno::EINVAL) } else { Ok((mode, flags)) }
}

/// The policy of a mode, its flags and nodes. EINVAL if they don't fit.
fn policy((mode, flags): (u16, u16), nodes: Nodes) -> Result<Option<Policy>> {
    let about_nodes = flags & (STATIC_NODES | RELATIVE_NODES) != 0;
    let fits = match mode {
        DEFAULT => !nodes.any,
        LOCAL => !nodes.any && !about_nodes,
        PREFERRED if !nodes.any => !about_nodes,
        // Relative numbers are folded onto what there is.
        _ if flags & RELATIVE_NODES != 0 => nodes.any,
        _ => nodes.has_only_node(),
    };
    if !fits {
        return Err(Errno::EINVAL);
    }
    let mode = if mode == PREFERRED && !nodes.any { LOCAL } else { mode };
    Ok((mode != DEFAULT).then_some(Policy { mode, flags, named: nodes.first }))
}

/// set_mempolicy(2). EFAULT, EINVAL.
pub fn sys_set_mempolicy(mode: u32, mask: usize, most: usize) -> Result<()> {
    let policy = policy(split(mode)?, Nodes::read(mask, most)?)?;
    task::with_current(|me| me.memory_policy.set(policy));
    Ok(())
}

/// get_mempolicy(2). EFAULT, EINVAL.
pub fn sys_get_mempolicy(mode: usize, mask: usize, most: usize, addr: usize, flags: u64) -> Result<()> {
    if mask != 0 && most < 1 || flags & !(NODE | ADDR | MEMS_ALLOWED) != 0 {
        return Err(Errno::EINVAL);
    }
    let me = task::current();
    let (what, nodes) = if flags & MEMS_ALLOWED != 0 {
        if flags & (NODE | ADDR) != 0 {
            return Err(Errno::EINVAL);
        }
        (0, ONLY)
    } else {
        let policy = match flags & ADDR {
            0 if addr != 0 => return Err(Errno::EINVAL),
            0 => me.memory_policy.get(),
            _ => me.mm().policy_at(addr)?,
        };
        let what = match policy {
            _ if flags & (NODE | ADDR) == NODE | ADDR => {
                // Which node its page is on: it has one now.
                let _content: u8 = user::read(addr)?;
                0
            }
            Some(Policy { mode: INTERLEAVE | WEIGHTED_INTERLEAVE, .. }) if flags & NODE != 0 => 0,
            _ if flags & NODE != 0 => return Err(Errno::EINVAL),
            None => u32::from(DEFAULT),
            Some(policy) => u32::from(policy.mode | policy.flags),
        };
        (what, policy.map_or(0, |policy| policy.nodes()))
    };
    if mode != 0 {
        user::write(mode, &what)?;
    }
    if mask == 0 { Ok(()) } else { write_nodes(mask, most, nodes) }
}

/// End of `[start, start + len)` in whole pages. EINVAL.
fn end_of(start: usize, len: usize) -> Result<usize> {
    // Linux doesn't notice that the length wraps round.
    start.checked_add(page_up(len).unwrap_or(0)).ok_or(Errno::EINVAL)
}

/// mbind(2). EFAULT, EINVAL, EPERM.
pub fn sys_mbind(start: usize, len: usize, mode: u32, mask: usize, most: usize, flags: u64) -> Result<()> {
    let (mode, nodes) = (split(mode)?, Nodes::read(mask, most)?);
    if flags & !(STRICT | MOVE | MOVE_ALL) != 0 {
        return Err(Errno::EINVAL);
    }
    may_move(flags)?;
    if !start.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let end = end_of(start, len)?;
    if end == start {
        return Ok(());
    }
    task::current().mm().bind(start, end, policy(mode, nodes)?)
}

/// set_mempolicy_home_node(2): node 0 is the only node. EINVAL, ENOENT, EOPNOTSUPP.
pub fn sys_set_mempolicy_home_node(start: usize, len: usize, node: u64, flags: u64) -> Result<()> {
    if !start.is_multiple_of(PAGE_SIZE) || flags != 0 || node != 0 {
        return Err(Errno::EINVAL);
    }
    let end = end_of(start, len)?;
    if end == start {
        return Ok(());
    }
    let mut found = Err(Errno::ENOENT);
    for (_, _, area) in task::current().mm().pieces(start, end)? {
        found = match area.policy {
            None => found,
            Some(Policy { mode: BIND | PREFERRED_MANY, .. }) => Ok(()),
            Some(_) => return Err(Errno::EOPNOTSUPP),
        };
    }
    found
}

/// Moving what others share needs a capability. EPERM.
fn may_move(flags: u64) -> Result<()> {
    let allowed = flags & MOVE_ALL == 0 || task::with_current(|me| me.cred().capable(cap::SYS_NICE));
    if allowed { Ok(()) } else { Err(Errno::EPERM) }
}

/// The thread whose memory is meant. EPERM, ESRCH.
fn target(id: i32) -> Result<Rc<Task>> {
    let found = if id == 0 { task::current() } else { pid::find_subject(pidns::named(id))? };
    if id == 0 || access::may_look(&found, access::Ids::Real) { Ok(found) } else { Err(Errno::EPERM) }
}

/// migrate_pages(2): the pages that could not be moved. EFAULT, EINVAL, EPERM, ESRCH.
pub fn sys_migrate_pages(id: i32, most: usize, old: usize, new: usize) -> Result<usize> {
    let _from = Nodes::read(old, most)?;
    let to = Nodes::read(new, most)?;
    let target = target(id)?;
    if to.any && !to.has_only_node() && !task::with_current(|me| me.cred().capable(cap::SYS_NICE)) {
        return Err(Errno::EPERM);
    }
    if !to.has_only_node() {
        return Err(Errno::EINVAL);
    }
    target.try_mm().map(|_| 0).ok_or(Errno::EINVAL)
}

/// move_pages(2): reports the node of each page; there is one node, so none moves. EACCES, EFAULT, EINVAL, ENODEV, EPERM, ESRCH.
pub fn sys_move_pages(id: i32, count: usize, pages: usize, nodes: usize, status: usize, flags: u64) -> Result<()> {
    if flags & !(MOVE | MOVE_ALL) != 0 {
        return Err(Errno::EINVAL);
    }
    may_move(flags)?;
    let mm = target(id)?.try_mm().ok_or(Errno::EINVAL)?;
    for i in 0..count {
        let page: usize = user::read(pages.wrapping_add(i.wrapping_mul(size_of::<usize>())))?;
        if nodes != 0 {
            let node: i32 = user::read(nodes.wrapping_add(i.wrapping_mul(size_of::<i32>())))?;
            if node != 0 {
                return Err(Errno::ENODEV);
            }
        }
        let found = mm.node_of(page).map_or_else(|errno| -errno.code(), |()| 0);
        user::write(status.wrapping_add(i.wrapping_mul(size_of::<i32>())), &found)?;
        if i % 4096 == 4095 && task::current().is_killed() {
            return Err(Errno::EINTR);
        }
    }
    Ok(())
}
