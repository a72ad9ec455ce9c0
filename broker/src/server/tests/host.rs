//! A pod with the host's network.

use super::*;
use crate::protocol::BIND_SHARED;

const EADDRINUSE: u16 = 98;
const EINVAL: u16 = 22;

fn host() -> Scene {
    Scene::with(Setup { network: true, host: true, ..setup(&[]) }).unwrap()
}

/// Binds 127.0.0.1: the port.
fn bind(scene: &mut Scene, id: Id, transport: Transport, port: u16) -> Result<u16, u16> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    scene.client.send(&Request::Bind { id, transport, address, flags: BIND_SHARED }).unwrap();
    match scene.event() {
        Event::Bound(own, name) if own == id => Ok(name.port()),
        Event::Refused(own, Refused(error)) if own == id => Err(error),
        other => panic!("{other:?}"),
    }
}

fn refused(scene: &mut Scene, request: Request) -> u16 {
    scene.client.send(&request).unwrap();
    match scene.event() {
        Event::Refused(_, Refused(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_pods_with_the_hosts_network_bind() {
    let mut scene = Scene::new(&["all"]);
    for transport in [Transport::Tcp, Transport::Udp] {
        assert_eq!(bind(&mut scene, 1, transport, 0), Err(EACCES));
    }
    assert_eq!(scene.connect(Transport::Tcp, "127.0.0.1:9").unwrap_err(), ECONNREFUSED);
    scene.end();
}

#[test]
fn ports_are_bound_and_released() {
    let mut scene = host();
    assert!(scene.table.is_none());
    let port = bind(&mut scene, 1, Transport::Tcp, 0).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let listen = |id| Request::Listen { id, transport: Transport::Tcp, address, backlog: 5 };
    assert_eq!(refused(&mut scene, listen(2)), EINVAL, "not bound");
    assert_eq!(bind(&mut scene, 1, Transport::Tcp, 0), Err(EMFILE), "an id in use");
    assert_eq!(scene.listen(1, Transport::Tcp, &address.to_string()), 1);
    TcpStream::connect(address).unwrap();
    assert_eq!(bind(&mut scene, 2, Transport::Tcp, port), Err(EADDRINUSE));
    scene.client.send(&Request::Close { id: 1 }).unwrap();
    assert_eq!(bind(&mut scene, 2, Transport::Tcp, port), Ok(port));
    // It leaves its port with the connection.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = server.local_addr().unwrap();
    scene.client.send(&Request::Connect { id: 2, transport: Transport::Tcp, local: None, peer }).unwrap();
    assert!(matches!(scene.event(), Event::Bound(2, name) if name == address));
    let Event::Opened(2, _socket, None) = scene.event() else { panic!() };
    assert_eq!(server.accept().unwrap().1, address);
    assert_eq!(refused(&mut scene, listen(2)), EINVAL);
    scene.end();
}

#[test]
fn datagrams_of_a_bound_port() {
    let mut scene = host();
    let port = bind(&mut scene, 1, Transport::Udp, 0).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"first", address).unwrap();
    let socket = match scene.event() {
        Event::Flow { listener: 1, peer, socket, datagram: b"first", .. } if peer == client.local_addr().unwrap() => {
            socket
        }
        other => panic!("{other:?}"),
    };
    rustix::io::write(&socket, b"back").unwrap();
    let mut buffer = [0; 9];
    assert_eq!(client.recv_from(&mut buffer).unwrap(), (4, address));
    // What it sends to others leaves from its port.
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = other.local_addr().unwrap();
    scene.client.send(&Request::Connect { id: 2, transport: Transport::Udp, local: Some(address), peer }).unwrap();
    assert!(matches!(scene.event(), Event::Bound(2, name) if name == address));
    let Event::Opened(2, sender, None) = scene.event() else { panic!() };
    rustix::io::write(&sender, b"x").unwrap();
    assert_eq!(other.recv_from(&mut buffer).unwrap(), (1, address));
    drop((socket, sender));
    scene.client.send(&Request::Close { id: 1 }).unwrap();
    assert_eq!(bind(&mut scene, 3, Transport::Udp, port), Ok(port));
    assert_eq!(refused(&mut scene, Request::Bind { id: 4, transport: Transport::Icmp, address, flags: 0 }), EINVAL);
    scene.end();
}
