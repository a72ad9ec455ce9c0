//! One virtual CPU: its registers at boot, running it, interrupting it.
#![allow(unsafe_code)]

use crate::error::Error;
use abi::layout::{BOOT_INFO, BOOT_TABLES, DIRECT_BASE, KICK_VECTOR, PERCPU_BASE, PERCPU_STRIDE, percpu, selector};
use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, Msrs, kvm_interrupt, kvm_msr_entry, kvm_regs, kvm_segment, kvm_xcrs};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const MSR_TSC: u32 = 0x10;
const MSR_STAR: u32 = 0xc000_0081;
const MSR_LSTAR: u32 = 0xc000_0082;
const MSR_FMASK: u32 = 0xc000_0084;

/// Flags that `syscall` clears: trap, direction, nested task, alignment check.
const SYSCALL_FLAG_MASK: u64 = 0x4_4500;
/// The interrupt flag too, if `syscall` enters ring 0: an interrupt there would use the program's stack. Under
/// software-nested KVM `syscall` enters CPL 3, which could not set the flag again.
const SYSCALL_FLAG_MASK_RING0: u64 = SYSCALL_FLAG_MASK | 0x200;
/// CR0: PE, MP, ET, NE, WP, AM, PG.
const CR0: u64 = 0x8005_0033;
/// CR4: PAE, OSFXSR, OSXMMEXCPT, FSGSBASE, OSXSAVE.
const CR4: u64 = 0x20 | 0x200 | 0x400 | 0x1_0000 | 0x4_0000;
/// EFER: SCE, LME, LMA, NXE.
const EFER: u64 = 0xd01;
/// XSTATE components that programs get: x87, SSE, AVX, AVX-512.
pub(crate) const XCR0_KNOWN: u64 = 0xe7;

/// Reason for an exit to the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Keel wrote this byte to this port.
    Port(u16, u8),
    /// A signal to its thread ended the run.
    Interrupted,
    /// It can't continue: triple fault, HLT, or an access to unmapped guest-physical memory.
    Dead(Death),
}

/// How a virtual CPU ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Death {
    /// HLT or a triple fault.
    #[error("the virtual processor halted")]
    Halted,
    /// An access to guest-physical memory that does not exist.
    #[error("the virtual processor used memory that does not exist ({0:#x})")]
    Nowhere(u64),
    /// The host can't provide a page: a file behind the window was truncated or its disk is full, or there is no
    /// memory. The guest-physical address, if KVM reports it.
    #[error("the host can't provide a page of memory")]
    HostPage(Option<u64>),
    /// KVM_EXIT_INTERNAL_ERROR or an unknown exit reason.
    #[error("KVM can't go on (exit reason {0})")]
    Kvm(u32),
}

/// A virtual CPU of x86-64.
#[derive(Debug)]
pub struct Vcpu {
    fd: VcpuFd,
    kick: std::sync::Arc<Kick>,
    interrupt_due: bool,
    xcr0: u64,
    tsc_khz: u64,
}

/// Interrupts a virtual CPU; may be sent by any thread.
#[derive(Debug, Default)]
pub struct Kick {
    requested: AtomicBool,
    target: Mutex<Option<Target>>,
}

/// Target of a kick while the virtual CPU exists.
#[derive(Debug)]
struct Target {
    /// Byte of the kvm_run page that makes KVM_RUN return at once.
    immediate_exit: NonNull<u8>,
    /// The thread that runs it; 0: none yet.
    thread: i32,
}

// SAFETY: the pointer is to a byte of memory that is shared with the kernel; all access is atomic.
unsafe impl Send for Target {}

