//! The name server with a server of the test behind it.

use super::message::tests::{addresses, ask, respond};
use super::*;
use crate::protocol::Transport;
use crate::server::audit::Audit;
use domain::base::Rtype;
use policy::{Network, Rule, Verdict};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};

struct Scene {
    resolver: Resolver,
    judge: Judge,
    poller: Poller,
    upstream: UdpSocket,
}

impl Scene {
    fn new(rules: &[&str], hosts: &str) -> Self {
        let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
        upstream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let rules = rules.iter().map(|rule| Rule::parse(rule, Verdict::Allow).unwrap()).collect();
        let judge = Judge::new(Network { rules }, vec![], Audit::new(None, 1, false), true);
        let servers = vec![upstream.local_addr().unwrap()];
        let configuration = Configuration { servers, ..Configuration::default() };
        let resolver = Resolver::new(configuration, Hosts::parse(hosts), 100);
        Self { resolver, judge, poller: Poller::new().unwrap(), upstream }
    }

    fn turn(&mut self, wait: u64) {
        for token in self.poller.wait(Some(Duration::from_millis(wait))) {
            let mut context = Context { judge: &mut self.judge, poller: &self.poller, now: Instant::now() };
            self.resolver.ready(token, &mut context);
        }
    }

    fn client(&mut self) -> UnixDatagram {
        let client = UnixDatagram::from(self.resolver.open(false, &self.poller).unwrap());
        client.set_nonblocking(false).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        client
    }

    /// Answers the next question to the upstream server.
    fn upstream(&mut self, rcode: Rcode, records: &[(&str, u32, Result<IpAddr, &str>)]) {
        let mut buffer = [0; 2048];
        let (length, from) = self.upstream.recv_from(&mut buffer).unwrap();
        self.upstream.send_to(&respond(&buffer[..length], rcode, records), from).unwrap();
    }

    fn may_connect(&mut self, peer: &str) -> bool {
        self.judge.connect(Transport::Tcp, peer.parse().unwrap(), Instant::now()).is_ok()
    }
}

