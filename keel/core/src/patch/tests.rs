//! Tests with real program text of this machine, and with random bytes.

extern crate std;

use super::*;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, Instruction, IntelFormatter};
use std::{collections::BTreeMap, fs, println, string::String, time::Instant, vec::Vec};

const GATE: u32 = 0x40;
/// Address of the tests' text; arbitrary.
const BASE: u64 = 1 << 40;
const AREA: usize = 64 << 10;

fn area() -> Area {
    Area::new(BASE - AREA as u64, AREA).unwrap()
}

fn window(bytes: &[u8]) -> Window<'_> {
    Window { addr: BASE, bytes }
}

/// A page of `int3` with `code` at `at`, and the site in it.
fn page(at: usize, code: &[u8]) -> (Vec<u8>, u64) {
    let mut bytes = std::vec![0xcc; 4096 + 64];
    bytes[at..at + code.len()].copy_from_slice(code);
    let site = at + code.windows(2).position(|p| p == [0x0f, 0x05]).expect("a syscall");
    (bytes, BASE + site as u64)
}

fn text(instruction: &Instruction) -> String {
    let mut out = String::new();
    IntelFormatter::new().format(instruction, &mut out);
    out.replace("short ", "").replace("near ", "")
}

fn decode(bytes: &[u8], at: u64) -> Vec<Instruction> {
    Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).into_iter().collect()
}

/// Follows the patched program from the jump through the trampoline and compares every instruction
/// with the original program's.
fn verify(window: &Window<'_>, patch: &Patch, code: &[u8]) {
    let code_len = code.len() as u64;
    assert!(!patch.in_trampoline(patch.trampoline - 1) && !patch.in_trampoline(patch.trampoline + code_len));
    let original = window.from(patch.at).expect("in window");
    let original = decode(&original[..original.len().min(64)], patch.at);
    let entry = decode(&patch.bytes, patch.at)[0];
    assert_eq!(entry.near_branch_target(), patch.trampoline);
    let code = decode(code, patch.trampoline);
    assert!(code.iter().all(|i| !i.is_invalid()));
    assert_eq!(patch.trampoline / PAGE, (patch.trampoline + code_len - 1) / PAGE);
    assert_eq!(patch.at / PAGE, (patch.at + patch.bytes.len() as u64 - 1) / PAGE);
    let enter = if patch.form == Form::Number { 1 } else { 0 };
    assert!(text(&code[enter]).starts_with("lea rcx,["));
    assert_eq!(text(&code[enter + 1]), "jmp qword ptr gs:[40h]");
    match patch.form {
        Form::Number => {
            assert_eq!(text(&original[0]), text(&code[0]));
            assert_eq!(original[1].ip(), patch.site);
            assert_eq!(code[1].ip_rel_memory_address(), patch.site + 2);
            assert_eq!(code.len(), 3);
            assert!(patch.resume_for(patch.site).is_none());
            assert!(patch.resume_for(patch.site + 2).is_none());
        }
        Form::Displace => {
            assert_eq!(text(&code[2]), "syscall");
            let resume = code[3].ip();
            assert_eq!(code[0].ip_rel_memory_address(), resume);
            assert!(text(&code[3]).starts_with("lea rcx,["));
            assert_eq!(code[3].ip_rel_memory_address(), patch.site + 2);
            assert_eq!(patch.resume_for(patch.site + 2), Some(code[4].ip()));
            assert_eq!(patch.original_for(resume), Some(patch.site + 2));
            let mut at = patch.site + 2;
            let mut rest = code[4..].iter();
            for old in &original[1..] {
                let Some(new) = rest.next() else { break };
                assert_eq!(old.ip(), at);
                assert_eq!(patch.original_for(new.ip()), Some(at));
                at = old.next_ip();
                if new.ip() + 5 == patch.trampoline + code_len && new.near_branch_target() == old.ip() {
                    // The jump back.
                    assert!(old.ip() >= patch.site + 5);
                    return;
                }
                if old.code() == iced_x86::Code::Syscall {
                    let [gate, syscall, rcx] = [(); 3].map(|()| rest.next().expect("a whole call"));
                    assert_eq!(text(gate), "jmp qword ptr gs:[40h]");
                    assert_eq!(text(syscall), "syscall");
                    assert!(text(new).starts_with("lea rcx,[") && text(rcx).starts_with("lea rcx,["));
                    assert_eq!(new.ip_rel_memory_address(), rcx.ip());
                    assert_eq!(rcx.ip_rel_memory_address(), old.next_ip());
                    for inside in [gate, syscall] {
                        assert_eq!(patch.original_for(inside.ip()), Some(old.ip()));
                    }
                    assert_eq!(patch.original_for(rcx.ip()), Some(old.next_ip()));
                } else {
                    assert_eq!(text(old), text(new), "at {:x}", old.ip());
                }
                // Continuing here raises an exception.
                let offset = (old.ip() - patch.site) as usize;
                let covered = &patch.bytes[offset.min(patch.bytes.len())..];
                if covered.is_empty() {
                    assert_eq!(patch.resume_for(old.ip()), None);
                } else {
                    let landed = decode(covered, old.ip())[0];
                    assert!(landed.is_invalid() || landed.code() == iced_x86::Code::Int3, "{covered:02x?}");
                    assert_eq!(patch.resume_for(old.ip()), Some(new.ip()));
                }
            }
            let last = code.last().expect("not empty");
            assert!(matches!(last.flow_control(), FlowControl::Return | FlowControl::UnconditionalBranch));
        }
    }
}

