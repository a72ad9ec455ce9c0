//! Random layers over each other, compared with what umoci unpacks and what overlayfs shows.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use proptest::prelude::*;
use support::{archive::Archive, compare, image_of, record, run};

/// One step of a random layer.
#[derive(Clone, Debug)]
enum Step {
    File(String, u16),
    Directory(String),
    Symlink(String, String),
    Link(String, String),
    Whiteout(String),
    Opaque(String),
}

fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec("[abc]", 1..4).prop_map(|names| names.join("/"))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (path(), any::<u16>()).prop_map(|(path, size)| Step::File(path, size % 9000)),
        4 => path().prop_map(Step::Directory),
        1 => (path(), path()).prop_map(|(path, target)| Step::Symlink(path, target)),
        2 => (path(), path()).prop_map(|(path, target)| Step::Link(path, target)),
        3 => path().prop_map(Step::Whiteout),
        1 => path().prop_map(Step::Opaque),
    ]
}

/// What a name is while a random image is put together.
#[derive(Clone, Copy, PartialEq)]
enum Is {
    Directory,
    Other,
}

/// The layers as archives. Steps that umoci refuses or treats differently on purpose are left out: files and links on
/// the way to an entry, hard links to what does not exist, and a whiteout of a name that the same layer has.
fn archives(layers: &[Vec<Step>]) -> Vec<Archive> {
    let mut tree: BTreeMap<String, Is> = Default::default();
    let mut all = Vec::new();
    for steps in layers {
        let mut archive = Archive::new();
        let mut own: BTreeSet<String> = BTreeSet::new();
        let remove = |tree: &mut BTreeMap<String, Is>, path: &str| {
            tree.retain(|name, _| name != path && !name.starts_with(&format!("{path}/")));
        };
        for step in steps {
            let path = match step {
                Step::File(path, _) | Step::Directory(path) | Step::Symlink(path, _) => path,
                Step::Link(path, _) | Step::Whiteout(path) | Step::Opaque(path) => path,
            };
            let above: Vec<&str> = path.match_indices('/').map(|(at, _)| &path[..at]).collect();
            if above.iter().any(|above| tree.get(*above) == Some(&Is::Other)) {
                continue;
            }
            let (parent, name) = path.rsplit_once('/').map_or(("", &path[..]), |(p, n)| (p, n));
            let prefix = if parent.is_empty() { String::new() } else { format!("{parent}/") };
            let is = match step {
                Step::File(_, size) => {
                    archive = archive.file(path, &vec![b'x'; usize::from(*size)]);
                    Is::Other
                }
                Step::Directory(_) => {
                    archive = archive.directory(path);
                    Is::Directory
                }
                Step::Symlink(_, target) => {
                    archive = archive.symlink(path, target);
                    Is::Other
                }
                Step::Link(_, target) => {
                    let bad = tree.get(target) != Some(&Is::Other) || target.starts_with(&format!("{path}/"));
                    if bad || target == path {
                        continue;
                    }
                    archive = archive.link(path, target);
                    Is::Other
                }
                Step::Whiteout(_) => {
                    archive = archive.empty(&format!("{prefix}.wh.{name}"));
                    if !own.contains(path) {
                        remove(&mut tree, path);
                    } else {
                        tree.retain(|n, _| own.contains(n) || !n.starts_with(&format!("{path}/")));
                    }
                    continue;
                }
                Step::Opaque(_) => {
                    if tree.get(path) != Some(&Is::Directory) {
                        continue;
                    }
                    archive = archive.empty(&format!("{path}/.wh..wh..opq"));
                    tree.retain(|n, _| own.contains(n) || !n.starts_with(&format!("{path}/")));
                    continue;
                }
            };
            if is == Is::Other || tree.get(path) == Some(&Is::Other) {
                remove(&mut tree, path);
                own.retain(|n| !n.starts_with(&format!("{path}/")));
            }
            for above in above {
                tree.insert(above.into(), Is::Directory);
                own.insert(above.into());
            }
            tree.insert(path.clone(), is);
            own.insert(path.clone());
        }
        all.push(archive);
    }
    all
}

