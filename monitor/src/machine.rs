//! The virtual machine of a pod at boot: memory, page tables, keel's image, boot information.

use crate::clocks::{Clocks, Reading};
use crate::config::{self, KeelFailure, RunConfig, Syscalls};
use crate::error::Error;
use crate::event::Event;
use crate::image::Image;
use crate::memory::GuestMemory;
use crate::run::Signal;
use crate::vcpu::Vcpu;
use abi::boot::{BootInfo, MAGIC, flags};
use abi::layout::{
    BOOT_INFO, BOOT_TABLES, DIRECT_BASE, KEEL_IMAGE, KEEL_PML4_SLOT, LARGE_PAGE_SIZE, PAGE_SIZE, SMALL_RAM,
    WINDOW_BASE, percpu, port,
};
use kvm_ioctls::{IoEventAddress, Kvm, NoDatamatch, VmFd};
use std::sync::Arc;

/// Bytes of a frame table entry.
const FRAME_ENTRY: u64 = 16;
/// Bytes of a window table entry.
const WINDOW_ENTRY: u64 = 4;
/// Maximum window of a pod: the range of four page directories.
pub(crate) const WINDOW_LIMIT: u64 = 4 << 30;
/// Bytes that keel's image may have.
const IMAGE_ROOM: u64 = 4 << 20;
/// Free RAM at boot, beyond image and tables.
const BOOT_FREE: u64 = 24 << 20;
/// Part of it that is on small host pages: enough for keel and a small program.
const SMALL_FREE: u64 = 1 << 20;
/// RAM that every pod uses at boot.
const SURELY_USED: u64 = 256 << 10;
/// Minimum of `--memory`.
pub const MIN_MEMORY: u64 = 6 << 20;
/// Free RAM of a small pod at boot: enough for keel to say that it is too little for a program.
const SMALLEST_FREE: u64 = 1 << 20;
/// Free RAM below keel's image in such a pod, at least.
const SMALL_LOW: u64 = 1 << 20;
/// Copies of the configuration that keel makes while it boots.
const CONFIG_COPIES: u64 = 4;
/// Bytes of the window for each byte of RAM of a small pod.
const SMALL_WINDOW: u64 = 16;
/// Bytes below keel's image that are for page tables in such a pod.
const SMALL_TABLES: u64 = 256 << 10;
const GIB: u64 = 1 << 30;

/// A machine that is ready to run.
#[derive(Debug)]
pub struct Machine {
    /// Its first virtual CPU.
    pub vcpu: Vcpu,
    /// Creates the other virtual CPUs.
    pub more: MoreCpus,
    /// Its memory.
    pub memory: Arc<GuestMemory>,
    /// Publishes the clocks to keel.
    pub clocks: Clocks,
    /// Keel's doorbell.
    pub doorbell: Doorbell,
}

/// Creates further virtual CPUs of a machine.
pub struct MoreCpus {
    kvm: Kvm,
    vm: Arc<VmFd>,
    memory: Arc<GuestMemory>,
    entry: u64,
    lstar: u64,
}

impl MoreCpus {
    /// Creates virtual CPU `index`, whose per-CPU block keel has prepared.
    pub fn make(&self, index: u32) -> Result<Vcpu, Error> {
        write_descriptors(&self.memory, index)?;
        Vcpu::new(&self.kvm, &self.vm, u64::from(index), self.entry, self.lstar)
    }
}

impl std::fmt::Debug for MoreCpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MoreCpus").finish_non_exhaustive()
    }
}

/// Writes the descriptor tables of a virtual CPU.
pub(crate) fn write_descriptors(memory: &GuestMemory, index: u32) -> Result<(), Error> {
    let cpu = index as usize;
    let block = (abi::tables::block(cpu) - DIRECT_BASE) as u64;
    memory.write(block + percpu::GDT as u64, bytemuck::cast_slice(&abi::tables::gdt(cpu)))?;
    memory.write(block + percpu::TSS as u64, &abi::tables::tss(cpu))?;
    Ok(())
}

/// The port by which keel wakes the helper thread.
///
/// KVM can signal an ioeventfd for the port without an exit, but destroying the machine then waits for a grace period
/// of KVM, which ends 15 ms after the ioeventfd was set up. So the first doorbells are exits.
#[derive(Debug)]
pub struct Doorbell {
    vm: Arc<VmFd>,
    event: Arc<Event>,
    rings: u32,
}

