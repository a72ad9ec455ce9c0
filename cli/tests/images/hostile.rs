//! Archives that lie: one clear line, and nothing is left.

use super::support::*;
use serde_json::json;
use std::time::{Duration, Instant};

/// Loads bytes, which must fail; the message.
#[track_caller]
fn refused(what: &str, bytes: &[u8], more: &[&str]) -> String {
    let scene = Scene::new();
    scene.write("archive", bytes);
    let begin = Instant::now();
    let line = scene.fails(&[&["load", "-i", "archive"], more].concat());
    assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
    scene.assert_empty(what);
    line
}

#[track_caller]
fn expect(what: &str, bytes: &[u8], message: &str) {
    let line = refused(what, bytes, &[]);
    assert!(line.contains(message), "{what}: {line}");
}

/// An archive with one image, changed by the test: manifest, configuration, layer.
fn changed(change: impl FnOnce(&mut serde_json::Value, &mut serde_json::Value, &mut Vec<u8>)) -> Vec<u8> {
    let mut layer = tar(&[("file", b"contents")]);
    let mut config: serde_json::Value = serde_json::from_slice(&config(&[sha256(&layer)])).unwrap();
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&manifest(config.to_string().as_bytes(), &[descriptor("layer.v1.tar", &layer)]))
            .unwrap();
    let before = config.clone();
    change(&mut manifest, &mut config, &mut layer);
    if config != before {
        manifest["config"] = descriptor("config.v1+json", config.to_string().as_bytes());
    }
    let (manifest, config) = (manifest.to_string().into_bytes(), config.to_string().into_bytes());
    oci(&[descriptor("manifest.v1+json", &manifest)], &[&manifest, &config, &layer])
}

#[test]
fn digests_and_sizes_that_lie() {
    let scene = Scene::new();
    scene.write("good", &changed(|_, _, _| {}));
    scene.hull(&["load", "-i", "good"]);
    let other = sha256(b"other");
    expect("layer of another digest", &changed(|_, _, layer| *layer = tar(&[("x", b"y")])), "no such file");
    expect(
        "layer of another size",
        &changed(|manifest, _, _| manifest["layers"][0]["size"] = 7.into()),
        "its manifest says 7",
    );
    expect(
        "config of another size",
        &changed(|manifest, _, _| manifest["config"]["size"] = 7.into()),
        "its manifest says 7",
    );
    expect(
        "wrong diff id",
        &changed(|_, config, _| config["rootfs"]["diff_ids"][0] = other.clone().into()),
        "the digest",
    );
    expect(
        "no diff id",
        &changed(|_, config, _| config["rootfs"]["diff_ids"] = json!([])),
        "its configuration names 0",
    );
    expect("negative size", &changed(|manifest, _, _| manifest["layers"][0]["size"] = json!(-1)), "manifest");
    expect(
        "huge size",
        &changed(|manifest, _, _| manifest["layers"][0]["size"] = json!(u64::MAX)),
        "its manifest says",
    );
    let path = "sha256:../../../../etc/passwd";
    expect("a path as a digest", &changed(|manifest, _, _| manifest["layers"][0]["digest"] = path.into()), "manifest");
    let blob = "blobs/sha256/".to_owned() + &sha256(b"said")[7..];
    let index = json!({ "schemaVersion": 2, "manifests": [descriptor("manifest.v1+json", b"said")] }).to_string();
    expect(
        "another content",
        &tar(&[("index.json", index.as_bytes()), (&blob, b"done")]),
        "its contents have the digest",
    );
}

#[test]
fn names_that_lead_out() {
    for name in ["../x", "/x", "a/../../x"] {
        expect(name, &tar(&[(name, b"x")]), "leads out");
    }
    let list = |layer: &str| json!([{ "Config": "c", "RepoTags": ["x"], "Layers": [layer] }]).to_string();
    let config = config(&[sha256(b"")]);
    for layer in ["../../etc/passwd", "/etc/passwd", "missing"] {
        let bytes = tar(&[("c", &config), ("manifest.json", list(layer).as_bytes())]);
        refused(layer, &bytes, &[]);
    }
    let layer = tar(&[("../../outside", b"x")]);
    expect("a layer's file", &docker("x", &[layer]), "outside");
    expect("an image's name", &docker("../x", &[tar(&[])]), "name");
    let bytes = docker("a\u{1b}[2Jb", &[tar(&[])]);
    assert!(!refused("control characters", &bytes, &[]).contains('\u{1b}'));
}

