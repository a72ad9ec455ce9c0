//! Tests the documented options of `hull run`, and that a pod leaves no resources behind.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hull_tests::environment::Scratch;
use hull_tests::hull::{self, run_to_end as run};
use hull_tests::process::{self, Outcome, text};

/// The same for a shell script.
#[track_caller]
fn sh(options: &[&str], script: &str) -> Outcome {
    run(options, &["/bin/sh", "-c", script])
}

/// Output of a script, which must succeed.
#[track_caller]
fn output(options: &[&str], script: &str) -> String {
    let outcome = sh(options, script);
    assert_eq!(outcome.status, 0, "{}{}", text(&outcome.stdout), text(&outcome.stderr));
    text(&outcome.stdout)
}

/// A scratch directory with a file `name`, and the directory's path.
fn with_file(name: &str, content: &str) -> (Scratch, String) {
    let scratch = Scratch::new().unwrap();
    fs::write(scratch.0.join(name), content).unwrap();
    let path = scratch.0.to_str().unwrap().to_owned();
    (scratch, path)
}

#[test]
fn exit_codes_are_those_of_the_program() {
    for code in [0, 1, 42, 123, 200] {
        assert_eq!(sh(&[], &format!("exit {code}")).status, code);
    }
    assert_eq!(sh(&[], "kill -9 $$").status, 128 + 9);
    assert_eq!(sh(&[], "kill -TERM $$").status, 128 + 15);
    assert_eq!(run(&[], &["/no/such/program"]).status, 127);
    assert_eq!(run(&[], &["no-such-program"]).status, 127);
    assert_eq!(run(&[], &["/etc/passwd"]).status, 126);
    assert_eq!(run(&[], &["/etc"]).status, 126);
    assert_eq!(run(&["--memory", "nonsense"], &["/bin/true"]).status, 125);
}

