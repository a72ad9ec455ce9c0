//! Memory policies on the pod's only NUMA node.
//!
//! All memory is on node 0, so a policy never changes the placement of a page. It is checked, stored, inherited and
//! reported as by Linux on a machine with one node.

use super::Mm;
use super::area::Area;
use abi::layout::PAGE_SIZE;
use alloc::string::String;
use uapi::{Errno, Result};

/// Mode `MPOL_DEFAULT`: no policy.
pub const DEFAULT: u16 = 0;
/// Mode `MPOL_PREFERRED`.
pub const PREFERRED: u16 = 1;
/// Mode `MPOL_BIND`.
pub const BIND: u16 = 2;
/// Mode `MPOL_INTERLEAVE`.
pub const INTERLEAVE: u16 = 3;
/// Mode `MPOL_LOCAL`.
pub const LOCAL: u16 = 4;
/// Mode `MPOL_PREFERRED_MANY`.
pub const PREFERRED_MANY: u16 = 5;
/// Mode `MPOL_WEIGHTED_INTERLEAVE`.
pub const WEIGHTED_INTERLEAVE: u16 = 6;
/// Names of the modes in `numa_maps`.
const NAMES: [&str; 7] = ["default", "prefer", "bind", "interleave", "local", "prefer (many)", "weighted interleave"];

/// Flag `MPOL_F_STATIC_NODES`.
pub const STATIC_NODES: u16 = 1 << 15;
/// Flag `MPOL_F_RELATIVE_NODES`.
pub const RELATIVE_NODES: u16 = 1 << 14;
/// Flag `MPOL_F_NUMA_BALANCING`.
pub const NUMA_BALANCING: u16 = 1 << 13;

/// The only node.
pub const ONLY: u64 = 1;

/// A policy other than the default one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// One of the modes.
    pub mode: u16,
    /// Flags that came with it.
    pub flags: u16,
    /// The first nodes in the program's mask.
    pub named: u64,
}

impl Policy {
    /// The nodes that get_mempolicy(2) returns.
    pub fn nodes(&self) -> u64 {
        match self.mode {
            _ if self.flags & (STATIC_NODES | RELATIVE_NODES) != 0 => self.named,
            LOCAL => 0,
            _ => ONLY,
        }
    }

    /// The policy in the format of `numa_maps`.
    pub fn describe(policy: Option<Self>) -> String {
        let Some(policy) = policy else { return String::from("default") };
        let mut text = String::from(NAMES.get(usize::from(policy.mode)).copied().unwrap_or_default());
        if policy.flags & STATIC_NODES != 0 {
            text.push_str("=static");
        } else if policy.flags & RELATIVE_NODES != 0 {
            text.push_str("=relative");
        }
        if policy.mode != LOCAL {
            text.push_str(":0");
        }
        text
    }
}

impl Mm {
    /// The policy of the mapping at an address. EFAULT.
    pub fn policy_at(&self, addr: usize) -> Result<Option<Policy>> {
        self.inner().vmas.find(addr).map(|vma| vma.attrs.policy).ok_or(Errno::EFAULT)
    }

    /// Sets the policy of all mappings in `[start, end)`. EFAULT: no mapping, or a hole, which only the default policy
    /// permits.
    pub fn bind(&self, start: usize, end: usize, policy: Option<Policy>) -> Result<()> {
        let mut inner = self.inner();
        let empty = inner.vmas.is_free(start, end);
        if empty || policy.is_some() && !inner.vmas.is_covered(start, end) {
            return Err(Errno::EFAULT);
        }
        inner.make_room(2)?;
        inner.vmas.update(start, end, |area: &mut Area| area.policy = policy);
        Ok(())
    }

    /// Checks that a page is on the node. EFAULT: not mapped; ENOENT: not present.
    pub fn node_of(&self, addr: usize) -> Result<()> {
        let inner = self.inner();
        inner.vmas.find(addr).ok_or(Errno::EFAULT)?;
        inner.space.get(addr & !(PAGE_SIZE - 1)).map(|_| ()).ok_or(Errno::ENOENT)
    }
}
