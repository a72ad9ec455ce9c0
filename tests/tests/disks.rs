//! Failing disks of the host: programs get the same errors as on the host, and the rest of the pod works.
#![allow(unsafe_code)]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hull_tests::compile::{self, Program};
use hull_tests::environment::{self, Scratch};
use hull_tests::hull;
use hull_tests::process::{self, Outcome, text};

fn run(command: &mut Command) -> Outcome {
    let outcome = process::run(command, Stdio::null(), hull::host_limit()).unwrap();
    assert!(!outcome.timed_out, "it hangs: {}", text(&outcome.stderr));
    outcome
}

fn program(name: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let executable = Path::new(env!("CARGO_TARGET_TMPDIR")).join("disks").join(name);
    let source = sources.join("faults").join(name).with_extension("c");
    let program = Program { name: name.into(), source, executable: executable.clone(), flags: Vec::new() };
    compile::build(&program, &sources.join("abi/check.h")).unwrap();
    executable
}

/// The same program on the host and in a pod, in a file system whose files become unreadable and readable again.
#[test]
fn lost_parts_of_files() {
    hull::require_kvm().unwrap();
    let (disk, failing) = (program("disk"), program("failing"));
    let mounts = || fs::read_to_string("/proc/self/mounts").unwrap();
    let (scratch, before) = (Scratch::new().unwrap(), mounts());
    let directory = scratch.0.to_str().unwrap();
    let on_disk = |command: &Command| {
        let mut disk = Command::new(&disk);
        environment::set_variables(&mut disk);
        run(disk.arg(directory).arg(command.get_program()).args(command.get_args()).current_dir("/"))
    };
    let host = on_disk(Command::new(&failing).arg(directory));
    assert_eq!(host.status, 0, "{}{}", text(&host.stdout), text(&host.stderr));
    let (failing, grant) = (failing.to_str().unwrap(), format!("{directory}:/granted"));
    let pod = on_disk(&hull::run_command(&["--rw", &grant, "--ro", failing], &[failing, "/granted"]).unwrap());
    assert_eq!(text(&pod.stdout), text(&host.stdout), "{}", text(&pod.stderr));
    assert_eq!((pod.status, text(&pod.stderr).as_str()), (0, ""));
    assert_eq!(mounts(), before);
}

/// The same program on the host and in a pod, in a new file system mounted by `mount` at `$0`. It is full except for
/// the space that the program frees: enough for all of `sparse`, because a store may need blocks for a whole large
/// folio of the page cache.
fn stores_to_a_full_disk(mount: &str) {
    hull::require_kvm().unwrap();
    let full = program("full");
    let scratch = Scratch::new().unwrap();
    let directory = scratch.0.to_str().unwrap();
    let prepared = format!(
        "set -e; {mount}; cd $0; truncate -s 1M sparse; truncate -s 1M eater; head -c 1M /dev/zero > whole; sync -f .; \
         head -c 2M /dev/zero >fill; ! cat /dev/zero >rest 2>/dev/null; sync -f .; ! cat /dev/zero >>rest 2>/dev/null; cd /; exec \"$@\""
    );
    let on_disk = |command: &Command| {
        let mut disk = Command::new("unshare");
        environment::set_variables(&mut disk);
        disk.args(["-m", "sh", "-c", &prepared, directory]);
        run(disk.arg(command.get_program()).args(command.get_args()).current_dir("/"))
    };
    let host = on_disk(Command::new(&full).arg(directory));
    assert_eq!((host.status, text(&host.stderr).as_str()), (0, ""), "{}", text(&host.stdout));
    assert!(text(&host.stdout).contains("SIGBUS"), "{}", text(&host.stdout));
    let (full, grant) = (full.to_str().unwrap(), format!("{directory}:/granted"));
    let pod = on_disk(&hull::run_command(&["--rw", &grant, "--ro", full], &[full, "/granted"]).unwrap());
    assert_eq!(text(&pod.stdout), text(&host.stdout), "{}", text(&pod.stderr));
    assert_eq!((pod.status, text(&pod.stderr).as_str()), (0, ""));
}

