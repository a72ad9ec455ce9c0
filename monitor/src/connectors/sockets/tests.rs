//! The connector over pairs of sockets, and over TCP of the host's loopback device.
#![allow(unsafe_code)]

use super::toy::Toy;
use super::*;
use abi::operation::{Operation, Reply};
use abi::request::{
    DatagramFacts, DatagramRecord, Outgoing, Received, SocketAccept, SocketReceive, SocketSend, SocketSettle,
    SocketTell,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

fn slice(bytes: &mut [u8]) -> GuestSlice {
    // SAFETY: the tests use a slice only while its buffer lives and is not otherwise touched.
    unsafe { GuestSlice::ram(bytes.as_mut_ptr(), bytes.len()) }
}

/// Gives sockets of the host's loopback device.
#[derive(Debug)]
struct Loopback {
    signal: OwnedFd,
    wake: OwnedFd,
    answers: VecDeque<Answer>,
}

impl Loopback {
    fn new() -> Self {
        let (signal, wake) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        Self { signal, wake, answers: VecDeque::new() }
    }
}

impl Opener for Loopback {
    fn fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.signal.as_fd()
    }
    fn ask(&mut self, question: &Ask) -> Result<()> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
        match *question {
            Ask::Connect { id, peer, transport, .. } => {
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                let kind = if transport == Transport::Udp { SocketType::DGRAM } else { SocketType::STREAM };
                let socket = socket_with(AddressFamily::INET, kind, flags, None).unwrap();
                if kind == SocketType::STREAM {
                    rustix::net::sockopt::set_socket_oobinline(&socket, true).unwrap();
                }
                let _ = connect(&socket, &peer);
                self.answers.push_back(Answer::Opened { id, socket, entry: None });
            }
            Ask::Listen { id, address, .. } => {
                let listener = TcpListener::bind(address).unwrap();
                listener.set_nonblocking(true).unwrap();
                self.answers.push_back(Answer::Listening { id, listeners: vec![listener.into()] });
            }
            Ask::Bind { id, address, .. } => self.answers.push_back(Answer::Bound { id, name: address }),
            Ask::Settle { id } => self.answers.push_back(Answer::Settled { id }),
            Ask::Close { .. } | Ask::Spare { .. } => return Ok(()),
        }
        rustix::io::write(&self.wake, b"x").map(|_| ())
    }
    fn take(&mut self) -> Result<Answer> {
        let _ = rustix::io::read(&self.signal, &mut [0; 64]);
        self.answers.pop_front().ok_or(Errno::AGAIN)
    }
}

fn name(address: &str) -> SocketName {
    let address: SocketAddr = address.parse().unwrap();
    SocketName::new(address.ip(), address.port())
}

