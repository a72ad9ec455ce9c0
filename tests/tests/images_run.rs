//! Pods whose root is an image or a directory: `hull run --root`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hull_tests::environment::Scratch;
use hull_tests::hull::{self, run_to_end as run};
use hull_tests::process::text;
use hull_tests::root::{Root, hull_run, store};

/// Output of a script that must succeed.
#[track_caller]
fn sh(options: &[&str], script: &str) -> String {
    let outcome = run(options, &["sh", "-c", script]);
    assert_eq!(outcome.status, 0, "{}{}", text(&outcome.stdout), text(&outcome.stderr));
    text(&outcome.stdout)
}

#[test]
fn a_pod_sees_its_root_and_nothing_of_the_host() {
    let root = Root::new();
    let image = root.image(&[]);
    for root in [image.as_str(), root.dir().to_str().unwrap()] {
        let all =
            sh(&["--root", root], "ls -x -w 200 /; cat /etc/hostname; echo $HOSTNAME $HOME $PATH; pwd; id -u; umask");
        let lines: Vec<_> = all.lines().collect();
        assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["bin", "dev", "etc", "proc", "sys", "tmp"]);
        assert_eq!(
            format!("{} /root /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", lines[1]),
            lines[2]
        );
        assert_eq!(lines[3..], ["/", "0", "0022"]);
        assert_eq!(run(&["--root", root], &["none"]).status, 127);
        assert_eq!(run(&["--root", root], &["/etc/passwd"]).status, 126);
        assert_eq!(run(&["--root", root, "--entrypoint", "sh"], &["-c", "exit 7"]).status, 7);
        assert_eq!(sh(&["--root", root, "--hostname", "box", "-e", "A=b"], "cat /etc/hostname; echo $A"), "box\nb\n");
    }
}

#[test]
fn users_are_those_of_the_root() {
    let root = Root::new();
    let image = root.image(&[]);
    let id = |user: &str| sh(&["--root", &image, "-u", user], "echo $(id -u) $(id -g) $(id -G) $HOME");
    assert_eq!(id("redis"), "101 102 102 5 /var/lib/redis\n");
    assert_eq!(id("101"), "101 102 102 5 /var/lib/redis\n");
    assert_eq!(id("redis:tty"), "101 5 5 /var/lib/redis\n");
    assert_eq!(id("7:8"), "7 8 8 /\n");
    for (user, what) in [("nobody", "user in the pod's /etc/passwd"), ("redis:no", "group in the pod's /etc/group")] {
        let outcome = run(&["--root", &image, "-u", user], &["id"]);
        let line = format!("hull: --user {user}: no such {what}; name another one or its number\n");
        assert_eq!((outcome.status, text(&outcome.stderr)), (125, line));
    }
    let outcome = run(&["--root", &image, "-u", "redis"], &["sh", "-c", "echo x >/etc/x"]);
    assert_eq!(outcome.status, 1);
}

#[test]
fn changes_stay_in_the_pod() {
    let root = Root::new();
    root.file("dir/one", "1");
    root.file("dir/deep/two", "2");
    let image = root.image(&[]);
    let before = fs::read(&image).unwrap();
    let script = "echo new >/dir/one && rm /etc/group && mv /dir /moved && cat /moved/one /moved/deep/two && echo &&
        mkdir /dir && ls -a /dir | wc -l && ! test -e /etc/group && ln /moved/one /dir/link && stat -c %h /moved/one &&
        rm -r /moved && ls /dir && busybox rm -r /bin/md5sum && mkdir -p /a/b && echo >/a/b/c && ls /a/b";
    assert_eq!(sh(&["--root", &image], script), "new\n2\n2\n2\nlink\nc\n");
    assert_eq!(sh(&["--root", &image], "cat /dir/one"), "1");
    assert!(before == fs::read(&image).unwrap());
}

#[test]
fn what_is_mounted_and_what_can_not_change() {
    let root = Root::new();
    let image = root.image(&[]);
    let data = Scratch::new().unwrap();
    fs::write(data.0.join("file"), "host\n").unwrap();
    let path = data.0.to_str().unwrap();
    let script = "cat /d/file && ! echo x 2>/dev/null >/d/file && ! busybox touch /d/new 2>/dev/null && echo $(busybox grep -c ' /d ro,' /proc/self/mountinfo)";
    assert_eq!(sh(&["--root", &image, "-v", &format!("{path}:/d:ro")], script), "host\n1\n");
    sh(&["--root", &image, "-v", &format!("{path}:/deep/d")], "echo pod >/deep/d/file");
    assert_eq!(fs::read(data.0.join("file")).unwrap(), b"pod\n");
    let options = ["--root", &image, "--read-only", "--tmpfs", "/t:size=1m,mode=750", "-v", "/anon"];
    let script =
        "! busybox touch /x 2>/dev/null && ! busybox rm /etc/passwd 2>/dev/null && stat -c %a /t && ls -d /anon && \
        ! dd if=/dev/zero of=/t/x bs=1M count=2 2>/dev/null && stat -c %s /t/x && echo >/dev/shm/x &&
        echo x >/anon/x && cat /anon/x";
    assert_eq!(sh(&options, script), "750\n/anon\n1048576\nx\n");
    assert_eq!(
        sh(&["--root", &image, "-w", "/new/dir", "--ulimit", "nofile=77:88"], "pwd; ulimit -n; ulimit -Hn"),
        "/new/dir\n77\n88\n"
    );
}

