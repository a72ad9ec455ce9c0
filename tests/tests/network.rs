//! Pods and peers outside of them: the same clients on the host and in a pod, unmodified programs both ways, and what a pod
//! without a network reaches. The peers are on the host's loopback device, which a pod knows as `host.hull.internal`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hull_tests::environment::Scratch;
use hull_tests::process::{self, Outcome, text};
use hull_tests::{compile, hull};

/// The host's loopback device as a pod sees it.
const HOST: &str = "10.0.2.2";
/// What the peer saw at the end of the last connection with command `c`.
static SEEN: AtomicU8 = AtomicU8::new(0);
/// Programs use [`SEEN`] one after the other.
static ONE: Mutex<()> = Mutex::new(());

#[track_caller]
fn pod(options: &[&str], command: &[&str]) -> Outcome {
    hull::run_to_end(options, command)
}

/// Output of a shell script in a pod that may reach `port` of the host; it must succeed.
#[track_caller]
fn output(port: u16, script: &str) -> String {
    let rule = format!("host.hull.internal:{port}");
    let outcome = pod(&["--allow", &rule], &["/bin/sh", "-c", script]);
    assert_eq!(outcome.status, 0, "{}{}", text(&outcome.stdout), text(&outcome.stderr));
    text(&outcome.stdout)
}

/// A port of the host that nobody listens at.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn pattern(at: usize) -> u8 {
    (at * 7) as u8
}

/// One connection of the peer: the first byte is a command.
fn talk(mut stream: TcpStream) -> std::io::Result<()> {
    let mut command = [0];
    stream.read_exact(&mut command)?;
    let mut buffer = vec![0; 65536];
    match command[0] {
        // Echo.
        b'e' => loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                got => stream.write_all(&buffer[..got])?,
            }
        },
        // Bulk.
        b'b' => {
            let mut size = [0; 4];
            stream.read_exact(&mut size)?;
            let data: Vec<u8> = (0..u32::from_be_bytes(size) as usize).map(pattern).collect();
            stream.write_all(&data)
        }
        // Sink.
        b's' => {
            let (mut count, mut wrong) = (0usize, 0u32);
            loop {
                let got = stream.read(&mut buffer)?;
                if got == 0 {
                    break;
                }
                wrong += u32::from(buffer[..got].iter().enumerate().any(|(i, byte)| *byte != pattern(count + i)));
                count += got;
            }
            stream.write_all(&[(count as u32).to_be_bytes(), wrong.to_be_bytes()].concat())
        }
        // Wait before reading.
        b'w' => {
            thread::sleep(Duration::from_secs(1));
            while stream.read(&mut buffer)? > 0 {}
            Ok(())
        }
        // Half close.
        b'h' => {
            stream.write_all(b"half")?;
            stream.shutdown(std::net::Shutdown::Write)?;
            while stream.read(&mut buffer)? > 0 {}
            Ok(())
        }
        b'r' => {
            reset_at_close(&stream);
            Ok(())
        }
        // How the client closes.
        b'c' => {
            let seen = match stream.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => b'R',
                _ => b'E',
            };
            SEEN.store(seen, Ordering::SeqCst);
            Ok(())
        }
        b'q' => {
            let until = Instant::now() + Duration::from_secs(5);
            while SEEN.load(Ordering::SeqCst) == 0 && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
            stream.write_all(&[SEEN.swap(0, Ordering::SeqCst)])
        }
        // Drops.
        b'd' => b"drip!\n".iter().try_for_each(|byte| {
            thread::sleep(Duration::from_millis(20));
            stream.write_all(&[*byte])
        }),
        _ => Ok(()),
    }
}

#[allow(unsafe_code)]
fn reset_at_close(stream: &TcpStream) {
    use std::os::fd::AsRawFd;
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = size_of_val(&linger) as libc::socklen_t;
    // SAFETY: the kernel reads the structure, whose size is given.
    unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), size);
    }
}

/// Starts the peer of `tests/outside`, TCP and UDP at the same port, which it returns.
fn peer() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let echo = UdpSocket::bind(address).unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 65536];
        while let Ok((got, from)) = echo.recv_from(&mut buffer) {
            let _ = echo.send_to(&buffer[..got], from);
        }
    });
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || talk(stream));
        }
    });
    address.port()
}

