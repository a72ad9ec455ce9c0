//! The peers of a measured program, on the host.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{PATIENCE, Score};
use crate::workload::net::{ACKNOWLEDGED, BLOCK, MESSAGE};

/// How often a peer that waits looks whether it should end, and how long it waits for a datagram that may be lost.
const LOOK: Duration = Duration::from_millis(100);
/// Pause between attempts to reach a server that starts.
const RETRY: Duration = Duration::from_millis(10);

/// A peer of the program, or several that one thread serves.
#[derive(Debug)]
pub enum Peer {
    /// Clients of an echo server.
    UdpClients { server: SocketAddr, peers: u32, outstanding: u32 },
    /// An echo server.
    UdpServer(UdpSocket),
    /// Receives a stream.
    Sink(TcpListener),
    /// Sends a stream.
    Source(TcpListener),
    /// Sends a byte after each `round` bytes.
    Rounds { listener: TcpListener, round: usize },
    /// Answers requests.
    Answers(TcpListener),
    /// Accepts connections, answers a request of each and closes it.
    Accepts(TcpListener),
    /// Sends requests.
    Asks(SocketAddr),
    /// Connects for each request.
    Connects(SocketAddr),
}

impl Peer {
    /// Where it listens, or the program should.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(match self {
            Self::UdpClients { server, .. } | Self::Asks(server) | Self::Connects(server) => *server,
            Self::UdpServer(socket) => socket.local_addr()?,
            Self::Sink(listener)
            | Self::Source(listener)
            | Self::Rounds { listener, .. }
            | Self::Answers(listener)
            | Self::Accepts(listener) => listener.local_addr()?,
        })
    }

    /// Talks until the end of the measurement.
    pub fn talk(&self, score: &Score) -> Result<()> {
        let outcome = match self {
            Self::UdpClients { server, peers, outstanding } => udp_clients(*server, *peers, *outstanding, score),
            Self::UdpServer(socket) => udp_server(socket, score),
            Self::Sink(listener) => accept(listener, score).and_then(|stream| sink(stream, score)),
            Self::Source(listener) => accept(listener, score).and_then(|stream| source(stream, score)),
            Self::Rounds { listener, round } => {
                accept(listener, score).and_then(|stream| rounds(stream, *round, score))
            }
            Self::Answers(listener) => accept(listener, score).and_then(|stream| answers(stream, score)),
            Self::Accepts(listener) => accepts(listener, score),
            Self::Asks(server) => asks(*server, score),
            Self::Connects(server) => connects(*server, score),
        };
        // The program was killed.
        if score.is_over() { Ok(()) } else { outcome }
    }
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused)
}

/// A datagram with the time at its beginning, in ns since `origin`.
fn stamp(message: &mut [u8; MESSAGE], origin: Instant) {
    message[..8].copy_from_slice(&(origin.elapsed().as_nanos() as u64).to_ne_bytes());
}

