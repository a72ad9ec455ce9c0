//! Memory: mappings, page faults, copies of them.

use crate::harness::{Program, Random, run, shared};
use crate::{call, fails, ok};
use std::collections::BTreeMap;
use uapi::raw::general as g;

const PAGE: u64 = 4096;
const RW: u32 = g::PROT_READ | g::PROT_WRITE;

/// Whether the program may write (or read) there, by a handler of SIGSEGV.
fn touches(p: &mut Program, address: u64, write: Option<u8>) -> bool {
    let at = p.cpu.registers().rip;
    let allowed = match write {
        Some(byte) => p.cpu.write(address as usize, &[byte]).is_ok(),
        None => p.cpu.read(address as usize, &mut [0]).is_ok(),
    };
    if !allowed {
        p.resume(at);
    }
    allowed
}

#[test]
fn new_memory_is_zero_and_private_to_a_process() {
    run(|p| {
        let at = p.map(3 * PAGE as usize);
        assert_eq!(p.load(at, 3 * PAGE as usize), vec![0; 3 * PAGE as usize]);
        p.store(at + 100, b"parent");
        p.in_child(move |p| {
            assert_eq!(p.load(at + 100, 6), b"parent");
            p.store(at + 100, b"child!");
            assert_eq!(p.load(at + 100, 6), b"child!");
        });
        assert_eq!(p.load(at + 100, 6), b"parent");
    });
}

#[test]
fn shared_memory_is_seen_by_both() {
    run(|p| {
        let at = ok!(p, mmap, 0, PAGE, RW, g::MAP_SHARED | g::MAP_ANONYMOUS, -1, 0);
        p.in_child(move |p| p.store(at, b"seen"));
        assert_eq!(p.load(at, 4), b"seen");
    });
}

#[test]
fn a_forbidden_access_is_a_signal_with_its_address() {
    run(|p| {
        let at = p.map(PAGE as usize);
        let seen = shared((0, 0, 0));
        let inside = seen.clone();
        p.on_signal(g::SIGSEGV, g::SA_SIGINFO, move |p, signal, info| {
            inside.set((signal, p.int(info + 8), p.word(info + 16)));
        });
        ok!(p, mprotect, at, PAGE, g::PROT_READ);
        assert!(!touches(p, at + 8, Some(1)));
        assert_eq!(seen.get(), (g::SIGSEGV as i32, 2, at + 8));
        assert!(touches(p, at + 8, None));
        ok!(p, munmap, at, PAGE);
        assert!(!touches(p, at + 9, None));
        assert_eq!(seen.get(), (g::SIGSEGV as i32, 1, at + 9));
    });
}

#[test]
fn without_a_handler_it_ends_the_process() {
    run(|p| {
        let child = p.fork(|p| {
            p.store(0x1000_0000, b"x");
            0
        });
        assert_eq!(p.wait(child) & 0x7f, g::SIGSEGV as i32);
    });
}

/// Random mmap, munmap, mprotect, madvise, mremap and fork against a map from pages to rights and content.
#[test]
fn mappings_are_what_a_simple_model_says() {
    run(|p| {
        p.on_signal(g::SIGSEGV, g::SA_SIGINFO, |_, _, _| {});
        for seed in 0..30 {
            mappings(p, seed);
        }
    });
}

const AREA: u64 = 64;

