//! Programs of seccomp(2) and of SO_ATTACH_FILTER: an accepted program terminates for any data.
#![no_main]

use keel_core::bpf::packet::Packet;
use keel_core::bpf::seccomp::Call;
use keel_core::bpf::{Instruction, Program};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let instructions = data.chunks_exact(8).map(|c| Instruction {
        code: u16::from_le_bytes([c[0], c[1]]),
        jt: c[2],
        jf: c[3],
        k: u32::from_le_bytes([c[4], c[5], c[6], c[7]]),
    });
    if let Some(program) = Program::new(instructions.clone().collect()) {
        program.run(&Call([0xa5; 64]));
    }
    if let Some(program) = Program::new(instructions.collect()) {
        program.run(&Packet { header: &[0xa5; 8], body: &[0x5a; 56] });
    }
});
