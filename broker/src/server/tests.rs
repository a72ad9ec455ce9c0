//! The broker with a monitor of the test, which may be hostile.

mod host;

use super::setup::Publish;
use super::*;
use crate::client::{Client, ClientError, Event};
use policy::{Rule, Verdict};
use rustix::net::socketpair;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::thread::JoinHandle;
use std::time::Duration;

struct Scene {
    client: Client,
    broker: Option<JoinHandle<()>>,
    /// The table of prepared peers.
    table: Option<OwnedFd>,
}

impl Scene {
    fn with(setup: Setup) -> Result<Self, Unable> {
        let kind = SocketType::SEQPACKET;
        let (one, other) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let mut broker = Broker::new(&setup, other, None)?;
        let table = broker.prepare_peers();
        Ok(Self { client: Client::new(one), broker: Some(std::thread::spawn(|| broker.serve())), table })
    }

    /// Rules that begin with `!` deny.
    fn new(rules: &[&str]) -> Self {
        Self::with(setup(rules)).unwrap()
    }

    /// Whether there is an event within this time.
    fn waits(&self, milliseconds: i64) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let wait = Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 };
        poll(&mut [PollFd::new(&self.client, PollFlags::IN)], Some(&wait)) == Ok(1)
    }

    fn event(&mut self) -> Event<'_> {
        assert!(self.waits(10_000));
        self.client.receive().unwrap()
    }

    fn connect(&mut self, transport: Transport, peer: &str) -> Result<OwnedFd, u16> {
        self.connect_from(transport, None, peer.parse().unwrap())
    }

    fn connect_from(
        &mut self,
        transport: Transport,
        local: Option<SocketAddr>,
        peer: SocketAddr,
    ) -> Result<OwnedFd, u16> {
        self.client.send(&Request::Connect { id: 9, transport, local, peer }).unwrap();
        match self.event() {
            Event::Opened(9, socket, _) => Ok(socket),
            Event::Refused(9, Refused(error)) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    fn listen(&mut self, id: Id, transport: Transport, address: &str) -> usize {
        let address = address.parse().unwrap();
        self.client.send(&Request::Listen { id, transport, address, backlog: 10 }).unwrap();
        match self.event() {
            Event::Listening(own, sockets) if own == id => sockets.len(),
            other => panic!("{other:?}"),
        }
    }

    /// Ends the monitor; the broker ends, too.
    fn end(mut self) {
        let broker = self.broker.take().unwrap();
        drop(self.client);
        broker.join().unwrap();
    }
}

fn setup(rules: &[&str]) -> Setup {
    let parse = |text: &&str| match text.strip_prefix('!') {
        Some(text) => Rule::parse(text, Verdict::Deny(Default::default())).unwrap(),
        None => Rule::parse(text, Verdict::Allow).unwrap(),
    };
    let mut setup = Setup { pod: 1, ..Setup::default() };
    setup.set_rules(&rules.iter().map(parse).collect::<Vec<_>>());
    setup
}

const EACCES: u16 = 13;
const EMFILE: u16 = 24;
const ECONNREFUSED: u16 = 111;

fn blocking(socket: OwnedFd) -> OwnedFd {
    rustix::io::ioctl_fionbio(&socket, false).unwrap();
    socket
}

/// Family of the first prepared peer.
fn family_of_first(scene: &Scene) -> u16 {
    let mut bytes = [0; 2];
    rustix::io::pread(scene.table.as_ref().unwrap(), &mut bytes, 0).unwrap();
    u16::from_ne_bytes(bytes)
}

#[test]
fn prepared_peers() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (port, udp) = (server.local_addr().unwrap().port(), other.local_addr().unwrap().port());
    let rules = [format!("tcp:host.hull.internal:{port}"), format!("udp:host.hull.internal:{udp}")];
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let mut scene = Scene::with(Setup { network: true, ..setup(&rules) }).unwrap();
    let ask = |scene: &mut Scene| {
        let peer = format!("10.0.2.2:{port}").parse().unwrap();
        scene.client.send(&Request::Connect { id: 9, transport: Transport::Tcp, local: None, peer }).unwrap();
        match scene.event() {
            Event::Opened(9, _, entry) => entry,
            other => panic!("{other:?}"),
        }
    };
    let first = Some(Entry { index: 0, v6: false });
    assert_eq!((ask(&mut scene), ask(&mut scene)), (first, first));
    assert_eq!(family_of_first(&scene), AddressFamily::INET.as_raw());
    for v6 in [false, true] {
        scene.client.send(&Request::Spare { v6 }).unwrap();
        let Event::Spare(own, sockets) = scene.event() else { panic!() };
        // A host may lack IPv6.
        assert!(own == v6 && (sockets.len() == MAX_SPARE || v6 && sockets.is_empty()));
    }
    // With a socket of UDP the monitor could reach the peer by UDP, which the policy does not allow.
    scene.connect(Transport::Udp, &format!("10.0.2.2:{udp}")).unwrap();
    assert_eq!(family_of_first(&scene), u16::MAX);
    assert_eq!(ask(&mut scene), None);
    assert_eq!(family_of_first(&scene), u16::MAX);
    scene.end();
    // Each connection is recorded, or there is no network.
    let audit = Some(b"/dev/null".to_vec());
    assert!(Scene::with(Setup { network: true, audit, ..setup(&["all"]) }).unwrap().table.is_none());
    assert!(Scene::new(&["all"]).table.is_none());
}

