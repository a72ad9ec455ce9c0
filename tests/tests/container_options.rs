//! Options that container engines have too, on pods of a small root: what they do inside.

use hull_tests::hull::run_to_end as run;
use hull_tests::process::text;
use hull_tests::root::{Root, hull_run, store};
use std::fs;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::process::{Command, Stdio};

/// Output of a script in a pod with a small root.
#[track_caller]
fn sh(root: &Root, options: &[&str], script: &str) -> String {
    let dir = root.dir();
    let options = [&["--root", dir.to_str().unwrap()], options].concat();
    let outcome = run(&options, &["sh", "-c", script]);
    assert_eq!(outcome.status, 0, "{}{}", text(&outcome.stdout), text(&outcome.stderr));
    text(&outcome.stdout)
}

/// The line of a pod that does not start.
#[track_caller]
fn refused(root: &Root, options: &[&str]) -> String {
    let dir = root.dir();
    let outcome = run(&[&["--root", dir.to_str().unwrap()], options].concat(), &["true"]);
    let line = text(&outcome.stderr);
    assert_eq!((outcome.status, line.lines().count()), (125, 1), "{line}");
    line
}

/// What the program and its children have of the capabilities.
#[test]
fn capabilities_that_are_dropped_are_gone() {
    let root = Root::new();
    let sets = |options: &[&str]| sh(&root, options, "sh -c 'busybox grep -E ^Cap.*[EPB] /proc/self/status'");
    let expected = |permitted: u64, bounding: u64| {
        format!("CapPrm:\t{permitted:016x}\nCapEff:\t{permitted:016x}\nCapBnd:\t{bounding:016x}\n")
    };
    let all = (1 << 41) - 1;
    assert_eq!(sets(&[]), expected(all, all));
    assert_eq!(sets(&["--cap-drop", "ALL"]), expected(0, 0));
    assert_eq!(sets(&["--cap-drop=all", "--cap-add=CAP_CHOWN", "--cap-add=kill"]), expected(0x21, 0x21));
    assert_eq!(sets(&["--cap-drop=CHOWN", "-u", "redis"]), expected(0, all - 1));
    let script = "busybox chown 7 /etc/passwd 2>&1; busybox mount -t tmpfs none /tmp 2>&1; :";
    assert_eq!(sh(&root, &[], script), "");
    let denied = "chown: /etc/passwd: Operation not permitted\nmount: permission denied (are you root?)\n";
    assert_eq!(sh(&root, &["--cap-drop", "CHOWN", "--cap-drop", "SYS_ADMIN"], script), denied);
}

#[test]
fn new_privileges_can_be_ruled_out() {
    let root = Root::new();
    let status = "busybox grep NoNewPrivs /proc/self/status";
    assert_eq!(sh(&root, &["--security-opt", "no-new-privileges"], status), "NoNewPrivs:\t1\n");
    assert_eq!(sh(&root, &["--security-opt", "no-new-privileges:false"], status), "NoNewPrivs:\t0\n");
}

#[test]
fn a_seccomp_profile_filters_calls() {
    let root = Root::new();
    let profile = root.scratch.0.join("profile.json");
    let rules = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 18},
        {"names": ["kill"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13,
         "args": [{"index": 1, "value": 12, "op": "SCMP_CMP_EQ"}]}]}"#;
    fs::write(&profile, rules).unwrap();
    let option = format!("seccomp={}", profile.display());
    let script = "busybox mkdir /x 2>&1; kill -0 $$ && echo may; kill -USR2 $$ 2>&1; sh -c 'busybox mkdir /x' 2>&1
        busybox grep Seccomp: /proc/self/status";
    let refused_line = "mkdir: can't create directory '/x': Invalid cross-device link\n";
    let killed = "sh: can't kill pid ";
    let output = sh(&root, &["--security-opt", &option], script);
    let lines: Vec<_> = output.split_inclusive('\n').collect();
    assert_eq!((lines[0], lines[1], lines[3], lines[4]), (refused_line, "may\n", refused_line, "Seccomp:\t2\n"));
    assert!(lines[2].starts_with(killed) && lines[2].ends_with("Permission denied\n"), "{output}");
    fs::write(&profile, "{}").unwrap();
    assert!(refused(&root, &["--security-opt", &option]).contains("not a seccomp profile"));
}

