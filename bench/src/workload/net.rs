//! Programs that talk to a peer outside, until they are killed: the measured side of `hull bench net`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use anyhow::{Context, Result, bail};

/// Bytes of a datagram, of a request and of an answer.
pub const MESSAGE: usize = 200;
/// Bytes of a send or receive of a stream.
pub const BLOCK: usize = 64 << 10;
/// Bytes of a stream that its receiver acknowledges with one.
pub const ACKNOWLEDGED: usize = 1 << 20;

/// Runs the program `ADDRESS NAME [NUMBER…]`. Returns only with an error: the peer has ended, or there was none.
pub fn run(argument: &str) -> Result<()> {
    let mut words = argument.split_ascii_whitespace();
    let address: SocketAddr = words.next().context("no address")?.parse()?;
    let name = words.next().context("no name of a program")?;
    let mut number = || words.next().context("a number is missing")?.parse::<usize>().context("no number");
    match name {
        "udp-server" => udp_server(address),
        "udp-client" => udp_client(address, number()?),
        "bulk-out" => bulk_out(address),
        "bulk-in" => bulk_in(address),
        "messages" => messages(address, number()?, number()?),
        "request" => request(address),
        "answer" => answer(address),
        "connect" => connect(address),
        "accept" => accept(address),
        other => bail!("there is no program {other}"),
    }
}

fn udp_server(address: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind(address)?;
    let mut buffer = [0; 2048];
    loop {
        let (bytes, peer) = socket.recv_from(&mut buffer)?;
        socket.send_to(&buffer[..bytes], peer)?;
    }
}

fn udp_client(address: SocketAddr, outstanding: usize) -> Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(address)?;
    let mut buffer = [1; MESSAGE];
    for _ in 0..outstanding {
        socket.send(&buffer)?;
    }
    loop {
        socket.recv(&mut buffer)?;
        socket.send(&buffer)?;
    }
}

fn stream(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn bulk_out(address: SocketAddr) -> Result<()> {
    let mut stream = stream(address)?;
    let block = vec![1; BLOCK];
    loop {
        stream.write_all(&block)?;
    }
}

fn bulk_in(address: SocketAddr) -> Result<()> {
    let mut stream = stream(address)?;
    let mut block = vec![0; BLOCK];
    let mut received = 0;
    loop {
        let got = stream.read(&mut block)?;
        anyhow::ensure!(got > 0, "the peer has ended");
        received += got;
        while received >= ACKNOWLEDGED {
            received -= ACKNOWLEDGED;
            stream.write_all(&[1])?;
        }
    }
}

fn messages(address: SocketAddr, bytes: usize, count: usize) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let message = vec![1; bytes];
    loop {
        for _ in 0..count {
            stream.write_all(&message)?;
        }
        stream.read_exact(&mut [0])?;
    }
}

fn request(address: SocketAddr) -> Result<()> {
    let mut stream = stream(address)?;
    let mut message = [1; MESSAGE];
    loop {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
    }
}

fn answer(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut message = [1; MESSAGE];
        while stream.read_exact(&mut message).and_then(|()| stream.write_all(&message)).is_ok() {}
    }
}

fn connect(address: SocketAddr) -> Result<()> {
    loop {
        let mut stream = TcpStream::connect(address)?;
        let mut message = [1; MESSAGE];
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        anyhow::ensure!(stream.read(&mut message)? == 0, "the peer did not close");
    }
}

fn accept(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    loop {
        let (mut stream, _) = listener.accept()?;
        let mut message = [1; MESSAGE];
        // A peer that looks whether the server listens sends nothing.
        let _ = stream.read_exact(&mut message).and_then(|()| stream.write_all(&message));
    }
}
