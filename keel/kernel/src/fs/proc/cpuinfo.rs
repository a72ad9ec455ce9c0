//! `cpuinfo`: the virtual CPUs, from CPUID.

use super::system::cpus;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::cell::Global;
use hal::cpu::cpuid;

/// Registers of CPUID's answer.
const EAX: usize = 0;
const EBX: usize = 1;
const ECX: usize = 2;
const EDX: usize = 3;

/// Feature flags: leaf, subleaf, register, and Linux's names from bit 0 up (`_`: no name), in Linux's order.
const FLAGS: [(u32, u32, usize, &str); 12] = [
    (
        1,
        0,
        EDX,
        "fpu vme de pse tsc msr pae mce cx8 apic _ sep mtrr pge mca cmov pat pse36 pn clflush _ dts acpi mmx fxsr sse sse2 \
         ss ht tm ia64 pbe",
    ),
    (
        0x8000_0001,
        0,
        EDX,
        "_ _ _ _ _ _ _ _ _ _ _ syscall _ _ _ _ _ _ _ mp nx _ mmxext _ _ fxsr_opt pdpe1gb rdtscp _ lm 3dnowext 3dnow",
    ),
    (
        1,
        0,
        ECX,
        "pni pclmulqdq dtes64 monitor ds_cpl vmx smx est tm2 ssse3 cid sdbg fma cx16 xtpr pdcm _ pcid dca sse4_1 sse4_2 \
         x2apic movbe popcnt tsc_deadline_timer aes xsave _ avx f16c rdrand hypervisor",
    ),
    (
        0x8000_0001,
        0,
        ECX,
        "lahf_lm cmp_legacy svm extapic cr8_legacy abm sse4a misalignsse 3dnowprefetch osvw ibs xop skinit wdt _ lwp fma4 \
         tce _ nodeid_msr _ tbm topoext perfctr_core perfctr_nb _ bpext ptsc perfctr_llc mwaitx",
    ),
    (
        7,
        0,
        EBX,
        // FSGSBASE (bit 0) is not for programs here.
        "_ tsc_adjust sgx bmi1 hle avx2 _ smep bmi2 erms invpcid rtm cqm _ mpx rdt_a avx512f avx512dq rdseed adx smap \
         avx512ifma _ clflushopt clwb intel_pt avx512pf avx512er avx512cd sha_ni avx512bw avx512vl",
    ),
    (0xd, 1, EAX, "xsaveopt xsavec xgetbv1 xsaves"),
    (7, 1, EAX, "_ _ _ _ avx_vnni avx512_bf16 _ _ _ _ fzrm fsrs fsrc"),
    (
        0x8000_0008,
        0,
        EBX,
        "clzero irperf xsaveerptr _ rdpru _ _ _ _ wbnoinvd _ _ _ _ _ _ _ _ _ _ _ _ _ amd_ppin _ virt_ssbd",
    ),
    (6, 0, EAX, "dtherm ida arat"),
    (
        7,
        0,
        ECX,
        "_ avx512vbmi umip pku ospke waitpkg avx512_vbmi2 _ gfni vaes vpclmulqdq avx512_vnni avx512_bitalg _ \
         avx512_vpopcntdq _ la57 _ _ _ _ _ rdpid _ _ cldemote _ movdiri movdir64b",
    ),
    (0x8000_0007, 0, EBX, "overflow_recov succor _ smca"),
    (
        7,
        0,
        EDX,
        "_ _ avx512_4vnniw avx512_4fmaps fsrm _ _ _ avx512_vp2intersect _ md_clear _ _ _ serialize _ tsxldtrk _ _ _ \
         ibt _ amx_bf16 avx512_fp16 amx_tile amx_int8",
    ),
];

/// Flags that Linux derives: printed after the second group.
const DERIVED: &str = "constant_tsc rep_good nopl nonstop_tsc cpuid tsc_known_freq";
const DERIVED_AFTER: usize = 2;

/// Data that is the same for all CPUs, cached, because CPUID may trap.
static COMMON: Global<RefCell<Option<Common>>> = Global::new(RefCell::new(None));