#[test]
fn threads_are_limited() {
    let root = Root::new();
    let script =
        "cat /sys/fs/cgroup/pids.max; for i in 1 2 3 4 5 6; do busybox sleep 0.3 & done 2>/dev/null; wait; echo all";
    assert_eq!(sh(&root, &[], script), "max\nall\n");
    assert_eq!(sh(&root, &["--pids-limit=-1"], script), "max\nall\n");
    let dir = root.dir();
    let outcome = run(&["--root", dir.to_str().unwrap(), "--pids-limit", "5"], &["sh", "-c", script]);
    // The shell ends when it can't fork.
    assert_eq!((outcome.status, text(&outcome.stdout)), (2, "5\n".into()));
    let script = "(for i in 1 2 3 4 5 6; do busybox sleep 0.3 & done) 2>/dev/null; cat /sys/fs/cgroup/pids.events";
    let events = sh(&root, &["--pids-limit", "5"], script);
    assert!(events.starts_with("max ") && events != "max 0\n", "{events}");
}

#[test]
fn settings_of_the_network_can_be_changed() {
    let root = Root::new();
    let options = ["--sysctl=net.core.somaxconn=77", "--sysctl=net.ipv4.ip_unprivileged_port_start=80"];
    let options = [&options[..], &["--sysctl=kernel.domainname=box", "--sysctl=vm.swappiness=60"]].concat();
    let script = "cd /proc/sys; cat net/core/somaxconn net/ipv4/ip_unprivileged_port_start kernel/domainname
        echo 9 >net/core/somaxconn; cat net/core/somaxconn; echo -1 2>&1 >net/core/somaxconn
        cat net/core/somaxconn";
    assert_eq!(sh(&root, &options, script), "77\n80\nbox\n9\nsh: write error: Invalid argument\n9\n");
    let listen = "busybox timeout 0.3 busybox nc -l -p 80 2>&1; echo $?";
    assert!(sh(&root, &["-u", "redis"], listen).contains("Permission denied"));
    assert!(!sh(&root, &["-u", "redis", options[1]], listen).contains("Permission denied"));
    for (setting, why) in [
        ("vm.swappiness=1", "the pod's kernel can't change it"),
        ("no.such=1", "there is no such setting"),
        ("net.core.somaxconn=x", "not a value"),
        ("net.ipv4.ip_unprivileged_port_start=70000", "not a value"),
    ] {
        let name = setting.split('=').next().unwrap();
        assert!(refused(&root, &["--sysctl", setting]).starts_with(&format!("hull: --sysctl {name}: {why}")));
    }
}

#[test]
fn mounts_and_shared_memory() {
    let root = Root::new();
    let data = root.scratch.0.join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("file"), "host\n").unwrap();
    let source = data.to_str().unwrap();
    let (bind, fixed) =
        (format!("type=bind,source={source},target=/a"), format!("type=bind,src={source},dst=/b,readonly"));
    let options = ["--mount", &bind, "--mount", &fixed, "--mount", "type=tmpfs,target=/t,tmpfs-size=1m,tmpfs-mode=700"];
    let options = [&options[..], &["--mount", "target=/v", "--shm-size", "2m"]].concat();
    let script = "cat /a/file /b/file; echo pod >/a/new; echo >/b/x; echo v >/v/f; stat -c %a /t; busybox stat -f -c %b /t /dev/shm";
    assert_eq!(sh(&root, &options, script), "host\nhost\n700\n256\n512\n");
    assert_eq!(fs::read_to_string(data.join("new")).unwrap(), "pod\n");
    let outcome = run(&["--mount", "type=tmpfs,target=/t"], &["true"]);
    assert_eq!(outcome.status, 125);
}

