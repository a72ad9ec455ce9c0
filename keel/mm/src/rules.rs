//! Inheritable memory rules of a process: prctl(2) `PR_SET_MDWE` and `PR_SET_THP_DISABLE`.

use super::Mm;
use super::area::{Area, AreaFlags};
use hal::paging::Prot;
use uapi::raw::prctl as p;
use uapi::{Errno, Result};

/// `PR_THP_DISABLE_EXCEPT_ADVISED`.
const EXCEPT_ADVISED: u32 = 2;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Flags of `PR_SET_MDWE`.
    execution: u32,
    /// 0, or 1 with flags of `PR_SET_THP_DISABLE`.
    no_huge: u32,
    /// A thread's personality(2) decides about new mappings.
    personal: bool,
}

impl Rules {
    /// Rules for children and for programs after execve(2).
    pub(super) fn inherited(self) -> Self {
        let ends = self.execution & p::PR_MDWE_NO_INHERIT != 0;
        Self { execution: if ends { 0 } else { self.execution }, ..self }
    }

    /// Whether memory is mapped under the big lock only.
    pub(super) fn needs_lock(self) -> bool {
        self.personal
    }

    /// Denies making memory executable that is writable or was not executable. EACCES.
    pub(super) fn check(self, before: Prot, after: Prot) -> Result<()> {
        let gains = after.contains(Prot::EXEC) && (after.contains(Prot::WRITE) || !before.contains(Prot::EXEC));
        if self.execution != 0 && gains { Err(Errno::EACCES) } else { Ok(()) }
    }

    /// Whether the mapping may use huge pages.
    pub(super) fn permit_huge(self, area: &Area) -> bool {
        match self.no_huge {
            0 => !area.flags.contains(AreaFlags::NO_HUGE),
            1 => false,
            _ => area.flags.contains(AreaFlags::HUGE),
        }
    }
}

impl Mm {
    /// Rules that are inherited.
    pub(super) fn inherited_rules(&self) -> Rules {
        self.inner().rules.inherited()
    }

    /// Whether huge pages are used at all.
    pub fn has_huge_pages(&self) -> bool {
        self.inner().rules.no_huge != 1
    }

    /// `PR_GET_THP_DISABLE`.
    pub fn huge_disabled(&self) -> u32 {
        self.inner().rules.no_huge
    }

    /// `PR_SET_THP_DISABLE`: present pages stay. EINVAL.
    pub fn disable_huge(&self, on: bool, flags: u64) -> Result<()> {
        if flags & !u64::from(EXCEPT_ADVISED) != 0 || !on && flags != 0 {
            return Err(Errno::EINVAL);
        }
        self.inner().rules.no_huge = if on { 1 | flags as u32 } else { 0 };
        Ok(())
    }

    /// From now on, memory is mapped where a thread's personality(2) is at hand.
    pub fn map_under_lock(&self) {
        self.inner().rules.personal = true;
    }

    /// `PR_GET_MDWE`.
    pub fn execution_rules(&self) -> u32 {
        self.inner().rules.execution
    }

    /// `PR_SET_MDWE`: rules can't be removed. EINVAL, EPERM.
    pub fn set_execution_rules(&self, flags: u64) -> Result<()> {
        const REFUSE: u64 = p::PR_MDWE_REFUSE_EXEC_GAIN as u64;
        const BOTH: u64 = REFUSE | p::PR_MDWE_NO_INHERIT as u64;
        if flags & !BOTH != 0 || flags != 0 && flags & REFUSE == 0 {
            return Err(Errno::EINVAL);
        }
        let rules = &mut self.inner().rules;
        if rules.execution != 0 && u64::from(rules.execution) != flags {
            return Err(Errno::EPERM);
        }
        rules.execution = flags as u32;
        Ok(())
    }
}