/// Number of doorbells that are exits.
const RINGS_BY_EXIT: u32 = 16;

impl Doorbell {
    /// Readable after a doorbell.
    pub fn event(&self) -> &Arc<Event> {
        &self.event
    }

    /// Counts a doorbell that was an exit.
    pub fn rung(&mut self) {
        self.rings = self.rings.saturating_add(1);
        if self.rings == RINGS_BY_EXIT {
            let address = IoEventAddress::Pio(u64::from(port::DOORBELL));
            // On failure the doorbells remain exits.
            let _ = self.vm.register_ioevent(self.event.eventfd(), &address, NoDatamatch);
        }
        self.event.signal();
    }
}

impl Machine {
    /// Builds the machine of a pod.
    pub fn new(kvm: Kvm, config: &RunConfig) -> Result<Self, Error> {
        let vm = Arc::new(kvm.create_vm().map_err(|e| Error::kvm("KVM_CREATE_VM", e))?);
        crate::cpuid::deny_counters(&vm)?;
        crate::cpuid::deny_registers(&vm)?;
        let pod = config.pod.encode();
        let image = Image::embedded()?;
        let header = image.header;
        let Layout { limit, boot, window_limit, frame_table, window_table, config_gpa, free_start } =
            Layout::new(config.memory_limit, header.end, pod.len() as u64)?;
        let huge_from = round_up(free_start + SMALL_FREE, LARGE_PAGE_SIZE as u64).min(boot);
        let window = if config.shared_pages { window_limit } else { 0 };
        let memory = Arc::new(GuestMemory::new(vm.clone(), boot, huge_from, limit, window)?);
        memory.populate(config_gpa, SURELY_USED);
        image.load(&memory, config.shared_pages)?;
        let low_start = write_tables(&memory, limit, window_limit)?;
        let low_end = if limit < SMALL_RAM { low_start + SMALL_TABLES } else { KEEL_IMAGE as u64 };
        write_descriptors(&memory, 0)?;
        let vcpu = Vcpu::new(&kvm, &vm, 0, header.entry, header.lstar)?;
        memory.write(config_gpa, &pod)?;
        let mut seed = [0; 64];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| Error::host("getrandom", e))?;
        let tsc_offset = vcpu.tsc_offset()?;
        let now = Reading::take();
        let info = BootInfo {
            magic: MAGIC,
            version: abi::VERSION,
            cpus: config.cpus,
            ram_bytes: memory.ram_end(),
            ram_limit: limit,
            free_start,
            low_start,
            low_end,
            frame_table,
            window_table,
            window_limit,
            config_gpa,
            config_len: pod.len() as u64,
            tsc_khz: vcpu.tsc_khz(),
            tsc_base: now.tsc.wrapping_add(tsc_offset),
            monotonic_base_ns: now.monotonic_ns,
            realtime_base_ns: now.realtime_ns,
            boottime_base_ns: now.boottime_ns,
            seed,
            xcr0: vcpu.xcr0(),
            flags: boot_flags(config),
            processors: config.busy_cpus,
            reserved: 0,
        };
        memory.write(BOOT_INFO as u64, bytemuck::bytes_of(&info))?;
        let more =
            MoreCpus { kvm, vm: vm.clone(), memory: memory.clone(), entry: header.start_cpu, lstar: header.lstar };
        let doorbell = Doorbell { vm, event: Arc::new(Event::new()?), rings: 0 };
        Ok(Self { vcpu, more, memory, doorbell, clocks: Clocks::new(tsc_offset) })
    }
}

/// Where things are in guest-physical memory, in bytes.
struct Layout {
    /// RAM that the pod may have.
    limit: u64,
    /// RAM at boot.
    boot: u64,
    window_limit: u64,
    frame_table: u64,
    window_table: u64,
    config_gpa: u64,
    free_start: u64,
}