impl Kick {
    /// Makes the virtual CPU leave the guest, take an interrupt and check for work. The flag stays set until then, so a
    /// kick between two runs isn't lost.
    pub fn send(&self) {
        self.requested.store(true, Ordering::SeqCst);
        let target = self.target();
        let Some(target) = target.as_ref().filter(|target| target.thread != 0) else { return };
        // SAFETY: the pointer is into the kvm_run page; `Vcpu::drop` removes the target under the lock that is held
        // here before it unmaps the page. The kernel reads the byte at any time.
        unsafe { AtomicU8::from_ptr(target.immediate_exit.as_ptr()) }.store(1, Ordering::SeqCst);
        // SAFETY: a signal to a thread of this process; its handler does nothing.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), target.thread, kick_signal()) };
    }

    fn target(&self) -> MutexGuard<'_, Option<Target>> {
        // No code panics while it holds the lock.
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kick_signal() -> i32 {
    libc::SIGRTMIN() + 1
}

extern "C" fn ignore_signal(_signal: i32) {}

/// Installs an empty handler so that the kick signal interrupts KVM_RUN; once per process.
fn install_kick_handler() {
    // SAFETY: the handler does nothing; an all-zero sigaction is valid.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore_signal as *const () as usize;
        libc::sigaction(kick_signal(), &raw const action, std::ptr::null_mut());
    }
}

/// The host's time stamp counter.
pub fn host_tsc() -> u64 {
    // SAFETY: RDTSC is available to programs on every x86-64 Linux, unless disabled by prctl(PR_SET_TSC), which Hull
    // does not use.
    unsafe { core::arch::x86_64::_rdtsc() }
}

impl Vcpu {
    /// Creates virtual CPU `index`, ready to start keel at `entry` with system calls at `lstar`.
    pub fn new(kvm: &Kvm, vm: &VmFd, index: u64, entry: u64, lstar: u64) -> Result<Self, Error> {
        install_kick_handler();
        let mut fd = vm.create_vcpu(index).map_err(|e| Error::kvm("KVM_CREATE_VCPU", e))?;
        let mut cpuid =
            kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(|e| Error::kvm("KVM_GET_SUPPORTED_CPUID", e))?;
        crate::cpuid::restrict(&mut cpuid);
        fd.set_cpuid2(&cpuid).map_err(|e| Error::kvm("KVM_SET_CPUID2", e))?;
        let xcr0 = supported_xcr0(&cpuid);
        set_system_registers(&fd, index)?;
        let mut xcrs = kvm_xcrs { nr_xcrs: 1, ..kvm_xcrs::default() };
        xcrs.xcrs[0].value = xcr0;
        fd.set_xcrs(&xcrs).map_err(|e| Error::kvm("KVM_SET_XCRS", e))?;
        let star = u64::from(selector::KERNEL_CS) << 32 | 0x0023 << 48;
        let msr = |index, data| kvm_msr_entry { index, data, ..kvm_msr_entry::default() };
        let mask = if crate::kvm::is_software_nested() { SYSCALL_FLAG_MASK } else { SYSCALL_FLAG_MASK_RING0 };
        let msrs = Msrs::from_entries(&[msr(MSR_STAR, star), msr(MSR_LSTAR, lstar), msr(MSR_FMASK, mask)])
            .map_err(|_| Error::Internal("a list of MSRs"))?;
        fd.set_msrs(&msrs).map_err(|e| Error::kvm("KVM_SET_MSRS", e))?;
        let regs = kvm_regs { rip: entry, rflags: 2, rdi: (DIRECT_BASE + BOOT_INFO) as u64, ..kvm_regs::default() };
        fd.set_regs(&regs).map_err(|e| Error::kvm("KVM_SET_REGS", e))?;
        let tsc_khz = u64::from(fd.get_tsc_khz().map_err(|e| Error::kvm("KVM_GET_TSC_KHZ", e))?);
        let kick = std::sync::Arc::new(Kick::default());
        let immediate_exit = NonNull::from(&mut fd.get_kvm_run().immediate_exit);
        *kick.target() = Some(Target { immediate_exit, thread: 0 });
        Ok(Self { fd, kick, interrupt_due: false, xcr0, tsc_khz })
    }