#[test]
fn the_host_by_its_name() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let mut scene = Scene::new(&[&format!("host.hull.internal:{port}")]);
    let mut stream = TcpStream::from(blocking(scene.connect(Transport::Tcp, &format!("10.0.2.2:{port}")).unwrap()));
    let (mut accepted, _) = server.accept().unwrap();
    accepted.write_all(b"hello").unwrap();
    let mut buffer = [0; 5];
    stream.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"hello");
    assert_eq!(scene.connect(Transport::Tcp, "10.0.2.2:1").unwrap_err(), EACCES);
    assert_eq!(scene.connect(Transport::Tcp, &format!("127.0.0.1:{port}")).unwrap_err(), ECONNREFUSED);
    assert_eq!(scene.connect(Transport::Tcp, &format!("10.0.2.15:{port}")).unwrap_err(), ECONNREFUSED);
    // The host is alive, but nothing listens there.
    drop((server, accepted, stream));
    let mut setup = setup(&["host.hull.internal"]);
    setup.hosts.push(("db.example".into(), IpAddr::from([192, 0, 2, 7])));
    let mut scene = Scene::with(setup).unwrap();
    match scene.connect(Transport::Tcp, &format!("[fd68:756c:6c00::2]:{port}")) {
        Err(error) => assert!(error == ECONNREFUSED || error == 99, "{error}"),
        Ok(socket) => assert!(rustix::net::sockopt::socket_error(blocking(socket)).unwrap().is_err()),
    }
    scene.end();
}

#[test]
fn a_hostile_monitor_reaches_nothing_more() {
    let mut scene = Scene::new(&["all", "!10.0.0.0/8"]);
    for peer in [
        "127.0.0.1:22",
        "127.8.9.1:22",
        "0.0.0.0:22",
        "0.0.0.9:22",
        "[::1]:22",
        "[::]:22",
        "[::ffff:127.0.0.1]:22",
        "[::ffff:0.0.0.0]:22",
        "[::127.0.0.1]:22",
        "[64:ff9b::7f00:1]:22",
        "[2002:7f00:1::]:22",
        "169.254.169.254:80",
        "[::ffff:169.254.169.254]:80",
        "[::169.254.169.254]:80",
        "[64:ff9b::a9fe:a9fe]:80",
        "[64:ff9b:1::a9fe:a9fe]:80",
        "[2002:a9fe:a9fe::1]:80",
        "[fe80::1%1]:80",
        "[fd00:ec2::254]:80",
        "100.100.100.200:80",
        "10.1.1.1:80",
        "[::ffff:10.1.1.1]:80",
        "[64:ff9b::a01:101]:80",
        "10.0.2.2:80",
        "[fd68:756c:6c00::2]:80",
        "10.0.2.3:54",
        "10.0.2.15:80",
        "224.0.0.1:80",
        "255.255.255.255:80",
        "[ff02::1]:80",
        "1.1.1.1:0",
    ] {
        for transport in [Transport::Tcp, Transport::Udp] {
            let peer: SocketAddr = peer.parse().unwrap();
            let error = scene.connect_from(transport, None, peer).unwrap_err();
            assert!([EACCES, ECONNREFUSED, 22].contains(&error), "{transport:?} {peer}: {error}");
        }
        if !peer.ends_with(":0") && !peer.ends_with(":54") {
            assert!(scene.connect(Transport::Icmp, peer).is_err(), "{peer}");
        }
    }
    scene.end();
}

