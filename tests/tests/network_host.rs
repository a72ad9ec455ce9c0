//! Pods with the host's network: sockets are the host's, loopback addresses and ports included. Each test has a network namespace of its
//! own.

use hull_tests::environment::{self, Scratch};
use hull_tests::process::{self, Outcome, text};
use hull_tests::{compare, compile, hull};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn outside() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("outside")
}

/// A shell in a network namespace of its own; `$hull` is the program, `$run` a pod with that network, and `until_up PORT` waits for a
/// listener.
fn in_a_namespace(script: &str) -> Outcome {
    hull::require_kvm().unwrap();
    let whole = format!(
        "set -e; ip link set lo up; hull={}; run=\"$hull run --net host\"; \
         until_up() {{ until : 2>/dev/null >/dev/tcp/127.0.0.1/$1; do sleep 0.05; done; }}; {script}",
        hull::binary().unwrap().display()
    );
    let mut command = Command::new("unshare");
    command.args(["-n", "bash", "-c", &whole]);
    process::run(&mut command, Stdio::null(), hull::host_limit()).unwrap()
}

#[track_caller]
fn output(script: &str) -> String {
    let outcome = in_a_namespace(script);
    assert_eq!(outcome.status, 0, "{}{}", text(&outcome.stdout), text(&outcome.stderr));
    text(&outcome.stdout)
}

#[test]
fn sockets_do_the_same_in_a_pod() {
    let outside = outside();
    let outside = outside.display();
    let output = output(&format!(
        "python3 {outside}/names.py; for cpus in 1 2 4; do echo ---; \
         $run --cpus $cpus --ro {outside}:/outside -- python3 /outside/names.py; done"
    ));
    let parts: Vec<&str> = output.split("---\n").collect();
    assert!(parts[0].lines().count() >= 16, "{output}");
    for part in &parts[1..] {
        assert_eq!(parts[0], *part);
    }
    assert_eq!(parts.len(), 4);
}

#[test]
fn servers_and_clients_on_both_sides() {
    let script = "mkdir /tmp/www.$$; echo content > /tmp/www.$$/file; cd /tmp/www.$$
        get() { curl -sS --noproxy '*' http://127.0.0.1:$1/file; }
        python3 -m http.server 8001 --bind 127.0.0.1 >/dev/null 2>&1 & outside=$!
        until_up 8001
        $run -- curl -sS --noproxy '*' http://localhost:8001/file
        $run -- python3 -m http.server 8002 >/dev/null 2>&1 & inside=$!
        until_up 8002
        get 8002
        $run -- curl -sS --noproxy '*' http://127.0.0.1:8002/file
        kill $outside $inside
        $run -- sh -c 'python3 -m http.server 8003 >/dev/null 2>&1 & \
            until curl -sS --noproxy \"*\" http://127.0.0.1:8003/file 2>/dev/null; do sleep 0.1; done'
        cd /; rm -r /tmp/www.$$";
    assert_eq!(output(script), "content\n".repeat(4));
}

#[test]
fn redis_in_a_pod_serves_the_host() {
    let script = "$run -- redis-server --port 6399 --save '' >/dev/null & pod=$!
        until_up 6399
        redis-cli -p 6399 set key value; $run -- redis-cli -p 6399 get key; kill $pod";
    assert_eq!(output(script), "OK\nvalue\n");
}

#[test]
fn two_pods_have_one_port() {
    let bind = "import socket, sys, time; s = socket.create_server(('', 7001)); time.sleep(float(sys.argv[1]))";
    let script = format!(
        "$run -- python3 -c \"{bind}\" 60 & first=$!; until_up 7001
         $run -- python3 -c \"{bind}\" 0 2>&1 | tail -n1
         kill $first; wait $first || true
         $run -- python3 -c \"{bind}\" 0 && echo free"
    );
    let output = output(&script);
    let (first, rest) = output.split_once('\n').unwrap_or_default();
    assert!(first.starts_with("OSError: [Errno 98] Address already in use"), "{output}");
    assert_eq!(rest, "free\n");
}

#[test]
fn low_ports_need_a_right() {
    let bind = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 80)); print(s.getsockname()[1])";
    let script = format!(
        "$run -- python3 -c \"{bind}\"; $run --user 65534 -- python3 -c \"{bind}\" 2>&1 | tail -n1; \
         $run --cap-drop NET_BIND_SERVICE -- python3 -c \"{bind}\" 2>&1 | tail -n1"
    );
    let denied = "PermissionError: [Errno 13] Permission denied\n";
    assert_eq!(output(&script), format!("80\n{denied}{denied}"));
}

