//! CPUID.

use core::arch::x86_64::__cpuid_count;

/// Registers eax, ebx, ecx, edx of a CPUID leaf (SDM volume 2, CPUID). Costs some microseconds if the instruction
/// traps: cache the result.
pub fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    let r = __cpuid_count(leaf, subleaf);
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// AT_HWCAP (CPUID leaf 1, edx) and AT_HWCAP2 (bit 1: FSGSBASE usable, which keel does not offer).
pub fn hwcap() -> (u64, u64) {
    (u64::from(cpuid(1, 0)[3]), 0)
}
