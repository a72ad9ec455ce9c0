//! Makes an EROFS image of layers, lowest first, or of a directory: `erofs OUT LAYER.tar...`, `erofs OUT DIRECTORY`.
//! Prints how long each step took.

use std::{error::Error, fs::File, path::Path, time::Instant};

use rootfs::{Limits, Options, Tree};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let out = arguments.next().ok_or("usage: erofs OUT LAYER.tar... | OUT DIRECTORY")?;
    let image = File::options().read(true).write(true).create(true).truncate(true).open(out)?;
    let mut tree = Tree::new(image, tempfile::tempfile()?, Limits::default());
    let start = Instant::now();
    for layer in arguments {
        let path = Path::new(&layer);
        if path.is_dir() {
            tree.add_directory(path)?
        } else {
            tree.apply_layer(File::open(path)?)?
        }
        println!("{:.3} s: {}", start.elapsed().as_secs_f64(), path.display());
    }
    let summary = tree.write_erofs(&Options::default())?;
    println!("{:.3} s: {summary:?}", start.elapsed().as_secs_f64());
    Ok(())
}
