//! Measures what KVM operations that keel can't avoid cost on this machine, in guests that do nothing else.

use crate::error::Error;
use crate::machine::{MIN_MEMORY, WINDOW_LIMIT, write_descriptors, write_tables};
use crate::memory::GuestMemory;
use crate::vcpu::{Event as VcpuEvent, Vcpu};
use abi::layout::{BOOT_TABLES, DIRECT_BASE, KEEL_IMAGE, KEEL_PML4_SLOT, PAGE_SIZE, percpu, port, selector};
use kvm_ioctls::Kvm;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A guest with keel's page tables and descriptor tables, running test code instead of keel.
struct Bare {
    memory: GuestMemory,
    vcpu: Vcpu,
}

impl Bare {
    fn new(kvm: &Kvm, code: &[u8]) -> Result<Self, Error> {
        let vm = Arc::new(kvm.create_vm().map_err(|e| Error::kvm("KVM_CREATE_VM", e))?);
        let memory = GuestMemory::new(vm.clone(), MIN_MEMORY, MIN_MEMORY, MIN_MEMORY, WINDOW_LIMIT)?;
        write_tables(&memory, MIN_MEMORY, WINDOW_LIMIT)?;
        write_descriptors(&memory, 0)?;
        memory.write(KEEL_IMAGE as u64, code)?;
        let start = (DIRECT_BASE + KEEL_IMAGE) as u64;
        let vcpu = Vcpu::new(kvm, &vm, 0, start, start)?;
        Ok(Self { memory, vcpu })
    }

    /// Time until the guest writes the doorbell port.
    fn ring(&mut self) -> Result<Duration, Error> {
        let before = Instant::now();
        match self.vcpu.run()? {
            VcpuEvent::Port(port::DOORBELL, _) => Ok(before.elapsed()),
            other => Err(Error::KvmUnusable(format!("a test machine did not run: {other:?}"))),
        }
    }
}

/// Cost of one exit of a virtual CPU to the monitor and back: the median of some exits.
pub fn exit_cost(kvm: &Kvm) -> Result<Duration, Error> {
    const EXITS: usize = 201;
    // mov dx, DOORBELL; again: out dx, al; jmp again
    let [low, high] = port::DOORBELL.to_le_bytes();
    let mut guest = Bare::new(kvm, &[0x66, 0xba, low, high, 0xee, 0xeb, 0xfd])?;
    guest.vcpu.bind_thread();
    let mut times = (0..EXITS).map(|_| guest.ring()).collect::<Result<Vec<_>, _>>()?;
    times.sort();
    Ok(times[EXITS / 2])
}

/// Cost of a switch from CPL 3 to other page tables and back, with TLB misses on a few pages on each side: the mean
/// over a tenth of a second. It is the lower bound for two processes that wait for each other.
pub fn switch_cost(kvm: &Kvm) -> Result<Duration, Error> {
    const ROUNDS: u32 = 1000;
    const SPAN: Duration = Duration::from_millis(100);
    const BREAKPOINT: usize = 3;
    /// Pages of a program's code and data, its C library, its stack, and keel.
    const PAGES: usize = 16;
    let root = BOOT_TABLES as u32;
    let other = (KEEL_IMAGE + 16 * PAGE_SIZE) as u32;
    let handler = DIRECT_BASE + KEEL_IMAGE + PAGE_SIZE;
    let stack = DIRECT_BASE + KEEL_IMAGE + 4 * PAGE_SIZE;
    let data = DIRECT_BASE + KEEL_IMAGE + 32 * PAGE_SIZE;

    let mut code = vec![0x48, 0xbc]; // mov rsp, stack
    code.extend((stack as u64).to_le_bytes());
    // push USER_DS; mov rax, rsp; push rax; push 0x202; push USER_CS; lea rax, [rip + 3]; push rax; iretq
    code.extend([0x6a, selector::USER_DS as u8, 0x48, 0x89, 0xe0, 0x50, 0x68, 2, 2, 0, 0]);
    code.extend([0x6a, selector::USER_CS as u8, 0x48, 0x8d, 5, 3, 0, 0, 0, 0x50, 0x48, 0xcf]);
    let [low, high] = port::DOORBELL.to_le_bytes();
    code.extend([0x66, 0xba, low, high, 0x48, 0xbe]); // mov dx, DOORBELL; mov rsi, data
    code.extend((data as u64).to_le_bytes());
    let again = code.len();
    code.extend([0xee, 0xb9]); // out dx, al; mov ecx, ROUNDS
    code.extend(ROUNDS.to_le_bytes());
    let round = code.len();
    for space in [other, root] {
        code.push(0xbf); // mov edi, space; int3
        code.extend(space.to_le_bytes());
        code.push(0xcc);
        for page in 0..PAGES {
            code.extend([0x48, 0x8b, 0x86]); // mov rax, [rsi + page * PAGE_SIZE]
            code.extend(((page * PAGE_SIZE) as u32).to_le_bytes());
        }
    }
    let back = |code: &[u8], to: usize| (to as i32 - code.len() as i32 - 4).to_le_bytes();
    code.extend([0xff, 0xc9, 0x0f, 0x85]); // dec ecx; jnz round
    code.extend(back(&code, round));
    code.push(0xe9); // jmp again
    code.extend(back(&code, again));

    let mut guest = Bare::new(kvm, &code)?;
    // The other root leads to the same tables (present, writable, for CPL 3).
    let upper = (u64::from(root) + PAGE_SIZE as u64) | 7;
    guest.memory.write(u64::from(other) + 8 * KEEL_PML4_SLOT as u64, &upper.to_le_bytes())?;
    // mov cr3, rdi; iretq
    guest.memory.write((handler - DIRECT_BASE) as u64, &[0x0f, 0x22, 0xdf, 0x48, 0xcf])?;
    let gate =
        handler & 0xffff | usize::from(selector::KERNEL_CS) << 16 | 0xee02 << 32 | (handler >> 16 & 0xffff) << 48;
    let place = abi::tables::block(0) - DIRECT_BASE + percpu::IDT + 16 * BREAKPOINT;
    guest.memory.write(place as u64, &gate.to_le_bytes())?;
    guest.memory.write(place as u64 + 8, &(handler as u64 >> 32).to_le_bytes())?;
    guest.vcpu.bind_thread();
    // Wait for the first doorbell write, before the first round.
    guest.ring()?;
    guest.ring()?;
    let (mut time, mut rounds) = (Duration::ZERO, 0);
    while time < SPAN {
        time += guest.ring()?;
        rounds += ROUNDS;
    }
    Ok(time / rounds)
}