#[test]
fn a_program_that_does_not_run_is_explained() {
    let scratch = Scratch::new().unwrap();
    fs::write(scratch.0.join("script"), "#!/no/such/shell\n").unwrap();
    fs::write(scratch.0.join("text"), "text").unwrap();
    fs::write(scratch.0.join("closed"), "#!/bin/sh\n").unwrap();
    std::os::unix::fs::symlink("around", scratch.0.join("around")).unwrap();
    for name in ["script", "text"] {
        fs::set_permissions(scratch.0.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let grant = format!("{}:/granted", scratch.0.display());
    let long = "x/".repeat(3000);
    for (options, program, status, reason) in [
        (&[][..], "/granted/none", 127, "not found; name a program that the pod sees, or grant it (--ro PATH)"),
        (&[], "no-such-program", 127, "not found; name a program that the pod sees, or grant it (--ro PATH)"),
        (&[], "/granted/script", 127, "its interpreter or loader is not found; grant that, too (--ro PATH)"),
        (
            &["--no-host", "--ro", "/usr/bin"],
            "/usr/bin/env",
            127,
            "its interpreter or loader is not found; grant that, too (--ro PATH)",
        ),
        (&[], "/granted/text", 126, "not an executable of this machine; name a 64-bit program or a script with #!"),
        (&[], "/granted/closed", 126, "permission denied; check that its mode permits to execute it"),
        (&[], "/granted/around", 126, "too many symbolic links or interpreters; check where they lead"),
        (&[], &long, 126, "the name is too long; name a shorter path"),
    ] {
        let options: Vec<&str> = ["--ro", &grant].iter().chain(options).copied().collect();
        let outcome = run(&options, &[program]);
        assert_eq!((outcome.status, text(&outcome.stderr)), (status, format!("hull: {program}: {reason}\n")));
    }
}

#[test]
fn a_timeout_ends_the_pod_with_124() {
    let start = Instant::now();
    let outcome = sh(&["--timeout", "700ms"], "trap '' TERM INT; (sleep 50) & echo started; while :; do :; done");
    assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (124, "started\n"));
    assert!(start.elapsed() < Duration::from_secs(10));
}

/// The pod's root user may raise the limit that the pod got from the host.
#[test]
fn crashes_leave_core_files_if_the_limit_permits() {
    let script = "mkdir /tmp/c; cd /tmp/c; ulimit -c unlimited
        ulimit -S -c 0; sh -c 'kill -SEGV $$'; echo $?; ls core
        ulimit -S -c unlimited; sh -c 'kill -SEGV $$'; echo $?; od -An -c -N4 core; od -An -d -j16 -N2 core
        rm core; ln -s other core; sh -c 'kill -SEGV $$'; ls";
    // No core file where none is permitted, nor through a link; otherwise an ELF file of type 4.
    let expected = "139\n139\n 177   E   L   F\n     4\ncore\n";
    assert_eq!(output(&["--user", "0:0"], &format!("({script}) 2>/dev/null")), expected);
}

#[test]
fn the_first_program_s_end_ends_all() {
    let start = Instant::now();
    let outcome = sh(&[], "(trap '' HUP TERM; sleep 50) & (while :; do :; done) & exit 3");
    assert_eq!(outcome.status, 3);
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn ungranted_files_do_not_exist() {
    let (_scratch, path) = with_file("secret", "secret");
    assert_eq!(output(&[], &format!("ls -d {path} 2>/dev/null || echo none")), "none\n");
    assert_eq!(
        // The password field matches no password.
        output(&[], "grep -v ':[*]:' /etc/shadow /etc/gshadow; ls /root 2>/dev/null; ls /home 2>/dev/null; echo end"),
        "end\n"
    );
}

#[test]
fn read_only_grants_keep_writes_in_the_pod() {
    let (scratch, path) = with_file("file", "host");
    let grant = format!("{path}:/granted");
    let script = "cat /granted/file; echo pod >/granted/file; echo new >/granted/new; mkdir /granted/d; cat /granted/file; \
                  ls /granted | tr '\\n' ' '";
    assert_eq!(output(&["--ro", &grant], script), "hostpod\nd file new ");
    assert_eq!(fs::read_to_string(scratch.0.join("file")).unwrap(), "host");
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
    assert_eq!(output(&["--ro", &grant], "rm /granted/file; ls /granted | wc -l"), "0\n");
    assert!(scratch.0.join("file").exists());
}

#[test]
fn writable_grants_reach_the_host() {
    let (scratch, path) = with_file("file", "host");
    let grant = format!("{path}:/granted");
    let script = "cd /granted; echo pod >file; mkdir d; echo deep >d/f; ln -s file link; ln file hard; chmod 600 d/f; mv d/f d/g; \
                  touch gone; rm gone; printf x >>d/g; cat d/g";
    assert_eq!(output(&["--rw", &grant], script), "deep\nx");
    assert_eq!(fs::read_to_string(scratch.0.join("file")).unwrap(), "pod\n");
    assert_eq!(fs::read_to_string(scratch.0.join("hard")).unwrap(), "pod\n");
    assert_eq!(fs::read_to_string(scratch.0.join("d/g")).unwrap(), "deep\nx");
    assert_eq!(fs::read_link(scratch.0.join("link")).unwrap().to_str(), Some("file"));
    assert!(!scratch.0.join("gone").exists() && !scratch.0.join("d/f").exists());
}

#[test]
fn grants_below_temporary_directories_leave_those_to_everybody() {
    let (_scratch, path) = with_file("f", "granted");
    for at in ["/tmp/deep/er", "/tmp/one", "/var/tmp/x"] {
        let script = format!("stat -c %a /tmp /var/tmp /run; cat {at}/f; grep -c ' /tmp ' /proc/mounts");
        assert_eq!(output(&["--ro", &format!("{path}:{at}")], &script), "1777\n1777\n755\ngranted1\n");
    }
    assert_eq!(output(&["--ro", &format!("{path}:/tmp")], "cat /tmp/f; stat -c %a /var/tmp"), "granted1777\n");
    assert_eq!(output(&["--rw", &format!("{path}:/var")], "cat /var/f; stat -c %a /tmp"), "granted1777\n");
}

#[test]
fn a_grant_cannot_be_left() {
    let outer = Scratch::new().unwrap();
    fs::create_dir(outer.0.join("granted")).unwrap();
    fs::write(outer.0.join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret", outer.0.join("granted/relative")).unwrap();
    std::os::unix::fs::symlink(outer.0.join("secret"), outer.0.join("granted/absolute")).unwrap();
    let grant = format!("{}:/granted", outer.0.join("granted").display());
    for option in ["--ro", "--rw"] {
        let script =
            "cd /granted; cat relative absolute ../secret /granted/../secret /granted/relative 2>/dev/null; echo end";
        assert_eq!(output(&[option, &grant], script), "end\n");
    }
}

#[test]
fn without_the_host_s_directories_there_is_only_what_is_granted() {
    let root = Scratch::new().unwrap();
    fs::create_dir(root.0.join("bin")).unwrap();
    let busybox = fs::read("/bin/busybox").expect("busybox-static is installed");
    fs::write(root.0.join("bin/busybox"), busybox).unwrap();
    fs::set_permissions(root.0.join("bin/busybox"), PermissionsExt::from_mode(0o755)).unwrap();
    let grant = format!("{}:/", root.0.display());
    let outcome = run(
        &["--no-host", "--ro", &grant],
        &["/bin/busybox", "sh", "-c", "ls /bin; ls /usr 2>/dev/null || echo no usr"],
    );
    assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (0, "busybox\nno usr\n"), "{}", text(&outcome.stderr));
    assert_eq!(run(&["--no-host"], &["/bin/true"]).status, 127);
}

#[test]
fn environment_is_passed_set_and_cleared() {
    assert_eq!(output(&["-e", "A=1", "--env", "B=two words"], "echo $A $B $USER"), "1 two words test\n");
    let (_scratch, path) = with_file("file", "# comment\nFROM_FILE=1\nKEPT=overridden\n");
    let file = format!("{path}/file");
    let environment = |options: &[&str]| {
        let mut command = hull::run_command(options, &["/usr/bin/env"]).unwrap();
        command.env("SECRET", "x").env("KEPT", "y").env("LC_TIME", "C").env("COLORTERM", "truecolor");
        text(&process::run(&mut command, Stdio::null(), hull::host_limit()).unwrap().stdout)
    };
    let lines = environment(&["--env-file", &file, "-e", "KEPT"]);
    let mut names: Vec<&str> = lines.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    let expected = ["COLORTERM", "FROM_FILE", "HOME", "KEPT", "LC_ALL", "LC_TIME", "PATH", "PWD", "TERM", "TZ", "USER"];
    assert_eq!(names, expected);
    assert!(lines.contains("KEPT=y"), "{lines}");
    assert!(environment(&["--env-all"]).contains("SECRET=x"));
}

/// Runs `hull run OPTIONS -- /bin/sh -c SCRIPT` in a directory with a home.
#[track_caller]
fn output_in(here: &Path, home: &Path, options: &[&str], script: &str) -> (String, String) {
    let mut command = hull::run_command(options, &["/bin/sh", "-c", script]).unwrap();
    command.current_dir(here).env("HOME", home);
    let outcome = process::run(&mut command, Stdio::null(), hull::host_limit()).unwrap();
    (text(&outcome.stdout), text(&outcome.stderr))
}

#[test]
fn the_current_directory_is_granted_with_care() {
    // Not beneath /dev, which keel provides.
    let home = Scratch(std::env::temp_dir().join(format!("hull-tests-home-{}", std::process::id())));
    fs::create_dir(&home.0).unwrap();
    let project = home.0.join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("public"), "public").unwrap();
    fs::write(project.join("secret"), "secret").unwrap();
    fs::set_permissions(project.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let script = "pwd; cat public secret 2>/dev/null";
    // Root's own access rights do not decide what the program may read.
    let expected = format!("{}\npublic{}", project.display(), if is_root() { "" } else { "secret" });
    assert_eq!(output_in(&project, &home.0, &[], script), (expected, String::new()));
    let (shown, _) = output_in(&project, &home.0, &["--ro", "."], script);
    assert!(shown.ends_with("publicsecret"), "{shown}");
    for (here, home, why) in [
        (&*project, &*project, "it is the home directory"),
        (&*home.0, &*project, "the home directory lies in it"),
        (Path::new("/srv"), &*home.0, "it lies at the top of the file system"),
    ] {
        let (shown, said) = output_in(here, home, &[], "pwd; ls project public 2>/dev/null");
        assert_eq!(shown, "/\n", "{said}");
        let line =
            format!("hull: warning: the current directory is not granted: {why}; grant it with --ro . or --rw .\n");
        assert_eq!(said, line);
        let (shown, said) = output_in(here, home, &["--ro", "."], "pwd");
        assert_eq!((shown, said), (format!("{}\n", here.display()), String::new()));
        assert_eq!(
            output_in(here, home, &["--no-host"], "pwd").1,
            "hull: /bin/sh: not found; name a program that the pod sees, or grant it (--ro PATH)\n"
        );
    }
}

/// Whether the root user runs the tests.
fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_working_directory_that_is_named_must_exist() {
    for (directory, why) in [
        ("/no/such", "no such directory in the pod"),
        ("/etc/passwd", "not a directory"),
        ("/etc/passwd/x", "not a directory"),
        ("/root", "permission denied"),
    ] {
        let outcome = sh(&["-u", "1234:1234", "-w", directory], "pwd");
        let expected =
            format!("hull: --workdir {directory}: {why}; name a directory that the pod sees, or grant one\n");
        assert_eq!((outcome.status, text(&outcome.stderr)), (125, expected));
    }
    assert_eq!(output(&["-w", "tmp"], "pwd"), "/tmp\n");
}

#[test]
fn the_host_s_software_finds_its_directories() {
    let script = "for d in /media /mnt /srv /home /run/lock /var/cache /var/lib /var/local /var/log /var/opt /var/spool /var/lib/misc
        do test -d $d || echo no $d; done; stat -c '%a %N' /run/lock /var/run /var/lock; find /var/log /var/cache /srv -type f | wc -l
        echo x >/var/log/mine && cat /var/run/../var/log/mine; dpkg-query -W -f '${Package}\\n' dpkg; id -nu 0 >/dev/null && getent shadow daemon
        stat -c '%a %U %G' /etc/shadow /etc/gshadow";
    let expected = "1777 '/run/lock'\n777 '/var/run' -> '/run'\n777 '/var/lock' -> '/run/lock'\n0\nx\ndpkg\ndaemon:*:::::::\n640 root shadow\n640 root shadow\n";
    assert_eq!(output(&["-u", "0:0"], script), expected);
    // The granted host directory in their place is unchanged; the pod's /var/tmp is mounted in it.
    let (scratch, path) = with_file("f", "granted");
    let script = "ls /var; test -d /var/lib || echo none; getent shadow daemon";
    assert_eq!(output(&["-u", "0:0", "--rw", &format!("{path}:/var")], script), "f\ntmp\nnone\ndaemon:*:::::::\n");
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
}

#[test]
fn files_in_memory_have_a_limit_of_their_own() {
    let script = "df -k --output=size /tmp /usr /dev/shm | tail -n 3 | tr -d ' ' | tr '\\n' ' '
        head -c 3M /dev/zero >/tmp/a && head -c 4M /dev/zero >/usr/b && echo fits
        head -c 2M /dev/zero 2>&1 >/dev/shm/c | grep -o 'No space left.*'
        rm /tmp/a; head -c 2M /dev/zero >/dev/shm/c && echo fits again
        python3 -c 'import mmap; m = mmap.mmap(-1, 32 << 20); m.write(bytes(32 << 20)); print(\"memory\")'";
    let expected = "8192 8192 8192 fits\nNo space left on device\nfits again\nmemory\n";
    assert_eq!(output(&["--private-size", "8M"], script), expected);
    let nothing = "mkdir /tmp/d; echo x >/tmp/f || echo full; ls /tmp";
    assert_eq!(output(&["--private-size", "0"], &format!("({nothing}) 2>/dev/null")), "full\nd\nf\n");
}

#[test]
fn directory_user_and_host_name() {
    assert_eq!(output(&["-w", "/usr/lib"], "pwd"), "/usr/lib\n");
    assert_eq!(
        output(&["-u", "1234:567"], "id -u; id -g; touch /tmp/f; stat -c %u:%g /tmp/f"),
        "1234\n567\n1234:567\n"
    );
    assert_eq!(output(&["-u", "daemon"], "id -un; echo $USER"), "daemon\ndaemon\n");
    assert_eq!(output(&["--hostname", "a-pod"], "uname -n; cat /proc/sys/kernel/hostname"), "a-pod\na-pod\n");
    assert_eq!(
        output(
            &["-u", "1234"],
            "cat /etc/shadow 2>/dev/null || echo denied; echo x 2>/dev/null >/etc/new || echo denied"
        ),
        "denied\ndenied\n"
    );
}

#[test]
fn memory_is_bounded() {
    let script = "x = []\nwhile True: x.append(bytearray(1 << 20))";
    let outcome = run(&["--memory", "96M"], &["/usr/bin/python3", "-c", script]);
    // OOM-killed, or malloc failed.
    assert!(matches!(outcome.status, 1 | 137), "{} {}", outcome.status, text(&outcome.stderr));
    let script = "x = bytearray(200 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint(sum(x) > 0)";
    let outcome = run(&["--memory", "400M"], &["/usr/bin/python3", "-c", script]);
    assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (0, "True\n"), "{}", text(&outcome.stderr));
}

#[test]
fn large_directories_do_not_need_large_memory() {
    let (scratch, path) = with_file("first", "");
    for i in 0..300_000 {
        fs::hard_link(scratch.0.join("first"), scratch.0.join(format!("{i}")))
            .or_else(|_| fs::write(scratch.0.join(format!("{i}")), ""))
            .unwrap();
    }
    let grant = format!("{path}:/many");
    // The listing may fail, the pod must not.
    let listed = output(&["--memory", "64M", "--ro", &grant], "ls -f /many 2>&1 | wc -l; echo alive");
    assert!(listed == "300003\nalive\n" || listed == "1\nalive\n", "{listed}");
    // The pod's files fill its memory: a process that needs more fails or is killed.
    let made = sh(&["--memory", "64M"], "cd /tmp; seq 300000 | xargs touch 2>/dev/null; ls -f >/dev/null; exit 3");
    assert!(matches!(made.status, 3 | 137), "{} {}", made.status, text(&made.stderr));
}

#[test]
fn standard_streams_are_connected() {
    let data: Vec<u8> = (0..3_000_000_u32).map(|i| (i * 7 + i / 256) as u8).collect();
    let mut command = hull::run_command(&[], &["/bin/cat"]).unwrap();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let copy = data.clone();
    let writer = std::thread::spawn(move || input.write_all(&copy).unwrap());
    let result = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(result.status.success());
    assert!(result.stdout == data, "{} bytes came back", result.stdout.len());
    let outcome = sh(&[], "echo out; echo err >&2; cat; echo $?");
    assert_eq!((text(&outcome.stdout).as_str(), text(&outcome.stderr).as_str()), ("out\n0\n", "err\n"));
}

/// Input that arrives while other processes run or idle must be read, whichever process waited before.
#[test]
fn late_input_is_seen() {
    let scripts = [
        // Another process computes.
        "exec 3<&0; (while :; do :; done) & timeout 20 head -n 3 <&3; kill $!",
        // Others wait for output of the first one.
        "head -n 3 | cat | cat",
    ];
    for script in scripts {
        for cpus in ["1", "2"] {
            let mut command = hull::run_command(&["--cpus", cpus], &["/bin/bash", "-c", script]).unwrap();
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut input = child.stdin.take().unwrap();
            for line in ["one\n", "two\n", "three\n"] {
                std::thread::sleep(Duration::from_millis(300));
                input.write_all(line.as_bytes()).unwrap();
            }
            let start = Instant::now();
            let result = child.wait_with_output().unwrap();
            assert_eq!(text(&result.stdout), "one\ntwo\nthree\n", "{script} on {cpus}");
            assert!(start.elapsed() < Duration::from_secs(5), "{script} on {cpus}");
            drop(input);
        }
    }
}

#[test]
fn background_output_stops_at_the_caller_s_terminal() {
    let script = "set -m; stty tostop; (echo held) & for i in $(seq 100); do jobs >j; grep -q Stopped j && break; sleep 0.1; done
        cat j; stty -tostop; kill -9 %1; wait; (echo free) & wait";
    let hull = hull::run_command(&["-w", "/tmp"], &["/bin/bash", "--norc", "-c", script]).unwrap();
    let words = std::iter::once(hull.get_program()).chain(hull.get_args());
    let words: Vec<String> = words.map(|w| format!("'{}'", w.to_str().unwrap())).collect();
    let outcome = process::run(
        Command::new("script").args(["-qec", &words.join(" "), "/dev/null"]),
        Stdio::null(),
        Duration::from_secs(60),
    );
    let shown = text(&outcome.unwrap().stdout);
    assert!(shown.contains("Stopped") && shown.contains("free") && !shown.contains("held\r"), "{shown}");
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    let hull = hull::run_command(&[], &["/bin/sh", "-c", "stty raw -echo; sleep 20"]).unwrap();
    let words = std::iter::once(hull.get_program()).chain(hull.get_args());
    let words: Vec<String> = words.map(|w| format!("'{}'", w.to_str().unwrap())).collect();
    for (signal, code) in [("ABRT", 134), ("ALRM", 142), ("XCPU", 152), ("HUP", 129), ("KILL", 137)] {
        let line = words.join(" ");
        let script = format!(
            "before=$(stty -g); timeout --foreground --preserve-status -s {signal} 2 {line}; echo code $?; sleep 0.5; \
             test \"$(stty -g)\" = \"$before\" && echo restored"
        );
        let outcome = process::run(
            Command::new("script").args(["-qec", &script, "/dev/null"]),
            Stdio::null(),
            Duration::from_secs(60),
        );
        let shown = text(&outcome.unwrap().stdout);
        assert!(shown.contains(&format!("code {code}")) && shown.contains("restored"), "{signal}: {shown}");
    }
}

#[test]
fn a_closed_output_ends_the_program() {
    let mut command = hull::run_command(&[], &["/usr/bin/yes"]).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let start = Instant::now();
    let status = process::shell_status(child.wait().unwrap());
    assert!(matches!(status, 1 | 141), "{status}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn pods_do_not_see_each_other() {
    assert_eq!(output(&[], "echo x >/tmp/left; echo y >/usr/left; ls /tmp/left /usr/left"), "/tmp/left\n/usr/left\n");
    assert_eq!(output(&[], "ls /tmp/left /usr/left 2>/dev/null; echo end"), "end\n");
    let processes: u32 = output(&[], "ls -d /proc/[0-9]* | wc -l").trim().parse().unwrap();
    assert!(processes <= 5, "{processes} processes");
    let pods = (0..6)
        .map(|i| std::thread::spawn(move || output(&[], &format!("for i in 1 2 3; do echo {i}; done; uname -s"))));
    for (i, pod) in pods.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(pod.join().unwrap(), format!("{i}\n{i}\n{i}\nLinux\n"));
    }
}

#[test]
fn both_ways_of_system_calls_and_all_doorbells_agree() {
    let script = "seq 1 200 | sort -rn | head -3; cat /etc/passwd | wc -l; ls /usr";
    let expected = output(&[], script);
    for option in ["--syscalls=trap", "--doorbell=exit", "--doorbell=event", "--doorbell=poll"] {
        assert_eq!(output(&[option], script), expected, "{option}");
    }
}

/// Processes whose command line names the binary under test, with their ids.
fn hull_processes() -> BTreeSet<u32> {
    let binary = hull::binary().unwrap().to_str().unwrap().to_owned();
    let ids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).next() == Some(binary.as_bytes())
    })
    .collect()
}