fn received(client: &UnixDatagram) -> (Rcode, bool, Vec<IpAddr>) {
    let mut buffer = [0; 2048];
    let length = client.recv(&mut buffer).unwrap();
    addresses(&buffer[..length])
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn an_answer_opens_the_way() {
    let mut scene = Scene::new(&["a.example:443"], "");
    let client = scene.client();
    client.send(&ask(7, "A.example.", Rtype::A, None)).unwrap();
    scene.turn(1000);
    assert!(!scene.may_connect("1.2.3.4:443"));
    scene.upstream(Rcode::NOERROR, &[("a.example", 1, Ok(ip("1.2.3.4"))), ("a.example", 1, Ok(ip("10.0.0.1")))]);
    scene.turn(1000);
    assert_eq!(received(&client), (Rcode::NOERROR, false, vec![ip("1.2.3.4")]));
    assert!(scene.may_connect("1.2.3.4:443") && scene.may_connect("[::ffff:1.2.3.4]:443"));
    assert!(!scene.may_connect("1.2.3.4:80") && !scene.may_connect("10.0.0.1:443"));
    let text = scene.judge.record().unwrap().text();
    assert_eq!(text, "[network]\nallow = [\n    \"tcp:a.example:443\",\n]\n");
}

#[test]
fn names_without_a_rule_are_not_asked() {
    let mut scene = Scene::new(&["*.a.example"], "");
    let client = scene.client();
    for (name, rtype) in [
        ("a.example", Rtype::A),
        ("secret.evil.example", Rtype::TXT),
        ("host.hull.internal", Rtype::A),
        ("4.3.2.1.in-addr.arpa", Rtype::PTR),
        ("a\\000b.a.example", Rtype::A),
    ] {
        client.send(&ask(7, name, rtype, None)).unwrap();
        scene.turn(1000);
        assert_eq!(received(&client).0, Rcode::NXDOMAIN, "{name}");
    }
    scene.upstream.set_nonblocking(true).unwrap();
    assert!(scene.upstream.recv(&mut [0; 9]).is_err());
}

#[test]
fn the_hosts_own_names() {
    let mut scene =
        Scene::new(&["db.corp:5432", "10.1.1.1", "host.hull.internal:80"], "10.1.1.1 db.corp\n10.2.2.2 db.corp");
    let client = scene.client();
    for (name, rtype, wanted) in [
        ("db.corp", Rtype::A, &["10.1.1.1"][..]),
        ("db.corp", Rtype::AAAA, &[]),
        ("localhost", Rtype::AAAA, &["::1"]),
        ("host.hull.internal", Rtype::A, &["10.0.2.2"]),
        ("HOST.hull.internal", Rtype::AAAA, &["fd68:756c:6c00::2"]),
    ] {
        client.send(&ask(7, name, rtype, None)).unwrap();
        scene.turn(1000);
        let wanted = wanted.iter().map(|text| ip(text)).collect();
        assert_eq!(received(&client), (Rcode::NOERROR, false, wanted), "{name}");
    }
}

#[test]
fn equal_questions_are_asked_once() {
    let mut scene = Scene::new(&["all"], "");
    let (one, two) = (scene.client(), scene.client());
    one.send(&ask(1, "a.example", Rtype::A, None)).unwrap();
    two.send(&ask(2, "A.EXAMPLE", Rtype::A, Some(1400))).unwrap();
    scene.turn(1000);
    scene.turn(10);
    assert_eq!(scene.resolver.queries.len(), 1);
    scene.upstream(Rcode::NXDOMAIN, &[]);
    scene.turn(1000);
    assert_eq!((received(&one).0, received(&two).0), (Rcode::NXDOMAIN, Rcode::NXDOMAIN));
    assert!(scene.resolver.queries.is_empty() && scene.resolver.asked.is_empty());
}

#[test]
fn forged_answers_are_ignored_and_servers_that_fail_are_left() {
    let mut scene = Scene::new(&["all"], "");
    let second = UdpSocket::bind("127.0.0.1:0").unwrap();
    scene.resolver.configuration.servers.push(second.local_addr().unwrap());
    let client = scene.client();
    client.send(&ask(7, "a.example", Rtype::A, None)).unwrap();
    scene.turn(1000);
    let mut buffer = [0; 2048];
    let (length, from) = scene.upstream.recv_from(&mut buffer).unwrap();
    let mut forged = respond(&buffer[..length], Rcode::NOERROR, &[("a.example", 9, Ok(ip("6.6.6.6")))]);
    forged[0] ^= 1;
    scene.upstream.send_to(&forged, from).unwrap();
    scene.turn(1000);
    // From another address.
    second.send_to(&respond(&buffer[..length], Rcode::NOERROR, &[("a.example", 9, Ok(ip("6.6.6.6")))]), from).unwrap();
    scene.turn(50);
    scene.upstream.send_to(&respond(&buffer[..length], Rcode::SERVFAIL, &[]), from).unwrap();
    scene.turn(1000);
    let (length, from) = second.recv_from(&mut buffer).unwrap();
    second.send_to(&respond(&buffer[..length], Rcode::NOERROR, &[("a.example", 9, Ok(ip("1.1.1.1")))]), from).unwrap();
    scene.turn(1000);
    assert_eq!(received(&client).2, [ip("1.1.1.1")]);
}

#[test]
fn silent_servers_end_in_a_failure() {
    let mut scene = Scene::new(&["all"], "");
    let client = scene.client();
    client.send(&ask(7, "a.example", Rtype::A, None)).unwrap();
    scene.turn(1000);
    let mut rounds = 0;
    while let Some(deadline) = scene.resolver.deadline() {
        let mut context = Context { judge: &mut scene.judge, poller: &scene.poller, now: deadline };
        scene.resolver.expire(&mut context);
        rounds += 1;
    }
    assert_eq!((rounds, received(&client).0), (2, Rcode::SERVFAIL));
}

#[test]
fn long_answers_come_over_tcp() {
    let mut scene = Scene::new(&["all"], "");
    let stream = TcpListener::bind(scene.upstream.local_addr().unwrap()).unwrap();
    let mut client = UnixStream::from(scene.resolver.open(true, &scene.poller).unwrap());
    client.set_nonblocking(false).unwrap();
    let question = ask(7, "a.example", Rtype::A, None);
    client.write_all(&(question.len() as u16).to_be_bytes()).unwrap();
    scene.turn(1000);
    client.write_all(&question).unwrap();
    scene.turn(1000);
    let mut buffer = [0; 2048];
    let (length, from) = scene.upstream.recv_from(&mut buffer).unwrap();
    let mut cut = respond(&buffer[..length], Rcode::NOERROR, &[]);
    cut[2] |= 2;
    scene.upstream.send_to(&cut, from).unwrap();
    scene.turn(1000);
    let (mut server, _) = stream.accept().unwrap();
    scene.turn(1000);
    let mut head = [0; 2];
    server.read_exact(&mut head).unwrap();
    let mut query = vec![0; u16::from_be_bytes(head).into()];
    server.read_exact(&mut query).unwrap();
    let many: Vec<_> = (0..200).map(|n| ("a.example", 60, Ok(IpAddr::from([9, 9, 9, n])))).collect();
    let answer = respond(&query, Rcode::NOERROR, &many);
    server.write_all(&(answer.len() as u16).to_be_bytes()).unwrap();
    server.write_all(&answer).unwrap();
    drop(server);
    for _ in 0..4 {
        scene.turn(100);
    }
    client.read_exact(&mut head).unwrap();
    let mut reply = vec![0; u16::from_be_bytes(head).into()];
    client.read_exact(&mut reply).unwrap();
    let (code, cut, all) = addresses(&reply);
    assert_eq!((code, cut, all.len()), (Rcode::NOERROR, false, 200));
    drop(client);
    scene.turn(1000);
    assert!(scene.resolver.clients.is_empty());
}

#[test]
fn clients_are_bounded() {
    let mut scene = Scene::new(&[], "");
    let clients: Vec<_> = (0..MOST_CLIENTS + 3).map(|_| scene.client()).collect();
    assert_eq!(scene.resolver.clients.len(), MOST_CLIENTS);
    assert!(clients[0].send(b"x").is_err() && clients[3].send(b"x").is_ok());
}

#[test]
fn metadata_is_reached_by_no_name() {
    let mut scene = Scene::new(&["all"], "");
    let client = scene.client();
    client.send(&ask(7, "a.example", Rtype::AAAA, None)).unwrap();
    scene.turn(1000);
    let bad: Vec<_> = ["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fe80::1", "::1", "fd00:ec2::254", "::"]
        .map(|text| ("a.example", 60, Ok(ip(text))))
        .into();
    scene.upstream(Rcode::NOERROR, &bad);
    scene.turn(1000);
    assert_eq!(received(&client), (Rcode::NOERROR, false, vec![]));
    for peer in ["169.254.169.254:80", "[::ffff:169.254.169.254]:80", "[64:ff9b::a9fe:a9fe]:80", "127.0.0.1:80"] {
        let peer: SocketAddr = peer.parse().unwrap();
        assert!(!scene.may_connect(&peer.to_string()), "{peer}");
    }
}
