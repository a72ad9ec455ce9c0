//! The patcher with random bytes: a patch stays in its page, and every covered instruction has its copy.
#![no_main]

use keel_core::patch::{Area, Window, candidates, plan, plan_unseen};
use libfuzzer_sys::fuzz_target;

const PAGE: u64 = 4096;
const BASE: u64 = 1 << 40;
const AREA: usize = 64 << 10;

fuzz_target!(|data: &[u8]| {
    let [at, numbers @ .., thorough] = data else { return };
    let mut bytes = vec![0xcc; 2 * PAGE as usize];
    // Near the end of the page, where page crossings matter.
    let start = PAGE as usize - usize::from(*at);
    let len = numbers.len().min(bytes.len() - start);
    bytes[start..start + len].copy_from_slice(&numbers[..len]);
    let window = Window { addr: BASE, bytes: &bytes };
    let mut area = Area::new(BASE - AREA as u64, AREA).expect("memory of the host");
    assert!(candidates(&window).all(|site| (BASE..BASE + 2 * PAGE).contains(&site)));
    let sites = bytes.windows(2).enumerate().filter(|(_, pair)| *pair == [0x0f, 0x05]).map(|(at, _)| BASE + at as u64);
    for site in sites.take(16) {
        let seen = plan(&window, site, u64::from(*thorough), &mut area, 0x40, thorough & 1 != 0);
        for planned in seen.into_iter().chain(plan_unseen(&window, site, &mut area, 0x40)) {
            let patch = planned.patch;
            let last = patch.at + patch.bytes.len() as u64 - 1;
            assert_eq!(patch.at / PAGE, last / PAGE, "a patch over two pages");
            assert!(patch.at <= site && site < patch.end);
            assert!(patch.in_trampoline(patch.trampoline));
            assert!(!patch.in_trampoline(patch.trampoline + planned.code.len() as u64));
            for rip in patch.at..patch.end {
                if let Some(moved) = patch.resume_for(rip) {
                    assert!(patch.in_trampoline(moved));
                    assert_eq!(patch.original_for(moved), Some(rip));
                }
            }
        }
    }
});
