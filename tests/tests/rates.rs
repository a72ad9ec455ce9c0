//! `hull run --rate`: a pod uses no more of its connectors per second than it may, and nothing is lost or reordered by the wait.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use hull_tests::environment::Scratch;
use hull_tests::hull::run_to_end as run;
use hull_tests::process::text;

const MIB: usize = 1 << 20;
/// Virtual CPUs and ways to serve the ring.
const WAYS: [&[&str]; 4] = [&["--cpus=1"], &["--cpus=2"], &["--cpus=4", "--busy-cpus=4"], &["--doorbell=poll"]];

/// Runs a shell script with a writable scratch directory at /d; its output and how long it took.
#[track_caller]
fn timed(scratch: &Scratch, options: &[&str], script: &str) -> (String, Duration) {
    let grant = format!("{}:/d", scratch.0.display());
    let options: Vec<&str> = options.iter().copied().chain(["--rw", &grant]).collect();
    let began = Instant::now();
    let outcome = run(&options, &["sh", "-c", script]);
    assert_eq!((outcome.status, text(&outcome.stderr).as_str()), (0, ""), "{options:?}");
    (text(&outcome.stdout), began.elapsed())
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7 + at % 251) as u8).collect()
}

#[test]
fn bytes_of_files() {
    let scratch = Scratch::new().unwrap();
    let big = content(8 * MIB);
    fs::write(scratch.0.join("big"), &big).unwrap();
    for way in WAYS {
        let options: Vec<&str> = way.iter().copied().chain(["--rate=files=8M"]).collect();
        let (_, read) = timed(&scratch, &options, "cat /d/big >/tmp/big; cmp /tmp/big /d/big");
        assert!(read > Duration::from_millis(800), "{way:?}: {read:?}");
        let (_, write) = timed(&scratch, &options, "head -c 8388608 /dev/zero >/d/zeros");
        assert!(write > Duration::from_millis(800), "{way:?}: {write:?}");
        assert!(fs::read(scratch.0.join("zeros")).unwrap() == vec![0; 8 * MIB]);
    }
    // Mappings of the file do not go around it.
    let map =
        "import mmap; f = open('/d/big'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(sum(m[::4096]))";
    let (sum, time) = timed(&scratch, &["--rate=files=8M"], &format!("python3 -c \"{map}\""));
    assert_eq!(sum.trim(), big.iter().step_by(4096).map(|byte| u64::from(*byte)).sum::<u64>().to_string());
    assert!(time > Duration::from_millis(800), "{time:?}");
}

#[test]
fn gathered_writes_are_whole_and_in_order() {
    let scratch = Scratch::new().unwrap();
    let log = scratch.0.join("log");
    let expected: String = (0..20_000).map(|line| format!("line {line}\n")).collect();
    for way in WAYS {
        let options: Vec<&str> = way.iter().copied().chain(["--rate=files=1M"]).collect();
        let _ = fs::remove_file(&log);
        // The end of the pod does not lose what still waits.
        timed(&scratch, &options, "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done >/d/log");
        assert!(fs::read_to_string(&log).unwrap() == expected, "{way:?}");
    }
}

#[test]
fn output_comes_after_the_file_that_it_is_about() {
    let scratch = Scratch::new().unwrap();
    // A host process reads the file when the pod says that it is there.
    let grant = format!("{}:/d", scratch.0.display());
    let script = "head -c 1000000 /dev/zero >/d/before; for i in 1 2 3 4 5; do echo $i >/d/f$i; echo $i; done";
    let options = ["--rw", &grant, "--rate=files=1M"];
    let mut command = hull_tests::hull::run_command(&options, &["sh", "-c", script]).unwrap();
    let mut pod = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut out = pod.stdout.take().unwrap();
    let mut line = [0; 2];
    for number in 1..=5 {
        out.read_exact(&mut line).unwrap();
        let text = format!("{number}\n");
        assert_eq!(line, text.as_bytes());
        assert_eq!(fs::read_to_string(scratch.0.join(format!("f{number}"))).unwrap(), text);
    }
    assert!(pod.wait().unwrap().success());
}

