//! Tests the image on the host: as a shared object, and with a data page of the test.

use std::{env, fs, process::Command};

#[test]
fn works_on_the_host() {
    let dir = env::temp_dir().join(format!("keel-vdso-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("temporary directory");
    let image = dir.join("vdso.so");
    let program = dir.join("image");
    fs::write(&image, keel_vdso::IMAGE).expect("write");
    let built = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-o"])
        .arg(&program)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/image.c"))
        .status()
        .expect("cc");
    assert!(built.success());
    let ran = Command::new(&program).arg(&image).output().expect("run");
    println!("{}", String::from_utf8_lossy(&ran.stdout));
    fs::remove_dir_all(&dir).expect("clean up");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn data_page_layout() {
    // tests/image.c has the same structure.
    assert_eq!(size_of::<keel_vdso::Vvar>(), 24 + 16 * keel_vdso::vvar::CLOCK_LIMIT);
    assert!(keel_vdso::IMAGE.len() <= 2 * 4096);
}
