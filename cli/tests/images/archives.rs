//! Archives of other tools, and what other tools read of Hull's.

use super::support::*;
use std::fs;

#[test]
fn archives_of_other_tools_are_one_image() {
    let scene = Scene::new();
    scene.umoci();
    scene.run("skopeo", &["copy", "-q", "oci:layout:made", "docker-archive:docker.tar:made:docker"]);
    scene.run("skopeo", &["copy", "-q", "oci:layout:made", "oci-archive:oci.tar:made:oci"]);
    scene.run(
        "skopeo",
        &["copy", "-q", "--dest-compress", "--dest-compress-format=zstd", "oci:layout:made", "oci:zstd:made:zstd"],
    );
    scene.run("gzip", &["-k", "docker.tar"]);
    scene.run("zstd", &["-q", "oci.tar"]);
    for (input, name) in [
        ("layout", "made:latest"),
        ("docker.tar", "made:docker"),
        ("oci.tar", "made:oci"),
        ("zstd", "made:zstd"),
        ("docker.tar.gz", "made:docker"),
        ("oci.tar.zst", "made:oci"),
    ] {
        assert_eq!(scene.hull(&["load", "-i", input]), format!("Loaded image: {name}\n"), "{input}");
    }
    let input = fs::File::open(scene.path("docker.tar.gz")).unwrap();
    let output = scene.command(&["load"]).stdin(input).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Loaded image: made:docker\n");
    // One configuration, one file system.
    let ids = scene.hull(&["images", "-q"]);
    assert!(ids.lines().count() == 4 && ids.lines().all(|id| ids.starts_with(id)), "{ids}");
    assert_eq!(scene.files("erofs").len(), 1);
    fsck(&scene.erofs("made"));
    let names: Vec<String> = ["made:docker", "made:latest", "made:oci", "made:zstd"].map(str::to_owned).into();
    let mut tags: Vec<String> = serde_json::from_value(scene.inspect("made")["RepoTags"].clone()).unwrap();
    tags.sort();
    assert_eq!(tags, names);
    assert_eq!(scene.hull(&["inspect", "-f", "{{.Config.Cmd}} {{.Config.Env}}", "made"]), "[/bin/program] [A=b]\n");
    assert_eq!(scene.hull(&["history", "-q", "made"]).lines().count(), 3);
}

#[test]
fn the_same_layers_give_the_same_file() {
    let scene = Scene::new();
    scene.umoci();
    scene.hull(&["load", "-i", "layout"]);
    let first = fs::read(scene.erofs("made")).unwrap();
    scene.hull(&["rmi", "made"]);
    scene.assert_empty("after rmi");
    scene.hull(&["load", "-i", "layout"]);
    assert!(fs::read(scene.erofs("made")).unwrap() == first);
}

#[test]
fn other_tools_read_what_is_saved() {
    let scene = Scene::new();
    scene.umoci();
    scene.hull(&["load", "-i", "layout"]);
    scene.hull(&["save", "-o", "oci.tar", "made"]);
    let saved = scene.run("skopeo", &["inspect", "--raw", "oci-archive:oci.tar:made:latest"]);
    assert_eq!(saved, scene.run("skopeo", &["inspect", "--raw", "oci:layout:made"]));
    scene.run("skopeo", &["copy", "-q", "oci-archive:oci.tar:made:latest", "oci:copied:made"]);
    // The archive is docker's as well.
    scene.run("skopeo", &["copy", "-q", "docker-archive:oci.tar:made:latest", "dir:from-list"]);
    scene.hull(&["save", "--format=docker-archive", "-o", "docker.tar", "made"]);
    scene.run("skopeo", &["copy", "-q", "docker-archive:docker.tar:made:latest", "oci:again:made"]);
    let config = |layout: &str| scene.run("skopeo", &["inspect", "--config", "--raw", layout]).trim().to_owned();
    assert_eq!(config("oci:again:made"), config("oci:layout:made"));
    // The same again, byte for byte.
    let output = scene.command(&["save", "made:latest"]).output().unwrap();
    assert!(output.stdout == fs::read(scene.path("oci.tar")).unwrap());
    let digest = scene.hull(&["inspect", "-f", "{{.Descriptor.digest}}", "made"]);
    scene.hull(&["rmi", "made"]);
    scene.hull(&["load", "-i", "oci.tar"]);
    assert_eq!(scene.hull(&["inspect", "-f", "{{.Descriptor.digest}}", "made"]), digest);
    // Each name of an image is there once.
    scene.hull(&["tag", "made", "other/name:1"]);
    scene.hull(&["save", "-o", "two.tar", "made", "other/name:1"]);
    let loaded = Scene::new().hull(&["load", "-i", scene.path("two.tar").to_str().unwrap()]);
    assert_eq!(loaded, "Loaded image: made:latest\nLoaded image: other/name:1\n");
}