/// Starts an operation and waits for its completion.
fn finish(
    sockets: &mut SocketsConnector,
    id: u64,
    request: impl Into<SocketRequest>,
    input: &mut [u8],
    output: &mut [u8],
) -> Result {
    if let Some(outcome) = sockets.start(id, request.into(), &[slice(input)], &[slice(output)]) {
        return outcome;
    }
    for _ in 0..2000 {
        if let Some((done, outcome)) = sockets.ready().pop() {
            assert_eq!(done, id);
            return outcome;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("operation {id} does not complete");
}

fn connect(sockets: &mut SocketsConnector, socket: u64, transport: Transport, peer: &str) -> Result {
    let mut names = bytemuck::cast::<_, [u8; 48]>([name("10.0.2.15:4000"), name(peer)]);
    finish(sockets, 1, SocketConnect { socket, transport }, &mut names, &mut [])
}

fn number(value: u64) -> Result {
    Ok(Reply { result: value, extra: [0; 2] })
}

#[test]
fn a_pod_without_a_network_reaches_nothing() {
    let mut sockets = SocketsConnector::none();
    assert_eq!(connect(&mut sockets, 1, Transport::Tcp, "192.0.2.1:80"), Err(Errno::NETUNREACH));
    assert!(sockets.waiting().is_none() && sockets.ready().is_empty());
}

#[test]
fn numbers_and_errors() {
    let mut sockets = SocketsConnector::new(Box::new(Toy::new().unwrap()), None).unwrap();
    let mut buffer = [0; 64];
    for socket in [0, NUMBERS, u64::MAX] {
        assert_eq!(connect(&mut sockets, socket, Transport::Tcp, "192.0.2.1:80"), Err(Errno::INVAL));
    }
    assert_eq!(finish(&mut sockets, 2, SocketReceive { socket: 5 }, &mut [], &mut buffer), Err(Errno::BADF));
    assert_eq!(connect(&mut sockets, 5, Transport::Tcp, "192.0.2.1:1"), Err(Errno::ACCESS));
    assert_eq!(finish(&mut sockets, 2, SocketReceive { socket: 5 }, &mut [], &mut buffer), Err(Errno::NOTCONN));
    assert_eq!(connect(&mut sockets, 5, Transport::Tcp, "192.0.2.1:80"), Err(Errno::EXIST));
    assert_eq!(finish(&mut sockets, 3, SocketClose { socket: 5, abort: false }, &mut [], &mut []), number(0));
    assert_eq!(connect(&mut sockets, 5, Transport::Tcp, "192.0.2.1:80"), number(0));
    let ttl = SocketSetOption { socket: 5, level: libc::SOL_SOCKET as u32, name: libc::SO_MARK as u32 };
    assert_eq!(finish(&mut sockets, 4, ttl, &mut [0; 4], &mut []), Err(Errno::NOPROTOOPT));
    let mut short = [0; 24];
    let request = SocketConnect { socket: 6, transport: Transport::Tcp };
    assert_eq!(finish(&mut sockets, 5, request, &mut short, &mut []), Err(Errno::INVAL));
}

#[test]
fn closing_ends_what_waits() {
    let mut sockets = SocketsConnector::new(Box::new(Toy::new().unwrap()), None).unwrap();
    let mut buffer = [0; 64];
    assert_eq!(connect(&mut sockets, 7, Transport::Tcp, "192.0.2.1:80"), number(0));
    assert_eq!(finish(&mut sockets, 2, SocketReceive { socket: 7 }, &mut [], &mut buffer), number(5));
    assert_eq!(&buffer[..5], b"hello");
    let receive = SocketRequest::from(SocketReceive { socket: 7 });
    assert!(sockets.start(3, receive, &[], &[slice(&mut buffer)]).is_none());
    let mut names = bytemuck::cast::<_, [u8; 48]>([name("0.0.0.0:0"), name("192.0.2.1:2")]);
    let silent = SocketRequest::from(SocketConnect { socket: 8, transport: Transport::Tcp });
    assert!(sockets.start(4, silent, &[slice(&mut names)], &[]).is_none());
    assert!(sockets.ready().is_empty());
    for socket in [7, 8] {
        let close = SocketRequest::from(SocketClose { socket, abort: true });
        assert_eq!(sockets.start(5, close, &[], &[]), Some(number(0)));
    }
    assert_eq!(sockets.ready(), [(3, Err(Errno::CANCELED)), (4, Err(Errno::CANCELED))]);
    // The next socket of a client is watched without a word to the threads that wait.
    assert!(sockets.waiting().is_some() && sockets.take_unwatched());
    assert_eq!(connect(&mut sockets, 9, Transport::Tcp, "192.0.2.1:80"), number(0));
    assert!(!sockets.take_unwatched());
    let close = SocketRequest::from(SocketClose { socket: 9, abort: true });
    assert_eq!(sockets.start(6, close, &[], &[]), Some(number(0)));
    std::thread::sleep(WATCHED + std::time::Duration::from_millis(1));
    assert!(sockets.waiting().is_none());
}

#[test]
fn a_full_buffer_delays_what_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut sockets = SocketsConnector::new(Box::new(Loopback::new()), None).unwrap();
    assert_eq!(connect(&mut sockets, 1, Transport::Tcp, &address.to_string()), number(0));
    let (mut peer, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut all = Vec::new();
        peer.write_all(b"go").unwrap();
        peer.read_to_end(&mut all).unwrap();
        all
    });
    let mut data: Vec<u8> = (0..20_000_000u32).map(|n| n as u8).collect();
    let sent = data.clone();
    assert_eq!(
        finish(
            &mut sockets,
            2,
            SocketSend { socket: 1, quiet: false, urgent: false, outgoing: Outgoing::default() },
            &mut data,
            &mut []
        ),
        number(20_000_000)
    );
    let mut buffer = [0; 8];
    assert_eq!(finish(&mut sockets, 3, SocketReceive { socket: 1 }, &mut [], &mut buffer), number(2));
    let end = SocketShutdown { socket: 1, half: SocketHalf::Send };
    assert_eq!(finish(&mut sockets, 4, end, &mut [], &mut []), number(0));
    assert_eq!(reader.join().unwrap(), sent);
    // The peer's end.
    assert_eq!(finish(&mut sockets, 5, SocketReceive { socket: 1 }, &mut [], &mut buffer), number(0));
}