/// Runs a program of `tests/outside` against the peer: on the host, then in a pod.
#[track_caller]
fn compare(name: &str) {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let scratch = Scratch::new().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("outside").join(name).with_extension("c");
    let program = compile::one(&source, &scratch.0).unwrap();
    let (program, directory) = (program.to_str().unwrap(), scratch.0.to_str().unwrap());
    let (port, closed) = (peer().to_string(), free_port().to_string());
    let mut native = Command::new(program);
    native.args(["127.0.0.1", &port, &closed]);
    let host = process::run(&mut native, Stdio::null(), hull::host_limit()).unwrap();
    assert_eq!(host.status, 0, "{}{}", text(&host.stdout), text(&host.stderr));
    let (grant, inside) = (format!("{directory}:/outside"), format!("/outside/{name}"));
    for (options, peer) in [(["--allow", "host.hull.internal"], HOST), (["--net", "host"], "127.0.0.1")] {
        let options = [&options[..], &["--ro", &grant]].concat();
        let inside = pod(&options, &[&inside, peer, &port, &closed]);
        assert_eq!(text(&host.stdout), text(&inside.stdout), "{options:?}: {}", text(&inside.stderr));
        assert_eq!(inside.status, 0);
    }
}

#[test]
fn tcp_clients_do_the_same_in_a_pod() {
    compare("tcp");
}

#[test]
fn udp_clients_do_the_same_in_a_pod() {
    compare("udp");
}

/// A shell in a network namespace of its own, in which everybody may have echo sockets; `$hull` is the program.
fn in_a_namespace(script: &str) -> Outcome {
    hull::require_kvm().unwrap();
    let whole = format!(
        "set -e; ip link set lo up; echo '0 2147483647' > /proc/sys/net/ipv4/ping_group_range; hull={}; {script}",
        hull::binary().unwrap().display()
    );
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", &whole]);
    process::run(&mut command, Stdio::null(), hull::host_limit()).unwrap()
}

#[test]
fn echo_sockets_do_the_same_in_a_pod() {
    let outside = Path::new(env!("CARGO_MANIFEST_DIR")).join("outside");
    let outside = outside.to_str().unwrap();
    let outcome = in_a_namespace(&format!(
        "python3 {outside}/echo.py 127.0.0.1 ::1; echo ---; \
         $hull run --ro {outside} -- python3 {outside}/echo.py 127.0.0.1 ::1; echo ---; \
         $hull run --ro {outside} --allow icmp:host.hull.internal -- python3 {outside}/echo.py {HOST} fd68:756c:6c00::2"
    ));
    assert_eq!(outcome.status, 0, "{}{}", text(&outcome.stdout), text(&outcome.stderr));
    let output = text(&outcome.stdout);
    let parts: Vec<&str> = output.split("---\n").collect();
    assert!(parts[0].lines().count() > 60, "{output}");
    assert_eq!(parts[0], parts[1]);
    assert_eq!(parts[0], parts[2]);
}

#[test]
fn ping_reaches_what_rules_allow() {
    let ping = |rule: &str, peer: &str| {
        in_a_namespace(&format!("$hull run --allow {rule} -- ping -c1 -W2 {peer}")).status == 0
    };
    assert!(ping("icmp:host.hull.internal", "host.hull.internal"));
    assert!(!ping("tcp:host.hull.internal", "host.hull.internal"));
    assert!(!ping("icmp:192.0.2.1", HOST));
}

/// The namespace of a server's sockets, entered by option.
#[test]
fn sockets_are_of_the_named_namespace() {
    let outcome = in_a_namespace(
        "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & server=$!; \
         until curl -s http://127.0.0.1:8123/ >/dev/null; do sleep 0.05; done; \
         fetch='curl -sf -o /dev/null http://host.hull.internal:8123/'; \
         unshare -n $hull run --net-namespace /proc/$server/ns/net --allow host.hull.internal:8123 -- $fetch && echo there; \
         unshare -n $hull run --allow host.hull.internal:8123 -- $fetch || echo not here; \
         kill $server",
    );
    assert_eq!(text(&outcome.stdout), "there\nnot here\n", "{}", text(&outcome.stderr));
}

#[test]
fn without_a_network_there_is_none() {
    let script = "exec 3<>/dev/tcp/10.0.2.2/80";
    let outcome = pod(&[], &["/bin/bash", "-c", script]);
    assert!(text(&outcome.stderr).contains("Network is unreachable"), "{}", text(&outcome.stderr));
    let devices = pod(&[], &["cat", "/proc/net/dev"]);
    assert!(!text(&devices.stdout).contains("eth0"));
}