/// Options of docker's own example.
#[test]
fn file_systems_in_memory_have_flags() {
    let root = Root::new();
    let script = "cd /t && busybox cp /bin/busybox true && stat -c '%a %u %g' . && (./true; echo $?) 2>/dev/null && \
        busybox mknod null c 1 3 && (echo >null; echo $?) 2>/dev/null && busybox grep ' /t ' /proc/mounts";
    let run = |options: &str| sh(&root, &["--tmpfs", options], script);
    let text = run("/t:rw,noexec,nosuid,nodev,size=65536k,mode=750,uid=7,gid=8");
    assert!(text.starts_with("750 7 8\n126\n1\ntmpfs /t tmpfs rw,nosuid,nodev,noexec,"), "{text}");
    let text = run("/t");
    assert!(text.starts_with("1777 0 0\n0\n0\ntmpfs /t tmpfs rw,relatime"), "{text}");
}

#[test]
fn an_id_is_written_and_names_the_host() {
    let root = Root::new();
    let file = root.scratch.0.join("id");
    let options = ["--cidfile", file.to_str().unwrap(), "--label", "a=b", "-l", "c"];
    let name = sh(&root, &options, "cat /etc/hostname");
    let id = fs::read_to_string(&file).unwrap();
    assert!(id.len() == 64 && id.starts_with(name.trim()) && name.trim().len() == 12, "{id} {name}");
    assert!(refused(&root, &options).contains("file exists"));
}

/// The program of a container is process 1: signals without a handler do not end it, and orphans become its children.
#[test]
fn the_program_is_process_1() {
    let root = Root::new();
    let script = "echo $$ $PPID; kill -9 $$; kill -TERM $$; busybox cut -d' ' -f1,4-6 /proc/1/stat
        (busybox sleep 1.4 >/dev/null & echo orphan); n=0
        until busybox ps -o pid,ppid,args | busybox grep ' 1 *busybox sleep 1[.]4' || [ $((n+=1)) -gt 9 ]; do busybox sleep 0.1; done
        n=0; while busybox ps -o pid,args | busybox grep -q ' busybox sleep 1[.]4' && [ $((n+=1)) -lt 99 ]; do busybox sleep 0.1; done
        busybox ps -o pid,args | busybox grep -c ' busybox sleep 1[.]4'; trap 'echo term; exit 7' TERM; kill $$";
    let dir = root.dir();
    let run = |options: &[&str]| run(&[&["--root", dir.to_str().unwrap()], options].concat(), &["sh", "-c", script]);
    let outcome = run(&[]);
    let output = text(&outcome.stdout);
    let lines: Vec<_> = output.lines().collect();
    assert_eq!((outcome.status, &lines[..3]), (7, &["1 0", "1 0 1 1", "orphan"][..]), "{output}");
    let child: Vec<_> = lines[3].split_whitespace().collect();
    assert_eq!(child[1..], ["1", "busybox", "sleep", "1.4"], "{output}");
    assert_eq!(lines[4..], ["0", "term"], "{output}");
    let outcome = run(&["--init"]);
    assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (137, "2 1\n"));
}

