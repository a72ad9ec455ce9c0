//! Layout of guest-physical and virtual memory.
//!
//! Virtual memory is the lower canonical half only. The last slot of the root page table
//! (`DIRECT_BASE ..`) belongs to keel and is the same in every address space: it maps guest-physical
//! address 0 upward with 2 MiB pages (the *direct map*). Everything below belongs to the program.

/// Size of a small page in bytes.
pub const PAGE_SIZE: usize = 4096;
/// Size of a large page in bytes.
pub const LARGE_PAGE_SIZE: usize = 2 << 20;

/// Index of the root page table entry that keel owns in every address space.
pub const KEEL_PML4_SLOT: usize = 255;
/// Virtual address of guest-physical address 0.
pub const DIRECT_BASE: usize = KEEL_PML4_SLOT << 39;
/// Bytes that the direct map can cover: 256 GiB.
pub const DIRECT_SIZE: usize = 256 << 30;
/// Virtual address of keel's stacks for threads, above the direct map: one every 64 KiB, and nothing below each.
pub const STACK_AREA: usize = DIRECT_BASE + DIRECT_SIZE;
/// Bytes of that area.
pub const STACK_AREA_SIZE: usize = 64 << 30;
/// First address above what a program may map. Keel's own region starts at `DIRECT_BASE`; the
/// pages between are never mapped.
pub const USER_TOP: usize = DIRECT_BASE - PAGE_SIZE;
/// Lowest address that a program may map without `MAP_FIXED` (Linux: `vm.mmap_min_addr`).
pub const USER_MIN: usize = 0x1_0000;

/// Guest-physical address of [`crate::boot::BootInfo`].
pub const BOOT_INFO: usize = 0x1_0000;
/// Guest-physical address of the first per-CPU block; see [`percpu`].
pub const PERCPU_BASE: usize = 0x2_0000;
/// Bytes of a per-CPU block.
pub const PERCPU_STRIDE: usize = 0x4000;
/// Most virtual CPUs of a pod.
pub const MAX_CPUS: usize = 16;
/// Guest-physical address of [`crate::ring::Ring`].
pub const RING: usize = 0x6_0000;
/// Guest-physical address of the first boot page table (the root); the monitor builds them.
pub const BOOT_TABLES: usize = 0x7_0000;
/// Guest-physical address where keel's image is loaded. Its virtual address is
/// `DIRECT_BASE + KEEL_IMAGE`.
pub const KEEL_IMAGE: usize = 0x20_0000;
/// A pod with less RAM than this is *small*: it is set up for little, and keel prefers little memory to few faults.
pub const SMALL_RAM: u64 = 32 << 20;
/// Guest-physical address of the *window*: host file pages appear here (DAX).
pub const WINDOW_BASE: usize = 128 << 30;
/// Bytes of window address space; slots are added on demand.
pub const WINDOW_SIZE: usize = 64 << 30;

/// Offsets inside a per-CPU block of `PERCPU_STRIDE` bytes.
pub mod percpu {
    /// The global descriptor table, laid out like Linux's (64-bit user code is selector 0x33).
    pub const GDT: usize = 0x000;
    /// The task state segment.
    pub const TSS: usize = 0x100;
    /// Keel's per-CPU data; the GS base points here.
    pub const DATA: usize = 0x400;
    /// The interrupt descriptor table: 256 gates.
    pub const IDT: usize = 0x1000;
    /// End (highest address) of the stack that interrupts use in ring 0.
    pub const INTERRUPT_STACK_END: usize = 0x3000;
    /// End (highest address) of the ring-0 stack, which exceptions use. At CPL 3 keel reads the frame that the
    /// processor pushed there, so nothing else may overwrite it meanwhile.
    pub const STACK0_END: usize = 0x4000;
}

/// Selectors, at the same places as in Linux: IRETQ between equal selectors stays native under
/// software-nested KVM.
pub mod selector {
    /// Ring-0 64-bit code.
    pub const KERNEL_CS: u16 = 0x10;
    /// Ring-0 data.
    pub const KERNEL_DS: u16 = 0x18;
    /// Ring-3 data.
    pub const USER_DS: u16 = 0x2b;
    /// Ring-3 64-bit code.
    pub const USER_CS: u16 = 0x33;
    /// Task state segment.
    pub const TSS: u16 = 0x40;
}

/// I/O ports that keel writes (one byte) to reach the monitor.
pub mod port {
    /// Doorbell: an ioeventfd wakes the helper thread; the virtual CPU continues.
    pub const DOORBELL: u16 = 0x510;
    /// No thread is runnable: serve the ring, wait for the first event, re-enter.
    pub const IDLE: u16 = 0x511;
    /// Serve the ring now and re-enter without waiting.
    pub const SERVE: u16 = 0x512;
    /// A ring-0 handler can't reflect an exception: the monitor prints its report.
    pub const PANIC: u16 = 0x513;
    /// Interrupt the virtual CPU whose number is written; it runs a program.
    pub const KICK: u16 = 0x514;
    /// Wake the virtual CPU whose number is written; it is idle or about to idle.
    pub const WAKE: u16 = 0x515;
    /// Create and start the virtual CPU whose number is written.
    pub const START: u16 = 0x516;
    /// The virtual CPU spins for another one: yield the host's processor.
    pub const YIELD: u16 = 0x517;
}

/// Interrupt vector that the monitor injects to make a virtual CPU check the ring and its timers.
pub const KICK_VECTOR: u8 = 0x20;