/// Executable segments of an ELF file with their file offsets.
fn segments(file: &[u8]) -> Vec<(usize, &[u8])> {
    let u = |at: usize, n: usize| file[at..at + n].iter().rev().fold(0usize, |v, &b| v << 8 | usize::from(b));
    (0..u(56, 2))
        .map(|i| u(32, 8) + 56 * i)
        .filter(|&ph| u(ph, 4) == 1 && u(ph + 4, 4) & 1 != 0)
        .map(|ph| (u(ph + 8, 8), &file[u(ph + 8, 8)..u(ph + 8, 8) + u(ph + 32, 8)]))
        .collect()
}

#[test]
fn real_text() {
    for path in [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/ld-linux-x86-64.so.2",
        "/usr/local/go/bin/go",
        "/bin/busybox",
        "/usr/lib/jvm/temurin-25-jdk-amd64/lib/server/libjvm.so",
        "/lib/ld-musl-x86_64.so.1",
    ] {
        let Ok(file) = fs::read(path) else { continue };
        let mut area = area();
        let mut counts = BTreeMap::<String, usize>::new();
        let mut sites = 0;
        let start = Instant::now();
        let mut patches = Vec::new();
        for (offset, bytes) in segments(&file) {
            let whole = Window { addr: BASE + offset as u64, bytes };
            for site in candidates(&whole) {
                sites += 1;
                // A page and a few bytes behind it, as keel does.
                let from = ((site & !(PAGE - 1)).max(whole.addr) - whole.addr) as usize;
                let window =
                    Window { addr: whole.addr + from as u64, bytes: &bytes[from..bytes.len().min(from + 4160)] };
                let number = window.get(site - 4, 4).map_or(0, |b| u32::from_le_bytes(b.try_into().expect("four")));
                let planned = plan(&window, site, number.into(), &mut area, GATE, true);
                *counts
                    .entry(
                        planned.as_ref().map_or_else(|r| std::format!("{r:?}"), |p| std::format!("{:?}", p.patch.form)),
                    )
                    .or_default() += 1;
                patches.extend(planned.map(|p| (whole, p)));
            }
        }
        println!("{path}: {sites} candidates in {:?}: {counts:?}", start.elapsed());
        for (whole, planned) in &patches {
            verify(whole, &planned.patch, &planned.code);
        }
        let mut taken: Vec<_> = patches.iter().map(|(_, p)| (p.patch.trampoline, p.code.len() as u64)).collect();
        taken.sort_unstable();
        assert!(taken.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "trampolines overlap");
        if path.ends_with("libc.so.6") {
            assert!(patches.len() * 10 >= sites * 9, "most sites are patched");
        }
    }
}