#[test]
fn archives_cut_at_any_place() {
    let whole = docker("x", &[tar(&[("a", &[7; 3000]), ("b", b"x")]), tar(&[("c", b"y")])]);
    // The two empty blocks at the end may lack, as for tar.
    for length in (0..whole.len() - 1024).step_by(701) {
        refused(&format!("cut at {length}"), &whole[..length], &[]);
    }
    let packed = gzip(&whole);
    for length in (0..packed.len()).step_by(packed.len() / 12) {
        refused(&format!("gzip cut at {length}"), &packed[..length], &[]);
    }
    let layer = gzip(&tar(&[("a", b"x")]));
    refused(
        "a layer that is cut",
        &changed(|manifest, _, bytes| {
            *bytes = layer[..layer.len() - 9].to_vec();
            manifest["layers"][0] = descriptor("layer.v1.tar+gzip", bytes);
        }),
        &[],
    );
}

#[test]
fn nonsense() {
    expect("nothing", b"", "no archive of images");
    expect("text", &b"hello world\n".repeat(100), "archive");
    expect("a root file system", &tar(&[("etc/passwd", b"root")]), "hull import");
    expect("a folder of skopeo", &tar(&[("manifest.json", b"{}"), ("version", b"1.1")]), "oci:DIR:NAME");
    expect("xz", b"\xfd7zXZ\0\0\0", "xz");
    expect("no JSON", &tar(&[("manifest.json", b"{")]), "JSON");
    expect("deep JSON", &tar(&[("manifest.json", &b"[".repeat(1 << 20))]), "JSON");
    expect("an empty list", &tar(&[("manifest.json", b"[]")]), "images");
    expect("an empty index", &tar(&[("index.json", br#"{"schemaVersion":2,"manifests":[]}"#)]), "no image");
    expect(
        "an artefact",
        &changed(|manifest, _, _| {
            manifest["layers"][0]["mediaType"] = "application/vnd.example".into();
        }),
        "layer",
    );
    let scene = Scene::new();
    assert!(scene.fails(&["load", "-i", "missing"]).contains("no such file"));
    std::fs::create_dir(scene.path("empty")).unwrap();
    assert!(scene.fails(&["load", "-i", "empty"]).contains("no archive of images"));
}

#[test]
fn indexes_that_contain_themselves() {
    // No digest can contain itself; a chain of indexes is as long as somebody makes it.
    let mut blobs = vec![b"{}".to_vec()];
    let mut entry = descriptor("manifest.v1+json", &blobs[0]);
    for _ in 0..50 {
        blobs.push(json!({ "schemaVersion": 2, "manifests": [entry] }).to_string().into_bytes());
        entry = descriptor("index.v1+json", blobs.last().unwrap());
    }
    expect("nested", &oci(&[entry], &blobs.iter().map(Vec::as_slice).collect::<Vec<_>>()), "nested");
}

#[test]
fn too_many_layers_and_files() {
    let layers = vec![tar(&[]); 10_000];
    expect("10,000 layers", &docker("x", &layers), "layers");
    let layer = descriptor("layer.v1.tar", b"x");
    let config = config(&vec![sha256(b"x"); 2000]);
    let manifest = manifest(&config, &vec![layer; 2000]);
    expect(
        "2,000 in a manifest",
        &oci(&[descriptor("manifest.v1+json", &manifest)], &[&manifest, &config, b"x"]),
        "layers",
    );
    let names: Vec<String> = (0..30_000).map(|at| format!("f{at}")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    expect("30,000 files", &tar(&files), "files");
    let large = vec![b' '; 5 << 20];
    expect("a large index", &tar(&[("index.json", &large)]), "larger");
}

#[test]
fn bombs() {
    // 4 GiB of zeros in a few kilobytes, as an archive and as a layer.
    let zeros = zstd::encode_all(std::io::Read::take(std::io::repeat(0), 1 << 32), 1).unwrap();
    let line = refused("archive", &zeros, &["--max-size=100M"]);
    assert!(line.contains("more than") || line.contains("no archive"), "{line}");
    let mut header = tar::Header::new_gnu();
    header.set_path("zeros").unwrap();
    header.set_size((1 << 32) - 4096);
    header.set_cksum();
    let file = std::io::Read::chain(&header.as_bytes()[..], std::io::Read::take(std::io::repeat(1), 1 << 32));
    let layer = zstd::encode_all(file, 1).unwrap();
    let bytes = changed(|manifest, _, bytes| {
        *bytes = layer.clone();
        manifest["layers"][0] = descriptor("layer.v1.tar+zstd", bytes);
    });
    let line = refused("layer", &bytes, &["--max-size=100M"]);
    assert!(line.contains("--max-size"), "{line}");
    // A long name of 4 GiB.
    let mut header = tar::Header::new_gnu();
    header.set_path("././@LongLink").unwrap();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size((1 << 32) - 4096);
    header.set_cksum();
    let name = std::io::Read::chain(&header.as_bytes()[..], std::io::Read::take(std::io::repeat(b'a'), 1 << 32));
    let line = refused("long name", &zstd::encode_all(name, 1).unwrap(), &[]);
    assert!(line.contains("header"), "{line}");
}