#[test]
fn the_network_is_that_of_the_named_namespace() {
    let script = "python3 -m http.server 8004 --bind 127.0.0.1 --directory /proc/sys/kernel >/dev/null 2>&1 & server=$!
        until_up 8004
        get='curl -sS --noproxy * -o /dev/null http://127.0.0.1:8004/ostype'
        unshare -n $hull run --net host --net-namespace /proc/$server/ns/net -- $get && echo there
        unshare -n $hull run --net host -- $get 2>/dev/null || echo not here
        kill $server";
    assert_eq!(output(script), "there\nnot here\n");
}

#[test]
fn abstract_names_stay_in_the_pod() {
    let connect = "import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + 'hull-test')";
    let script = format!(
        "python3 -c \"import socket, time; s = socket.socket(socket.AF_UNIX); s.bind(chr(0) + 'hull-test'); s.listen(); \
         open('/tmp/abstract.$$', 'w'); time.sleep(60)\" & server=$!
         until [ -e /tmp/abstract.$$ ]; do sleep 0.05; done; rm /tmp/abstract.$$
         python3 -c \"{connect}\" && echo host; $run -- python3 -c \"{connect}\" 2>&1 | tail -n1; kill $server"
    );
    assert_eq!(output(&script), "host\nConnectionRefusedError: [Errno 111] Connection refused\n");
}

#[test]
fn names_are_the_hosts() {
    let script = "$run -- cmp /etc/resolv.conf - < /etc/resolv.conf && echo same; \
                  $run --add-host db:192.0.2.1 -- getent hosts db; $run --dns 192.0.2.53 -- cat /etc/resolv.conf";
    assert_eq!(output(script), "same\n192.0.2.1       db\nnameserver 192.0.2.53\n");
}

#[test]
fn rules_and_published_ports_are_refused() {
    for (options, message) in [
        ("-p 80:80", "--net host: there are published ports; leave them out, or use --net policy"),
        ("--allow all", "--net host: there are rules for the network; leave them out, or use --net policy"),
        ("--deny 10.0.0.0/8", "--net host: there are rules for the network; leave them out, or use --net policy"),
        ("--allow-listen 80", "--net host: there are ports to listen on; leave them out, or use --net policy"),
        ("--record-policy x", "--record-policy: --net host has no policy; use --net policy --allow all"),
    ] {
        let outcome = in_a_namespace(&format!("$run {options} -- true"));
        assert_eq!(text(&outcome.stderr), format!("hull: {message}\n"));
        assert_eq!(outcome.status, 125);
    }
}

#[test]
fn rules_of_a_running_pod_are_refused() {
    let script = "export HULL_RUNTIME_DIR=/tmp/hull-run.$$; mkdir -m 700 $HULL_RUNTIME_DIR
        $run --name here -- python3 -c \"import socket, time; s = socket.create_server(('', 7002)); time.sleep(60)\" & pod=$!
        until_up 7002
        $hull policy deny here all 2>&1 || echo $?; kill $pod; wait $pod || true; rm -rf $HULL_RUNTIME_DIR";
    let output = output(script);
    assert!(output.contains("the pod has the host's network") && output.ends_with("125\n"), "{output}");
}