#[test]
fn number_forms() {
    let mut area = area();
    // mov eax, 39; syscall; ret
    let (bytes, site) = page(64, &[0x90, 0x90, 0x90, 0x90, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3]);
    let Planned { patch, code } = plan(&window(&bytes), site, 39, &mut area, GATE, true).expect("planned");
    assert_eq!((patch.form, patch.at), (Form::Number, site - 5));
    verify(&window(&bytes), &patch, &code);
    assert!(plan_unseen(&window(&bytes), site, &mut area, GATE).is_ok());
    // The number was loaded elsewhere: a branch targets the syscall.
    let other = plan(&window(&bytes), site, 1, &mut area, GATE, true).expect("planned");
    assert_eq!(other.patch.form, Form::Displace);
    // mov rax, 39; syscall
    let (bytes, site) = page(64, &[0x48, 0xc7, 0xc0, 39, 0, 0, 0, 0x0f, 0x05, 0xc3]);
    let Planned { patch, code } = plan(&window(&bytes), site, 39, &mut area, GATE, true).expect("planned");
    assert_eq!((patch.form, patch.at), (Form::Number, site - 7));
    verify(&window(&bytes), &patch, &code);
    // mov r8d, 39; syscall
    let (bytes, site) = page(64, &[0x90, 0x90, 0x90, 0x41, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3]);
    assert_eq!(plan_unseen(&window(&bytes), site, &mut area, GATE).err(), Some(Refusal::NotASite));
    // The end of a longer instruction: mov edi, [rax+39]; mov rdi, [rax+39]; vmovdqa ymm15, [r8+39];
    // mov edi, [rax+rdi*4+39]; movzx edi, byte [rax+39]; movups xmm7, [rax+39]
    for tail in [
        &[0x90, 0x90, 0x90, 0x90, 0x8b][..],
        &[0x90, 0x90, 0x90, 0x48, 0x8b],
        &[0x90, 0xc4, 0x41, 0x7d, 0x6f],
        &[0x90, 0x90, 0x90, 0x8b, 0xbc],
        &[0x90, 0x90, 0x90, 0x0f, 0xb6],
        &[0x90, 0x90, 0x90, 0x0f, 0x10],
    ] {
        let (bytes, site) = page(64, &[tail, &[0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3]].concat());
        assert_eq!(plan_unseen(&window(&bytes), site, &mut area, GATE).err(), Some(Refusal::NotASite), "{tail:x?}");
        let seen = plan(&window(&bytes), site, 1, &mut area, GATE, true).map(|planned| planned.patch.form);
        assert_ne!(seen.ok(), Some(Form::Number), "{tail:x?}");
    }
    // cmp dword [rip+0x27b8], 0; mov rcx, 0x27b8000000; mov dword [rip-0x48000000], 39
    for tail in [
        &[0x90, 0x90, 0x90, 0x90, 0x83, 0x3d][..],
        &[0x90, 0x48, 0xb9, 0, 0, 0],
        &[0xc7, 0x05, 0, 0, 0],
        // mov edi, fs:[rax+39]; mov edi, [r8+39]; lea edi, [rax+39]
        &[0x90, 0x90, 0x90, 0x90, 0x64, 0x8b],
        &[0x90, 0x90, 0x90, 0x90, 0x41, 0x8b],
        &[0x90, 0x90, 0x90, 0x90, 0x90, 0x8d],
    ] {
        let (bytes, site) =
            page(64, &[tail, &[0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff]].concat());
        let seen = plan(&window(&bytes), site, 39, &mut area, GATE, true).map(|planned| planned.patch.form);
        assert_eq!(seen, Ok(Form::Displace), "{tail:x?}");
    }
    // je over it: 13 B8 would be an adc from [rax+39], which would fault.
    let (bytes, site) = page(64, &[0x90, 0x90, 0x90, 0x74, 0x13, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3]);
    assert_eq!(plan_unseen(&window(&bytes), site, &mut area, GATE).err(), Some(Refusal::NotASite));
    let Planned { patch, .. } = plan(&window(&bytes), site, 39, &mut area, GATE, true).expect("planned");
    assert_eq!(patch.form, Form::Number);
    // mov dword [rbp-0x48], 39; syscall
    let (bytes, site) = page(64, &[0x90, 0x90, 0xc7, 0x45, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3]);
    assert_eq!(plan_unseen(&window(&bytes), site, &mut area, GATE).err(), Some(Refusal::NotASite));
}

