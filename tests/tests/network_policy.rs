//! A pod's network by policy: rules, names, published ports, records, and the broker that enforces them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hull_tests::environment::Scratch;
use hull_tests::hull;

/// Exit code, standard output, standard error.
fn run(options: &[&str], script: &str) -> (i32, String, String) {
    hull::require_kvm().unwrap();
    let output = hull::run_command(options, &["/bin/bash", "-c", script]).unwrap().output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn start(options: &[&str], command: &[&str]) -> Child {
    hull::require_kvm().unwrap();
    let mut command = hull::run_command(options, command).unwrap();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// A server on the host's loopback device that sends one line to each client and then what it receives; its port.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            std::thread::spawn(move || {
                let mut client = client.unwrap();
                client.write_all(b"welcome\n").unwrap();
                let mut copy = client.try_clone().unwrap();
                let _ = std::io::copy(&mut client, &mut copy);
            });
        }
    });
    port
}

/// Connects and prints what the server sends, or why that fails.
fn client(host: &str, port: u16) -> String {
    format!("exec 3<>/dev/tcp/{host}/{port} && read line <&3 && echo $line")
}

/// Processes that a process started.
fn children(child: &Child) -> Vec<u32> {
    let path = format!("/proc/{0}/task/{0}/children", child.id());
    fs::read_to_string(path).unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_rule_decides() {
    let port = server();
    let rule = format!("host.hull.internal:{port}");
    let (code, out, error) = run(&["--allow", &rule], &client("host.hull.internal", port));
    assert_eq!((code, &*out), (0, "welcome\n"), "{error}");
    let deny = format!("tcp:{rule}");
    for options in [&["--allow", "all"][..], &["--net", "policy"], &["--allow", &rule, "--deny", &deny]] {
        let (code, out, error) = run(options, &client("10.0.2.2", port));
        assert!(code == 1 && out.is_empty() && error.contains("Permission denied"), "{options:?}: {error}");
    }
    // The host's loopback device has no other address in the pod.
    let (_, _, error) = run(&["--allow", "all", "--allow", &rule], &client("127.0.0.1", port));
    assert!(error.contains("Connection refused"), "{error}");
    let (_, _, error) = run(&["--allow", "all"], &client("169.254.169.254", 80));
    assert!(error.contains("Permission denied"), "{error}");
}

#[test]
fn a_policy_file_decides_and_is_recorded() {
    let port = server();
    let scratch = Scratch::new().unwrap();
    let path = |name: &str| scratch.0.join(name).display().to_string();
    let (policy, recorded, audit) = (path("policy.toml"), path("recorded.toml"), path("audit"));
    let text = "version = 1\n[network]\nallow = ['host.hull.internal', 'other.example']\n\
                deny = [{ peer = '192.0.2.0/24', error = 'unreachable' }]\n";
    fs::write(&policy, text).unwrap();
    let script = format!("{}; exec 3<>/dev/tcp/192.0.2.1/80", client("host.hull.internal", port));
    let options = ["--policy", &policy, "--record-policy", &recorded, "--audit", &audit];
    let (_, out, error) = run(&options, &script);
    assert_eq!(out, "welcome\n");
    assert!(error.contains("Network is unreachable"), "{error}");
    let lines = fs::read_to_string(&audit).unwrap();
    let decisions: Vec<&str> = lines.lines().map(|line| line.split_once("\"what\": ").unwrap().1).collect();
    let wanted = [
        format!(
            "\"connect tcp host.hull.internal:{port}\", \"decision\": \"allow\", \
             \"rule\": \"allowed by line 3: allow host.hull.internal\"}}"
        ),
        "\"connect tcp 192.0.2.1:80\", \"decision\": \"deny\", \"rule\": \"denied by line 4: deny 192.0.2.0/24\"}"
            .to_owned(),
    ];
    assert_eq!(decisions, wanted);
    let text = fs::read_to_string(&recorded).unwrap();
    assert!(text.contains(&format!("allow = [\n    \"tcp:host.hull.internal:{port}\",\n]")), "{text}");
    let (code, out, _) = run(&["--policy", &recorded], &client("host.hull.internal", port));
    assert_eq!((code, &*out), (0, "welcome\n"));
}

#[test]
fn names_of_the_pod() {
    let script = "cat /etc/hosts; python3 -c \"\n\
                  import socket\n\
                  for name in 'b.example', 'a.localhost', 'no.example':\n    \
                      try: print(socket.getaddrinfo(name, 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])\n    \
                      except socket.gaierror as error: print(error.args[0] == socket.EAI_NONAME)\"";
    let (code, out, error) = run(&["--allow", "a.example:80", "--add-host", "b.example:192.0.2.8"], script);
    assert_eq!((code, &*error), (0, ""));
    assert!(out.contains("192.0.2.8\tb.example\n") && out.contains("\n10.0.2.15\t"), "{out}");
    // Of the file, of the name server, and of nobody.
    assert!(out.ends_with("\n192.0.2.8\n127.0.0.1\nTrue\n"), "{out}");
    // Without a network there is no name server of the pod.
    let (_, out, _) = run(&[], "cat /etc/resolv.conf");
    assert!(!out.contains("10.0.2.3"), "{out}");
}

#[test]
fn published_ports_are_taken_from_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let publish = format!("127.0.0.1:{port}:80");
    let (code, out, error) = run(&["-p", &publish], "echo ran");
    assert_eq!((code, &*out), (125, ""));
    let remedy = "address already in use; choose another port, or end the program that has it\n";
    assert_eq!(error, format!("hull: --publish 127.0.0.1:{port}: {remedy}"));
    drop(taken);
    let script = "import socket, sys\n\
                  l = socket.socket(); l.setsockopt(1, 2, 1); l.bind(('', 80))\n\
                  print('bound', flush=True); sys.stdin.readline()\n\
                  l.listen(); print('listens', flush=True)\n\
                  c, a = l.accept(); c.sendall(a[0].encode()); c.close()";
    let mut pod = start(&["-p", &publish], &["python3", "-c", script]);
    let mut out = BufReader::new(pod.stdout.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(line(), "bound\n");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    writeln!(pod.stdin.take().unwrap()).unwrap();
    assert_eq!(line(), "listens\n");
    let mut text = String::new();
    TcpStream::connect(("127.0.0.1", port)).unwrap().read_to_string(&mut text).unwrap();
    // A peer on the host's loopback device has the address by which the pod reaches that.
    assert_eq!(text, "10.0.2.2");
    // All was sent, and the listener needs no end of its own: the pod does not wait.
    let closed = Instant::now();
    assert!(pod.wait().unwrap().success());
    assert!(closed.elapsed() < Duration::from_secs(5), "the pod ended after {:?}", closed.elapsed());
}

#[test]
fn a_listener_on_the_pods_loopback_device_is_not_published() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = "import socket, sys\n\
                  l = socket.socket(); l.bind(('127.0.0.1', 80)); l.listen()\n\
                  print('listens', flush=True); sys.stdin.readline()";
    let mut pod = start(&["-p", &format!("127.0.0.1:{port}:80")], &["python3", "-c", script]);
    let mut line = String::new();
    BufReader::new(pod.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "listens\n");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    drop(pod.stdin.take());
    assert!(pod.wait().unwrap().success());
}