#[test]
fn refused_and_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut sockets = SocketsConnector::new(Box::new(Loopback::new()), None).unwrap();
    assert_eq!(connect(&mut sockets, 1, Transport::Tcp, &address), number(0));
    let (peer, _) = listener.accept().unwrap();
    options::break_at_close(peer.as_fd());
    drop((peer, listener));
    let mut buffer = [0; 8];
    assert_eq!(finish(&mut sockets, 2, SocketReceive { socket: 1 }, &mut [], &mut buffer), Err(Errno::CONNRESET));
    assert_eq!(connect(&mut sockets, 2, Transport::Tcp, &address), Err(Errno::CONNREFUSED));
}

#[test]
fn revoked_peers() {
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap());
    let revoke = |sockets: &mut SocketsConnector, peer| {
        sockets.inner.as_mut().unwrap().revoke(&mut BTreeSet::from([peer]));
        sockets.ready()
    };
    let mut sockets = SocketsConnector::new(Box::new(Loopback::new()), None).unwrap();
    let mut peers = Vec::new();
    for (at, address) in addresses.iter().enumerate() {
        assert_eq!(connect(&mut sockets, at as u64 + 1, Transport::Tcp, &address.to_string()), number(0));
        peers.push(listeners[at].accept().unwrap().0);
    }
    let mut buffer = [0; 64];
    let receive = SocketRequest::from(SocketReceive { socket: 1 });
    assert!(sockets.start(3, receive, &[], &[slice(&mut buffer)]).is_none());
    // Another kind, and another port.
    assert_eq!(revoke(&mut sockets, (Transport::Udp, addresses[0])), []);
    assert_eq!(revoke(&mut sockets, (Transport::Tcp, addresses[0])), [(3, Err(Errno::CONNABORTED))]);
    let error = peers[0].read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    for request in [
        SocketRequest::from(SocketReceive { socket: 1 }),
        SocketSend { socket: 1, quiet: false, urgent: false, outgoing: Outgoing::default() }.into(),
    ] {
        assert_eq!(sockets.start(4, request, &[], &[slice(&mut buffer)]), Some(Err(Errno::CONNABORTED)));
    }
    peers[1].write_all(b"still").unwrap();
    assert_eq!(finish(&mut sockets, 5, SocketReceive { socket: 2 }, &mut [], &mut buffer), number(5));
    // All peers.
    assert_eq!(revoke(&mut sockets, (Transport::Tcp, "0.0.0.0:0".parse().unwrap())), []);
    let receive = SocketReceive { socket: 2 };
    assert_eq!(finish(&mut sockets, 6, receive, &mut [], &mut buffer), Err(Errno::CONNABORTED));
    assert_eq!(finish(&mut sockets, 7, SocketClose { socket: 1, abort: false }, &mut [], &mut []), number(0));
}