#[test]
fn sigreturn_stays() {
    let mut area = area();
    for code in
        [&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05][..], &[0x90, 0x90, 0x90, 0x90, 0xb8, 15, 0, 0, 0, 0x0f, 0x05]]
    {
        let (bytes, site) = page(64, code);
        assert_eq!(plan_unseen(&window(&bytes), site, &mut area, GATE).err(), Some(Refusal::Sigreturn));
        assert_eq!(plan(&window(&bytes), site, 1, &mut area, GATE, true).err(), Some(Refusal::Sigreturn));
    }
}

#[test]
fn refusals() {
    let refused = |at: usize, code: &[u8]| {
        let (bytes, site) = page(at, code);
        let mut area = area();
        let before = area.clone();
        let refusal = plan(&window(&bytes), site, 0, &mut area, GATE, true).err();
        assert_eq!(std::format!("{area:?}"), std::format!("{before:?}"), "nothing leaks");
        refusal
    };
    // syscall; cmp rax, imm; jne to the cmp
    assert_eq!(refused(64, &[0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0x75, 0xf8]), Some(Refusal::BranchTarget));
    // syscall; call
    assert_eq!(refused(64, &[0x0f, 0x05, 0xe8, 0, 0, 0, 0]), Some(Refusal::Immovable));
    // syscall; ud2
    assert_eq!(refused(64, &[0x0f, 0x05, 0x0f, 0x0b]), Some(Refusal::Immovable));
    // syscall; mov eax, 15; syscall
    assert_eq!(refused(64, &[0x0f, 0x05, 0xb8, 15, 0, 0, 0, 0x0f, 0x05, 0xc3]), Some(Refusal::Sigreturn));
    // syscall; xor eax, eax; syscall; jc
    assert_eq!(refused(64, &[0x0f, 0x05, 0x31, 0xc0, 0x0f, 0x05, 0x72, 0x20]), Some(Refusal::FlagsUsed));
    // syscall; ret; push rbp: another function
    assert_eq!(refused(64, &[0x0f, 0x05, 0xc3, 0x55, 0x48, 0x89, 0xe5]), Some(Refusal::Immovable));
    // syscall; ret; nop; nop: a function may begin at the last one.
    assert_eq!(refused(60, &[0x0f, 0x05, 0xc3, 0x90, 0x90]), Some(Refusal::Immovable));
    // syscall; pop rbx; cmp: a boundary where no byte of the jump can be chosen
    assert_eq!(refused(64, &[0x0f, 0x05, 0x5b, 0x48, 0x39, 0xc8]), Some(Refusal::NoRoom));
    // stc; syscall; jc, also with a mov between, and setc
    assert_eq!(refused(64, &[0xf9, 0x0f, 0x05, 0x72, 0x20, 0x90, 0x90]), Some(Refusal::FlagsUsed));
    assert_eq!(refused(64, &[0x0f, 0x05, 0x48, 0x89, 0xc2, 0x72, 0x20]), Some(Refusal::FlagsUsed));
    assert_eq!(refused(64, &[0x0f, 0x05, 0x0f, 0x92, 0xc2]), Some(Refusal::FlagsUsed));
    // syscall; push 0; setg cl
    assert_eq!(refused(64, &[0x0f, 0x05, 0x6a, 0x00, 0x0f, 0x9f, 0xc1]), Some(Refusal::FlagsUsed));
    // Across the end of the page.
    assert_eq!(refused(4093, &[0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff]), Some(Refusal::CrossesPage));
    assert_eq!(plan(&window(&[]), BASE, 0, &mut area(), GATE, true).err(), Some(Refusal::NotASite));
    assert_eq!(plan(&window(&[0x0f, 0x05]), 0, 0, &mut area(), GATE, true).err(), Some(Refusal::NotASite));
}

