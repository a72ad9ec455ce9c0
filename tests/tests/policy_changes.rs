//! Rules that are granted to running pods and revoked: `hull policy show`, `allow`, `deny` and `revoke`, and the socket that they use.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use hull_tests::environment::{Scratch, set_variables};
use hull_tests::hull;

/// Evaluates expressions, one in each line, and prints the result or the name of the error.
const AGENT: &str = "\
import errno, select, socket, sys
def tcp(port):
    global s
    s = socket.socket()
    s.connect(('10.0.2.2', port))
    return 'connected'
def udp(port):
    global s
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(('10.0.2.2', port))
    return 'connected'
def listen(port):
    global l
    l = socket.socket()
    l.bind(('', port))
    l.listen()
    return 'listens'
def accept():
    global s
    s, peer = l.accept()
    return 'accepted'
def poll():
    p = select.poll()
    p.register(s, 0)
    return p.poll(10000)[0][1] & (select.POLLERR | select.POLLHUP)
print('runs', flush=True)
for line in sys.stdin:
    try:
        print(eval(line), flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
";

/// A registry of the test's own.
struct Registry(Scratch);

/// A pod with the agent.
struct Pod {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Registry {
    fn new() -> Self {
        hull::require_kvm().unwrap();
        Self(Scratch::new().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.0.join(name).display().to_string()
    }

    fn start(&self, name: &str, options: &[&str]) -> Pod {
        let options = [&["--name", name][..], options].concat();
        let mut command = hull::run_command(&options, &["/usr/bin/python3", "-c", AGENT]).unwrap();
        command.env("HULL_RUNTIME_DIR", self.path("pods")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut pod = Pod { child, input, output };
        assert_eq!(pod.result(), "runs");
        pod
    }

    /// Exit code, standard output and standard error of `hull policy`.
    fn policy(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(hull::binary().unwrap());
        set_variables(&mut command);
        command.env("HULL_RUNTIME_DIR", self.path("pods")).arg("policy").args(words);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    /// Standard output of a command that succeeds.
    fn done(&self, words: &[&str]) -> String {
        let (code, out, error) = self.policy(words);
        assert_eq!((code, &*error), (0, ""), "{words:?}");
        out
    }
}

impl Pod {
    fn begin(&mut self, expression: &str) {
        writeln!(self.input, "{expression}").unwrap();
    }

    fn result(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn eval(&mut self, expression: &str) -> String {
        self.begin(expression);
        self.result()
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn a_revoked_connection_breaks_off() {
    let registry = Registry::new();
    let (server, port) = listener();
    let audit = registry.path("audit");
    let mut pod = registry.start("web", &["--net", "policy", "--audit", &audit]);
    let rule = format!("host.hull.internal:{port}");
    let connect = format!("tcp({port})");
    assert_eq!(pod.eval(&connect), "EACCES");
    assert_eq!(registry.done(&["show", "web"]), "");
    assert_eq!(registry.done(&["allow", "web", &rule]), "");
    assert_eq!(registry.done(&["show", "web"]), format!("allow {rule}\n"));
    assert_eq!(pod.eval(&connect), "connected");
    let (mut peer, _) = server.accept().unwrap();
    peer.write_all(b"hello").unwrap();
    assert_eq!(pod.eval("s.recv(5)"), "b'hello'");
    // While a thread waits for the peer.
    pod.begin("s.recv(5)");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(registry.done(&["revoke", "web", &rule]), format!("close tcp {rule}\n"));
    assert_eq!(pod.result(), "ECONNABORTED");
    assert_eq!(pod.eval("s.recv(5)"), "b''");
    assert_eq!(pod.eval("poll()"), "16");
    assert_eq!(pod.eval("s.send(b'x')"), "EPIPE");
    // The peer gets a reset, as from tcp_abort() of Linux.
    let error = peer.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(pod.eval(&connect), "EACCES");
    // An idle connection, and one on which bytes wait to be read.
    registry.done(&["allow", "web", "tcp:host.hull.internal"]);
    for bytes in [&b""[..], b"unread"] {
        assert_eq!(pod.eval(&connect), "connected");
        let (mut peer, _) = server.accept().unwrap();
        peer.write_all(bytes).unwrap();
        assert_eq!(registry.done(&["deny", "web", &rule]), format!("close tcp {rule}\n"));
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        // Bits POLLERR and POLLHUP.
        assert_eq!(pod.eval("poll()"), "24");
        assert_eq!(registry.done(&["revoke", "web", &rule]), "");
    }
    pod.end();
    let lines = fs::read_to_string(&audit).unwrap();
    let user = fs::metadata("/proc/self").unwrap().uid();
    for wanted in [
        format!("\"what\": \"policy allow {rule}\", \"decision\": \"allow\", \"rule\": \"by user {user}, process "),
        format!("\"what\": \"policy revoke {rule}\", \"decision\": \"allow\", \"rule\": \"by user {user}, process "),
        format!("\"what\": \"close tcp {rule}\", \"decision\": \"deny\", \"rule\": \"denied: no rule allows it\"}}"),
        format!(
            "\"what\": \"close tcp {rule}\", \"decision\": \"deny\", \"rule\": \"denied by a rule added at run time: deny {rule}\"}}"
        ),
        format!("\"rule\": \"allowed by a rule added at run time: allow {rule}\"}}"),
    ] {
        assert!(lines.contains(&wanted), "{wanted}\n{lines}");
    }
}

/// The pod connects many times, and each peer sends it a number.
fn connect_again(pod: &mut Pod, server: &TcpListener, port: u16, times: u32) -> TcpStream {
    let mut last = None;
    for number in 0..times {
        assert_eq!(pod.eval(&format!("tcp({port})")), "connected", "{number}");
        let (mut peer, _) = server.accept().unwrap();
        peer.write_all(format!("{number:3}").as_bytes()).unwrap();
        assert_eq!(pod.eval("s.recv(3)"), format!("b'{number:3}'"));
        last = Some(peer);
    }
    last.unwrap()
}

/// The broker prepares peers for connections to them again, which do not go through it.
#[test]
fn connections_again_follow_the_policy() {
    let registry = Registry::new();
    let (server, port) = listener();
    let (other, other_port) = listener();
    let rules = [port, other_port].map(|port| format!("host.hull.internal:{port}"));
    let mut pod = registry.start("a", &["--allow", &rules[0], "--allow", &rules[1]]);
    for _ in 0..2 {
        let mut peer = connect_again(&mut pod, &server, port, 60);
        assert_eq!(registry.done(&["revoke", "a", &rules[0]]), format!("close tcp {}\n", rules[0]));
        assert_eq!(pod.eval("s.recv(1)"), "ECONNABORTED");
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        for _ in 0..20 {
            assert_eq!(pod.eval(&format!("tcp({port})")), "EACCES");
        }
        // The other one is judged anew, with the same result.
        connect_again(&mut pod, &other, other_port, 20);
        registry.done(&["allow", "a", &rules[0]]);
    }
    connect_again(&mut pod, &server, port, 20);
    // Where nobody listens any more.
    drop(other);
    for _ in 0..20 {
        assert_eq!(pod.eval(&format!("tcp({other_port})")), "ECONNREFUSED");
    }
    // Without the broker there are no new ones.
    let broker = fs::read_to_string(format!("/proc/{0}/task/{0}/children", pod.child.id())).unwrap();
    assert!(Command::new("kill").args(["-KILL", broker.trim()]).status().unwrap().success());
    std::thread::sleep(Duration::from_millis(50));
    let ended = (0..40).any(|_| pod.eval(&format!("tcp({port})")) == "ENETDOWN");
    assert!(ended && pod.eval(&format!("tcp({port})")) == "ENETDOWN");
    pod.end();
}

#[test]
fn another_rule_keeps_a_connection() {
    let registry = Registry::new();
    let (server, port) = listener();
    let (rule, wide) = (format!("tcp:host.hull.internal:{port}"), "host.hull.internal");
    let mut pod = registry.start("a", &["--allow", &rule, "--allow", wide]);
    assert_eq!(pod.eval(&format!("tcp({port})")), "connected");
    let (mut peer, _) = server.accept().unwrap();
    assert_eq!(registry.done(&["revoke", "a", &rule]), "");
    assert_eq!(registry.done(&["deny", "a", &format!("udp:{wide}")]), "");
    peer.write_all(b"still").unwrap();
    assert_eq!(pod.eval("s.recv(5)"), "b'still'");
    assert_eq!(registry.done(&["allow", "a", &format!("udp:{wide}:53")]), format!("note: deny udp:{wide} wins\n"));
    assert_eq!(registry.done(&["revoke", "a", wide]), format!("close tcp {wide}:{port}\n"));
    assert_eq!(pod.eval("s.recv(5)"), "ECONNABORTED");
    pod.end();
}

#[test]
fn peers_of_datagrams() {
    let registry = Registry::new();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let rule = format!("udp:host.hull.internal:{port}");
    let mut pod = registry.start("a", &["--allow", &rule]);
    let answer = |text: &[u8]| {
        let mut buffer = [0; 10];
        let (length, peer) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], text);
        server.send_to(b"back", peer).unwrap();
    };
    assert_eq!(pod.eval(&format!("udp({port})")), "connected");
    assert_eq!(pod.eval("s.send(b'one')"), "3");
    answer(b"one");
    assert_eq!(pod.eval("s.recv(9)"), "b'back'");
    pod.begin("s.recv(9)");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(registry.done(&["revoke", "a", &rule]), format!("close udp host.hull.internal:{port}\n"));
    assert_eq!(pod.result(), "ECONNABORTED");
    assert_eq!(pod.eval("s.send(b'two')"), "EACCES");
    let unconnected = format!("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'u', ('10.0.2.2', {port}))");
    assert_eq!(pod.eval(&unconnected), "EACCES");
    registry.done(&["allow", "a", &rule]);
    assert_eq!(pod.eval("s.send(b'three')"), "5");
    answer(b"three");
    assert_eq!(pod.eval("s.recv(9)"), "b'back'");
    pod.end();
}

#[test]
fn published_listeners_stay() {
    let registry = Registry::new();
    let port = listener().1;
    let mut pod = registry.start("a", &["-p", &format!("127.0.0.1:{port}:80")]);
    assert_eq!(pod.eval("listen(80)"), "listens");
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert_eq!(pod.eval("accept()"), "accepted");
    assert_eq!(registry.done(&["deny", "a", "all"]), "");
    client.write_all(b"x").unwrap();
    assert_eq!(pod.eval("s.recv(1)"), "b'x'");
    let _second = TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert_eq!(pod.eval("accept()"), "accepted");
    pod.end();
}

#[test]
fn pods_have_policies_of_their_own() {
    let registry = Registry::new();
    let (server, port) = listener();
    let rule = format!("host.hull.internal:{port}");
    let cid = registry.path("cid");
    let mut one = registry.start("one", &["--allow", &rule, "--cidfile", &cid]);
    let mut two = registry.start("two", &["--allow", &rule]);
    let mut peers = Vec::new();
    for pod in [&mut one, &mut two] {
        assert_eq!(pod.eval(&format!("tcp({port})")), "connected");
        peers.push(server.accept().unwrap().0);
    }
    // By the beginning of its id.
    let id = fs::read_to_string(&cid).unwrap();
    assert_eq!(registry.done(&["revoke", &id[..12], &rule]), format!("close tcp {rule}\n"));
    assert_eq!(one.eval("s.recv(1)"), "ECONNABORTED");
    peers[1].write_all(b"x").unwrap();
    assert_eq!(two.eval("s.recv(1)"), "b'x'");
    assert_eq!(registry.done(&["show", "two"]), format!("allow {rule}\n"));
    one.end();
    two.end();
}

#[test]
fn wrong_commands_are_one_line() {
    let registry = Registry::new();
    let line = |words: &[&str]| {
        let (code, out, error) = registry.policy(words);
        assert_eq!((code, &*out, error.lines().count()), (125, "", 1), "{error}");
        error
    };
    assert_eq!(line(&["show", "a"]), "hull: pod a: no pod with a name or a network runs; see hull ps\n");
    let alone = registry.start("alone", &[]);
    let pod = registry.start("a", &["--net", "policy"]);
    assert_eq!(
        line(&["show", "web"]),
        "hull: pod web: no pod of this name or id runs, or it has neither a name nor a network; see hull ps\n"
    );
    assert_eq!(line(&["show", ""]), line(&["show", "web"]).replacen("pod web", "pod ", 1));
    assert!(line(&["allow", "a", "x:0"]).starts_with("hull: policy allow a x:0: a port is a number"));
    assert!(line(&["revoke", "a", "x.y"]).starts_with("hull: policy revoke a x.y: no rule is written like this; "));
    assert!(line(&["allow", "alone", "x.y"]).contains(": the pod has no network; start it with --net policy"));
    assert_eq!(registry.done(&["show", "alone"]), "");
    let broker = fs::read_to_string(format!("/proc/{0}/task/{0}/children", pod.child.id())).unwrap();
    assert!(Command::new("kill").args(["-KILL", broker.trim()]).status().unwrap().success());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(
        line(&["show", "a"]),
        "hull: pod a: the process that holds its policy has ended; its connections stay as they are; see hull ps\n"
    );
    alone.end();
    pod.end();
}

/// Runs a program of Python on the host that gets the control socket's path, as this user.
fn attack(registry: &Registry, pod: &str, user: u32, script: &str) -> String {
    let common = "import os, socket, sys\n\
                  os.setgroups([]) if os.getuid() == 0 else None\n\
                  os.setresuid(*[int(sys.argv[2])] * 3)\n\
                  def control():\n    \
                      s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n    \
                      s.connect(sys.argv[1])\n    \
                      s.settimeout(60)\n    \
                      return s\n";
    let path = registry.path(&format!("pods/{pod}/control"));
    let script = format!("{common}{script}");
    let output = Command::new("/usr/bin/python3").args(["-c", &script, &path, &user.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn hostile_commands_change_nothing() {
    let registry = Registry::new();
    let (server, port) = listener();
    let rule = format!("host.hull.internal:{port}");
    let mut pod = registry.start("a", &["--allow", &rule]);
    assert_eq!(pod.eval(&format!("tcp({port})")), "connected");
    let (mut peer, _) = server.accept().unwrap();
    let user = fs::metadata("/proc/self").unwrap().uid();
    let refused = attack(
        &registry,
        "a",
        user,
        "for message in [b'\\0' * 9, b'allow', b'allow ' + b'a.' * 5000, b'\\xff' * 2000, b'allow all\\n', b'revoke \\0']:\n    \
            s = control(); s.send(message); print(s.recv(99)[:1].decode(), end='')\n\
         s = control(); s.send(b''); print(s.recv(99) == b'')\n\
         s = control(); s.send(b'show'); s.close()\n\
         s = control(); s.send(b'show')\n\
         try: s.send(b'revoke all')\n\
         except OSError: pass\n\
         # An error that tells of the second command, which nobody read, comes before the answer to the first.\n\
         try: answer = s.recv(99)\n\
         except ConnectionResetError: answer = s.recv(99)\n\
         print(answer.decode(), end='')",
    );
    assert_eq!(refused, format!("------True\n+allow {rule}\n"));
    // Many that say nothing: they are closed, and a command comes through.
    let held = attack(
        &registry,
        "a",
        user,
        "held = [control() for _ in range(20)]\n\
         s = control(); s.send(b'show'); print(s.recv(99)[:1].decode(), [h.recv(9) for h in held] == [b''] * 20)",
    );
    assert_eq!(held, "+ True\n");
    assert_eq!(registry.done(&["show", "a"]), format!("allow {rule}\n"));
    peer.write_all(b"x").unwrap();
    assert_eq!(pod.eval("s.recv(1)"), "b'x'");
    pod.end();
}

#[test]
fn other_users_may_not_command() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let registry = Registry::new();
    let audit = registry.path("audit");
    let pod = registry.start("a", &["--net", "policy", "--audit", &audit]);
    let connects = "try:\n    s = control()\nexcept PermissionError:\n    print('no permission')\nelse:\n    \
                    try:\n        s.send(b'allow all')\n    except OSError:\n        pass\n    \
                    try:\n        print(s.recv(99))\n    except OSError:\n        print(b'')\n";
    assert_eq!(attack(&registry, "a", 65534, connects), "no permission\n");
    // Even if they got at the socket.
    for (path, mode) in [("pods", 0o711), ("pods/a", 0o711), ("pods/a/control", 0o666)] {
        fs::set_permissions(registry.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    assert_eq!(attack(&registry, "a", 65534, connects), "b''\n");
    fs::set_permissions(registry.path("pods"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(registry.done(&["show", "a"]), "");
    pod.end();
    let lines = fs::read_to_string(&audit).unwrap();
    let wanted =
        "\"what\": \"policy\", \"decision\": \"deny\", \"rule\": \"denied: user 65534 is not that of the pod\"}";
    assert!(lines.contains(wanted), "{lines}");
}
