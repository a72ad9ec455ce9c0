//! Checks that moved instructions behave like the originals: executes both in the same states and compares everything
//! that they can change.
//!
//! Two sets: every system call site of real files, and, for more variety, made-up sites in front of random instructions
//! of the same files.

mod corpus;
mod machine;
mod random;
mod run;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use keel_core::patch::{Area, Form, Planned, Window, candidates, plan};
use machine::{Machine, REGION, REGION_LEN};
use random::Random;
use run::{Bench, Count, GATE_OFFSET};

/// Address of a file's first byte: in the middle, with room for data before and behind the text.
const BASE: u64 = REGION + REGION_LEN / 2;
/// Room for trampolines below, as in keel.
const AREA: usize = 64 << 10;
const PAGE: u64 = 4096;
/// Bytes behind a page that keel passes to the planner.
const BEHIND: u64 = 32;
/// Number of states per patch.
const STATES: usize = 4;
/// Made-up sites per file, and the time limit for all files.
const MADE_UP: usize = 1500;
const MADE_UP_TIME: Duration = Duration::from_secs(8);

/// A page of a segment and the bytes behind it, as keel passes them to the planner.
fn page_of<'a>(segment: &Window<'a>, site: u64) -> Window<'a> {
    let from = (site & !(PAGE - 1)).max(segment.addr);
    let until = ((site & !(PAGE - 1)) + PAGE + BEHIND).min(segment.addr + segment.bytes.len() as u64);
    Window { addr: from, bytes: &segment.bytes[(from - segment.addr) as usize..(until - segment.addr) as usize] }
}

/// The number that is loaded in front of a site, if one is.
fn number_before(window: &Window<'_>, site: u64) -> u64 {
    let at = (site - window.addr) as usize;
    at.checked_sub(4)
        .map_or(0, |from| u64::from(u32::from_le_bytes(window.bytes[from..at].try_into().expect("four bytes"))))
}

fn report(path: &Path, what: &str, count: &Count, forms: &BTreeMap<String, usize>, start: Instant) {
    println!("{}: {what}: {count} {forms:?} in {:.1} s", path.display(), start.elapsed().as_secs_f32());
}

#[test]
fn sites_of_real_files() {
    let machine = Machine::start();
    let mut random = Random::new(1);
    let mut total = Count::default();
    for path in corpus::files() {
        let Ok(file) = std::fs::read(&path) else { continue };
        let start = Instant::now();
        let mut count = Count::default();
        let mut forms = BTreeMap::<String, usize>::new();
        for (offset, bytes) in corpus::segments(&file) {
            let segment = Window { addr: BASE + offset, bytes };
            let mut bench = Bench::new(&machine, segment);
            let mut area = Area::new(BASE - AREA as u64, AREA).unwrap();
            for site in candidates(&segment) {
                let window = page_of(&segment, site);
                let number = number_before(&window, site);
                // As at most traps, and as if the number was loaded elsewhere.
                for number in [number, number ^ 1] {
                    let planned = plan(&window, site, number, &mut area, GATE_OFFSET, true);
                    let form = planned.as_ref().map_or_else(|r| format!("{r:?}"), |p| format!("{:?}", p.patch.form));
                    *forms.entry(form).or_default() += 1;
                    let Ok(planned) = planned else { continue };
                    bench.compare(&planned, &mut random, STATES, &mut count);
                    if planned.patch.form == Form::Displace {
                        break;
                    }
                }
            }
        }
        report(&path, "its sites", &count, &forms, start);
        total.add(&count);
    }
    println!("all sites: {total}");
    assert!(total.patches > 300, "the machine has hardly any text");
    assert!(total.ended * 2 > total.runs, "most runs must get to their end");
}

/// Instructions with varying results, or whose result depends on their address.
fn unsteady(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Rdtsc
            | Rdtscp
            | Rdrand
            | Rdseed
            | Rdpmc
            | Rdpid
            | Cpuid
            | Umwait
            | Tpause
            | Wrgsbase
            | Fnstenv
            | Fnsave
            | Fxsave
            | Fxsave64
            | Xsave
            | Xsave64
            | Xsavec
            | Xsavec64
            | Xsaveopt
            | Xsaveopt64
    )
}

