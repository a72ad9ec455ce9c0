//! The monitor's end of the ring, served to a guest that writes anything anywhere.
#![no_main]

use libfuzzer_sys::fuzz_target;
use monitor::fuzzing::Rig;
use std::sync::OnceLock;

static RIG: OnceLock<Rig> = OnceLock::new();

fn rig() -> Rig {
    // What the guest writes stays small.
    let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
    // SAFETY: plain calls that change this process alone.
    unsafe {
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    let directory = std::env::temp_dir().join(format!("hull-fuzz-ring-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("a/b")).expect("a directory for the guest");
    std::fs::write(directory.join("a/c"), "content").expect("a file for the guest");
    Rig::new(&directory).expect("a machine for the guest: is /dev/kvm there?")
}

fuzz_target!(|data: &[u8]| {
    RIG.get_or_init(rig).run(data).expect("the server starts");
});
