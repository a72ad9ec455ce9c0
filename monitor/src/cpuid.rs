//! CPUID and model-specific registers of the guest: an allow-list of leaves and bits.
//!
//! A guest gets features that user-space code uses. Features that only a kernel could use are hidden, because keel does
//! not use them: performance counters, nested virtualisation (VMX, SVM), paravirtual services of KVM, power management,
//! protection keys. New features of a later processor or KVM are hidden until they are listed.
//!
//! Where KVM runs programs without hardware virtualisation, CPUID at CPL 3 returns the processor's own leaves; only
//! ring 0 sees this list.

use crate::error::Error;
use kvm_bindings::{CpuId, KVM_CAP_PMU_CAPABILITY, kvm_cpuid_entry2, kvm_enable_cap};
use kvm_ioctls::{Cap, MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags, VmFd};

/// All bits.
const ALL: u32 = !0;

/// Bits of a register by their numbers.
const fn bits(list: &[u32]) -> u32 {
    let (mut mask, mut i) = (0, 0);
    while i < list.len() {
        mask |= 1 << list[i];
        i += 1;
    }
    mask
}

/// A leaf, one subleaf or all (`None`), and the allowed bits of EAX, EBX, ECX and EDX.
type Leaf = (u32, Option<u32>, [u32; 4]);

/// Features of leaf 1 in ECX: SSE3, PCLMUL, SSSE3, FMA, CMPXCHG16B, SSE4.1, SSE4.2, MOVBE, POPCNT, AES, XSAVE, OSXSAVE, AVX,
/// F16C, RDRAND, and that there is a hypervisor.
const BASIC_C: u32 = bits(&[0, 1, 9, 12, 13, 19, 20, 22, 23, 25, 26, 27, 28, 29, 30, 31]);
/// And in EDX: all but debug stores, thermal control and their like.
const BASIC_D: u32 = 0x178b_fbff;
/// Leaf 7 in EBX: FSGSBASE, BMI1, AVX2, SMEP, BMI2, ERMS, ZERO_FCS_FDS, the parts of AVX-512, RDSEED, ADX, SMAP, CLFLUSHOPT, CLWB,
/// SHA.
const MORE_B: u32 = bits(&[0, 3, 5, 7, 8, 9, 13, 16, 17, 18, 19, 20, 21, 23, 24, 26, 27, 28, 29, 30, 31]);
/// In ECX: PREFETCHWT1, VBMI, UMIP, VBMI2, GFNI, VAES, VPCLMULQDQ, VNNI, BITALG, VPOPCNTDQ, RDPID, CLDEMOTE, MOVDIRI, MOVDIR64B.
const MORE_C: u32 = bits(&[0, 1, 2, 6, 8, 9, 10, 11, 12, 14, 22, 25, 27, 28]);
/// In EDX: further parts of AVX-512, FSRM, MD_CLEAR, SERIALIZE, AVX512_FP16.
const MORE_D: u32 = bits(&[2, 3, 4, 8, 10, 14, 23]);
/// Leaf 7, subleaf 1, in EAX: SHA512, SM3, SM4, AVX-VNNI, AVX512_BF16, fast short string operations, AVX-IFMA.
const MOST_A: u32 = bits(&[0, 1, 2, 4, 5, 10, 11, 12, 23]);
/// In EDX: AVX-VNNI-INT8, AVX-NE-CONVERT, AVX-VNNI-INT16, PREFETCHI.
const MOST_D: u32 = bits(&[4, 5, 10, 14]);
/// XSAVEOPT, XSAVEC, XGETBV with ECX = 1.
const XSAVE_A: u32 = bits(&[0, 1, 2]);
/// AMD's leaf 0x80000001 in ECX: LAHF, CMP_LEGACY, CR8, ABM, SSE4A, MISALIGNSSE, 3DNOWPREFETCH, XOP, FMA4, TBM, TOPOEXT.
const EXTENDED_C: u32 = bits(&[0, 1, 4, 5, 6, 7, 8, 11, 16, 21, 22]);
/// CLZERO, XSAVEERPTR, WBNOINVD.
const SIZES_B: u32 = bits(&[0, 2, 9]);
/// The time stamp counter runs at one speed.
const INVARIANT_TSC: u32 = bits(&[8]);
/// No nested data breakpoints, LFENCE serialises, a null selector clears the base.
const EXTENDED2_A: u32 = bits(&[0, 2, 6]);