#[test]
fn operations_on_files() {
    let scratch = Scratch::new().unwrap();
    for number in 0..100 {
        symlink("target", scratch.0.join(format!("link{number}"))).unwrap();
    }
    let script = "rm /d/link*; ls /d";
    let (left, time) = timed(&scratch, &["--rate=files=100op/s"], script);
    assert_eq!(left, "");
    assert!(time > Duration::from_millis(900), "{time:?}");
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
}

#[test]
fn bytes_of_the_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let big = content(8 * MIB);
    let peer = std::thread::spawn({
        let big = big.clone();
        move || {
            for _ in WAYS {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = vec![0; 2 * MIB];
                stream.read_exact(&mut request).unwrap();
                assert!(request == content(2 * MIB));
                stream.write_all(&big).unwrap();
            }
        }
    });
    let scratch = Scratch::new().unwrap();
    fs::write(scratch.0.join("sent"), content(2 * MIB)).unwrap();
    let allow = format!("--allow=host.hull.internal:{port}");
    for way in WAYS {
        let options: Vec<&str> = way.iter().copied().chain([allow.as_str(), "--rate=network=8M"]).collect();
        let client = format!(
            "import socket; s = socket.create_connection(('host.hull.internal', {port})); \
             s.sendall(open('/d/sent', 'rb').read()); f = open('/d/got', 'wb'); \
             [f.write(b) for b in iter(lambda: s.recv(100000), b'')]"
        );
        let (_, time) = timed(&scratch, &options, &format!("python3 -c \"{client}\""));
        assert!(time > Duration::from_millis(1000), "{way:?}: {time:?}");
        assert!(fs::read(scratch.0.join("got")).unwrap() == big, "{way:?}");
    }
    peer.join().unwrap();
}

#[test]
fn limits_of_a_policy() {
    let scratch = Scratch::new().unwrap();
    let file = scratch.0.join("policy.toml");
    fs::write(&file, "version = 1\n[limits]\nprocesses = 4\nopen-files = 40\nrate = ['files=2M']\n").unwrap();
    fs::write(scratch.0.join("big"), content(2 * MIB)).unwrap();
    let policy = format!("--policy={}", file.display());
    let script =
        "ulimit -n; cat /d/big | wc -c; (sleep 9 & sleep 9 & sleep 9 & sleep 9 &) 2>&1 | grep -o 'Cannot fork'";
    let (out, time) = timed(&scratch, &[&policy], script);
    assert_eq!(out, format!("40\n{}\nCannot fork\n", 2 * MIB));
    assert!(time > Duration::from_millis(800), "{time:?}");
    // The command line wins.
    assert_eq!(timed(&scratch, &[&policy, "--ulimit=nofile=50"], "ulimit -n").0, "50\n");
}

#[test]
fn the_time_limit_holds_beside_a_rate() {
    let began = Instant::now();
    let outcome = run(&["--timeout", "1s", "--rate=files=1op"], &["ls", "-R", "/usr"]);
    assert_eq!(outcome.status, 124);
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// Small writes wait for their turn, and whoever looks at the file waits for them.
#[test]
fn a_rate_does_not_hide_writes() {
    let scratch = Scratch::new().unwrap();
    let script = "python3 -c \"import os\n\
        f = os.open('/d/f', os.O_RDWR | os.O_CREAT)\n\
        for i in range(100):\n \
        for k in range(5): os.write(f, b'0123456789')\n \
        assert os.fstat(f).st_size == os.lseek(f, 0, 1) == len(os.pread(f, 9999, 0)) == (i + 1) * 50, i\n\"";
    timed(&scratch, &["--rate=files=200op"], script);
}
