//! The host's reader of images: anything may be in an image, and it ends in an error.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use rootfs::{Image, Kind};

fuzz_target!(|data: &[u8]| {
    // The superblock is at byte 1024, and its checksum is optional.
    let mut bytes = vec![0; 1024];
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    bytes[1024..1028].copy_from_slice(&0xe0f5_e1e2_u32.to_le_bytes());
    bytes[1032] &= !1;
    let Ok(mut file) = tempfile::tempfile_in("/dev/shm") else { return };
    if file.write_all(&bytes).is_err() {
        return;
    }
    let Ok(image) = Image::open(file) else { return };
    let _ = image.read_file("etc/passwd", 1 << 16);
    let mut todo = vec![image.root()];
    for _ in 0..50 {
        let Some(nid) = todo.pop() else { return };
        let Ok(stat) = image.stat(nid) else { continue };
        let _ = image.xattrs(&stat);
        let _ = image.target(&stat);
        let _ = image.read(&stat, stat.size / 2, &mut [0; 5000]);
        let _ = image.read(&stat, stat.size.saturating_sub(5), &mut [0; 5000]);
        if stat.kind == Kind::Directory {
            todo.extend(image.names(&stat).into_iter().flatten().map(|(_, nid)| nid));
        }
    }
});
