//! Grants of host directories and files: their semantics, and their limits for hostile programs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use hull_tests::environment::Scratch;
use hull_tests::hull;
use hull_tests::process::{Outcome, text};

/// Runs a shell script in `hull run OPTIONS`.
#[track_caller]
fn sh(options: &[&str], script: &str) -> Outcome {
    hull::run_to_end(options, &["/bin/sh", "-c", script])
}

/// Output of a script, which must succeed.
#[track_caller]
fn output(options: &[&str], script: &str) -> String {
    let outcome = sh(options, script);
    assert_eq!(outcome.status, 0, "{}{}", text(&outcome.stdout), text(&outcome.stderr));
    text(&outcome.stdout)
}

/// The message of `hull` when it refuses to start.
#[track_caller]
fn refusal(options: &[&str]) -> String {
    let outcome = sh(options, "true");
    assert_eq!(outcome.status, 125, "{}", text(&outcome.stderr));
    text(&outcome.stderr)
}

#[test]
fn set_id_bits_do_not_reach_the_host() {
    let scratch = Scratch::new().unwrap();
    let grant = format!("{}:/granted", scratch.0.display());
    let script = "cd /granted; umask 0; touch a; chmod 6755 a; cp /bin/true b; chmod u+s b; install -m 4711 /bin/true c; mkdir -m 2775 d; \
                  mkdir t; cp a t; chmod 7777 t/a; tar cf t.tar --mode=6755 t; rm -r t; tar xpf t.tar; mkfifo f; chmod 6644 f; \
                  stat -c %a a b c t/a d f";
    assert_eq!(output(&["--rw", &grant], script), "755\n755\n711\n755\n2775\n644\n");
    let mode = |name: &str| fs::symlink_metadata(scratch.0.join(name)).unwrap().mode() & 0o7777;
    assert_eq!(["a", "b", "c", "t/a", "d", "f"].map(mode), [0o755, 0o755, 0o711, 0o755, 0o2775, 0o644]);
    // Existing files keep them until a write.
    for name in ["a", "b"] {
        fs::set_permissions(scratch.0.join(name), fs::Permissions::from_mode(0o4755)).unwrap();
    }
    assert_eq!(output(&["--rw", &grant], "cd /granted; echo x >>a; stat -c %a a b"), "755\n4755\n");
    assert_eq!(["a", "b"].map(mode), [0o755, 0o4755]);
    assert_eq!(output(&["--keep-setid", "--rw", &grant], "cd /granted; chmod 4711 a; stat -c %a a"), "4711\n");
    assert_eq!(mode("a"), 0o4711);
}

#[test]
fn file_systems_of_the_host_s_kernel_are_no_grants() {
    for path in ["/proc", "/sys/kernel", "/proc/self/mem", "/dev"] {
        for option in ["--ro", "--rw"] {
            let message = refusal(&[option, &format!("{path}:/x")]);
            let reason = "belongs to a file system of the host's kernel, which no pod gets; grant a directory of another file system";
            assert_eq!(message, format!("hull: {option} {path}: {reason}\n"));
        }
    }
    // The device files of /dev are in the kernel's devtmpfs, which has the type of a tmpfs.
    let script = "cd /host; for f in proc/1/mem proc/version sys/kernel/mm/ksm/run; do cat $f 2>&1; done; \
                  stat dev/null 2>&1; ls proc 2>&1; ls dev 2>&1; ls -d proc sys dev; cat etc/passwd >/dev/null";
    let denied = |what: &str| format!("{what}: Permission denied\n");
    let expected = ["cat: proc/1/mem", "cat: proc/version", "cat: sys/kernel/mm/ksm/run"].map(denied).concat();
    for option in ["--ro", "--rw"] {
        let shown = output(&[option, "/:/host"], script);
        let stat = denied("stat: cannot statx 'dev/null'");
        let lists = ["proc", "dev"].map(|name| denied(&format!("ls: reading directory '{name}'"))).concat();
        assert_eq!(shown, format!("{expected}{stat}{lists}dev\nproc\nsys\n"));
    }
}

/// A directory of the host whose path a pod can also have; removed on drop.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("grants-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A directory with `a/b/.git/config`, `a/file`, `plain`, and one beside it with `mark`.
fn nested() -> (Place, Place) {
    let (outer, beside) = (Place::new(), Place::new());
    fs::create_dir_all(outer.0.join("a/b/.git/hooks")).unwrap();
    for (file, content) in [("a/b/.git/config", "config\n"), ("a/file", "file\n"), ("plain", "plain\n")] {
        fs::write(outer.0.join(file), content).unwrap();
    }
    fs::write(beside.0.join("mark"), "beside\n").unwrap();
    (outer, beside)
}

/// Runs a script in a pod from `directory`; returns its output.
#[track_caller]
fn output_in(directory: &Path, options: &[&str], script: &str) -> String {
    let mut command = hull::run_command(options, &["/bin/sh", "-c", script]).unwrap();
    command.current_dir(directory);
    let outcome = hull_tests::process::run(&mut command, std::process::Stdio::null(), hull::host_limit()).unwrap();
    assert_eq!(outcome.status, 0, "{}{}", text(&outcome.stdout), text(&outcome.stderr));
    text(&outcome.stdout)
}