#[test]
fn connections_outlive_a_broker_that_is_killed() {
    let port = server();
    let script = format!(
        "exec 3<>/dev/tcp/10.0.2.2/{port} && read line <&3 && echo $line && read line && \
         echo still >&3 && read line <&3 && echo $line; \
         for i in 1 2; do (exec 4<>/dev/tcp/10.0.2.2/{port}) 2>/dev/null || echo refused; done"
    );
    let rule = format!("host.hull.internal:{port}");
    let scratch = Scratch::new().unwrap();
    let audit = scratch.0.join("audit");
    let options = ["--allow", &rule, "--audit", audit.to_str().unwrap()];
    let mut command = hull::run_command(&options, &["/bin/bash", "-c", &script]).unwrap();
    let mut pod = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(pod.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "welcome\n");
    let brokers = children(&pod);
    let [broker] = brokers[..] else { panic!("{brokers:?}") };
    assert!(Command::new("kill").args(["-KILL", &broker.to_string()]).status().unwrap().success());
    // The pod goes on, so it is recorded.
    let record = "\"what\": \"the broker\", \"decision\": \"deny\"";
    let begin = Instant::now();
    while !fs::read_to_string(&audit).unwrap().contains(record) {
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", fs::read_to_string(&audit).unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    writeln!(pod.stdin.take().unwrap()).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "still\nrefused\nrefused\n");
    let mut told = String::new();
    pod.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(told.matches("hull: the broker: its process ended; ").count(), 1, "{told}");
    assert!(pod.wait().unwrap().success());
    assert_eq!(fs::read_to_string(&audit).unwrap().matches(record).count(), 1);
}

#[test]
fn a_broker_that_ends_with_its_pod_is_not_recorded() {
    let scratch = Scratch::new().unwrap();
    for (name, killed) in [("ended", false), ("killed", true)] {
        let audit = scratch.0.join(name);
        let options = ["--net", "policy", "--audit", audit.to_str().unwrap()];
        let mut pod = start(&options, &["/bin/sh", "-c", "echo runs; read line"]);
        let mut line = String::new();
        BufReader::new(pod.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "runs\n");
        let broker = children(&pod)[0];
        let recorder = fs::read_to_string(format!("/proc/{broker}/task/{broker}/children")).unwrap();
        let recorder = recorder.trim();
        assert!(!recorder.is_empty());
        if killed {
            pod.kill().unwrap();
        }
        drop(pod.stdin.take());
        pod.wait().unwrap();
        let begin = Instant::now();
        // It may be a zombie that nobody waits for.
        let runs = || fs::read_to_string(format!("/proc/{recorder}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        while runs() {
            assert!(begin.elapsed() < Duration::from_secs(20), "the recorder goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(fs::read_to_string(&audit).unwrap(), "", "{name}");
    }
}

#[test]
fn the_broker_ends_with_the_monitor() {
    let mut pod = start(&["--net", "policy"], &["/bin/sh", "-c", "echo runs; exec sleep 60"]);
    let mut line = String::new();
    BufReader::new(pod.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let brokers = children(&pod);
    let [broker] = brokers[..] else { panic!("{brokers:?}") };
    let status = fs::read_to_string(format!("/proc/{broker}/status")).unwrap();
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000"] {
        assert!(status.contains(line), "{line} in {status}");
    }
    pod.kill().unwrap();
    pod.wait().unwrap();
    let begin = Instant::now();
    while fs::exists(format!("/proc/{broker}/fd")).unwrap() && begin.elapsed() < Duration::from_secs(10) {
        // A zombie that nobody waits for has ended, too.
        let stat = fs::read_to_string(format!("/proc/{broker}/stat")).unwrap_or_default();
        if stat.contains(") Z ") {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn without_a_network_there_is_no_broker() {
    let mut pod = start(&[], &["/bin/sh", "-c", "echo runs; read line"]);
    let mut line = String::new();
    BufReader::new(pod.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(children(&pod), []);
    drop(pod.stdin.take());
    pod.wait().unwrap();
}

#[test]
fn options_that_contradict_are_errors() {
    for (options, wanted) in [
        (&["--net", "host", "--allow", "all"][..], "hull: --net host: there are rules for the network; "),
        (&["--net", "none", "--allow", "all"], "hull: --net none: there are rules for the network; "),
        (&["--audit", "/x"], "hull: --audit: the pod has no network; "),
        (&["--allow", "10.0.0.1/8"], "hull: --allow 10.0.0.1/8: 10.0.0.1/8 is not the network's address"),
        (&["-p", "x:80"], "hull: --publish x:80: not a published port; "),
        (&["--allow-listen", "a:80"], "hull: --allow-listen a:80: not ports to listen on; "),
        (&["--net", "none", "--allow-listen", "80"], "hull: --net none: there are ports to listen on; "),
        (&["--net", "policy", "--audit", "/no/such"], "hull: --audit /no/such: no such file or directory; "),
    ] {
        let (code, _, error) = run(options, "true");
        assert_eq!((code, error.lines().count()), (125, 1), "{error}");
        assert!(error.starts_with(wanted), "{error}");
    }
}

#[test]
fn a_denied_ping_is_told_with_the_rule_that_allows_it() {
    hull::require_kvm().unwrap();
    let pod = hull::run_command(&["--net", "policy"], &["/usr/bin/ping", "-c", "1", "-W", "1", "192.0.2.1"]).unwrap();
    // Standard error is a terminal.
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", "import pty, sys; pty.spawn(sys.argv[1:])"]).arg(pod.get_program()).args(pod.get_args());
    let output = command.current_dir("/").stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let told: Vec<&str> = text.lines().filter(|line| line.starts_with("hull: ")).map(str::trim_end).collect();
    let wanted = "hull: denied: connect icmp 192.0.2.1: no rule allows it; allow it with --allow icmp:192.0.2.1";
    assert_eq!(told, [wanted], "{text}");
}

#[test]
fn a_fifo_is_no_network_namespace() {
    let scratch = Scratch::new().unwrap();
    let path = scratch.0.join("fifo").display().to_string();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let begin = Instant::now();
    let (code, out, error) = run(&["--net", "policy", "--net-namespace", &path], "echo ran");
    assert_eq!((code, &*out), (125, ""));
    assert!(error.starts_with(&format!("hull: --net-namespace {path}: ")) && error.lines().count() == 1, "{error}");
    assert!(begin.elapsed() < Duration::from_secs(10));
}

/// Listens on a port, prints the outcome, and sends a line to the first client.
fn listener_of(port: u16) -> String {
    format!(
        "import errno, socket\n\
         try:\n    l = socket.socket(); l.bind(('', {port})); l.listen()\n\
         except OSError as error: print(errno.errorcode[error.errno], flush=True)\n\
         else:\n    print('listens', flush=True); c, a = l.accept(); c.sendall(b'welcome'); c.close()"
    )
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_pod_opens_ports_that_it_may_listen_on() {
    let (port, other) = (free_port(), free_port());
    let scratch = Scratch::new().unwrap();
    let path = |name: &str| scratch.0.join(name).display().to_string();
    let (policy, audit, recorded) = (path("policy.toml"), path("audit"), path("recorded.toml"));
    fs::write(&policy, format!("version = 1\n[network]\nlisten = ['tcp:127.0.0.1:{port}']\n")).unwrap();
    let first = ["--policy", &policy, "--audit", &audit, "--record-policy", &recorded];
    for options in [&first[..], &["--allow-listen", &port.to_string()], &["--policy", &recorded]] {
        // Before the pod listens, the port is another program's to take.
        drop(TcpListener::bind(("127.0.0.1", port)).unwrap());
        let mut pod = start(options, &["python3", "-c", &listener_of(port)]);
        let mut line = String::new();
        BufReader::new(pod.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listens\n");
        let mut text = String::new();
        TcpStream::connect(("127.0.0.1", port)).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "welcome");
        assert!(pod.wait().unwrap().success());
    }
    let text = fs::read_to_string(&recorded).unwrap();
    assert!(text.ends_with(&format!("\nlisten = [\"tcp:127.0.0.1:{port}\"]\n")), "{text}");
    // A port that no rule names is the pod's own.
    let mut pod = start(&["--policy", &policy], &["python3", "-c", &listener_of(other)]);
    let mut line = String::new();
    BufReader::new(pod.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "listens\n");
    assert!(TcpStream::connect(("127.0.0.1", other)).is_err());
    pod.kill().unwrap();
    pod.wait().unwrap();
    // One of another program.
    let _taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let (code, out, error) =
        run(&["--policy", &policy, "--audit", &audit], &format!("python3 -c \"{}\"", listener_of(port)));
    assert_eq!((code, &*out), (0, "EADDRINUSE\n"), "{error}");
    let lines = fs::read_to_string(&audit).unwrap();
    let decisions: Vec<&str> = lines.lines().map(|line| line.split_once("\"what\": ").unwrap().1).collect();
    assert_eq!(
        decisions,
        [
            format!(
                "\"listen tcp {port}\", \"decision\": \"allow\", \"rule\": \"allowed by the option allow-listen\"}}"
            ),
            format!(
                "\"listen tcp {port}\", \"decision\": \"deny\", \"rule\": \"denied: the host's port: address already in use\"}}"
            ),
        ]
    );
}

#[test]
fn datagrams_come_to_a_port_that_the_pod_may_listen_on() {
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = format!(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', {port}))\n\
         print('bound', flush=True)\ndata, peer = s.recvfrom(99); s.sendto(data * 2, peer)"
    );
    let mut pod = start(&["--allow-listen", &format!("udp:127.0.0.1:{port}")], &["python3", "-c", &script]);
    let mut line = String::new();
    BufReader::new(pod.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "bound\n");
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client.send_to(b"ab", ("127.0.0.1", port)).unwrap();
    let mut buffer = [0; 9];
    let (length, _) = client.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"abab");
    assert!(pod.wait().unwrap().success());
}
