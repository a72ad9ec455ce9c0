//! Files of the store that are damaged: each command says so, and loading the image again mends it.

use super::support::*;
use std::os::unix::fs::FileExt;

/// A store with the image `x`, and the path of its layer.
fn loaded() -> (Scene, std::path::PathBuf) {
    let scene = Scene::new();
    let bytes: Vec<u8> = (0..500_000_u32).map(|at| (at ^ (at >> 9)) as u8).collect();
    scene.write("x.tar", &docker("x", &[tar(&[("file", &bytes)])]));
    scene.hull(&["load", "-i", "x.tar"]);
    let layer = scene.inspect("x")["RootFS"]["Layers"][0].as_str().unwrap().replace("sha256:", "");
    let path = scene.store().join("blobs/sha256").join(layer);
    (scene, path)
}

#[test]
fn a_layer_that_changed_is_not_saved() {
    let (scene, layer) = loaded();
    let good = std::fs::read(&layer).unwrap();
    std::fs::File::options().write(true).open(&layer).unwrap().write_all_at(b"?", 5000).unwrap();
    for format in ["oci-archive", "docker-archive"] {
        let line = scene.fails(&["save", "-o", "saved.tar", "--format", format, "x"]);
        assert!(line.contains("the store is damaged: its contents do not have its digest; fetch or load"), "{line}");
        assert!(!scene.path("saved.tar").exists());
    }
    scene.hull(&["load", "-i", "x.tar"]);
    assert!(std::fs::read(&layer).unwrap() == good);
    scene.hull(&["save", "-o", "saved.tar", "x"]);
    std::fs::write(&layer, &good[..1000]).unwrap();
    scene.fails(&["save", "-o", "other.tar", "--format=docker-archive", "x"]);
    std::fs::remove_file(&layer).unwrap();
    assert!(scene.fails(&["save", "-o", "other.tar", "x"]).contains("it is missing"));
    scene.hull(&["load", "-i", "saved.tar"]);
    scene.hull(&["save", "-o", "other.tar", "x"]);
    assert!(std::fs::read(scene.path("saved.tar")).unwrap() == std::fs::read(scene.path("other.tar")).unwrap());
}

#[test]
fn a_root_that_is_cut_or_gone_is_made_again() {
    let (scene, _) = loaded();
    let path = scene.erofs("x");
    let good = std::fs::read(&path).unwrap();
    let run = || {
        let output = scene.command(&["run", "--pull=never", "x", "program"]).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for length in [None, Some(0), Some(100_000)] {
        match length {
            Some(length) => std::fs::write(&path, &good[..length]).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let (code, line) = run();
        assert!(code == 125 && line.contains("the store is damaged: ") && line.contains("; fetch or load"), "{line}");
        scene.hull(&["load", "-i", "x.tar"]);
        assert!(std::fs::read(&path).unwrap() == good);
        assert_eq!(run().0, 127);
    }
}