fn mappings(p: &mut Program, seed: u64) {
    let mut random = Random::new(seed);
    let area = p.map((AREA * PAGE) as usize);
    // Rights and the first byte of each page.
    let mut model: BTreeMap<u64, (u32, u8)> = (0..AREA).map(|page| (page, (RW, 0))).collect();
    for step in 0..150 {
        let first = random.below(AREA as usize) as u64;
        let count = 1 + random.below((AREA - first) as usize) as u64;
        let (at, len) = (area + first * PAGE, count * PAGE);
        let pages = first..first + count;
        match random.below(9) {
            0 => {
                ok!(p, mmap, at, len, RW, g::MAP_PRIVATE | g::MAP_ANONYMOUS | g::MAP_FIXED, -1, 0);
                model.extend(pages.map(|page| (page, (RW, 0))));
            }
            1 => {
                ok!(p, munmap, at, len);
                model.retain(|page, _| !pages.contains(page));
            }
            2 => {
                let prot = [0, g::PROT_READ, RW][random.below(3)];
                let all = pages.clone().all(|page| model.contains_key(&page));
                let outcome = call!(p, mprotect, at, len, prot);
                assert_eq!(outcome == 0, all, "seed {seed}, step {step}: mprotect {outcome}");
                // Linux changes what lies before the first gap.
                for page in pages {
                    match model.get_mut(&page) {
                        Some(entry) => entry.0 = prot,
                        None => break,
                    }
                }
            }
            3 => {
                let outcome = call!(p, madvise, at, len, g::MADV_DONTNEED);
                let all = pages.clone().all(|page| model.contains_key(&page));
                assert_eq!(outcome == 0, all, "seed {seed}, step {step}: madvise {outcome}");
                model.range_mut(pages).for_each(|(_, entry)| entry.1 = 0);
            }
            4 => {
                // A child sees the same, and changes nothing here.
                let copy = model.clone();
                p.in_child(move |p| {
                    for (page, (prot, byte)) in &copy {
                        let at = area + page * PAGE;
                        if prot & g::PROT_READ != 0 {
                            assert_eq!(p.load(at, 1)[0], *byte, "seed {seed}, step {step}, page {page}");
                        }
                        if prot & g::PROT_WRITE != 0 {
                            p.store(at, &[byte.wrapping_add(1)]);
                        }
                    }
                });
            }
            5 => {
                // One page moves to another place that is free.
                let to = random.below(AREA as usize) as u64;
                let from_flags = model.get(&first).copied();
                if to != first
                    && let Some(entry) = from_flags
                {
                    let flags = g::MREMAP_MAYMOVE | g::MREMAP_FIXED;
                    ok!(p, mremap, at, PAGE, PAGE, flags, area + to * PAGE);
                    model.remove(&first);
                    model.insert(to, entry);
                }
            }
            _ => {
                let byte = 1 + random.below(255) as u8;
                let entry = model.get_mut(&first);
                let writable = entry.as_ref().is_some_and(|entry| entry.0 & g::PROT_WRITE != 0);
                let readable = entry.as_ref().is_some_and(|entry| entry.0 & g::PROT_READ != 0);
                assert_eq!(touches(p, at, Some(byte)), writable, "seed {seed}, step {step}: store to page {first}");
                assert_eq!(touches(p, at, None), readable, "seed {seed}, step {step}: load of page {first}");
                if let Some(entry) = entry.filter(|_| writable) {
                    entry.1 = byte;
                }
            }
        }
        for (page, (prot, byte)) in &model {
            if prot & g::PROT_READ != 0 {
                assert_eq!(p.load(area + page * PAGE, 1)[0], *byte, "seed {seed}, step {step}: page {page}");
            }
        }
    }
    let listed = p.text("/proc/self/maps");
    let mut pages = 0;
    for line in listed.lines() {
        let (start, rest) = line.split_once('-').expect("a range");
        let (end, rest) = rest.split_once(' ').expect("a range");
        let number = |text| u64::from_str_radix(text, 16).expect("an address");
        let (start, end) = (number(start).max(area), number(end).min(area + AREA * PAGE));
        for page in (start..end.max(start)).step_by(PAGE as usize).map(|at| (at - area) / PAGE) {
            let prot = model.get(&page).unwrap_or_else(|| panic!("seed {seed}: {page} in {line}")).0;
            assert_eq!(rest.starts_with('r'), prot & g::PROT_READ != 0, "seed {seed}: {page} in {line}");
            assert_eq!(&rest[1..2] == "w", prot & g::PROT_WRITE != 0, "seed {seed}: {page} in {line}");
            pages += 1;
        }
    }
    assert_eq!(pages, model.len(), "seed {seed}: {listed}");
    ok!(p, munmap, area, AREA * PAGE);
}