#[test]
fn moved_instructions() {
    for code in [
        // cmp rax, imm32
        &[0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff][..],
        // ret and padding
        &[0x0f, 0x05, 0xc3, 0x90, 0x90],
        &[0x0f, 0x05, 0xc3, 0x0f, 0x1f, 0x40, 0x00],
        // mov eax, [rip+0x1000]
        &[0x0f, 0x05, 0x8b, 0x05, 0, 0x10, 0, 0],
        // cmp dword [rip+0x1000], 1: an immediate behind the displacement
        &[0x0f, 0x05, 0x83, 0x3d, 0, 0x10, 0, 0, 1],
        // test eax, eax; jne
        &[0x0f, 0x05, 0x85, 0xc0, 0x75, 0x20],
        &[0x0f, 0x05, 0x85, 0xc0, 0x0f, 0x85, 0x20, 1, 0, 0],
        // jmp
        &[0x0f, 0x05, 0xeb, 0x20, 0xcc],
        &[0x0f, 0x05, 0xe9, 0x20, 1, 0, 0],
        // xor eax, eax; syscall; dec r12
        &[0x0f, 0x05, 0x31, 0xc0, 0x0f, 0x05, 0x49, 0xff, 0xcc],
        // syscall; syscall; ret
        &[0x0f, 0x05, 0x0f, 0x05, 0x0f, 0x05, 0xc3],
        // mov edi, ebx; mov eax, 2; syscall
        &[0x0f, 0x05, 0x89, 0xdf, 0xb8, 2, 0, 0, 0, 0x0f, 0x05, 0xc3],
        // mov edx, eax; mov rcx, [rsp]
        &[0x0f, 0x05, 0x89, 0xc2, 0x48, 0x8b, 0x0c, 0x24],
    ] {
        let (bytes, site) = page(0x123, code);
        let planned = plan(&window(&bytes), site, 0, &mut area(), GATE, true);
        let Planned { patch, code: trampoline } = planned.unwrap_or_else(|r| panic!("{code:02x?}: {r:?}"));
        assert_eq!(patch.form, Form::Displace);
        verify(&window(&bytes), &patch, &trampoline);
    }
}

#[test]
fn noise() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut planned = 0;
    for _ in 0..20_000 {
        let mut area = area();
        let len = (random() % 96) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| random() as u8).collect();
        if len > 20 {
            let at = (random() as usize) % (len - 2);
            bytes[at..at + 2].copy_from_slice(&[0x0f, 0x05]);
        }
        let window = Window { addr: BASE + random() % 8192, bytes: &bytes };
        for site in candidates(&window) {
            if let Ok(patch) = plan(&window, site, random() % 400, &mut area, GATE, true) {
                verify(&window, &patch.patch, &patch.code);
                planned += 1;
            }
        }
    }
    assert!(planned > 1000, "{planned}");
}

#[test]
fn decoders_agree() {
    let mut seed = 88172645463325252u64;
    let mut known = 0;
    for _ in 0..200_000 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..].copy_from_slice(&seed.rotate_left(17).to_le_bytes());
        if let Some(usual) = decode::usual(&bytes, BASE) {
            assert_eq!(Some(usual), decode::any(&bytes, BASE), "{bytes:02x?}");
            known += 1;
        }
    }
    assert!(known > 5000);
}