/// Process 1 without a handler ignores what the user sends it, twice.
#[test]
fn the_third_signal_ends_a_pod_whose_program_has_no_handler() {
    let root = Root::new();
    let dir = root.dir();
    let end_of = |options: &[&str], signals: usize| {
        let mut hull = Command::new(hull_tests::hull::binary().unwrap());
        hull.args(["run", "--timeout", "20s", "--root", dir.to_str().unwrap()]).args(options).current_dir("/");
        hull.args(["--", "sh", "-c", "echo ready; exec busybox sleep 10"]);
        let mut hull = hull.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        hull.stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
        for _ in 0..signals {
            assert!(hull.try_wait().unwrap().is_none(), "it ended too soon");
            assert!(Command::new("kill").args(["-TERM", &hull.id().to_string()]).status().unwrap().success());
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        let mut line = String::new();
        hull.stderr.take().unwrap().read_to_string(&mut line).unwrap();
        (hull.wait().unwrap().code(), line)
    };
    let (code, line) = end_of(&[], 3);
    assert!(code == Some(143) && line.starts_with("hull: process 1 has no handler"), "{code:?} {line}");
    assert_eq!(end_of(&["--init"], 1), (Some(143), String::new()));
}

/// SIGTERM to `hull` becomes the stop signal of the image, or that of the option.
#[test]
fn the_stop_signal_of_an_image_ends_its_program() {
    let root = Root::new();
    let script = "trap 'echo quit; exit 3' QUIT; trap 'echo term; exit 4' TERM; trap 'echo usr1; exit 5' USR1
        echo ready; while :; do busybox sleep 0.05; done";
    let store = store(&root, &format!(r#"{{"Cmd": ["sh", "-c", {}], "StopSignal": "SIGQUIT"}}"#, json(script)));
    for (options, expected) in
        [(&[][..], (3, "quit\n")), (&["--stop-signal", "usr1"], (5, "usr1\n")), (&["--stop-signal=15"], (4, "term\n"))]
    {
        let mut hull = Command::new(hull_tests::hull::binary().unwrap());
        hull.args(["run", "--timeout", "60s"]).args(options).arg("test").env("HULL_STORE", &store).current_dir("/");
        let mut hull = hull.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = hull.stdout.take().unwrap();
        output.read_exact(&mut [0; 6]).unwrap();
        assert!(Command::new("kill").args(["-TERM", &hull.id().to_string()]).status().unwrap().success());
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!((hull.wait().unwrap().code().unwrap(), rest.as_str()), expected, "{options:?}");
    }
    let (code, _, line) = hull_run(&store, &["--stop-signal", "NONE", "test"]);
    assert!(code == 125 && line.starts_with("hull: --stop-signal NONE: not a signal; "), "{line}");
}

/// A string in JSON.
fn json(text: &str) -> String {
    format!("\"{}\"", text.replace('\n', "\\n"))
}

/// An archive is unpacked into the store once, and what is wrong with it is one line.
#[test]
fn a_tar_archive_is_a_root() {
    let root = Root::new();
    let place = &root.scratch.0;
    for (name, options) in [("root.tar", "-c"), ("root.tar.gz", "-cz")] {
        let archive = place.join(name);
        let made = Command::new("tar").arg(options).arg("-f").arg(&archive).arg("-C").arg(root.dir()).arg(".").status();
        assert!(made.unwrap().success());
        let store = place.join("store");
        for _ in 0..2 {
            let words =
                ["--root", archive.to_str().unwrap(), "--", "sh", "-c", "cat /etc/passwd | busybox wc -l; id -un"];
            assert_eq!(hull_run(&store, &words), (0, "2\nroot\n".into(), String::new()));
        }
        // The same files make the same image, and nothing is left besides it.
        assert_eq!(fs::read_dir(store.join("erofs")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(store.join("tmp")).unwrap().count(), 0);
        // It has no date: it would be another image otherwise.
        let words = ["images", "--store", store.to_str().unwrap(), "--format", "{{.Repository}} {{.CreatedSince}}"];
        let listed = Command::new(hull_tests::hull::binary().unwrap()).args(words).output().unwrap();
        assert_eq!(text(&listed.stdout), "<none> N/A\n", "{}", text(&listed.stderr));
    }
    let whole = fs::read(place.join("root.tar")).unwrap();
    let cut = place.join("cut.tar");
    for len in [whole.len() / 2, 700] {
        fs::write(&cut, &whole[..len]).unwrap();
        let (code, _, line) = hull_run(&place.join("store"), &["--root", cut.to_str().unwrap(), "--", "true"]);
        let text = format!("hull: --root {}: ", cut.display());
        assert!(code == 125 && line.starts_with(&text) && line.lines().count() == 1, "{line}");
        assert_eq!(fs::read_dir(place.join("store/tmp")).unwrap().count(), 0);
    }
}

/// As in a container of docker: names of the root's own list, or numbers.
#[test]
fn further_groups_of_the_program() {
    let root = Root::new();
    let id = |options: &[&str]| sh(&root, options, "id");
    assert_eq!(id(&["--group-add", "tty", "--group-add=77"]), "uid=0(root) gid=0(root) groups=0(root),5(tty),77\n");
    assert_eq!(
        id(&["--user=redis", "--group-add=root"]),
        "uid=101(redis) gid=102(redis) groups=0(root),5(tty),102(redis)\n"
    );
    assert_eq!(id(&["--user=5:6", "--group-add=102"]), "uid=5 gid=6 groups=6,102(redis)\n");
    let line = refused(&root, &["--group-add", "none"]);
    assert_eq!(line, "hull: --group-add none: no such group in the pod's /etc/group; name another one or its number\n");
    let line = text(&run(&["--group-add", "tty"], &["true"]).stderr);
    assert!(line.starts_with("hull: --group-add: it is for pods with a root of their own; "), "{line}");
}

#[test]
fn a_missing_source_is_reported_under_its_option() {
    let root = Root::new();
    let line = refused(&root, &["--mount", "type=bind,source=/no/such,target=/x"]);
    assert_eq!(line, "hull: --mount source=/no/such: no such file or directory; check the path\n");
    let line = refused(&root, &["-v", "/no/such:/x"]);
    assert_eq!(line, "hull: --volume /no/such: no such file or directory; check the path\n");
}

/// Names of the pod and of others, with and without a network.
#[test]
fn names_of_hosts_and_domains() {
    let root = Root::new();
    let options = ["-h", "box", "--domainname", "x.org", "--add-host", "db:1.2.3.4", "--add-host=six=::6"];
    let script = "busybox hostname; busybox hostname -f; cat /proc/sys/kernel/domainname; busybox tail -n 3 /etc/hosts";
    let hosts = "127.0.1.1\tbox.x.org box\n1.2.3.4\tdb\n::6\tsix\n";
    assert_eq!(sh(&root, &options, script), format!("box\nbox.x.org\nx.org\n{hosts}"));
    let more =
        ["--net=policy", "--dns-search=a.org", "--dns-search", "b.org", "--dns-opt=ndots:3", "--dns-option=rotate"];
    let output = sh(&root, &[&options[..], &more].concat(), &format!("{script}; cat /etc/resolv.conf"));
    let resolver = "nameserver 10.0.2.3\nsearch a.org b.org\noptions ndots:3 rotate\n";
    assert_eq!(output, format!("box\nbox.x.org\nx.org\n{}{resolver}", hosts.replace("127.0.1.1", "10.0.2.15")));
    // The view of the host, whose own names are left out.
    let outcome = run(&["--add-host=db:1.2.3.4"], &["sh", "-c", "tail -n 1 /etc/hosts"]);
    assert_eq!(text(&outcome.stdout), "1.2.3.4\tdb\n");
    for (option, why) in [
        (&["--domainname", "a b"][..], "--domainname a b: not a domain; "),
        (&["--dns-search", "a b", "--net=policy"], "--dns-search a b: not a domain; "),
        (&["--dns-option", "a b", "--net=policy"], "--dns-option a b: not an option of resolv.conf(5); "),
        (&["--dns-search", "a"], "--dns-search: the pod has no network; "),
        (&["--network", "bridge"], "--net bridge: Hull has no such network; "),
        (&["--network=container:x"], "--net container:x: a pod shares its network with no other; "),
    ] {
        let line = refused(&root, option);
        assert!(line.starts_with(&format!("hull: {why}")), "{line}");
    }
}

/// Files of the pod's names cover those of a volume, which stays as it is.
#[test]
fn names_cover_those_of_volumes() {
    let root = Root::new();
    let volume = root.scratch.0.join("etc");
    std::fs::create_dir(&volume).unwrap();
    std::fs::write(volume.join("hosts"), "of the host\n").unwrap();
    let from = volume.display();
    let script =
        "busybox hostname; cat /etc/hostname; busybox tail -n 2 /etc/hosts; busybox head -c 10 /etc/resolv.conf";
    let expected = "box\nbox\n127.0.1.1\tbox\n1.2.3.4\tdb\nnameserver";
    for place in [["-v", &format!("{from}:/etc")], ["-v", &format!("{from}:/etc:ro")], ["--tmpfs", "/etc"]] {
        let options = [&["-h", "box", "--add-host", "db:1.2.3.4"], &place[..]].concat();
        assert_eq!(sh(&root, &options, script), expected, "{place:?}");
    }
    let own = root.scratch.0.join("own");
    std::fs::write(&own, "own\n").unwrap();
    let volumes = ["-v", &format!("{from}:/etc"), "-v", &format!("{}:/etc/hosts", own.display())];
    assert_eq!(sh(&root, &volumes, "cat /etc/hosts; echo more >>/etc/new"), "own\n");
    let names: std::collections::BTreeSet<_> =
        std::fs::read_dir(&volume).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["hosts", "new"].map(String::from).into());
    assert_eq!(std::fs::read_to_string(volume.join("hosts")).unwrap(), "of the host\n");
}

/// What asks for what a pod does anyway is accepted, the opposite is one line.
#[test]
fn options_that_change_nothing() {
    let root = Root::new();
    let usual = ["--rm=true", "-i=false", "--init=false", "--restart", "no", "--ipc=private", "--pid", "private"];
    let usual = [&usual[..], &["--no-healthcheck", "--sig-proxy", "--log-driver=none", "-m", ".25g", "-q"]].concat();
    assert_eq!(sh(&root, &usual, "echo $$"), "1\n");
    for option in
        ["--restart=always", "--ipc=host", "--pid=host", "--privileged", "--health-cmd=true", "--cpu-shares=2"]
    {
        let line = refused(&root, &[option]);
        let name = option.split('=').next().unwrap();
        assert!(line.starts_with(&format!("hull: {name}: Hull has no such option; ")), "{line}");
    }
}

/// The words that docker's users write for a working directory, an empty entry point, and variables.
#[test]
fn words_of_images_are_replaced() {
    let root = Root::new();
    let store = store(&root, r#"{"Entrypoint": ["sh", "-c", "echo entry"], "Cmd": ["x"], "Env": ["A=1", "B=2"]}"#);
    let run = |words: &[&str]| hull_run(&store, words);
    assert_eq!(run(&["test"]), (0, "entry\n".into(), String::new()));
    assert_eq!(run(&["--entrypoint", "", "test", "sh", "-c", "echo own"]), (0, "own\n".into(), String::new()));
    let (code, _, line) = run(&["--entrypoint", "", "test"]);
    assert!(code == 125 && line.starts_with("hull: image test:latest: it names no program to run; "), "{line}");
    assert_eq!(
        run(&["-w", "/new/place", "--entrypoint=", "test", "sh", "-c", "pwd; stat -c %a ."]).1,
        "/new/place\n755\n"
    );
    let script = "echo ${A-none} ${B-none} ${C-none}";
    assert_eq!(run(&["-e", "A", "-e", "B=", "-e", "C=3", "--entrypoint=", "test", "sh", "-c", script]).1, "none 3\n");
    let (code, _, line) = run(&["-e", "", "test"]);
    assert!(code == 125 && line == "hull: --env : no name; write NAME=VALUE or NAME\n", "{line}");
}

/// A port without one of the host is published at a free one.
#[test]
fn free_ports_of_the_host() {
    let root = Root::new();
    let dir = root.dir();
    let place = root.scratch.0.join("registry");
    fs::DirBuilder::new().mode(0o700).create(&place).unwrap();
    let binary = hull_tests::hull::binary().unwrap();
    let mut hull = Command::new(binary);
    hull.args(["run", "--timeout", "30s", "--name", "web", "-p", "80", "-p", "127.0.0.1::53/udp", "--root"]).arg(&dir);
    hull.args(["--", "sh", "-c", "echo ready; echo hello | busybox nc -l -p 80"]).env("HULL_RUNTIME_DIR", &place);
    let mut hull = hull.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    hull.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    let port = |port: &str| {
        let listed = Command::new(binary).args(["port", "web", port]).env("HULL_RUNTIME_DIR", &place).output().unwrap();
        text(&listed.stdout).lines().next().unwrap_or_default().to_owned()
    };
    assert!(port("53/udp").starts_with("127.0.0.1:"), "{}", port("53/udp"));
    let address = port("80").replace("0.0.0.0", "127.0.0.1");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let mut answer = String::new();
    // The listener begins after the line.
    while answer.is_empty() && std::time::Instant::now() < end {
        if let Ok(mut peer) = std::net::TcpStream::connect(&address) {
            let _ = peer.read_to_string(&mut answer);
        }
    }
    assert_eq!(answer, "hello\n");
    hull.kill().unwrap();
    hull.wait().unwrap();
}

/// As with container engines, the user of a container may open its standard streams by name, whatever user started `hull`.
#[test]
fn standard_streams_belong_to_the_user() {
    let root = Root::new();
    let script = "echo out >/dev/stdout; echo err >/dev/stderr; read line </dev/stdin; echo $line >/proc/self/fd/1; stat -L -c %u /dev/stdout";
    let dir = root.dir();
    for (user, uid) in [("redis", "101"), ("7:8", "7"), ("0", "0")] {
        let options = ["--root", dir.to_str().unwrap(), "-u", user];
        let mut hull = hull_tests::hull::run_command(&options, &["sh", "-c", script]).unwrap();
        let mut hull = hull.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut hull.stdin.take().unwrap(), b"in\n").unwrap();
        let output = hull.wait_with_output().unwrap();
        assert_eq!(
            (text(&output.stdout), text(&output.stderr)),
            (format!("out\nin\n{uid}\n"), "err\n".into()),
            "{user}"
        );
    }
    // /dev/null of the host stays what it is.
    let outcome = sh(&root, &["-u", "redis"], "stat -L -c %u:%a /dev/stdin");
    assert_eq!(outcome, "0:666\n");
}

/// The same for a terminal, which belongs to the group `tty` of the container.
#[test]
fn the_terminal_belongs_to_the_user() {
    let root = Root::new();
    let script = "echo out >/dev/stdout; echo tty >/dev/tty; echo con >/dev/console; stat -L -c %u:%g:%a /dev/console /dev/stdout";
    let hull = hull_tests::hull::binary().unwrap();
    let line = format!("{} run --root {} -u redis -- sh -c '{script}'", hull.display(), root.dir().display());
    let mut terminal = Command::new("script");
    let output = terminal.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).current_dir("/").output().unwrap();
    let out = text(&output.stdout).replace('\r', "");
    assert_eq!(out, "out\ntty\ncon\n101:5:620\n101:5:620\n");
}

#[test]
fn host_names_may_have_underscores() {
    let root = Root::new();
    assert_eq!(sh(&root, &["--hostname", "my_host"], "busybox hostname; cat /etc/hostname"), "my_host\nmy_host\n");
    assert!(refused(&root, &["--hostname", "my host"]).contains("not a host name"));
}