#[test]
fn addresses_of_the_host_are_no_peers() {
    // The address that the host would use, which need not exist.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    if socket.connect("192.0.2.1:9").is_err() {
        return;
    }
    let own = socket.local_addr().unwrap().ip();
    let mut scene = Scene::new(&["all"]);
    assert_eq!(scene.connect(Transport::Udp, &format!("{own}:9")).unwrap_err(), EACCES);
    assert!(Scene::new(&["all", &own.to_string()]).connect(Transport::Udp, &format!("{own}:9")).is_ok());
}

#[test]
fn malformed_messages_end_the_broker() {
    let mut long = Request::Close { id: 1 }.encode().to_vec();
    long.push(0);
    for message in [&[0_u8; 3][..], &[9; crate::protocol::REQUEST_BYTES], &long] {
        let mut scene = Scene::new(&["all"]);
        rustix::net::send(&scene.client, message, rustix::net::SendFlags::empty()).unwrap();
        scene.broker.take().unwrap().join().unwrap();
        let request = Request::Close { id: 1 };
        assert_eq!(scene.client.send(&request), Err(ClientError::Gone));
    }
}

#[test]
fn a_monitor_that_does_not_read_is_not_served() {
    let mut scene = Scene::new(&[]);
    let peer = "1.1.1.1:1".parse().unwrap();
    let mut sent = 0;
    for _ in 0..200 {
        while scene.client.send(&Request::Connect { id: sent, transport: Transport::Tcp, local: None, peer }).is_ok() {
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(sent < 5000, "{sent}");
    for id in 0..sent {
        assert!(matches!(scene.event(), Event::Refused(own, Refused(EACCES)) if own == id));
    }
    scene.end();
}

fn published(udp: bool, pod: u16) -> (Setup, SocketAddr) {
    let host = match udp {
        true => UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap(),
        false => TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap(),
    };
    let publish = vec![Publish { udp, host, pod, optional: false }];
    (Setup { publish, ..setup(&[]) }, host)
}

#[test]
fn published_ports() {
    let (setup, host) = published(false, 80);
    let mut scene = Scene::with(setup.clone()).unwrap();
    // The port is taken from the start, and refuses connections until the pod listens.
    let in_use = Scene::with(setup).map(|_| ()).unwrap_err();
    assert_eq!((in_use.0, in_use.1), (format!("--publish {host}"), "address already in use".into()));
    assert!(TcpStream::connect(host).is_err());
    for (id, transport, address) in [
        (1, Transport::Tcp, "127.0.0.1:80"),
        (2, Transport::Tcp, "0.0.0.0:81"),
        (3, Transport::Udp, "0.0.0.0:80"),
        (4, Transport::Tcp, "[fd68:756c:6c00::15]:80"),
    ] {
        assert_eq!(scene.listen(id, transport, address), 0, "{address}");
    }
    for round in 10..13 {
        assert_eq!(scene.listen(round, Transport::Tcp, if round == 10 { "0.0.0.0:80" } else { "[::]:80" }), 1);
        TcpStream::connect(host).unwrap();
        scene.client.send(&Request::Close { id: round }).unwrap();
        let refused = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            TcpStream::connect(host).is_err()
        });
        assert!(refused);
    }
    scene.end();
}