    /// Frequency of the guest's time stamp counter.
    pub fn tsc_khz(&self) -> u64 {
        self.tsc_khz
    }

    /// Enabled xstate components.
    pub fn xcr0(&self) -> u64 {
        self.xcr0
    }

    /// The guest's time stamp counter now.
    fn tsc(&self) -> Result<u64, Error> {
        let entry = kvm_msr_entry { index: MSR_TSC, ..kvm_msr_entry::default() };
        let mut msrs = Msrs::from_entries(&[entry]).map_err(|_| Error::Internal("a list of MSRs"))?;
        self.fd.get_msrs(&mut msrs).map_err(|e| Error::kvm("KVM_GET_MSRS", e))?;
        Ok(msrs.as_slice().first().map_or(0, |m| m.data))
    }

    /// Guest counter minus [`host_tsc`]; may be negative (the difference wraps).
    pub fn tsc_offset(&self) -> Result<u64, Error> {
        let mut best = (u64::MAX, 0);
        // Repeat: the thread may be preempted between the readings.
        for _ in 0..3 {
            let before = host_tsc();
            let guest = self.tsc()?;
            let took = host_tsc().wrapping_sub(before);
            best = best.min((took, guest.wrapping_sub(before.wrapping_add(took / 2))));
        }
        Ok(best.1)
    }

    /// Returns the kick of this virtual CPU.
    pub fn kick(&self) -> std::sync::Arc<Kick> {
        self.kick.clone()
    }

    /// Makes the calling thread the target of kicks for this virtual CPU.
    pub fn bind_thread(&self) {
        if let Some(target) = self.kick.target().as_mut() {
            target.thread = rustix::thread::gettid().as_raw_nonzero().get();
        }
    }

    /// Whether a kick is pending.
    pub fn kick_pending(&self) -> bool {
        self.kick.requested.load(Ordering::SeqCst)
    }

    /// Runs the guest until the next exit to the monitor.
    pub fn run(&mut self) -> Result<Event, Error> {
        if self.kick.requested.swap(false, Ordering::SeqCst) {
            self.interrupt_due = true;
        }
        if self.interrupt_due {
            let run = self.fd.get_kvm_run();
            if run.ready_for_interrupt_injection != 0 && run.if_flag != 0 {
                self.inject()?;
            } else {
                run.request_interrupt_window = 1;
            }
        }
        let exit = self.fd.run();
        let event = match exit {
            Ok(VcpuExit::IoOut(port, data)) => Event::Port(port, data.first().copied().unwrap_or(0)),
            Ok(VcpuExit::IoIn(port, _)) => Event::Port(port, 0),
            Ok(VcpuExit::IrqWindowOpen) => Event::Interrupted,
            Ok(VcpuExit::Hlt | VcpuExit::Shutdown) => Event::Dead(Death::Halted),
            Ok(VcpuExit::MmioRead(address, _)) => Event::Dead(Death::Nowhere(address)),
            Ok(VcpuExit::MmioWrite(address, _)) => Event::Dead(Death::Nowhere(address)),
            Ok(VcpuExit::MemoryFault { gpa, .. }) => Event::Dead(Death::HostPage(Some(gpa))),
            Ok(VcpuExit::InternalError) => Event::Dead(Death::Kvm(17)),
            Ok(_) => Event::Dead(Death::Kvm(self.fd.get_kvm_run().exit_reason)),
            Err(e) if e.errno() == libc::EINTR || e.errno() == libc::EAGAIN => Event::Interrupted,
            Err(e) if e.errno() == libc::EFAULT => Event::Dead(Death::HostPage(None)),
            Err(e) => return Err(Error::kvm("KVM_RUN", e)),
        };
        let run = self.fd.get_kvm_run();
        run.immediate_exit = 0;
        run.request_interrupt_window = 0;
        Ok(event)
    }

