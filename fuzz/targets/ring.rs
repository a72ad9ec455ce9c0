//! The monitor's end of the ring, served to a guest that writes anything anywhere.
#![no_main]

use libfuzzer_sys::fuzz_target;
use monitor::fuzzing::Rig;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static RIG: OnceLock<Rig> = OnceLock::new();
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn rig() -> Rig {
    // What the guest writes stays small.
    let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
    // SAFETY: plain calls that change this process alone.
    unsafe {
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    Rig::new(&directory()).expect("a machine for the guest: is /dev/kvm there?")
}

fn directory() -> PathBuf {
    std::env::temp_dir().join(format!("hull-fuzz-ring-{}", std::process::id()))
}

/// Gives the guest its files, in place of what earlier inputs made of them.
fn plant() {
    let directory = directory();
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(directory.join("a/b")).expect("a directory for the guest");
    std::fs::write(directory.join("a/c"), "content").expect("a file for the guest");
}

fuzz_target!(|data: &[u8]| {
    // Every now and then: making them anew each time would take most of the time.
    if COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(32) {
        plant();
    }
    RIG.get_or_init(rig).run(data).expect("the server starts");
});