#[test]
fn published_connections() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut sockets = SocketsConnector::new(Box::new(Loopback::new()), None).unwrap();
    let mut names = bytemuck::cast::<_, [u8; 24]>(name(&free.to_string()));
    let listen = SocketListen { socket: 1, transport: Transport::Tcp, backlog: 8 };
    assert_eq!(finish(&mut sockets, 1, listen, &mut names, &mut []), number(1));
    let mut clients: Vec<TcpStream> = Vec::new();
    for accepted in [2, 3] {
        clients.push(TcpStream::connect(free).unwrap());
        let mut output = [0; 24];
        let accept = SocketAccept { socket: 1, accepted };
        assert_eq!(finish(&mut sockets, 2, accept, &mut [], &mut output), number(0));
        let peer: SocketName = bytemuck::pod_read_unaligned(&output);
        assert_eq!(Some(peer.port), clients.last().and_then(|c| c.local_addr().ok()).map(|a| a.port()));
    }
    assert_eq!(
        finish(
            &mut sockets,
            4,
            SocketSend { socket: 3, quiet: false, urgent: false, outgoing: Outgoing::default() },
            &mut b"third".to_owned(),
            &mut []
        ),
        number(5)
    );
    let mut got = [0; 5];
    clients[1].read_exact(&mut got).unwrap();
    assert_eq!(&got, b"third");
}

#[test]
fn bound_sockets_connect_or_listen() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut sockets = SocketsConnector::new(Box::new(Loopback::new()), None).unwrap();
    let bind = |socket, transport| SocketBind { socket, transport, flags: 0 };
    let mut own = bytemuck::cast::<_, [u8; 24]>(name(&free.to_string()));
    for socket in [1, 2] {
        let mut told = [0; 24];
        assert_eq!(finish(&mut sockets, 1, bind(socket, Transport::Tcp), &mut own, &mut told), number(0));
        assert_eq!(told, own);
    }
    assert_eq!(finish(&mut sockets, 2, bind(1, Transport::Tcp), &mut own, &mut []), Err(Errno::EXIST));
    let listen = |socket| SocketListen { socket, transport: Transport::Tcp, backlog: 8 };
    assert_eq!(finish(&mut sockets, 3, listen(1), &mut own, &mut []), number(1));
    assert_eq!(connect(&mut sockets, 2, Transport::Tcp, &free.to_string()), number(0));
    for socket in [1, 2] {
        assert_eq!(
            finish(&mut sockets, 4, listen(socket), &mut own, &mut []),
            Err(Errno::EXIST),
            "no longer bound only"
        );
    }
    // One for datagrams receives.
    assert_eq!(finish(&mut sockets, 5, bind(3, Transport::Udp), &mut own, &mut []), number(0));
    let accept = SocketAccept { socket: 3, accepted: 4 };
    assert_eq!(sockets.start(6, accept.into(), &[], &[]), None);
    for socket in [1, 2] {
        assert_eq!(finish(&mut sockets, 7, SocketClose { socket, abort: false }, &mut [], &mut []), number(0));
    }
}

#[test]
fn datagrams_come_whole_and_several_at_once() {
    let mut sockets = SocketsConnector::new(Box::new(Toy::new().unwrap()), None).unwrap();
    let mut names = bytemuck::cast::<_, [u8; 24]>(name("0.0.0.0:53"));
    let listen = SocketListen { socket: 1, transport: Transport::Udp, backlog: 0 };
    assert_eq!(finish(&mut sockets, 1, listen, &mut names, &mut []), number(1));
    let mut peer = [0; 24];
    let accept = SocketAccept { socket: 1, accepted: 2 };
    assert_eq!(finish(&mut sockets, 2, accept, &mut [], &mut peer), number(0));
    assert_eq!(bytemuck::pod_read_unaligned::<SocketName>(&peer), name("192.0.2.7:9"));
    let mut small = [0; 8];
    assert_eq!(finish(&mut sockets, 3, SocketReceive { socket: 2 }, &mut [], &mut small), Err(Errno::NOBUFS));
    let mut room = [0; 256];
    let used = finish(&mut sockets, 4, SocketReceive { socket: 2 }, &mut [], &mut room).unwrap().result as usize;
    let (mut at, mut all) = (0, Vec::new());
    while at < used {
        let head: DatagramRecord = bytemuck::pod_read_unaligned(&room[at..at + 8]);
        all.push(String::from_utf8_lossy(&room[at + 8..at + 8 + head.len as usize]).into_owned());
        at += 8 + (head.len as usize).next_multiple_of(8);
    }
    // Those that came before the socket was connected are first.
    assert_eq!(all, ["first", "second", "hello"]);
}