/// A server of HTTP: `/N` has N bytes. Returns its port.
fn http_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || -> std::io::Result<()> {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? > 0 {
                    head.push(byte[0]);
                }
                let path = text(&head).split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
                let body = vec![b'x'; path.parse().unwrap_or(0)];
                write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())?;
                stream.write_all(&body)
            });
        }
    });
    port
}

#[test]
fn unmodified_clients_reach_a_server_outside() {
    let port = http_server();
    let url = format!("http://{HOST}:{port}");
    assert_eq!(output(port, &format!("curl -sS {url}/3000000 | wc -c")), "3000000\n");
    assert_eq!(output(port, &format!("wget -q -O- {url}/70000 | wc -c")), "70000\n");
    let script = format!(
        "python3 -c 'import urllib.request as u, threading as t
n = []
def get(i): n.append(len(u.urlopen(\"{url}/%d\" % (i * 9999)).read()))
all = [t.Thread(target=get, args=(i,)) for i in range(20)]
[x.start() for x in all], [x.join() for x in all]
print(sorted(n) == [i * 9999 for i in range(20)])'"
    );
    assert_eq!(output(port, &script), "True\n");
    // By name: the name server of the pod knows its host.
    assert_eq!(output(port, &format!("curl -sS http://host.hull.internal:{port}/5 | wc -c")), "5\n");
}

#[test]
fn what_was_sent_arrives_after_the_end_of_the_pod() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let reader = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        thread::sleep(Duration::from_millis(300));
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all.len()
    });
    let rule = format!("tcp:host.hull.internal:{port}");
    let script = format!("exec 3<>/dev/tcp/{HOST}/{port}; head -c 4000000 /dev/zero >&3");
    assert_eq!(pod(&["--allow", &rule], &["/bin/bash", "-c", &script]).status, 0);
    assert_eq!(reader.join().unwrap(), 4_000_000);
}

/// A peer that does not read: the pod ends soon, and the peer learns that the stream is not whole.
#[test]
fn a_stalled_peer_delays_the_end_of_the_pod_little() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let rule = format!("tcp:host.hull.internal:{port}");
    let script = format!(
        "import socket, time\n\
         s = socket.create_connection(('{HOST}', {port}))\n\
         s.setblocking(False)\n\
         last = time.time()\n\
         while time.time() - last < 0.3:\n\
         \x20   try: s.send(b'x' * 65536); last = time.time()\n\
         \x20   except BlockingIOError: time.sleep(0.01)\n\
         print('sent', flush=True)\n"
    );
    hull::require_kvm().unwrap();
    let mut hull = hull::run_command(&["--allow", &rule], &["/usr/bin/python3", "-c", &script]).unwrap();
    let mut hull = hull.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    hull.stdout.take().unwrap().read_exact(&mut [0; 4]).unwrap();
    let begin = Instant::now();
    assert!(hull.wait().unwrap().success());
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

/// The pod's memory grows while more is received than the ring between keel and the monitor holds.
/// Most bytes of the pod's memory that a waiting connection may take.
const WAITING: u64 = 5 << 10;

#[test]
fn many_connections_arrive_together_and_wait() {
    const COUNT: u64 = 3_000;
    let scratch = Scratch::new().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("outside/many.c");
    compile::one(&source, &scratch.0).unwrap();
    let port = free_port();
    let (grant, publish) = (format!("{}:/outside", scratch.0.display()), format!("127.0.0.1:{port}:80"));
    let options = ["-p", &publish, "--ro", &grant, "--ulimit", "nofile=4000"];
    let mut pod = hull::run_command(&options, &["/outside/many", "80", &COUNT.to_string()]).unwrap();
    let mut pod = pod.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(pod.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "listens");
    let connect = |_| TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut peers: Vec<TcpStream> = (1..COUNT).map(connect).collect();
    // Those that were idle are served.
    for peer in peers.iter_mut().step_by(100) {
        peer.write_all(b"hello").unwrap();
        let mut answer = [0; 5];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"hello");
    }
    peers.push(connect(0));
    let bytes: u64 = lines.next().unwrap().unwrap().parse().unwrap();
    assert!(bytes < WAITING, "{bytes} bytes each");
    // All its connections end together.
    assert_eq!(pod.wait().unwrap().code(), Some(0));
}

