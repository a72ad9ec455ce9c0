//! Commands that are killed, that run at the same time, and that fill the disk: the store stays whole.

use super::registry::registry;
use super::support::*;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Random numbers from a seed that a message names.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Layers of a megabyte or two that do not compress to nothing.
fn layer(random: &mut Random, name: &str) -> Vec<u8> {
    let bytes: Vec<u8> = (0..200_000 + random.below(1_000_000)).map(|at| ((at * at) >> 7) as u8).collect();
    tar(&[(name, &bytes), ("shared", b"x")])
}

/// Each image that is listed is whole, and nothing else is there after a command that cleans up.
#[track_caller]
fn assert_whole(scene: &Scene, what: &str) {
    for line in scene.hull(&["images", "--format={{.Repository}}:{{.Tag}} {{.ID}}"]).lines() {
        // One that has lost its tag is named by its id.
        let (name, id) = line.split_once(' ').unwrap();
        let name = if name.contains('<') { id } else { name };
        fsck(&scene.erofs(name));
        let output = scene.command(&["save", name]).stdout(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{what}: {name}");
    }
    scene.hull(&["prune", "-f"]);
    assert_eq!(scene.files("tmp"), [""; 0], "{what}");
    // An image with two names has two lines; images with the same layers have one file.
    let images = scene.hull(&["images", "-q", "--no-trunc"]);
    let files: std::collections::BTreeSet<_> = images.lines().map(|id| scene.erofs(id)).collect();
    assert_eq!(scene.files("erofs").len(), files.len(), "{what}");
}

#[test]
fn commands_killed_at_random_moments() {
    let rounds: u64 = std::env::var("HULL_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let scene = Scene::new();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let shared = layer(&mut random, "base");
    let (_registry, host) = registry(&scene, "");
    for at in 0..3 {
        let layers = [shared.clone(), layer(&mut random, "top")];
        let name = format!("image:{at}");
        scene.write(&format!("{at}.tar"), &docker(&name, &layers));
        scene.write(&format!("{at}.tar.gz"), &gzip(&docker(&name, &layers)));
        let remote = format!("{host}/{name}");
        scene.hull(&["load", "-i", &format!("{at}.tar")]);
        scene.hull(&["tag", &name, &remote]);
        scene.hull(&["push", "-q", &remote]);
    }
    scene.hull(&["prune", "-af"]);
    for round in 0..rounds {
        let at = random.below(3);
        let (tar, gz, name) = (format!("{at}.tar"), format!("{at}.tar.gz"), format!("image:{at}"));
        let remote = format!("{host}/{name}");
        let place = format!("{name}:/copied");
        let arguments = match random.below(12) {
            0 | 1 => ["load", "-i", &tar],
            2 => ["load", "-i", &gz],
            3..=5 => ["pull", "-q", &remote],
            6 => ["rmi", "-f", &name],
            7 => ["rmi", "-f", &remote],
            8 => ["tag", &name, "other"],
            9 | 10 => ["cp", &tar, &place],
            _ => ["prune", "-f", "-a"],
        };
        let mut child = scene.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        if round % 4 == 0 {
            assert_whole(&scene, &format!("round {round}: {arguments:?}"));
        }
    }
    assert_whole(&scene, "at the end");
    for at in 0..3 {
        scene.hull(&["load", "-i", &format!("{at}.tar")]);
        scene.hull(&["pull", "-q", &format!("{host}/image:{at}")]);
    }
    assert_whole(&scene, "after whole commands");
    scene.hull(&["prune", "-af"]);
    scene.assert_empty("at the end");
}

#[test]
fn commands_at_the_same_time() {
    let scene = Scene::new();
    let mut random = Random(7);
    for at in 0..2 {
        scene.write(&format!("{at}.tar"), &docker(&format!("image:{at}"), &[layer(&mut random, "x")]));
    }
    for round in 0..8 {
        let commands: [&[&str]; 6] = [
            &["load", "-i", "0.tar"],
            &["load", "-i", "0.tar"],
            &["load", "-i", "1.tar"],
            &["rmi", "-f", "image:0"],
            &["prune", "-f"],
            &["images"],
        ];
        let children: Vec<_> = commands
            .iter()
            .map(|command| scene.command(command).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
            .collect();
        for (child, command) in children.into_iter().zip(commands) {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        assert_whole(&scene, &format!("round {round}"));
    }
}

#[test]
fn a_full_disk() {
    let scene = Scene::new();
    let mut random = Random(9);
    let small = docker("small", &[tar(&[("x", b"y")])]);
    scene.write("small.tar", &small);
    scene.write("large.tar", &docker("large", &[layer(&mut random, "a"), vec![layer(&mut random, "b"); 4].concat()]));
    let hull = env!("CARGO_BIN_EXE_hull");
    for size in (200..2600).step_by(300) {
        let script = format!(
            "mkdir -p disk && mount -t tmpfs -o size={size}k none disk && {hull} load -i small.tar || exit 9
             {hull} load -i large.tar 2>message && exit 7
             {hull} images --format='{{{{.Repository}}}}'; ls disk/tmp disk/erofs | wc -w; cat message >&2"
        );
        let mut shell = Command::new("unshare");
        shell.args(["-m", "sh", "-c", &script]).current_dir(scene.path("")).env("HULL_STORE", scene.path("disk"));
        let output = shell.output().unwrap();
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{size}: {text} {errors}");
        // The name of the folder `erofs:` and of its one file, and `tmp:`, which is empty.
        assert!(text.ends_with("small\n3\n"), "{size}: {text} {errors}");
        assert!(
            errors.lines().count() == 1 && errors.contains("no space left") && errors.contains("prune"),
            "{errors}"
        );
    }
}
