//! What the processor says about itself.

use core::arch::x86_64::__cpuid_count;

/// Registers eax, ebx, ecx, edx of a CPUID leaf (SDM volume 2, CPUID). Costs some microseconds where
/// the instruction traps: ask once.
pub fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    let r = __cpuid_count(leaf, subleaf);
    [r.eax, r.ebx, r.ecx, r.edx]
}