#[test]
fn memory_grows_while_much_is_received() {
    let port = peer();
    let script = format!(
        "import socket, mmap\n\
         peers = [socket.create_connection(('{HOST}', {port})) for _ in range(120)]\n\
         blocks = []\n\
         for s in peers: s.send(b'e')\n\
         for _ in range(3):\n\
         \x20   for s in peers: s.send(b'x' * 64)\n\
         \x20   blocks.append(mmap.mmap(-1, 64 << 20))\n\
         \x20   for at in range(0, 64 << 20, 4096): blocks[-1][at] = 1\n\
         print(all(len(s.recv(192, socket.MSG_WAITALL)) == 192 for s in peers))\n"
    );
    assert_eq!(output(port, &format!("python3 -c \"{script}\"")), "True\n");
}

/// A pod in the background.
struct Running(Child);

impl Running {
    fn start(options: &[&str], command: &[&str]) -> Self {
        hull::require_kvm().unwrap();
        let mut hull = hull::run_command(options, command).unwrap();
        Self(hull.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tries until a server in a pod is there.
#[track_caller]
fn retry<T>(mut attempt: impl FnMut() -> std::io::Result<T>) -> T {
    let until = Instant::now() + Duration::from_secs(20 * u64::from(hull::slowness()));
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) if Instant::now() >= until => panic!("{error}"),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

const ECHO: &str = "import socketserver
class E(socketserver.BaseRequestHandler):
    def handle(self):
        while True:
            d = self.request.recv(65536)
            if not d: return
            self.request.sendall(d)
socketserver.ThreadingTCPServer(('', 80), E).serve_forever()";

#[test]
fn a_published_port_is_reached_from_outside() {
    let port = free_port();
    let publish = format!("127.0.0.1:{port}:80");
    let _pod = Running::start(&["-p", &publish], &["python3", "-c", ECHO]);
    let mut first = retry(|| {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"hello")?;
        stream.read_exact(&mut [0; 5])?;
        Ok(stream)
    });
    let clients: Vec<_> = (0..8)
        .map(|client: usize| {
            thread::spawn(move || {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                for round in 0..50 {
                    let data = vec![(client + round) as u8; 1 + round * 500];
                    stream.write_all(&data).unwrap();
                    let mut back = vec![0; data.len()];
                    stream.read_exact(&mut back).unwrap();
                    assert_eq!(data, back);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    // The first connection still works, and its end is told.
    first.write_all(b"again").unwrap();
    first.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = String::new();
    first.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "again");
}

#[test]
fn many_published_ports_lead_to_one_listener() {
    let held: Vec<_> = (0..20).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<u16> = held.iter().map(|held| held.local_addr().unwrap().port()).collect();
    drop(held);
    let options: Vec<_> = ports.iter().flat_map(|port| ["-p".into(), format!("127.0.0.1:{port}:80")]).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let _pod = Running::start(&options, &["python3", "-c", ECHO]);
    for port in ports {
        retry(|| {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"hello")?;
            stream.read_exact(&mut [0; 5])
        });
    }
}

const UDP_ECHO: &str = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 5353))
while True:
    d, a = s.recvfrom(65536)
    s.sendto(b'%d:' % a[1] + d, a)";

#[test]
fn published_datagrams_come_from_their_peers() {
    let port = free_port();
    let publish = format!("127.0.0.1:{port}:5353/udp");
    let _pod = Running::start(&["-p", &publish], &["python3", "-c", UDP_ECHO]);
    let clients: Vec<UdpSocket> = (0..5)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            socket.connect(("127.0.0.1", port)).unwrap();
            socket
        })
        .collect();
    for round in 0..10 {
        for (number, client) in clients.iter().enumerate() {
            let question = format!("{round} of {number}");
            let expected = format!("{}:{question}", client.local_addr().unwrap().port());
            let answer = retry(|| {
                client.send(question.as_bytes())?;
                let mut buffer = [0; 100];
                // Answers to earlier tries.
                loop {
                    let got = client.recv(&mut buffer)?;
                    if buffer[..got] == *expected.as_bytes() {
                        return Ok(text(&buffer[..got]));
                    }
                }
            });
            assert_eq!(answer, expected);
        }
    }
}
