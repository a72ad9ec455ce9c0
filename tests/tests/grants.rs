//! What grants of host directories and files promise, and that no program gets beyond them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use hull_tests::environment::Scratch;
use hull_tests::hull;
use hull_tests::process::Outcome;

/// A shell script in `hull run OPTIONS`.
#[track_caller]
fn sh(options: &[&str], script: &str) -> Outcome {
    hull::require_kvm().unwrap();
    let outcome = hull::run(options, &["/bin/sh", "-c", script]).unwrap();
    assert!(!outcome.timed_out, "hull did not end: {}", text(&outcome.stderr));
    outcome
}

/// Output of a script that succeeds.
#[track_caller]
fn output(options: &[&str], script: &str) -> String {
    let outcome = sh(options, script);
    assert_eq!(outcome.status, 0, "{}{}", text(&outcome.stdout), text(&outcome.stderr));
    text(&outcome.stdout)
}

/// What `hull` says when it refuses to start.
#[track_caller]
fn refusal(options: &[&str]) -> String {
    let outcome = sh(options, "true");
    assert_eq!(outcome.status, 125, "{}", text(&outcome.stderr));
    text(&outcome.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
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
    // What is there keeps them until it is written.
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
    let script = "cd /host; for f in proc/1/mem proc/version sys/kernel/mm/ksm/run; do cat $f 2>&1; done; ls proc 2>&1; \
                  ls -d proc sys; cat etc/passwd >/dev/null";
    let denied = |what: &str| format!("{what}: Permission denied\n");
    let expected = ["cat: proc/1/mem", "cat: proc/version", "cat: sys/kernel/mm/ksm/run"].map(denied).concat();
    for option in ["--ro", "--rw"] {
        let shown = output(&[option, "/:/host"], script);
        assert_eq!(shown, format!("{expected}ls: reading directory 'proc': Permission denied\nproc\nsys\n"));
    }
}