#[test]
fn records_name_what_was_used() {
    let script = "file=/tmp/audit.$$; $run --audit $file -- python3 -c \"import socket; s = socket.create_server(('127.0.0.1', 7003)); \
                  socket.create_connection(('127.0.0.1', 7003))\"; cat $file; rm $file";
    let output = output(script);
    for what in ["\"listen tcp 127.0.0.1:7003\"", "\"connect tcp 127.0.0.1:7003\"", "\"allowed: the host's network\""] {
        assert!(output.contains(what), "{output}");
    }
}

/// Programs of `tests/abi/sockets` that print something else with the host's network, and why.
const DIFFERENT: [(&str, &str); 3] = [
    (
        "sockets/option_effects",
        "a datagram that crosses the host's loopback device has no SO_MARK and SO_PRIORITY of its sender, for which the broker would need \
         CAP_NET_ADMIN; what overflows a small SO_RCVBUF waits in the host's socket, so SO_RXQ_OVFL counts nothing",
    ),
    (
        "sockets/reuseport_program",
        "a program of SO_ATTACH_REUSEPORT_CBPF would run in the host's kernel, and pods give it none: ENOPROTOOPT",
    ),
    (
        "sockets/udp_delivery",
        "the broker keeps a bound datagram socket unconnected and on all devices, so the host gives it what connect(2) and SO_BINDTODEVICE would \
         send to another socket of the port; bind(2) to a group of IPv6 has no scope",
    ),
];

/// Lines of programs that depend on the time in a pod, and are not compared. `tcp_wait`: keel receives ahead of the program, so that the host's
/// buffers may grow after a send found them full, and the next send has room.
const UNSTEADY: [(&str, &str); 1] = [("sockets/tcp_wait", "send(p[0], block, sizeof block, 0): ")];

/// Removes the lines of a program that are not compared.
fn steady(name: &str, outcome: &mut Outcome) {
    if let Some((_, start)) = UNSTEADY.iter().find(|(unsteady, _)| *unsteady == name) {
        let text = text(&outcome.stdout);
        let kept = text.split_inclusive('\n').filter(|line| !line.starts_with(start));
        outcome.stdout = kept.collect::<String>().into_bytes();
    }
}

/// Runs all programs of `tests/abi/sockets` on the host and in a pod with so many virtual CPUs, each in a network namespace of its own.
fn programs_print_the_same(cpus: &str) {
    hull::require_kvm().unwrap();
    let (sources, output) = (outside().with_file_name("abi"), Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi"));
    let programs = compile::discover(&sources, &output).unwrap();
    let grant = format!("{}:/tests", output.display());
    let mut count = 0;
    for program in programs.iter().filter(|program| program.name.starts_with("sockets/")) {
        compile::build(program, &sources.join("check.h")).unwrap();
        let directory = Scratch::new().unwrap();
        let mut native = Command::new(&program.executable);
        environment::set_variables(&mut native);
        native.current_dir(&directory.0);
        process::with_own_network(&mut native);
        let mut host = process::run(&mut native, Stdio::null(), hull::host_limit()).unwrap();
        let options = ["--net", "host", "--cpus", cpus, "--ro", &grant, "-w", "/tmp"];
        let mut inside = hull::run_command(&options, &[&format!("/tests/{}", program.name)]).unwrap();
        process::with_own_network(&mut inside);
        let mut pod = process::run(&mut inside, Stdio::null(), hull::host_limit()).unwrap();
        steady(&program.name, &mut host);
        steady(&program.name, &mut pod);
        let reason = DIFFERENT.iter().find(|(name, _)| *name == program.name);
        match (reason, compare::difference(&host, &pod)) {
            (None, Some(difference)) => panic!("{}: {difference}", program.name),
            (Some((name, reason)), None) => panic!("{name} passes, but is listed as different ({reason})"),
            _ => count += 1,
        }
    }
    assert!(count >= 27, "{count} programs");
}

#[test]
fn programs_print_the_same_on_one_processor() {
    programs_print_the_same("1");
}

#[test]
fn programs_print_the_same_on_four_processors() {
    programs_print_the_same("4");
}