#[test]
fn many_published_ports() {
    // Of these many descriptors one message can carry all; with one more the listener is refused, and the broker goes on.
    for count in [20, MAX_DESCRIPTORS, MAX_DESCRIPTORS + 1] {
        let held: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let publish =
            held.iter().map(|held| Publish { udp: false, host: held.local_addr().unwrap(), pod: 80, optional: false });
        let publish: Vec<_> = publish.collect();
        drop(held);
        let mut scene = Scene::with(Setup { publish: publish.clone(), ..setup(&[]) }).unwrap();
        let address = "0.0.0.0:80".parse().unwrap();
        scene.client.send(&Request::Listen { id: 1, transport: Transport::Tcp, address, backlog: 10 }).unwrap();
        match scene.event() {
            Event::Listening(1, sockets) => assert_eq!((sockets.len(), count <= MAX_DESCRIPTORS), (count, true)),
            Event::Refused(1, Refused(EMFILE)) => assert!(count > MAX_DESCRIPTORS),
            other => panic!("{other:?}"),
        }
        for publish in publish {
            assert_eq!(TcpStream::connect(publish.host).is_ok(), count <= MAX_DESCRIPTORS);
        }
        assert_eq!(scene.listen(2, Transport::Tcp, "0.0.0.0:81"), 0);
        scene.end();
    }
}

#[test]
fn published_datagrams() {
    let (setup, host) = published(true, 53);
    let mut scene = Scene::with(setup).unwrap();
    assert_eq!(scene.listen(5, Transport::Udp, "0.0.0.0:53"), 0);
    let peers: Vec<UdpSocket> = (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for peer in &peers {
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        peer.connect(host).unwrap();
        peer.send(b"one").unwrap();
        let own = peer.local_addr().unwrap();
        let (id, socket) = match scene.event() {
            Event::Flow { listener: 5, flow, peer, socket, datagram: b"one", .. } if peer == own => (flow, socket),
            other => panic!("{other:?}"),
        };
        let socket = UdpSocket::from(blocking(socket));
        socket.send(b"answer").unwrap();
        let mut buffer = [0; 9];
        assert_eq!(peer.recv(&mut buffer).unwrap(), 6);
        peer.send(b"two").unwrap();
        assert_eq!(socket.recv(&mut buffer).unwrap(), 3);
        // Others can't take the port.
        assert!(UdpSocket::bind(host).is_err());
        drop(socket);
        scene.client.send(&Request::Close { id }).unwrap();
        // A closed flow begins anew. Until the broker has closed its descriptor and knows, datagrams may be lost or belong to
        // the old one.
        loop {
            peer.send(b"three").unwrap();
            if !scene.waits(10) {
                continue;
            }
            match scene.event() {
                Event::Flow { datagram: b"three", .. } => break,
                Event::Datagram(own, _, b"three") if own == id => {}
                other => panic!("{other:?}"),
            }
        }
    }
    // The pod's own datagrams come from the published port.
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert_eq!(scene.connect(Transport::Udp, &server.local_addr().unwrap().to_string()).unwrap_err(), ECONNREFUSED);
    scene.end();
}

#[test]
fn files_that_can_not_be_written_are_named() {
    let error = Scene::with(Setup { audit: Some(b"/no/such".to_vec()), ..setup(&[]) }).map(|_| ()).unwrap_err();
    let wanted = ["--audit /no/such", "no such file or directory"].map(str::to_owned);
    assert_eq!([error.0, error.1], wanted);
}

#[test]
fn records_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).into_os_string().into_vec();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let rules = setup(&["host.hull.internal"]);
    let record = Some((path("policy"), "version = 1\n".to_owned()));
    let mut scene = Scene::with(Setup { audit: Some(path("audit")), record, ..rules }).unwrap();
    scene.connect(Transport::Udp, &format!("10.0.2.2:{port}")).unwrap();
    scene.connect(Transport::Tcp, "192.0.2.1:80").unwrap_err();
    scene.end();
    let text = |name| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let policy = policy::Policy::parse(text("policy").as_bytes()).unwrap();
    assert_eq!(policy.network.rules[0].to_string(), format!("allow udp:host.hull.internal:{port}"));
    let audit = text("audit");
    let lines: Vec<&str> = audit.lines().map(|line| line.split_once("\"what\": ").unwrap().1).collect();
    assert_eq!(
        lines,
        [
            &format!(
                "\"connect udp host.hull.internal:{port}\", \"decision\": \"allow\", \
                 \"rule\": \"allowed by the option allow host.hull.internal\"}}"
            )[..],
            "\"connect tcp 192.0.2.1:80\", \"decision\": \"deny\", \"rule\": \"denied: no rule allows it\"}",
        ]
    );
}