/// Datagrams of one length leave in one call; the peer gets each by itself, in order.
#[test]
fn datagrams_leave_together() {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    let mut sockets = SocketsConnector::new(Box::new(Loopback::new()), None).unwrap();
    assert_eq!(connect(&mut sockets, 1, Transport::Udp, &peer.local_addr().unwrap().to_string()), number(0));
    let lengths = [200, 200, 200, 10, 0, 10, 1400, 1400, 9000, 200, 200].iter().chain([7; 150].iter());
    let mut sent: Vec<Vec<u8>> = lengths.enumerate().map(|(n, len)| vec![n as u8; *len]).collect();
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        for (id, bytes) in sent.iter_mut().enumerate() {
            let send = SocketRequest::SocketSend(SocketSend {
                socket: 1,
                quiet: true,
                urgent: false,
                outgoing: Outgoing::default(),
            });
            assert_eq!(sockets.start(id as u64, send, &[slice(bytes)], &[]), None);
        }
        outcomes.extend(sockets.flush());
        let mut buffer = [0; 65536];
        for bytes in &sent {
            let got = peer.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..got], bytes);
        }
    }
    let wanted = sent.iter().enumerate().map(|(id, bytes)| (id as u64, true, number(bytes.len() as u64)));
    assert_eq!(outcomes, wanted.clone().chain(wanted).collect::<Vec<_>>());
    // A close, too, finds them sent.
    let send =
        SocketRequest::SocketSend(SocketSend { socket: 1, quiet: true, urgent: false, outgoing: Outgoing::default() });
    let mut last = [9; 3];
    assert_eq!(sockets.start(500, send, &[slice(&mut last)], &[]), None);
    let close = SocketRequest::SocketClose(SocketClose { socket: 1, abort: false });
    assert!(sockets.start(501, close, &[], &[]).is_some());
    assert_eq!(sockets.flush(), [(500, true, number(3))]);
    assert_eq!(peer.recv(&mut [0; 8]).unwrap(), 3);
}

/// What several operations send leaves in one call, as far as the host takes it; each completes with its own bytes.
#[test]
fn streams_leave_together() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sockets = SocketsConnector::new(Box::new(Loopback::new()), None).unwrap();
    assert_eq!(connect(&mut sockets, 1, Transport::Tcp, &listener.local_addr().unwrap().to_string()), number(0));
    let (mut peer, _) = listener.accept().unwrap();
    let send = |urgent| {
        SocketRequest::SocketSend(SocketSend { socket: 1, quiet: true, urgent, outgoing: Outgoing::default() })
    };
    let mut parts = [&b"head"[..], b"", b"body", b"!", b"rest"].map(<[u8]>::to_vec);
    for (id, part) in parts.iter_mut().enumerate() {
        let urgent = &part[..] == b"!";
        assert_eq!(sockets.start(id as u64, send(urgent), &[slice(part)], &[]), None);
    }
    assert_eq!(sockets.flush(), [(0, 4), (1, 0), (2, 4), (3, 1), (4, 4)].map(|(id, bytes)| (id, true, number(bytes))));
    let mut got = [0; 8];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"headbody");
    // More than the host's buffers hold.
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        std::thread::sleep(std::time::Duration::from_millis(50));
        peer.read_to_end(&mut all).unwrap();
        all
    });
    let mut large: Vec<Vec<u8>> = (0..20u8).map(|n| vec![n; 1_000_003]).collect();
    for (id, part) in large.iter_mut().enumerate() {
        assert_eq!(sockets.start(id as u64, send(false), &[slice(part)], &[]), None);
    }
    let mut done: Vec<(u64, Result)> = sockets.flush().into_iter().map(|(id, _, outcome)| (id, outcome)).collect();
    while done.len() < large.len() {
        done.extend(sockets.ready());
    }
    assert!(done.iter().eq((0..20).map(|id| (id, number(1_000_003))).collect::<Vec<_>>().iter()), "{done:?}");
    drop(sockets);
    let all = reader.join().unwrap();
    assert!(all.ends_with(&large.concat()));
}