impl Layout {
    /// The layout for `--memory`, an image that ends at `image_end` and `config` bytes of configuration. Fails if that
    /// does not fit.
    fn new(memory: u64, image_end: u64, config: u64) -> Result<Self, Error> {
        let memory = round_up(memory.max(MIN_MEMORY), LARGE_PAGE_SIZE as u64);
        let small = memory < SMALL_RAM;
        // The range of the window costs a table, whether it is used or not.
        let window_limit = if small { memory * SMALL_WINDOW } else { WINDOW_LIMIT };
        let frame_entries = |limit: u64| limit / PAGE_SIZE as u64 * FRAME_ENTRY;
        let window_entries = window_limit / PAGE_SIZE as u64 * WINDOW_ENTRY;
        let boot = if small {
            memory
        } else {
            let room = KEEL_IMAGE as u64 + IMAGE_ROOM + frame_entries(memory) + window_entries;
            round_up(room + config + BOOT_FREE, LARGE_PAGE_SIZE as u64)
        };
        // The frame table must cover the RAM at boot even if that exceeds `--memory`.
        let limit = memory.max(boot);
        let frame_table = round_up(image_end, PAGE_SIZE as u64);
        let window_table = frame_table + frame_entries(limit);
        let config_gpa = round_up(window_table + window_entries, PAGE_SIZE as u64);
        let free_start = config_gpa + config;
        let least = (free_start + SMALLEST_FREE + config * CONFIG_COPIES).saturating_sub(SMALL_LOW);
        if small && least > memory {
            return Err(Error::TooSmall { bytes: memory, least: round_up(least, LARGE_PAGE_SIZE as u64) });
        }
        Ok(Self { limit, boot, window_limit, frame_table, window_table, config_gpa, free_start })
    }
}

fn boot_flags(settings: &RunConfig) -> u64 {
    let mut bits = match settings.doorbell {
        config::Doorbell::Adaptive => 0,
        config::Doorbell::Exit => flags::DOORBELL_EXIT,
        config::Doorbell::Event => flags::DOORBELL_EVENT,
        config::Doorbell::Poll => flags::DOORBELL_POLL,
    };
    bits |= match settings.fail_keel {
        None => 0,
        Some(KeelFailure::Panic) => flags::FAIL_PANIC,
        Some(KeelFailure::Fault) => flags::FAIL_FAULT,
        Some(KeelFailure::Stack) => flags::FAIL_STACK,
    };
    if settings.syscalls == Syscalls::Trap {
        bits |= flags::TRAP_ONLY;
    }
    if crate::kvm::is_software_nested() {
        bits |= flags::SLOW_FAULTS;
    }
    if !settings.shared_pages {
        bits |= flags::NO_WINDOW;
    }
    bits
}

fn round_up(value: u64, to: u64) -> u64 {
    value.next_multiple_of(to)
}

/// Builds the boot page tables. They map only keel's slot of the root: RAM that exists, with large pages. There are
/// tables for RAM up to the limit and for the window, which keel fills as they grow.
pub(crate) fn write_tables(memory: &GuestMemory, limit: u64, window_limit: u64) -> Result<u64, Error> {
    const TABLE: u64 = 7; // present, writable, for CPL 3
    const LARGE: u64 = TABLE | 0x80;
    let root = BOOT_TABLES as u64;
    let upper = root + PAGE_SIZE as u64;
    let mut next = upper + PAGE_SIZE as u64;
    let entry = |table: u64, index: u64, value: u64| memory.write(table + index * 8, &value.to_le_bytes());
    entry(root, KEEL_PML4_SLOT as u64, upper | TABLE)?;
    let ranges = [(0, limit, memory.ram_end()), (WINDOW_BASE as u64, window_limit, 0)];
    for (start, len, existing) in ranges {
        for gib in 0..len.div_ceil(GIB) {
            if next >= KEEL_IMAGE as u64 {
                return Err(Error::Internal("no room for page tables of so much memory"));
            }
            let base = start + gib * GIB;
            entry(upper, base / GIB, next | TABLE)?;
            let mut table = Vec::with_capacity(PAGE_SIZE);
            for i in 0..existing.saturating_sub(gib * GIB).min(GIB).div_ceil(LARGE_PAGE_SIZE as u64) {
                table.extend_from_slice(&((base + i * LARGE_PAGE_SIZE as u64) | LARGE).to_le_bytes());
            }
            memory.write(next, &table)?;
            next += PAGE_SIZE as u64;
        }
    }
    const { assert!(DIRECT_BASE.is_multiple_of(1 << 39)) };
    Ok(next)
}