#[test]
fn unusual_sites_wait() {
    // syscall; mov eax, [rip+0x1000]
    let (file, _) = page(100, &[0x0f, 0x05, 0x8b, 0x05, 0, 0x10, 0, 0]);
    let sites = Sites::default();
    let mut traps = 0;
    let planned = loop {
        traps += 1;
        if let Verdict::Plan = sites.note(0, 100, 7) {
            let new = sites.plan(0, &file, -0x10000, AREA, GATE);
            if !new.is_empty() {
                break new;
            }
        }
        assert!(traps < 10_000);
    };
    assert!(traps > 100);
    assert_eq!(planned.len(), 1);
}

#[test]
fn full_area() {
    let (bytes, site) = page(64, &[0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff]);
    let mut small = Area::new(BASE - AREA as u64, 4096).unwrap();
    while plan(&window(&bytes), site, 0, &mut small, GATE, true).is_ok() {}
    assert_eq!(plan(&window(&bytes), site, 0, &mut small, GATE, true).err(), Some(Refusal::NoRoom));
}

/// A page with three sites: `mov eax, 1; syscall` at 100, `syscall; cmp` at 200, `mov eax, 2; syscall` at 300.
fn three_sites() -> Vec<u8> {
    let (mut bytes, _) = page(100, &[0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xc3]);
    bytes[200..208].copy_from_slice(&[0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff]);
    bytes[300..308].copy_from_slice(&[0xb8, 2, 0, 0, 0, 0x0f, 0x05, 0xc3]);
    bytes
}

#[test]
fn sites_of_a_page() {
    let file = three_sites();
    let sites = Sites::default();
    let waits = (0..1000).take_while(|_| matches!(sites.note(3, 200, 39), Verdict::Wait)).count();
    assert!((2..100).contains(&waits), "{waits}");
    let new = sites.plan(3, &file, -0x10000, AREA, GATE);
    // The site that trapped, and the unambiguous ones.
    let mut at: Vec<_> = new.iter().map(|(p, _)| p.site - ORIGIN - 3 * PAGE).collect();
    at.sort_unstable();
    assert_eq!(at, [105, 200, 305]);
    assert_eq!(sites.area_base(), Some(ORIGIN - 0x10000));
    assert_eq!(sites.refused(3), 0);
    for (patch, code) in &new {
        verify(&Window { addr: ORIGIN + 3 * PAGE, bytes: &file }, patch, code);
    }
    // Another program still maps the file's page.
    assert!((0..4).any(|_| matches!(sites.note(3, 200, 39), Verdict::Show(p) if p.site == ORIGIN + 3 * PAGE + 200)));
    let resume = sites.resume_for(3, 202).expect("moved");
    assert_eq!(sites.original_for(resume), Some(ORIGIN + 3 * PAGE + 202));
    assert_eq!(sites.original_for(ORIGIN), None);
    assert_eq!(sites.resume_for(3, 107), None);
    assert_eq!(sites.resume_for(4, 202), None);
    // Planned once.
    assert!(sites.plan(3, &file, -0x10000, AREA, GATE).is_empty());
    // Too many resumes.
    let landings = (0..1000).take_while(|_| !sites.landed(3, 202)).count();
    assert!((8..200).contains(&landings));
    assert_eq!(sites.resume_for(3, 202), Some(resume), "programs that show the old page");
    assert!(matches!(sites.note(3, 200, 39), Verdict::Wait));
    let mut left = 0;
    sites.for_each_patch(3, |_| left += 1);
    assert_eq!(left, 2);
    assert!(!sites.landed(3, 202));
}

#[test]
fn overlapping_sites() {
    // syscall; mov eax, 2; syscall; ret: the first covers the second's number.
    let (file, _) = page(100, &[0x0f, 0x05, 0xb8, 2, 0, 0, 0, 0x0f, 0x05, 0xc3]);
    let sites = Sites::default();
    sites.note(0, 100, 7);
    sites.note(0, 107, 2);
    let new = sites.plan(0, &file, -0x10000, AREA, GATE);
    assert_eq!(new.len(), 1);
    assert_eq!(sites.refused(0), 1);
}