#[test]
fn stores_to_a_full_memory_disk() {
    stores_to_a_full_disk("mount -t tmpfs -o size=4m none $0");
}

#[test]
fn stores_to_a_full_ext4() {
    let image = Scratch::new().unwrap();
    let image = image.0.join("image");
    let image = image.to_str().unwrap();
    stores_to_a_full_disk(&format!(
        "truncate -s 8M {image}; /usr/sbin/mkfs.ext4 -q -F -m 0 -O ^has_journal {image}; mount -o loop {image} $0"
    ));
}

/// Makes the host reject reads and writes beyond 4 GiB, and block allocation, with EIO; needs no privileges.
fn fail_far_away() -> std::io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    /// Upper half of the fourth argument, the offset, in `struct seccomp_data`.
    const OFFSET: u32 = 16 + 3 * 8 + 4;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let is = |call: libc::c_long, jt| step(EQUAL, jt, 0, call as u32);
    let filter = [
        step(LOAD, 0, 0, 0),
        is(libc::SYS_fsync, 9),
        is(libc::SYS_fdatasync, 8),
        is(libc::SYS_preadv2, 4),
        is(libc::SYS_pwritev2, 3),
        is(libc::SYS_pread64, 2),
        is(libc::SYS_pwrite64, 1),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(LOAD, 0, 0, OFFSET),
        step(EQUAL, 2, 0, 0),
        step(EQUAL, 1, 0, u32::MAX), // no offset
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EIO as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: a filter for the calling process before its exec; the kernel copies it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn reads_and_writes_that_fail() {
    hull::require_kvm().unwrap();
    let scratch = Scratch::new().unwrap();
    fs::write(scratch.0.join("other"), "other\n").unwrap();
    fs::File::create(scratch.0.join("file")).unwrap().set_len(5 << 30).unwrap();
    let far = "bs=4096 count=1 status=none";
    let script = format!(
        "cd /granted; dd if=file {far} skip=1048576; echo $?; dd if=file {far} | wc -c; dd of=file {far} seek=1048576 conv=notrunc \
         </dev/zero; echo $?; echo y | dd of=file {far} conv=notrunc; echo $?; sync file; echo $?; cat other; head -c 2 file; exit 5"
    );
    let grant = format!("{}:/granted", scratch.0.display());
    let mut command = hull::run_command(&["--rw", &grant], &["/bin/sh", "-c", &script]).unwrap();
    // SAFETY: it makes two system calls.
    unsafe { command.pre_exec(fail_far_away) };
    let outcome = run(&mut command);
    let error = text(&outcome.stderr);
    assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (5, "1\n4096\n1\n0\n1\nother\ny\n"), "{error}");
    assert_eq!(error.matches("Input/output error").count(), 3, "{error}");
}

/// Small writes that fail after keel accepted them: a later write, or close at the latest, reports the error.
#[test]
fn small_writes_that_fail() {
    const PROGRAM: &str = r#"
import os
def attempt(where):
    told = set()
    fd = os.open("/granted/file", os.O_WRONLY)
    for step in range(200):
        try: os.pwrite(fd, b"x" * 64, where + step * 64)
        except OSError as error: told.add(error.strerror)
    try: os.close(fd)
    except OSError as error: told.add(error.strerror)
    return told
for _ in range(20):
    print(attempt(1 << 32), attempt(1 << 20))
fd = os.open("/granted/file", os.O_RDONLY)
print(os.pread(fd, 64, (1 << 20) + 64 * 150) == b"x" * 64)
"#;
    hull::require_kvm().unwrap();
    let scratch = Scratch::new().unwrap();
    fs::File::create(scratch.0.join("file")).unwrap().set_len(5 << 30).unwrap();
    let grant = format!("{}:/granted", scratch.0.display());
    let mut command = hull::run_command(&["--rw", &grant], &["python3", "-c", PROGRAM]).unwrap();
    // SAFETY: it makes two system calls.
    unsafe { command.pre_exec(fail_far_away) };
    let outcome = run(&mut command);
    let wanted = "{'Input/output error'} set()\n".repeat(20) + "True\n";
    assert_eq!((outcome.status, text(&outcome.stdout)), (0, wanted), "{}", text(&outcome.stderr));
}