/// The processor.
#[derive(Clone)]
pub struct Common {
    /// `GenuineIntel` …
    pub vendor: String,
    family: u32,
    model: u32,
    stepping: u32,
    name: String,
    level: u32,
    flags: Vec<&'static str>,
    /// Bytes that CLFLUSH works on.
    pub line_bytes: u32,
    physical_bits: u32,
    virtual_bits: u32,
    /// Size of the last cache but one, for `cache size`.
    pub cache_bytes: u64,
}

/// The processor, as CPUID describes it.
pub fn common() -> Common {
    if let Some(common) = COMMON.borrow().as_ref() {
        return common.clone();
    }
    let common = ask();
    *COMMON.borrow_mut() = Some(common.clone());
    common
}

/// Text of registers, up to a zero byte.
fn characters(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).take_while(|&b| b != 0).collect();
    String::from(String::from_utf8_lossy(&bytes).trim())
}

fn ask() -> Common {
    let [level, b, c, d] = cpuid(0, 0);
    let highest = cpuid(0x8000_0000, 0)[EAX];
    let extended = |leaf: u32| if leaf <= highest { cpuid(leaf, 0) } else { [0; 4] };
    let [signature, features, _, _] = cpuid(1, 0);
    let base_family = signature >> 8 & 0xf;
    let family = if base_family == 0xf { base_family + (signature >> 20 & 0xff) } else { base_family };
    let base_model = signature >> 4 & 0xf;
    let model = if family >= 6 { base_model | (signature >> 16 & 0xf) << 4 } else { base_model };
    let name: Vec<u32> = (0x8000_0002..=0x8000_0004).flat_map(extended).collect();
    let sizes = extended(0x8000_0008)[EAX];
    let available = |leaf: u32| if leaf >= 0x8000_0000 { leaf <= highest } else { leaf <= level };
    let mut flags = Vec::new();
    for (i, (leaf, subleaf, register, names)) in FLAGS.into_iter().enumerate() {
        if i == DERIVED_AFTER {
            flags.extend(DERIVED.split(' '));
        }
        let set = if available(leaf) { cpuid(leaf, subleaf)[register] } else { 0 };
        flags.extend(names.split(' ').enumerate().filter(|(bit, n)| set >> bit & 1 != 0 && *n != "_").map(|(_, n)| n));
    }
    // The second cache, in KiB; Intel describes its caches elsewhere but answers this as well.
    let cache_bytes = u64::from(extended(0x8000_0006)[ECX] >> 16) << 10;
    Common {
        vendor: characters(&[b, d, c]),
        family,
        model,
        stepping: signature & 0xf,
        name: characters(&name),
        level,
        flags,
        line_bytes: (features >> 8 & 0xff) * 8,
        physical_bits: if sizes == 0 { 36 } else { sizes & 0xff },
        virtual_bits: if sizes == 0 { 48 } else { sizes >> 8 & 0xff },
        cache_bytes,
    }
}

/// `cpuinfo`.
pub fn text() -> String {
    let c = common();
    let count = cpus();
    let khz = hal::boot::boot_info().tsc_khz;
    let bogomips = format!("{}.{:02}", khz / 500, khz % 500 / 5);
    let mhz = format!("{}.{:03}", khz / 1000, khz % 1000);
    let flags = c.flags.join(" ");
    (0..count)
        .map(|cpu| {
            format!(
                "processor\t: {cpu}\nvendor_id\t: {}\ncpu family\t: {}\nmodel\t\t: {}\nmodel name\t: {}\nstepping\t: {}\n\
                 microcode\t: 0x1\ncpu MHz\t\t: {mhz}\ncache size\t: {} KB\nphysical id\t: 0\nsiblings\t: {count}\n\
                 core id\t\t: {cpu}\ncpu cores\t: {count}\napicid\t\t: {cpu}\ninitial apicid\t: {cpu}\nfpu\t\t: yes\n\
                 fpu_exception\t: yes\ncpuid level\t: {}\nwp\t\t: yes\nflags\t\t: {flags}\nbugs\t\t:\n\
                 bogomips\t: {bogomips}\nclflush size\t: {}\ncache_alignment\t: {}\n\
                 address sizes\t: {} bits physical, {} bits virtual\npower management:\n\n",
                c.vendor,
                c.family,
                c.model,
                c.name,
                c.stepping,
                c.cache_bytes >> 10,
                c.level,
                c.line_bytes,
                c.line_bytes,
                c.physical_bits,
                c.virtual_bits,
            )
        })
        .collect()
}