    fn inject(&mut self) -> Result<(), Error> {
        let interrupt = kvm_interrupt { irq: u32::from(KICK_VECTOR) };
        // KVM_INTERRUPT: _IOW(KVMIO, 0x86, struct kvm_interrupt).
        const KVM_INTERRUPT: libc::c_ulong = 0x4004_ae86;
        // SAFETY: the descriptor is a virtual CPU and the structure lives across the call.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), KVM_INTERRUPT, &raw const interrupt) };
        if result == 0 {
            self.interrupt_due = false;
            return Ok(());
        }
        let source = std::io::Error::last_os_error();
        // An interrupt is queued already.
        if source.raw_os_error() == Some(libc::EEXIST) {
            self.interrupt_due = false;
            return Ok(());
        }
        Err(Error::Kvm { call: "KVM_INTERRUPT", source })
    }

    /// Registers for a crash report.
    pub fn describe(&self) -> String {
        let Ok(r) = self.fd.get_regs() else { return String::new() };
        let cr2 = self.fd.get_sregs().map_or(0, |s| s.cr2);
        format!(
            "rip {:#x} rsp {:#x} rflags {:#x} cr2 {cr2:#x} rax {:#x} rbx {:#x} rcx {:#x} rdx {:#x} rsi {:#x} rdi {:#x} rbp {:#x}",
            r.rip, r.rsp, r.rflags, r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp
        )
    }
}

impl Drop for Vcpu {
    fn drop(&mut self) {
        *self.kick.target() = None;
    }
}

fn supported_xcr0(cpuid: &CpuId) -> u64 {
    let leaf = cpuid.as_slice().iter().find(|e| e.function == 0xd && e.index == 0);
    let all = leaf.map_or(3, |e| u64::from(e.eax) | u64::from(e.edx) << 32) & XCR0_KNOWN;
    // AVX-512 comes whole or not at all, and needs AVX (SDM volume 1, 13.3).
    if all & 0xe4 == 0xe4 { all } else { all & 7 }
}

/// Segments, control registers and tables: the virtual CPU starts in ring 0 in 64-bit mode; a single IRETQ continues at
/// CPL 3.
fn set_system_registers(fd: &VcpuFd, index: u64) -> Result<(), Error> {
    let block = (DIRECT_BASE + PERCPU_BASE + index as usize * PERCPU_STRIDE) as u64;
    let mut sregs = fd.get_sregs().map_err(|e| Error::kvm("KVM_GET_SREGS", e))?;
    let code = kvm_segment {
        limit: u32::MAX,
        selector: selector::KERNEL_CS,
        type_: 11,
        present: 1,
        s: 1,
        l: 1,
        g: 1,
        ..kvm_segment::default()
    };
    let data = kvm_segment {
        limit: u32::MAX,
        selector: selector::KERNEL_DS,
        type_: 3,
        present: 1,
        s: 1,
        db: 1,
        g: 1,
        ..kvm_segment::default()
    };
    sregs.cs = code;
    sregs.ss = data;
    sregs.ds = data;
    sregs.es = data;
    sregs.fs = data;
    sregs.gs = kvm_segment { base: block + percpu::DATA as u64, ..data };
    sregs.tr = kvm_segment {
        base: block + percpu::TSS as u64,
        limit: abi::tables::TSS_BYTES as u32 - 1,
        selector: selector::TSS,
        type_: 11,
        present: 1,
        ..kvm_segment::default()
    };
    sregs.gdt.base = block + percpu::GDT as u64;
    sregs.gdt.limit = 0x4f;
    sregs.idt.base = block + percpu::IDT as u64;
    sregs.idt.limit = 0xfff;
    sregs.cr0 = CR0;
    sregs.cr3 = BOOT_TABLES as u64;
    sregs.cr4 = CR4;
    sregs.efer = EFER;
    fd.set_sregs(&sregs).map_err(|e| Error::kvm("KVM_SET_SREGS", e))
}