#[test]
fn read_only_grants_lie_in_writable_ones() {
    for order in [["--rw", ".", "--ro", "a/b/.git"], ["--ro", "a/b/.git", "--rw", "."]] {
        let (outer, _) = nested();
        let script = "cd a/b; cat .git/config; echo pod >.git/config; echo pod >.git/hooks/post-commit; cat .git/config; \
                      echo out >plain; rm -r .git/hooks; ls -A .git; for c in 'mv .git x' 'rmdir .git' 'mv ../b ../c' 'rm -r ../../a/b/.git'; \
                      do $c 2>/dev/null && echo moved; done; ls -A . | tr '\\n' ' '";
        assert_eq!(output_in(&outer.0, &order, script), "config\npod\nconfig\n.git plain ");
        assert_eq!(fs::read_to_string(outer.0.join("a/b/.git/config")).unwrap(), "config\n");
        assert_eq!(fs::read_dir(outer.0.join("a/b/.git/hooks")).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(outer.0.join("a/b/plain")).unwrap(), "out\n");
    }
}

#[test]
fn grants_cover_what_lies_below_them() {
    let (outer, beside) = nested();
    let beside = beside.0.to_str().unwrap();
    let script = "cat a/b/.git/mark 2>/dev/null; ls -A a/b a/b/.git | tr '\\n' ' '; touch a/b/new 2>/dev/null; echo x >a/b/.git/y; ls -A a/b/.git | tr '\\n' ' '";
    for option in ["--ro", "--rw"] {
        // A place relative to the current directory.
        let shown = output_in(&outer.0, &[option, ".", "--ro", &format!("{beside}:a/b/.git")], script);
        assert_eq!(shown, "beside\na/b: .git  a/b/.git: mark mark y ", "{option}");
        assert_eq!(fs::read_dir(outer.0.join("a/b/.git")).unwrap().count(), 2);
        assert_eq!(outer.0.join("a/b/new").exists(), option == "--rw");
        let _ = fs::remove_file(outer.0.join("a/b/new"));
    }
    // A place that does not exist on the host is visible and not created there.
    let shown = output_in(
        &outer.0,
        &["--rw", ".", "--ro", &format!("{beside}:{}/a/none", outer.0.display())],
        "cat a/none/mark; ls -d a/*; mv a/none a/x 2>/dev/null || rmdir a/none 2>/dev/null || echo busy",
    );
    assert_eq!(shown, "beside\na/b\na/file\na/none\nbusy\n");
    assert!(!outer.0.join("a/none").exists());
    let shown = output_in(
        &outer.0,
        &["--rw", ".", "--ro", &format!("{beside}:new/er/place")],
        "cat new/er/place/mark; ls new/er",
    );
    assert_eq!(shown, "beside\nplace\n");
}

#[test]
fn grants_combine() {
    let (outer, beside) = nested();
    let here = outer.0.to_str().unwrap();
    // The same directory at two places, and a part of it at a third.
    let script = "echo 1 >>/x/plain; cat /y/plain; echo 2 >>/x/a/file; cat /z/file; echo 3 >>/z/file; cat /y/a/file | tr '\\n' ' '";
    let grants = [format!("{here}:/x"), format!("{here}:/y"), format!("{here}/a:/z")];
    let options = ["--rw", &grants[0], "--rw", &grants[1], "--rw", &grants[2]];
    assert_eq!(output(&options, script), "plain\n1\nfile\n2\nfile 2 3 ");
    // A granted file in a granted directory in a directory of the pod, three levels deep.
    let script = "echo pod >a/file; cat a/file; echo pod >>plain; cat a/b/mark; echo rw >a/b/new; echo x >a/other; ls a | tr '\\n' ' '";
    let inner = format!("{}:a/b", beside.0.display());
    let shown = output_in(&outer.0, &["--rw", ".", "--ro", "a", "--ro", "a/file", "--rw", &inner], script);
    assert_eq!(shown, "pod\nbeside\nb file other ");
    assert_eq!(fs::read_to_string(outer.0.join("a/file")).unwrap(), "file\n2\n3\n");
    assert!(fs::read_to_string(outer.0.join("plain")).unwrap().ends_with("pod\n"));
    assert_eq!(fs::read_to_string(beside.0.join("new")).unwrap(), "rw\n");
    assert!(!outer.0.join("a/other").exists());
    // The same grant twice is accepted; two different ones at one place are rejected.
    assert_eq!(output_in(&outer.0, &["--rw", ".", "--rw", here], "cat a/b/.git/config"), "config\n");
    let message = refusal(&["--rw", &grants[0], "--ro", &grants[0]]);
    assert!(message.ends_with("grant each place once\n"), "{message}");
    // A link that leads out of a grant.
    std::os::unix::fs::symlink("/", outer.0.join("out")).unwrap();
    let message = refusal(&["--rw", here, "--ro", &format!("{}:{here}/out/x", beside.0.display())]);
    assert!(message.contains("a symbolic link leads out of the grant around it"), "{message}");
}

#[test]
fn a_pod_starts_beneath_a_writable_grant() {
    let (outer, _) = nested();
    let here = outer.0.to_str().unwrap();
    let script = "pwd; echo pod >made; cat ../file";
    assert_eq!(output_in(&outer.0.join("a/b"), &["--rw", here], script), format!("{here}/a/b\nfile\n"));
    assert_eq!(fs::read_to_string(outer.0.join("a/b/made")).unwrap(), "pod\n");
    assert_eq!(output_in(&outer.0.join("a/b"), &["--rw", ".."], script), format!("{here}/a/b\nfile\n"));
    assert_eq!(output_in(&outer.0.join("a/b"), &["--ro", here], "cat ../file; echo x >made; cat made"), "file\nx\n");
    assert_eq!(fs::read_to_string(outer.0.join("a/b/made")).unwrap(), "pod\n");
}