#[test]
fn keel_reads_and_writes_what_the_program_may() {
    run(|p| {
        let at = p.map(2 * PAGE as usize);
        ok!(p, munmap, at + PAGE, PAGE);
        let [read, write] = p.pipe(0);
        // A pipe takes no part of a page; what is not there fails the call where nothing was done.
        fails!(p, EFAULT, write, write, at + PAGE - 10, 20);
        fails!(p, EFAULT, write, write, at + PAGE, 1);
        assert_eq!(ok!(p, write, write, at + PAGE - 10, 10), 10);
        fails!(p, EFAULT, read, read, at + PAGE - 4, 10);
        // A file does.
        let path = p.string("/tmp/partly");
        let file = ok!(p, open, path, g::O_CREAT | g::O_RDWR, 0o600);
        assert_eq!(ok!(p, write, file, at + PAGE - 10, 20), 10);
        assert_eq!(ok!(p, read, read, at + PAGE - 4, 4), 4);
        ok!(p, mprotect, at, PAGE, g::PROT_READ);
        fails!(p, EFAULT, read, read, at, 1);
    });
}

#[test]
fn large_areas_are_filled_and_given_back() {
    run(|p| {
        let len = 16 << 20;
        let before = hal::frame::ram_usage();
        for _ in 0..5 {
            let at = p.map(len);
            for offset in (0..len as u64).step_by(64 << 10) {
                p.store(at + offset, &offset.to_le_bytes());
            }
            p.in_child(move |p| {
                for offset in (0..len as u64).step_by(256 << 10) {
                    assert_eq!(p.word(at + offset), offset);
                    p.store(at + offset, &[1]);
                }
            });
            assert_eq!(p.word(at + (4 << 20)), 4 << 20);
            ok!(p, munmap, at, len);
        }
        let after = hal::frame::ram_usage();
        let used = |usage: hal::frame::RamUsage| usage.total - usage.free;
        assert!(used(after) < used(before) + (4 << 20), "{before:?} {after:?}");
    });
}

#[test]
fn the_heap_grows_and_shrinks() {
    run(|p| {
        let start = ok!(p, brk, 0);
        assert_eq!(ok!(p, brk, start + 10_000), start + 10_000);
        p.store(start, &[5; 10_000]);
        assert_eq!(ok!(p, brk, start), start);
        assert_eq!(ok!(p, brk, start + 10_000), start + 10_000);
        assert_eq!(p.load(start, 10), [0; 10]);
    });
}

#[test]
fn a_file_is_mapped() {
    run(|p| {
        p.write_file("/tmp/mapped", &[b"0123456789".as_slice(), &[0; 5000], b"end"].concat());
        let fd = p.open("/tmp/mapped", g::O_RDWR);
        let private = ok!(p, mmap, 0, 2 * PAGE, RW, g::MAP_PRIVATE, fd, 0);
        let shared = ok!(p, mmap, 0, 2 * PAGE, RW, g::MAP_SHARED, fd, 0);
        assert_eq!(p.load(private + 5010, 3), b"end");
        p.store(private, b"mine");
        p.store(shared + 4, b"ours");
        ok!(p, msync, shared, PAGE, g::MS_SYNC);
        assert_eq!(p.content("/tmp/mapped")[..10], *b"0123ours89");
        assert_eq!(p.load(private, 10), b"mine456789");
        // Beyond the end of the file.
        let far = ok!(p, mmap, 0, 4 * PAGE, RW, g::MAP_SHARED, fd, 0);
        let child = p.fork(move |p| {
            p.store(far + 3 * PAGE, b"x");
            0
        });
        assert_eq!(p.wait(child) & 0x7f, g::SIGBUS as i32);
    });
}
