//! The monitor's end of the ring, with a guest that writes arbitrary memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use monitor::fuzzing::Rig;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static RIG: OnceLock<Rig> = OnceLock::new();
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn rig() -> Rig {
    // Limit the size of files that the guest writes.
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

/// Restores the guest's files after earlier inputs changed them.
fn plant() {
    let directory = directory();
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(directory.join("a/b")).expect("a directory for the guest");
    std::fs::write(directory.join("a/c"), "content").expect("a file for the guest");
}

fuzz_target!(|data: &[u8]| {
    // Only occasionally, because it would dominate the run time.
    if COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(32) {
        plant();
    }
    RIG.get_or_init(rig).run(data).expect("the server starts");
});
