//! Layers: the tar reader, whiteouts, the writer of images. What is taken must read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rootfs::{Image, Kind, Limits, Options, Tree};

const BLOCK: usize = 512;

fuzz_target!(|data: &[u8]| {
    let Some((&count, data)) = data.split_first() else { return };
    let mut archive = data.to_vec();
    // Headers get their checksum, or hardly one would be read.
    for block in archive.chunks_exact_mut(BLOCK).filter(|block| &block[257..262] == b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    let limits =
        Limits { entries: 200, stored: 4 << 20, file: 1 << 32, all_xattrs: 1 << 20, depth: 50, ..Limits::default() };
    let Ok(image) = tempfile::tempfile_in("/dev/shm") else { return };
    let Ok(scratch) = tempfile::tempfile_in("/dev/shm") else { return };
    let Ok(copy) = image.try_clone() else { return };
    let mut tree = Tree::new(image, scratch, limits);
    let blocks = archive.len() / BLOCK;
    let layers = usize::from(count % 4) + 1;
    let size = (blocks.div_ceil(layers) * BLOCK).max(1);
    for layer in archive.chunks(size) {
        if let Err(error) = tree.apply_layer(layer) {
            let line = error.to_string();
            assert!(!line.contains('\n') && line.len() < 2000, "{line}");
            return;
        }
    }
    let _ = tree.read_file("etc/passwd", 1 << 20);
    let summary = tree.write_erofs(&Options::default()).expect("what was taken can be written");
    let image = Image::open(copy).expect("what was written can be read");
    let mut seen = std::collections::BTreeSet::new();
    let mut todo = vec![image.root()];
    while let Some(nid) = todo.pop() {
        if !seen.insert(nid) {
            continue;
        }
        let stat = image.stat(nid).expect("an inode");
        image.xattrs(&stat).expect("attributes");
        image.read(&stat, stat.size.saturating_sub(100), &mut [0; 100]).expect("data");
        if stat.kind == Kind::Directory {
            let names = image.names(&stat).expect("names");
            assert!(names.is_sorted_by(|a, b| a.0 < b.0));
            todo.extend(names.into_iter().map(|(_, nid)| nid));
        }
    }
    assert_eq!(seen.len() as u64, summary.inodes);
});
