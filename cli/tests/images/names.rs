//! Names, listings, removal.

use super::support::*;
use std::fs::File;

/// A store with the images `one:1` and `two:1`.
fn two() -> Scene {
    let scene = Scene::new();
    for name in ["one", "two"] {
        scene.write(name, &docker(&format!("{name}:1"), &[tar(&[(name, name.as_bytes())])]));
        scene.hull(&["load", "-i", name]);
    }
    scene
}

fn listed(scene: &Scene) -> Vec<String> {
    let mut names: Vec<String> =
        scene.hull(&["images", "--format={{.Repository}}:{{.Tag}}"]).lines().map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn images_are_listed() {
    let scene = two();
    let table = scene.hull(&["images"]);
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("REPOSITORY   TAG       IMAGE ID       CREATED   SIZE"));
    assert!(lines.next().unwrap().starts_with("one          1         "), "{table}");
    assert_eq!(scene.hull(&["images", "-q", "--no-trunc", "one"]).len(), "sha256:".len() + 64 + 1);
    assert_eq!(scene.hull(&["images", "-q", "one:2"]), "");
    let object: serde_json::Value = serde_json::from_str(&scene.hull(&["images", "--format=json", "two"])).unwrap();
    assert_eq!((&object["Repository"], &object["Tag"]), (&"two".into(), &"1".into()));
    assert!(scene.hull(&["images", "--digests"]).contains("DIGEST"));
    assert_eq!(scene.command(&["images", "--format={{.Nothing}}"]).output().unwrap().status.code(), Some(125));
    // No store is an empty store, and listing does not make one.
    let none = Scene::new();
    assert_eq!(none.hull(&["images", "-q"]), "");
    assert!(!none.store().exists());
}

#[test]
fn an_image_is_found_by_name_and_id() {
    let scene = two();
    let id = scene.inspect("one:1")["Id"].as_str().unwrap().to_owned();
    for name in ["docker.io/library/one:1", &id, &id[7..], &id[7..15]] {
        assert_eq!(scene.inspect(name)["Id"], id.as_str(), "{name}");
    }
    for name in ["one", "one:2", "nothing", "ffffffffffff0"] {
        assert!(scene.fails(&["inspect", name]).contains("no such image"), "{name}");
    }
    scene.fails(&["inspect", "UPPER"]);
    // What there is is printed all the same.
    let output = scene.command(&["inspect", "nothing", "one:1"]).output().unwrap();
    assert!(output.status.code() == Some(1) && String::from_utf8_lossy(&output.stdout).contains(&id));
}

#[test]
fn the_last_name_takes_the_image_with_it() {
    let scene = two();
    scene.hull(&["tag", "one:1", "registry.example:5000/x/one"]);
    assert_eq!(listed(&scene), ["one:1", "registry.example:5000/x/one:latest", "two:1"]);
    assert_eq!(scene.hull(&["rmi", "one:1"]), "Untagged: one:1\n");
    assert_eq!(scene.files("erofs").len(), 2);
    let id = scene.hull(&["images", "-q", "--no-trunc", "registry.example:5000/x/one"]);
    let removed = scene.hull(&["rmi", "registry.example:5000/x/one"]);
    assert_eq!(removed, format!("Untagged: registry.example:5000/x/one:latest\nDeleted: {id}"));
    assert_eq!((scene.files("erofs").len(), scene.files("blobs/sha256").len()), (1, 3));
    assert!(scene.fails(&["rmi", "one:1"]).contains("no such image"));
    assert_eq!(scene.hull(&["rmi", "-f", "one:1"]), "");
    scene.hull(&["rmi", "two:1"]);
    scene.assert_empty("at the end");
}

#[test]
fn an_id_with_several_names_is_removed_with_force_only() {
    let scene = two();
    scene.hull(&["tag", "one:1", "one:2"]);
    let id = scene.hull(&["images", "-q", "one:1"]);
    assert!(scene.fails(&["rmi", id.trim()]).contains("several names"));
    scene.hull(&["rmi", "-f", id.trim()]);
    assert_eq!(listed(&scene), ["two:1"]);
}

#[test]
fn a_name_moves_to_another_image() {
    let scene = two();
    scene.hull(&["tag", "one:1", "two:1"]);
    assert_eq!(listed(&scene), ["<none>:<none>", "one:1", "two:1"]);
    let pruned = scene.hull(&["prune", "-f"]);
    assert!(pruned.starts_with("Deleted Images:\ndeleted: sha256:"), "{pruned}");
    assert_eq!(listed(&scene), ["one:1", "two:1"]);
    assert_eq!(scene.files("erofs").len(), 1);
    assert!(scene.hull(&["prune", "-f"]).starts_with("Total reclaimed space: 0B"));
}