#[test]
fn a_folder_of_skopeo_is_named() {
    let scene = Scene::new();
    scene.umoci();
    scene.run("skopeo", &["copy", "-q", "oci:layout:made", "dir:folder"]);
    let line = scene.fails(&["load", "-i", "folder"]);
    assert!(line.contains("skopeo's format dir") && line.contains("oci:DIR:NAME"), "{line}");
    scene.assert_empty("after a folder of skopeo");
}

#[test]
fn the_store_is_a_layout_that_other_tools_read() {
    let scene = Scene::new();
    scene.umoci();
    scene.hull(&["load", "-i", "layout"]);
    scene.run("skopeo", &["inspect", "oci:store:docker.io/library/made:latest"]);
}

#[test]
fn a_platform_is_chosen_of_an_index() {
    let scene = Scene::new();
    let layer = tar(&[("file", b"x")]);
    let image = |architecture: &str| {
        let config = String::from_utf8(config(&[sha256(&layer)])).unwrap().replace("amd64", architecture).into_bytes();
        (manifest(&config, &[descriptor("layer.v1.tar", &layer)]), config)
    };
    let [(arm, arm_config), (amd, amd_config)] = ["arm64", "amd64"].map(image);
    let entry = |bytes: &[u8], architecture: &str| {
        let mut entry = descriptor("manifest.v1+json", bytes);
        entry["platform"] = serde_json::json!({ "os": "linux", "architecture": architecture });
        entry
    };
    let index = serde_json::json!({ "schemaVersion": 2, "manifests": [entry(&arm, "arm64"), entry(&amd, "amd64")] });
    let index = index.to_string().into_bytes();
    let mut top = descriptor("index.v1+json", &index);
    top["annotations"] = serde_json::json!({ "org.opencontainers.image.ref.name": "both:1" });
    scene.write("both.tar", &oci(&[top], &[&index, &arm, &amd, &arm_config, &amd_config, &layer]));
    let architecture = || scene.hull(&["inspect", "-f", "{{.Architecture}}", "both:1"]);
    scene.hull(&["load", "-i", "both.tar"]);
    assert_eq!(architecture(), "amd64\n");
    scene.hull(&["load", "-i", "both.tar", "--platform=linux/arm64"]);
    assert_eq!(architecture(), "arm64\n");
    assert!(scene.fails(&["load", "-i", "both.tar", "--platform=linux/s390x"]).contains("linux/amd64, linux/arm64"));
}

#[test]
fn names_lead_to_files_through_links() {
    let scene = Scene::new();
    let layer = tar(&[("file", b"x")]);
    let config = config(&[sha256(&layer), sha256(&layer)]);
    let list = br#"[{"Config":"config.json","RepoTags":null,"Layers":["a/layer.tar","b/layer.tar"]}]"#;
    let mut bytes = tar(&[("./a/layer.tar", &layer), ("config.json", &config), ("manifest.json", list)]);
    bytes.truncate(bytes.len() - 1024);
    let mut archive = tar::Builder::new(bytes);
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    archive.append_link(&mut link, "b/layer.tar", "../a/layer.tar").unwrap();
    scene.write("linked.tar", &archive.into_inner().unwrap());
    let loaded = scene.hull(&["load", "-i", "linked.tar"]);
    assert_eq!(loaded, format!("Loaded image ID: {}\n", sha256(&config)));
    assert_eq!(scene.hull(&["images", "--format", "{{.Repository}} {{.Tag}}"]), "<none> <none>\n");
}