fn children_of(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let list = fs::read_to_string(path).unwrap_or_default();
    list.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

#[test]
fn nothing_remains_after_any_end() {
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let names = |directory: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(directory).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        // Other tests of this program run at the same time.
        names.filter(|name| !name.starts_with("hull-tests-") && !name.starts_with("hull-bench-")).collect()
    };
    let before = (mounts(), names("/dev/shm"), names("/tmp"));
    assert_eq!(sh(&[], "exit 5").status, 5);
    assert_eq!(sh(&["--timeout", "300ms"], "sleep 20").status, 124);
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGKILL] {
        let mut command = hull::run_command(&[], &["/bin/sh", "-c", "echo ready; sleep 20"]).unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let helpers = children_of(child.id());
        Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
        assert_eq!(process::shell_status(child.wait().unwrap()), 128 + signal);
        let deadline = Instant::now() + Duration::from_secs(2);
        let alive = |id: &u32| fs::exists(format!("/proc/{id}")).unwrap();
        while helpers.iter().any(alive) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!helpers.iter().any(alive), "a helper outlived signal {signal}");
        assert!(!hull_processes().contains(&child.id()));
    }
    assert_eq!(before.0, mounts());
    let fresh = |now: BTreeSet<String>, old: &BTreeSet<String>| now.difference(old).cloned().collect::<Vec<_>>();
    let hull_like = |names: Vec<String>| names.into_iter().filter(|name| name.contains("hull")).collect::<Vec<_>>();
    assert_eq!(hull_like(fresh(names("/dev/shm"), &before.1)), Vec::<String>::new());
    assert_eq!(hull_like(fresh(names("/tmp"), &before.2)), Vec::<String>::new());
}