#[test]
fn files_of_an_image_are_those_it_was_made_of() {
    let root = Root::new();
    for size in [0, 1, 4095, 4096, 4097, 70_000, 3 << 20] {
        let bytes: Vec<u8> = (0..size).map(|i: usize| (i / 7 % 256) as u8).collect();
        root.file(&format!("sizes/{size}"), bytes);
    }
    for i in 0..3000 {
        root.file(&format!("many/{}/{i}", i % 7), i.to_string());
    }
    let path = |name: &str| root.dir().join(name);
    fs::hard_link(path("sizes/70000"), path("many/hard")).unwrap();
    symlink("../sizes/1", path("many/link")).unwrap();
    for (name, mode) in [("sizes/1", 0o4755), ("sizes/4095", 0o000), ("many/0", 0o1777), ("many/1", 0o2750)] {
        fs::set_permissions(path(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        std::os::unix::fs::chown(path("sizes/4096"), Some(70_000), Some(3)).unwrap();
    }
    let script = "cd $1 && for d in bin sizes many; do busybox find $d | sort | while read f; do
        stat -c '%n %f %h %u %g %Y %N' $f; done; busybox find $d -type f | sort | xargs stat -c '%n %s'; busybox find $d -type f | sort | xargs md5sum; done";
    let on_host = Command::new("/bin/busybox").args(["sh", "-c", script, "x"]).arg(root.dir()).output().unwrap();
    assert!(on_host.status.success(), "{}", text(&on_host.stderr));
    for options in [&[][..], &["-Eforce-inode-extended"]] {
        let image = root.image(options);
        let in_pod = run(&["--root", &image], &["busybox", "sh", "-c", script, "x", "/"]);
        assert_eq!(in_pod.status, 0, "{}", text(&in_pod.stderr));
        let (on_host, in_pod) = (text(&on_host.stdout), text(&in_pod.stdout));
        assert_eq!(on_host.lines().zip(in_pod.lines()).find(|(host, pod)| host != pod), None, "{options:?}");
        assert_eq!(on_host.lines().count(), in_pod.lines().count());
    }
}

/// Runs with a root that can't be used; its message.
#[track_caller]
fn refused(root: &Path) -> String {
    // What is no image is read as an archive: not into the user's store.
    let store = Scratch::new().unwrap();
    let outcome = run(&["--store", store.0.to_str().unwrap(), "--root", root.to_str().unwrap()], &["true"]);
    let line = text(&outcome.stderr);
    assert!(outcome.status == 125 && line.lines().count() == 1, "{}: {line}", outcome.status);
    line
}

#[test]
fn images_that_can_not_be_read_are_refused() {
    let root = Root::new();
    let image = PathBuf::from(root.image(&[]));
    let copy = root.scratch.0.join("copy");
    let mut bytes = fs::read(&image).unwrap();
    fs::write(&copy, &bytes[..bytes.len() - 8192]).unwrap();
    assert_eq!(refused(&copy), "hull: the image: damaged; make it anew\n");
    bytes[1024 + 50] ^= 1;
    fs::write(&copy, &bytes).unwrap();
    assert_eq!(refused(&copy), "hull: the image: damaged; make it anew\n");
    bytes[1024 + 80] = 16;
    fs::write(&copy, &bytes).unwrap();
    assert!(refused(&copy).contains("features"));
    fs::write(&copy, "text").unwrap();
    assert!(refused(&copy).contains("the archive is damaged"));
    fs::write(&copy, "").unwrap();
    assert!(refused(&copy).contains("the file is empty"));
    assert!(refused(Path::new("/none/such")).contains("no such file"));
}

#[test]
fn an_image_that_gets_shorter_harms_its_pod_only() {
    let root = Root::new();
    root.file("big", vec![7; 12 << 20]);
    for i in 0..2000 {
        root.file(&format!("names/{i}"), "");
    }
    let image = root.image(&[]);
    // Files that were mapped, and files that were not read yet.
    let script = "dd if=/big of=/dev/null bs=1M count=1 2>/dev/null; echo ready; read x; cat /big >/dev/null 2>&1; \
        ls -l /names >/dev/null 2>&1; busybox md5sum /big >/dev/null 2>&1; exit 3";
    let mut pod = hull::run_command(&["--root", &image], &["sh", "-c", script]).unwrap();
    let mut pod = pod.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(pod.stdout.as_mut().unwrap(), &mut ready).unwrap();
    fs::File::options().write(true).open(&image).unwrap().set_len(8192).unwrap();
    pod.stdin.take().unwrap().write_all(b"\n").unwrap();
    let outcome = pod.wait_with_output().unwrap();
    // The shell itself may lose its pages: SIGBUS.
    let code = outcome.status.code().unwrap();
    assert!(code == 3 || code == 128 + 7, "{code}: {}", text(&outcome.stderr));
}

#[test]
fn images_run_as_they_are_configured() {
    let root = Root::new();
    let config = r#"{"Entrypoint": ["sh", "-c"], "Cmd": ["echo $A $(pwd) $(id -un) $HOME; ls -d /data"], "Env": ["A=b", "PATH=/bin"],
        "User": "redis", "WorkingDir": "/var/lib/new", "Volumes": {"/data": {}}}"#;
    let store = store(&root, config);
    let run = |words: &[&str]| hull_run(&store, words);
    assert_eq!(run(&["test"]), (0, "b /var/lib/new redis /var/lib/redis\n/data\n".into(), String::new()));
    assert_eq!(
        run(&["--rm", "-e", "A=c", "-u", "0:5", "-w", "/", "test:latest", "echo $A; id -u; id -g; pwd"]).1,
        "c\n0\n5\n/\n"
    );
    assert_eq!(run(&["--entrypoint", "id", "test", "-u"]).1, "101\n");
    let script = "echo x >/data/x; cat /data/x; echo 2>/dev/null >/y || echo fixed";
    assert_eq!(run(&["--read-only", "-u", "0", "test", script]).1, "x\nfixed\n");
    assert!(!run(&["--entrypoint", "", "test", "busybox", "env"]).1.contains("SECRET"));
    assert_eq!(run(&["test", "exit 42"]).0, 42);
    // Process 1 does not kill itself, nor with docker; the others can be killed.
    assert_eq!(run(&["test", "kill -9 $$"]).0, 0);
    assert_eq!(run(&["--init", "test", "kill -9 $$"]).0, 128 + 9);
    assert_eq!(run(&["test", "sh -c 'kill -9 $$'; echo $?"]).1, "137\n");
    assert_eq!(run(&["--entrypoint", "none", "test"]).0, 127);
    assert_eq!(run(&["--entrypoint", "/etc/passwd", "test"]).0, 126);
    assert_eq!(run(&["-u", "nobody", "test"]).0, 125);
    let (code, _, line) = run(&["--entrypoint", "", "test"]);
    assert!(code == 125 && line.starts_with("hull: image test:latest: it names no program"), "{line}");
    let (code, _, line) = run(&["--pull", "never", "none", "ls"]);
    assert!(code == 125 && line.starts_with("hull: none: no such image; "), "{line}");
    let (code, _, line) = run(&["--pull=never", "ls", "-l"]);
    assert_eq!(
        (code, line),
        (125, "hull: ls: no such image; to run the host's program write hull run -- ls -l\n".into())
    );
    let (code, _, line) = run(&["--tmpfs", "/x", "--", "ls"]);
    assert!(code == 125 && line.starts_with("hull: --tmpfs: it is for pods with a root of their own; "), "{line}");
}

#[test]
fn an_image_stays_in_its_store_while_a_pod_runs() {
    let root = Root::new();
    let store = store(
        &root,
        r#"{"Cmd": ["sh", "-c", "echo ready; read x; busybox md5sum /bin/busybox"], "Env": ["PATH=/bin"]}"#,
    );
    let mut pod = Command::new(hull::binary().unwrap());
    pod.args(["run", "--timeout", "60s", "test"]).env("HULL_STORE", &store).current_dir("/");
    let mut pod = pod.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(pod.stdout.as_mut().unwrap(), &mut ready).unwrap();
    for words in [&["rmi", "test"][..], &["prune", "-f"], &["prune"]] {
        // Whether it is refused or done later, the pod keeps its files.
        let _ =
            Command::new(hull::binary().unwrap()).args(words).env("HULL_STORE", &store).stdin(Stdio::null()).output();
    }
    assert_eq!(fs::read_dir(store.join("erofs")).unwrap().count(), 1);
    pod.stdin.take().unwrap().write_all(b"\n").unwrap();
    let outcome = pod.wait_with_output().unwrap();
    assert!(outcome.status.success() && text(&outcome.stdout).contains("/bin/busybox"), "{}", text(&outcome.stderr));
}

/// ttyname(3) compares the terminal with the file that its link in `/proc` leads to.
#[test]
fn the_terminal_has_a_name() {
    let root = Root::new();
    let dir = root.dir();
    let hull = hull::binary().unwrap();
    let script = "busybox tty; busybox tty </dev/tty; [ $(stat -L -c %d:%i:%t /proc/self/fd/0) = $(stat -c %d:%i:%t /dev/console) ] && echo same";
    let line = format!("{} run --timeout 60s --root {} -- sh -c '{script}'", hull.display(), dir.display());
    let mut terminal = Command::new("script");
    let outcome = terminal.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(text(&outcome.stdout), "/dev/console\r\n/dev/console\r\nsame\r\n");
}