#[test]
fn a_connection_that_waits_is_told_and_stays() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut sockets = SocketsConnector::new(Box::new(Loopback::new()), None).unwrap();
    let mut names = bytemuck::cast::<_, [u8; 24]>(name(&free.to_string()));
    let listen = SocketListen { socket: 1, transport: Transport::Tcp, backlog: 0 };
    assert_eq!(finish(&mut sockets, 1, listen, &mut names, &mut []), number(1));
    let ask = |id| (id, SocketRequest::from(SocketAccept { socket: 1, accepted: 0 }));
    let start = |sockets: &mut SocketsConnector, (id, ask)| sockets.start(id, ask, &[], &[]);
    assert_eq!(start(&mut sockets, ask(2)), None);
    assert!(sockets.ready().is_empty());
    let client = TcpStream::connect(free).unwrap();
    let told = (0..2000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        sockets.ready().pop()
    });
    assert_eq!(told, Some((2, number(0))));
    // It still waits.
    assert_eq!(start(&mut sockets, ask(3)), None);
    assert_eq!(sockets.ready(), [(3, number(0))]);
    let mut peer = [0; 24];
    let accept = SocketAccept { socket: 1, accepted: 2 };
    assert_eq!(finish(&mut sockets, 4, accept, &mut [], &mut peer), number(0));
    assert_eq!(bytemuck::pod_read_unaligned::<SocketName>(&peer).port, client.local_addr().unwrap().port());
    assert_eq!(start(&mut sockets, ask(5)), None);
    assert!(sockets.ready().is_empty());
}

/// Records of a receive: what they tell, the facts, and the bytes.
fn records(room: &[u8], used: usize) -> Vec<(u32, DatagramFacts, Vec<u8>)> {
    let (mut at, mut all) = (0, Vec::new());
    while at < used {
        let head: DatagramRecord = bytemuck::pod_read_unaligned(&room[at..at + 8]);
        at += 8;
        let mut facts = DatagramFacts::default();
        if head.told != 0 {
            facts = bytemuck::pod_read_unaligned(&room[at..at + 32]);
            at += 32;
        }
        all.push((head.told, facts, room[at..at + head.len as usize].to_vec()));
        at += (head.len as usize).next_multiple_of(8);
    }
    all
}