/// Directories as Docker makes them of layers, one each, that the host mounts over each other.
struct Overlay(tempfile::TempDir);

impl Overlay {
    fn layer(&self, number: usize) -> PathBuf {
        self.0.path().join(number.to_string())
    }

    /// Type and content of all names of the first `count` layers.
    fn view(&self, count: usize) -> BTreeMap<Vec<u8>, (u32, String)> {
        let at = self.0.path().join("merged");
        fs::create_dir_all(&at).unwrap();
        // An overlay without an upper layer has two lower ones at least.
        let lower: Vec<_> = (0..count + 2).rev().map(|number| self.layer(number).display().to_string()).collect();
        lower.iter().for_each(|layer| fs::create_dir_all(layer).unwrap());
        let options = format!("ro,lowerdir={}", lower.join(":"));
        run(Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(&at));
        let all = std::panic::catch_unwind(|| record::of_directory(&at));
        run(Command::new("umount").arg(&at));
        all.unwrap().into_iter().map(|(name, record)| (name, (record.mode >> 12, record.content))).collect()
    }
}

/// Makes archives of the steps, and what Docker's driver for overlayfs unpacks from them. Left out are paths through what
/// the same layer made a file or link, and names that become something else within a layer.
fn unpack_for_overlay(layers: &[Vec<Step>]) -> (Vec<Vec<u8>>, Overlay) {
    let overlay = Overlay(tempfile::tempdir().unwrap());
    let mut archives = Vec::new();
    for (i, steps) in layers.iter().enumerate() {
        let lower = overlay.view(i);
        // Layers 0 and 1 are empty.
        let dir = overlay.layer(i + 2);
        fs::create_dir_all(&dir).unwrap();
        let mut archive = Archive::new();
        let mut hidden = Vec::new();
        let own = |path: &str| fs::symlink_metadata(dir.join(path)).ok();
        let is_directory = |path: &str| match own(path) {
            Some(stat) => stat.is_dir(),
            None => lower.get(path.as_bytes()).is_some_and(|(kind, _)| *kind == 4),
        };
        for step in steps {
            let (Step::File(path, _) | Step::Directory(path) | Step::Symlink(path, _)) = step else {
                let (Step::Whiteout(path) | Step::Opaque(path)) = step else { continue };
                let (parent, marker) = match (step, path.rsplit_once('/')) {
                    (Step::Opaque(_), _) => (&path[..], ".wh..wh..opq".to_string()),
                    (_, Some((parent, name))) => (parent, format!(".wh.{name}")),
                    (_, None) => ("", format!(".wh.{path}")),
                };
                let mut above = parent.match_indices('/').map(|(at, _)| &parent[..at]).chain([parent]);
                if above.any(|above| own(above).is_some_and(|stat| !stat.is_dir())) {
                    continue;
                }
                archive = archive.empty(format!("{parent}/{marker}").trim_start_matches('/'));
                if is_directory(parent) {
                    hidden.push((parent.to_string(), (!matches!(step, Step::Opaque(_))).then(|| path.clone())));
                }
                continue;
            };
            let mut above = path.match_indices('/').map(|(at, _)| &path[..at]);
            let is_own_directory = own(path).map(|stat| stat.is_dir());
            if above.any(|above| own(above).is_some_and(|stat| !stat.is_dir()))
                || is_own_directory.is_some_and(|is| is != matches!(step, Step::Directory(_)))
            {
                continue;
            }
            let at = dir.join(path);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&at);
            match step {
                Step::File(_, size) => {
                    let data = vec![b'0' + i as u8; usize::from(*size)];
                    archive = archive.file(path, &data);
                    fs::write(&at, &data).unwrap();
                }
                Step::Symlink(_, target) => {
                    archive = archive.symlink(path, target);
                    std::os::unix::fs::symlink(target, &at).unwrap();
                }
                _ => {
                    archive = archive.directory(path);
                    fs::create_dir_all(&at).unwrap();
                }
            }
        }
        // What is below a hidden name is hidden already.
        hidden.sort_by_key(|(parent, name)| (name.as_ref().unwrap_or(parent).len(), name.is_none()));
        let mut gone: Vec<String> = Vec::new();
        for (parent, name) in hidden {
            let covers = |above: &String| parent == *above || parent.starts_with(&format!("{above}/"));
            if gone.iter().any(covers) {
                continue;
            }
            // A later entry of the layer may have made a parent a file.
            let ends = parent.match_indices('/').map(|(at, _)| at).chain([parent.len()]);
            if ends.into_iter().any(|end| own(&parent[..end]).is_some_and(|stat| !stat.is_dir())) {
                continue;
            }
            gone.push(name.clone().unwrap_or(parent.clone()));
            let opaque = |path: &Path| {
                fs::create_dir_all(path).unwrap();
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(path, "trusted.overlay.opaque", b"y", flags).unwrap();
            };
            match name {
                None => opaque(&dir.join(&parent)),
                Some(name) => match own(&name) {
                    Some(stat) if stat.is_dir() => opaque(&dir.join(&name)),
                    // Overlayfs shows marks that hide nothing.
                    None if lower.contains_key(name.as_bytes()) => {
                        fs::create_dir_all(dir.join(&parent)).unwrap();
                        run(Command::new("mknod").arg(dir.join(&name)).args(["c", "0", "0"]));
                    }
                    _ => {}
                },
            }
        }
        archives.push(archive.end());
    }
    (archives, overlay)
}