/// A page of `segment` in which a system call stands in front of a random instruction.
fn made_up(segment: &Window<'_>, random: &mut Random) -> Option<(Vec<u8>, u64)> {
    // Decoders resynchronise with the instruction boundaries.
    let from = random.below(segment.bytes.len() as u64) as usize;
    let until = (from + 256).min(segment.bytes.len());
    let mut decoder = Decoder::with_ip(64, &segment.bytes[from..until], 0, DecoderOptions::NONE);
    let target = loop {
        let instruction = decoder.decode();
        if instruction.is_invalid() && decoder.position() + 16 > until - from {
            return None;
        }
        if instruction.ip() >= 128 && !instruction.is_invalid() && !unsteady(instruction.mnemonic()) {
            break segment.addr + from as u64 + instruction.ip();
        }
    };
    let site = target - 2;
    let window = page_of(segment, site);
    if site < window.addr + 16 {
        return None;
    }
    let mut page = window.bytes.to_vec();
    let at = (site - window.addr) as usize;
    page[at..at + 2].copy_from_slice(&[0x0f, 0x05]);
    Some((page, site))
}

#[test]
fn instructions_of_real_files() {
    let machine = Machine::start();
    let mut total = Count::default();
    let files = corpus::files();
    let time = MADE_UP_TIME / files.len().max(1) as u32;
    for path in files {
        let Ok(file) = std::fs::read(&path) else { continue };
        let start = Instant::now();
        let mut random = Random::new(2);
        let mut count = Count::default();
        let mut forms = BTreeMap::<String, usize>::new();
        for (offset, bytes) in corpus::segments(&file) {
            let segment = Window { addr: BASE + offset, bytes };
            if bytes.len() < 4096 {
                continue;
            }
            let mut bench = Bench::new(&machine, segment);
            for _ in 0..MADE_UP {
                if start.elapsed() > time {
                    break;
                }
                let Some((page, site)) = made_up(&segment, &mut random) else { continue };
                let window = Window { bytes: &page, ..page_of(&segment, site) };
                let mut area = Area::new(BASE - AREA as u64, AREA).unwrap();
                let planned = plan(&window, site, u64::MAX, &mut area, GATE_OFFSET, true);
                let form = planned.as_ref().map_or_else(|r| format!("{r:?}"), |p| format!("{:?}", p.patch.form));
                *forms.entry(form).or_default() += 1;
                let Ok(planned) = planned else { continue };
                let unsteady = run::covered(&window, &planned).iter().any(|i| unsteady(i.mnemonic()));
                if !unsteady {
                    bench.with_site(site, |bench| bench.compare(&planned, &mut random, 2, &mut count));
                }
            }
        }
        report(&path, "sites in front of its instructions", &count, &forms, start);
        total.add(&count);
    }
    println!("all made-up sites: {total}");
    assert!(total.patches > 300, "the machine has hardly any text");
}

/// The comparison detects differences.
#[test]
fn differences_are_found() {
    let machine = Machine::start();
    let mut random = Random::new(3);
    // syscall; mov eax, [rip+0x1000]; add rbx, rax; jmp
    let mut bytes = vec![0xcc; 8192];
    bytes[64..76].copy_from_slice(&[0x0f, 0x05, 0x8b, 0x05, 0, 0x10, 0x10, 0, 0x48, 0x01, 0xc3, 0x90]);
    let segment = Window { addr: BASE, bytes: &bytes };
    let window = page_of(&segment, BASE + 64);
    let mut area = Area::new(BASE - AREA as u64, AREA).unwrap();
    let planned = plan(&window, BASE + 64, 0, &mut area, GATE_OFFSET, true).expect("planned");
    let mut bench = Bench::new(&machine, segment);
    let mut count = Count::default();
    bench.compare(&planned, &mut random, STATES, &mut count);
    assert_eq!((count.patches, count.differing), (1, 0));
    let mut found = 0;
    for at in 0..planned.code.len() {
        let mut wrong = Planned { code: planned.code.clone(), ..planned.clone() };
        wrong.code[at] ^= 0x40;
        found += usize::from(bench.first_difference(&wrong, &mut random, STATES, &mut Count::default()).is_some());
    }
    // A restarted call's `syscall` and the prefix of the call matter only in some states.
    assert!(found + 2 >= planned.code.len(), "{found} of {}", planned.code.len());
}