#[test]
fn prune_asks() {
    let scene = two();
    assert!(scene.hull(&["prune", "-a"]).contains("[y/N]"));
    assert_eq!(listed(&scene).len(), 2);
    scene.hull(&["prune", "-af"]);
    scene.assert_empty("after prune");
}

#[test]
fn what_a_pod_holds_stays() {
    let scene = two();
    let path = scene.erofs("one:1");
    // As a pod does.
    let held = File::open(&path).unwrap();
    held.lock_shared().unwrap();
    assert!(scene.fails(&["rmi", "one:1"]).contains("a pod runs"));
    scene.hull(&["prune", "-af"]);
    assert_eq!(listed(&scene), ["one:1"]);
    scene.hull(&["rmi", "-f", "one:1"]);
    assert!(path.exists());
    scene.hull(&["prune", "-af"]);
    assert!(path.exists());
    drop(held);
    scene.hull(&["prune", "-f"]);
    scene.assert_empty("after the pod");
}

#[test]
fn other_folders_are_no_stores() {
    let scene = Scene::new();
    scene.write("one", &docker("one:1", &[tar(&[])]));
    scene.write("store/precious", b"x");
    assert!(scene.fails(&["load", "-i", "one"]).contains("neither empty nor a store"));
    assert_eq!(scene.hull(&["images", "-q"]), "");
    let other = Scene::new();
    other.write("store/version", b"2\n");
    assert!(other.fails(&["images"]).contains("another version"));
}

#[test]
fn a_store_that_can_only_be_read_is_read() {
    let scene = two();
    let store = scene.store();
    let script = format!(
        "mount --bind {0} {0} && mount -o remount,ro,bind {0} && {1} images -q && {1} save one:1 >/dev/null && ! {1} rmi one:1",
        store.display(),
        env!("CARGO_BIN_EXE_hull")
    );
    let output =
        std::process::Command::new("unshare").args(["-m", "sh", "-c", &script]).env("HULL_STORE", &store).output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.contains("read-only"), "{errors}");
}