/// What umoci unpacks from the layers.
fn unpacked(layers: &[Vec<u8>], dir: &Path) -> record::Records {
    let image = dir.join("image");
    let name = format!("{}:t", image.display());
    run(Command::new("umoci").args(["init", "--layout"]).arg(&image));
    run(Command::new("umoci").args(["new", "--image", &name]));
    for layer in layers {
        fs::write(dir.join("layer.tar"), layer).unwrap();
        run(Command::new("umoci").args(["raw", "add-layer", "--image", &name]).arg(dir.join("layer.tar")));
    }
    run(Command::new("umoci").args(["raw", "unpack", "--image", &name]).arg(dir.join("root")));
    record::of_directory(&dir.join("root"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random layers give what umoci unpacks, but for times of directories that no entry describes.
    #[test]
    fn random_layers_as_umoci(layers in proptest::collection::vec(proptest::collection::vec(step(), 0..25), 1..4)) {
        let layers: Vec<_> = archives(&layers).into_iter().map(Archive::end).collect();
        let dir = tempfile::tempdir().unwrap();
        let mut expected = unpacked(&layers, dir.path());
        let (image, _) = image_of(&layers).unwrap();
        compare(&image, &record::of_image(&image));
        let mut got = record::of_image(&image);
        for all in [&mut expected, &mut got] {
            for record in all.values_mut().filter(|record| record.mode >> 12 == 4) {
                record.mtime = (0, 0);
            }
        }
        record::assert_same("image", &got, &expected);
    }
    /// Random layers give what the host shows of them in an overlay mount, as Docker's containers see it.
    #[test]
    fn random_layers_as_overlayfs(layers in proptest::collection::vec(proptest::collection::vec(step(), 0..25), 1..4)) {
        let (archives, overlay) = unpack_for_overlay(&layers);
        let (image, _) = image_of(&archives).unwrap();
        let got: BTreeMap<_, _> =
            record::of_image(&image).into_iter().map(|(name, record)| (name, (record.mode >> 12, record.content))).collect();
        assert_eq!(got, overlay.view(layers.len()));
    }
}