#[test]
fn datagrams_tell_what_was_asked_for() {
    use abi::request::{tell, told};
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    for host in [true, false] {
        let mut sockets = SocketsConnector::new(Box::new(Loopback::new()), None).unwrap().of_host(host);
        assert_eq!(connect(&mut sockets, 1, Transport::Udp, &peer.local_addr().unwrap().to_string()), number(0));
        let outgoing = Outgoing { hops: Some(9), class: 0x20, ..Outgoing::default() };
        let send = |outgoing| SocketSend { socket: 1, quiet: false, urgent: false, outgoing };
        let send_hello = |sockets: &mut SocketsConnector, outgoing| {
            assert_eq!(finish(sockets, 2, send(outgoing), &mut b"hello".to_owned(), &mut []), number(5));
        };
        crate::connectors::sockets::options::tell(peer.as_fd(), tell::FACTS, true);
        send_hello(&mut sockets, outgoing);
        let mut buffer = [0; 64];
        let (_, from, facts) = super::told::receive(peer.as_fd(), &mut buffer).unwrap();
        assert_eq!((facts.facts.hops, facts.facts.class), (Some(9), Some(0x20)));
        send_hello(&mut sockets, Outgoing::default());
        let (_, _, facts) = super::told::receive(peer.as_fd(), &mut buffer).unwrap();
        assert_eq!(facts.facts.class, Some(0));
        let receive = |sockets: &mut SocketsConnector| {
            peer.send_to(b"answer", from.unwrap()).unwrap();
            let mut room = [0; 256];
            let got = finish(sockets, 3, SocketReceive { socket: 1 }, &mut [], &mut room).unwrap();
            records(&room, got.result as usize).pop().unwrap()
        };
        assert_eq!(receive(&mut sockets), (0, DatagramFacts::default(), b"answer".to_vec()));
        let tell = |what| SocketTell { socket: 1, what };
        assert_eq!(finish(&mut sockets, 4, tell(16), &mut [], &mut []), Err(Errno::INVAL));
        assert_eq!(finish(&mut sockets, 4, tell(tell::ALL), &mut [], &mut []), number(0));
        let (bits, facts, bytes) = receive(&mut sockets);
        let address = if host { told::ADDRESS } else { 0 };
        assert_eq!(bits & !told::TIME, told::HOPS | told::CLASS | address);
        assert_eq!(facts.address, if host { name("127.0.0.1:0").address } else { [0; 16] });
        assert_eq!((facts.device, bytes), (u32::from(host), b"answer".to_vec()));
        assert_eq!(finish(&mut sockets, 4, tell(0), &mut [], &mut []), number(0));
        assert_eq!(receive(&mut sockets).0, 0);
    }
}

/// What was sent as several datagrams leaves so, between others.
#[test]
fn segments_leave_in_one_call() {
    use abi::request::tell;
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    let mut sockets = SocketsConnector::new(Box::new(Loopback::new()), None).unwrap();
    assert_eq!(connect(&mut sockets, 1, Transport::Udp, &peer.local_addr().unwrap().to_string()), number(0));
    let send = |segment| {
        let outgoing = Outgoing { segment, ..Outgoing::default() };
        SocketRequest::SocketSend(SocketSend { socket: 1, quiet: true, urgent: false, outgoing })
    };
    for together in [false, true] {
        options::tell(peer.as_fd(), if together { tell::TOGETHER } else { 0 }, false);
        let mut sent = [vec![1; 4], vec![2; 10], vec![3; 10], vec![4; 3], vec![5; 10]];
        for (bytes, segment) in sent.iter_mut().zip([0, 4, 0, 4, 1]) {
            assert_eq!(sockets.start(7, send(segment), &[slice(bytes)], &[]), None);
        }
        assert!(sockets.flush().iter().map(|(_, _, outcome)| outcome).eq([4, 10, 10, 3, 10].map(number).iter()));
        let mut got = Vec::new();
        let mut buffer = [0; 64];
        while got.iter().map(|(bytes, _)| bytes).sum::<usize>() < 37 {
            let (length, _, told) = told::receive(peer.as_fd(), &mut buffer).unwrap();
            got.push((length, told.segment));
        }
        let apart = [4, 4, 4, 2, 10, 3].into_iter().chain([1; 10]).map(|length| (length, 0));
        let whole = [(4, 0), (10, 4), (10, 0), (3, 0), (10, 1)];
        assert!(got.iter().copied().eq(apart) != together && (got == whole) == together, "{got:?}");
    }
    // The host does not split into so many: they leave one by one.
    let mut many = vec![6; 1000];
    assert_eq!(sockets.start(8, send(1), &[slice(&mut many)], &[]), None);
    assert_eq!(sockets.flush(), [(8, true, number(1000))]);
}