/// Allowed leaves. All others read as zeros.
const ALLOWED: [Leaf; 26] = [
    (0, None, [ALL; 4]),
    (1, None, [ALL, ALL, BASIC_C, BASIC_D]),
    (2, None, [ALL; 4]), // caches
    (4, None, [ALL; 4]), // caches
    (7, Some(0), [ALL, MORE_B, MORE_C, MORE_D]),
    (7, Some(1), [MOST_A, 0, 0, MOST_D]),
    (0xb, None, [ALL; 4]), // topology
    (0xd, Some(0), [crate::vcpu::XCR0_KNOWN as u32, ALL, ALL, 0]),
    (0xd, Some(1), [XSAVE_A, ALL, 0, 0]),
    (0xd, Some(2), [ALL; 4]), // AVX
    (0xd, Some(5), [ALL; 4]), // AVX-512
    (0xd, Some(6), [ALL; 4]),
    (0xd, Some(7), [ALL; 4]),
    (0x1f, None, [ALL; 4]), // topology
    (0x8000_0000, None, [ALL; 4]),
    (0x8000_0001, None, [ALL, ALL, EXTENDED_C, 0xefd3_fbff]),
    (0x8000_0002, None, [ALL; 4]), // name
    (0x8000_0003, None, [ALL; 4]),
    (0x8000_0004, None, [ALL; 4]),
    (0x8000_0005, None, [ALL; 4]), // caches
    (0x8000_0006, None, [ALL; 4]),
    (0x8000_0007, None, [0, 0, 0, INVARIANT_TSC]),
    (0x8000_0008, None, [ALL, SIZES_B, ALL, 0]), // sizes of addresses
    (0x8000_001a, None, [ALL; 4]),               // speed of vectors
    (0x8000_001d, None, [ALL; 4]),               // caches
    (0x8000_0021, None, [EXTENDED2_A, 0, 0, 0]),
];

/// AMD's topology leaf contains the APIC id of the virtual CPU, which KVM fills in.
const TOPOLOGY: u32 = 0x8000_001e;

/// Removes the bits that are not allowed from those that the host's KVM supports.
pub fn restrict(supported: &mut CpuId) {
    supported.retain(|entry| entry.function == TOPOLOGY || allowed(entry).is_some());
    for entry in supported.as_mut_slice() {
        let [a, b, c, d] = allowed(entry).unwrap_or([ALL; 4]);
        entry.eax &= a;
        entry.ebx &= b;
        entry.ecx &= c;
        entry.edx &= d;
    }
}

fn allowed(entry: &kvm_cpuid_entry2) -> Option<[u32; 4]> {
    let applies =
        |(leaf, subleaf, _): &&Leaf| *leaf == entry.function && subleaf.is_none_or(|subleaf| subleaf == entry.index);
    ALLOWED.iter().find(applies).map(|(.., masks)| *masks)
}

/// Denies ring 0 of the guest every model-specific register (#GP): keel uses none, and the monitor sets those that it
/// needs. Without support in the host's KVM (before Linux 5.10) KVM's own list applies.
pub fn deny_registers(vm: &VmFd) -> Result<(), Error> {
    if !vm.check_extension(Cap::X86MsrFilter) {
        return Ok(());
    }
    // A filter needs at least one range; its bitmap allows no register.
    let nothing = MsrFilterRange {
        flags: MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE,
        base: 0,
        msr_count: 1,
        bitmap: &[0; 8],
    };
    vm.set_msr_filter(MsrFilterDefaultAction::DENY, &[nothing]).map_err(|e| Error::kvm("KVM_X86_SET_MSR_FILTER", e))
}

/// Disables performance counters if the host's KVM supports that (Linux 5.18). Call it before the first virtual CPU is
/// created.
pub fn deny_counters(vm: &VmFd) -> Result<(), Error> {
    const KVM_PMU_CAP_DISABLE: i32 = 1;
    if vm.check_extension_raw(KVM_CAP_PMU_CAPABILITY.into()) & KVM_PMU_CAP_DISABLE == 0 {
        return Ok(());
    }
    let args = [KVM_PMU_CAP_DISABLE as u64, 0, 0, 0];
    let cap = kvm_enable_cap { cap: KVM_CAP_PMU_CAPABILITY, args, ..kvm_enable_cap::default() };
    vm.enable_cap(&cap).map_err(|e| Error::kvm("KVM_CAP_PMU_CAPABILITY", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_programs_use_is_left() {
        let all = |function, index| kvm_cpuid_entry2 {
            function,
            index,
            eax: ALL,
            ebx: ALL,
            ecx: ALL,
            edx: ALL,
            ..kvm_cpuid_entry2::default()
        };
        let leaves: Vec<_> = (0..0x24)
            .chain(0x4000_0000..0x4000_0004)
            .chain(0x8000_0000..0x8000_0022)
            .flat_map(|leaf| (0..2).map(move |index| all(leaf, index)))
            .collect();
        let mut cpuid = CpuId::from_entries(&leaves).unwrap();
        restrict(&mut cpuid);
        let find = |leaf| cpuid.as_slice().iter().find(|entry| entry.function == leaf);
        // Monitor/mwait, counters, VMX, PCID, x2APIC, deadlines of the local APIC.
        assert_eq!(find(1).unwrap().ecx & bits(&[2, 3, 5, 15, 17, 21, 24]), 0);
        assert_ne!(find(1).unwrap().ecx & bits(&[28]), 0);
        // SVM, its counters, SKINIT.
        assert_eq!(find(0x8000_0001).unwrap().ecx & bits(&[2, 10, 12, 23, 24]), 0);
        // Speculation control, transactional memory, AMX.
        assert_eq!(find(7).unwrap().edx & bits(&[16, 22, 24, 25, 26, 27, 29, 31]), 0);
        assert_eq!(find(7).unwrap().ebx & bits(&[2, 4, 11, 25]), 0);
        for absent in [5, 6, 0xa, 0xf, 0x10, 0x12, 0x14, 0x19, 0x1d, 0x4000_0000, 0x4000_0001, 0x8000_000a, 0x8000_001f]
        {
            assert!(find(absent).is_none(), "{absent:#x}");
        }
    }
}