#[test]
fn listings_are_filtered() {
    let scene = two();
    let listed = |arguments: &[&str]| {
        let all = scene.hull(&[&["image", "ls", "--format={{.Repository}}:{{.Tag}}"], arguments].concat());
        let mut lines: Vec<String> = all.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let all = listed(&[]);
    let [first, second] = [all[0].clone(), all[1].clone()];
    assert_eq!(listed(&["-f", "dangling=true"]), [""; 0]);
    assert_eq!(listed(&["-f", "dangling=false"]), all);
    assert_eq!(listed(&["-f", &format!("reference={first}")]), std::slice::from_ref(&first));
    assert_eq!(listed(&["-f", &format!("reference={first}"), "-f", &format!("reference={second}")]).len(), 2);
    assert_eq!(listed(&["*"]), all);
    assert_eq!(listed(&["*:none"]), [""; 0]);
    assert_eq!(listed(&["-f", "label=none"]), [""; 0]);
    scene.write("root/file", b"x");
    scene.hull(&["import", "-c", "LABEL a=b", "root", "labelled:1"]);
    assert_eq!(listed(&["-f", "label=a"]), ["labelled:1"]);
    assert_eq!(listed(&["-f", "label=a=b", "-f", "reference=label*"]), ["labelled:1"]);
    assert_eq!(listed(&["-f", "label=a=c"]), [""; 0]);
    assert_eq!(listed(&["-f", "before=labelled:1"]), all);
    scene.hull(&["import", "root", "labelled:1"]);
    assert_eq!(listed(&["-f", "dangling=true"]), ["<none>:<none>"]);
    let output = scene.command(&["images", "-f", "since=none"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn lines_that_are_wrong() {
    let scene = two();
    let line = |arguments: &[&str]| {
        let output = scene.command(arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(line(&["tag", "a"]), (125, "hull: tag: <NAME[:TAG]> is missing; see hull tag --help\n".into()));
    let (code, text) = line(&["save", "-o", "/no/such/file", "one"]);
    assert!(code == 1 && text.ends_with("name a file that can be written\n"), "{text}");
}

#[test]
fn templates_know_fields_that_an_image_does_not_have() {
    let scene = Scene::new();
    scene.write("root/file", b"x");
    scene.hull(&["import", "root", "plain"]);
    let format = "{{.Config.Entrypoint}}{{.Config.Cmd}}{{.Config.Env}} {{.Config.Labels}} <{{.Config.User}}{{.Author}}> \
        {{len .Config.ExposedPorts}} {{if .Config.Volumes}}yes{{else}}no{{end}}";
    assert_eq!(scene.hull(&["inspect", "-f", format, "plain"]), "[][][] map[] <> 0 no\n");
    assert!(!scene.command(&["inspect", "-f", "{{.Config.Nothing}}", "plain"]).status().unwrap().success());
}

/// A store on a file system that has no block left: what fails says so in one line, and images can be removed.
#[test]
fn a_full_disk_can_be_freed() {
    let script = r#"set -eu; hull=$1; cd "$2"; mkdir -p full; mount -t tmpfs -o size=20m tmpfs full; export HULL_STORE=full/store
        "$hull" load -qi one >&2; "$hull" load -qi two >&2; "$hull" load -qi big && exit 3; test -z "$(ls full/store/tmp)"
        cat /dev/zero >full/fill 2>/dev/null || true
        "$hull" tag one:1 one:2 && exit 3; "$hull" import two && exit 3
        "$hull" images --format '{{.Repository}}'
        "$hull" rmi one:1 && "$hull" images --format '{{.Repository}}' && "$hull" tag two:1 two:2 && "$hull" rmi two:1 two:2 && "$hull" images -q"#;
    let scene = two();
    scene.write("big", &docker("big:1", &[tar(&[("big", &vec![1; 30 << 20])])]));
    let mut unshare = std::process::Command::new("unshare");
    let output =
        unshare.args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_hull")]).arg(scene.path("")).output();
    let output = output.unwrap();
    let (out, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{out}{errors}");
    let lines: Vec<&str> = out.lines().filter(|line| !line.starts_with("Deleted: ")).collect();
    let expected = ["one", "two", "Untagged: one:1", "two", "Untagged: two:1", "Untagged: two:2"];
    assert_eq!(lines, expected, "{errors}");
    let full: Vec<&str> = errors.lines().filter(|line| line.starts_with("hull: ")).collect();
    assert_eq!(full.len(), 3, "{errors}");
    for line in full {
        assert!(line.contains("no space left on device; free some space, for instance with hull prune"), "{line}");
    }
}

/// A store that can't be written can be read, and what would change it says so in one line.
#[test]
fn a_read_only_store_is_read() {
    let script = r#"set -eu; hull=$1; cd "$2"; mount --bind store store; mount -o remount,ro,bind store; export HULL_STORE=store
        "$hull" images --format '{{.Repository}}'; "$hull" inspect -f '{{.RepoTags}}' one:1; "$hull" save -o saved one:1
        for words in "tag one:1 x" "rmi one:1" "load -i one" "import one" "cp one two:1:/" "prune -f"; do "$hull" $words && exit 3; done; true"#;
    let scene = two();
    let mut unshare = std::process::Command::new("unshare");
    let output =
        unshare.args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_hull")]).arg(scene.path("")).output();
    let output = output.unwrap();
    let (out, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && out.ends_with("[one:1]\n"), "{out}{errors}");
    assert_eq!(errors.lines().count(), 6, "{errors}");
    for line in errors.lines() {
        let why = "read-only file system; use a writable store: --store DIR or HULL_STORE";
        assert!(line.starts_with("hull: ") && line.ends_with(why), "{line}");
    }
}

/// Two users with a store each, of which root reads the other's only.
#[test]
fn a_store_of_another_user_is_not_written() {
    let script = r#"set -eu; hull=$1; cd "$2"; chmod -R a+rX .; mkdir -m 700 theirs; chown 65534 theirs; export HULL_STORE=theirs/store
        # By descriptor: the other user may have no access to the folders above.
        exec 9<"$hull"; their() { setpriv --reuid 65534 --regid 65534 --clear-groups /proc/self/fd/9 "$@"; }
        their load -qi one >&2; "$hull" images --format '{{.Repository}}'
        for words in "tag one:1 x" "rmi one:1" "load -i two" "prune -f"; do "$hull" $words && exit 3; done
        their load -qi two >&2; their images --format '{{.Repository}}'"#;
    let scene = two();
    let output = std::process::Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_hull")])
        .arg(scene.path(""))
        .output();
    let output = output.unwrap();
    let (out, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && out.ends_with("one\none\ntwo\n"), "{out}{errors}");
    let refused: Vec<&str> = errors.lines().filter(|line| line.starts_with("hull: ")).collect();
    assert_eq!(refused.len(), 4, "{errors}");
    for line in refused {
        let why = "the store belongs to the user 65534; run hull as that user, or choose another folder: --store DIR";
        assert!(line.ends_with(why), "{line}");
    }
}