/// Receives what `socket` has and sends as much. Returns whether there was any.
fn echoes(socket: &UdpSocket, origin: Instant, at_most: u32, score: &Score) -> Result<bool> {
    let mut message = [0; MESSAGE];
    for number in 0..at_most {
        match socket.recv(&mut message) {
            Ok(_) => {}
            Err(error) if is_late(&error) => return Ok(number > 0),
            Err(error) => return Err(error.into()),
        }
        let [a, b, c, d, e, f, g, h, ..] = message;
        let sent = Duration::from_nanos(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
        score.took(origin.elapsed().saturating_sub(sent));
        score.count(1);
        stamp(&mut message, origin);
        socket.send(&message)?;
    }
    Ok(true)
}

fn udp_clients(server: SocketAddr, peers: u32, outstanding: u32, score: &Score) -> Result<()> {
    let origin = Instant::now();
    let mut sockets = Vec::new();
    for _ in 0..peers {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(LOOK))?;
        sockets.push(socket);
    }
    let fill = |socket: &UdpSocket, number: u32| -> Result<()> {
        let mut message = [1; MESSAGE];
        for _ in 0..number {
            stamp(&mut message, origin);
            match socket.send(&message) {
                Err(error) if !is_late(&error) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    };
    // One at a time until the server answers.
    for socket in &sockets {
        fill(socket, 1)?;
        while !score.is_over() && socket.recv(&mut [0; MESSAGE]).is_err() {
            thread::sleep(RETRY);
            fill(socket, 1)?;
        }
        fill(socket, outstanding)?;
    }
    let [socket] = &sockets[..] else { return udp_poll(&sockets, outstanding, origin, score, fill) };
    while !score.is_over() {
        if !echoes(socket, origin, u32::MAX, score)? && !score.is_over() {
            // All were lost.
            fill(socket, outstanding)?;
        }
    }
    Ok(())
}

fn udp_poll(
    sockets: &[UdpSocket],
    outstanding: u32,
    origin: Instant,
    score: &Score,
    fill: impl Fn(&UdpSocket, u32) -> Result<()>,
) -> Result<()> {
    for socket in sockets {
        socket.set_nonblocking(true)?;
    }
    while !score.is_over() {
        let mut fds: Vec<PollFd<'_>> = sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
        if poll(&mut fds, Some(&timeout))? == 0 {
            sockets.iter().try_for_each(|socket| fill(socket, outstanding))?;
        }
        for (fd, socket) in fds.iter().zip(sockets) {
            if !fd.revents().is_empty() {
                echoes(socket, origin, outstanding, score)?;
            }
        }
    }
    Ok(())
}

fn udp_server(socket: &UdpSocket, score: &Score) -> Result<()> {
    socket.set_read_timeout(Some(LOOK))?;
    let mut message = [0; MESSAGE];
    while !score.is_over() {
        match socket.recv_from(&mut message) {
            Ok((bytes, peer)) => {
                socket.send_to(&message[..bytes], peer)?;
                score.count(1);
            }
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The next connection, unless the measurement ends before.
fn accept(listener: &TcpListener, score: &Score) -> Result<TcpStream> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
    while poll(&mut [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)], Some(&timeout))? == 0 {
        anyhow::ensure!(!score.is_over(), "nobody came");
    }
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    // No end of the program leaves a thread behind.
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn sink(mut stream: TcpStream, score: &Score) -> Result<()> {
    let mut block = vec![0; BLOCK];
    let mut odd = 0;
    loop {
        let got = stream.read(&mut block)?;
        anyhow::ensure!(got > 0, "the program has ended");
        odd += got;
        score.count((odd >> 10) as u64);
        odd %= 1024;
    }
}

fn source(stream: TcpStream, score: &Score) -> Result<()> {
    let block = vec![1; BLOCK];
    let (mut to, mut from) = (stream.try_clone()?, stream);
    thread::scope(|scope| {
        let sender = scope.spawn(move || while to.write_all(&block).is_ok() {});
        let mut acknowledged = [0; 64];
        let outcome = loop {
            match from.read(&mut acknowledged) {
                Ok(0) => break Ok(()),
                Ok(got) => score.count((got * (ACKNOWLEDGED >> 10)) as u64),
                Err(error) => break Err(error.into()),
            }
        };
        drop(sender);
        outcome
    })
}

fn rounds(mut stream: TcpStream, round: usize, score: &Score) -> Result<()> {
    let mut block = vec![0; BLOCK];
    loop {
        let mut left = round;
        while left > 0 {
            let got = stream.read(&mut block[..BLOCK.min(left)])?;
            anyhow::ensure!(got > 0, "the program has ended");
            left -= got;
        }
        stream.write_all(&[1])?;
        score.count(1);
    }
}

fn answers(mut stream: TcpStream, score: &Score) -> Result<()> {
    let mut message = [0; MESSAGE];
    loop {
        stream.read_exact(&mut message)?;
        stream.write_all(&message)?;
        score.count(1);
    }
}

fn accepts(listener: &TcpListener, score: &Score) -> Result<()> {
    loop {
        answer_once(accept(listener, score)?)?;
        score.count(1);
    }
}

fn answer_once(mut stream: TcpStream) -> Result<()> {
    let mut message = [0; MESSAGE];
    stream.read_exact(&mut message)?;
    Ok(stream.write_all(&message)?)
}

/// Connects to a server that starts.
fn reach(server: SocketAddr, score: &Score) -> Result<TcpStream> {
    let begin = Instant::now();
    loop {
        match TcpStream::connect(server) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) if is_late(&error) && begin.elapsed() < PATIENCE && !score.is_over() => thread::sleep(RETRY),
            Err(error) => bail!("the server is not reached: {error}"),
        }
    }
}

fn asks(server: SocketAddr, score: &Score) -> Result<()> {
    let mut stream = reach(server, score)?;
    let mut message = [1; MESSAGE];
    loop {
        let sent = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        score.took(sent.elapsed());
        score.count(1);
    }
}

fn connects(server: SocketAddr, score: &Score) -> Result<()> {
    drop(reach(server, score)?);
    let mut message = [1; MESSAGE];
    loop {
        let mut stream = TcpStream::connect(server).context("connect")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        anyhow::ensure!(stream.read(&mut message)? == 0, "the server did not close");
        score.count(1);
    }
}