#[test]
fn what_is_ready_completes_before_a_request_to_settle() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sockets = SocketsConnector::new(Box::new(Loopback::new()), None).unwrap();
    let peer = listener.local_addr().unwrap().to_string();
    assert_eq!(connect(&mut sockets, 1, Transport::Tcp, &peer), number(0));
    let (mut outside, _) = listener.accept().unwrap();
    for (id, datagrams) in [(10, false), (20, true)] {
        let mut buffer = [0; 16];
        let receive = SocketReceive { socket: 1 };
        assert_eq!(sockets.start(id, receive.into(), &[], &[slice(&mut buffer)]), None);
        outside.write_all(b"abc").unwrap();
        assert_eq!(sockets.start(id + 1, SocketSettle { datagrams }.into(), &[], &[]), None);
        let received = Ok(Received { bytes: 3, ..Received::default() }.encode());
        assert_eq!(sockets.ready(), [(id, received), (id + 1, number(0))]);
        assert_eq!(&buffer[..3], b"abc");
    }
}

#[test]
fn urgent_bytes_and_what_breaks_a_connection_after_its_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sockets = SocketsConnector::new(Box::new(Loopback::new()), None).unwrap();
    let peer = listener.local_addr().unwrap().to_string();
    assert_eq!(connect(&mut sockets, 1, Transport::Tcp, &peer), number(0));
    let (mut outside, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_oobinline(&outside, true).unwrap();
    let send = SocketSend { socket: 1, quiet: false, urgent: true, outgoing: Outgoing::default() };
    assert_eq!(finish(&mut sockets, 2, send, &mut b"urgent".to_owned(), &mut []), number(6));
    let mut buffer = [0; 16];
    assert_eq!(outside.read(&mut buffer).unwrap(), 5, "up to the mark");
    assert_eq!((outside.read(&mut buffer).unwrap(), buffer[0]), (1, b't'));
    rustix::net::send(&outside, b"ab!", rustix::net::SendFlags::OOB).unwrap();
    outside.write_all(b"cd").unwrap();
    outside.shutdown(std::net::Shutdown::Write).unwrap();
    for (bytes, urgent, expected) in [(2, false, &b"ab"[..]), (3, true, b"!cd"), (0, false, b"")] {
        let reply = finish(&mut sockets, 3, SocketReceive { socket: 1 }, &mut [], &mut buffer).unwrap();
        let received = Received::decode(reply).unwrap();
        assert_eq!((received.bytes, received.urgent), (bytes, urgent));
        assert_eq!(&buffer[..expected.len()], expected);
    }
    let receive = SocketRequest::from(SocketReceive { socket: 1 });
    assert_eq!(sockets.start(4, receive, &[], &[]), None, "the end was received");
    drop(outside);
    assert_eq!(
        finish(
            &mut sockets,
            5,
            SocketSend { socket: 1, quiet: false, urgent: false, outgoing: Outgoing::default() },
            &mut [1],
            &mut []
        ),
        number(1)
    );
    let broken = (0..2000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        sockets.ready().pop()
    });
    assert_eq!(broken, Some((4, Err(Errno::PIPE))));
}

#[test]
fn every_operation_takes_hostile_arguments() {
    use abi::operation::{Arguments, Encoded};
    let mut sockets = SocketsConnector::new(Box::new(Toy::new().unwrap()), None).unwrap();
    let mut buffer = [0; 48];
    for (number, arguments) in SocketRequest::ALL {
        for value in [0, 1, 2, u64::from(u32::MAX), u64::MAX] {
            let mut words = [0; 6];
            words.iter_mut().take(*arguments).for_each(|word| *word = value);
            let encoded = Encoded { number: *number, arguments: Arguments::raw(words) };
            if let Ok(request) = SocketRequest::decode(&encoded) {
                sockets.start(value, request, &[slice(&mut buffer)], &[slice(&mut [0; 48])]);
                sockets.ready();
            }
        }
    }
    let _ = SocketConnect::NUMBER;
}
