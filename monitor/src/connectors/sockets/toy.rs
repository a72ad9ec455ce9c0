//! An opener without a network, for tests and the fuzz target: each socket is one end of a pair, whose other end sends
//! back what it gets.

use super::super::{Errno, Result};
use super::opener::{Answer, Ask, Opener};
use ::broker::Facts;
use abi::request::Transport;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// What it tells of the first datagram of a flow.
const FACTS: Facts =
    Facts { to: Some((std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1)), hops: Some(3), class: None };

/// See the module. Peers with port 1 are refused; port 2 never answers.
#[derive(Debug)]
pub struct Toy {
    /// Readable while there are answers.
    signal: OwnedFd,
    wake: OwnedFd,
    answers: VecDeque<Answer>,
    /// The other ends of the pairs.
    pub peers: Vec<OwnedFd>,
    /// Every question.
    pub asked: Vec<Ask>,
}

fn pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

impl Toy {
    /// Without sockets so far.
    pub fn new() -> Result<Self> {
        let (signal, wake) = pair(SocketType::STREAM)?;
        Ok(Self { signal, wake, answers: VecDeque::new(), peers: Vec::new(), asked: Vec::new() })
    }

    fn answer(&mut self, answer: Answer) {
        self.answers.push_back(answer);
        // A full buffer is readable, too.
        let _ = rustix::io::write(&self.wake, b"x");
    }

    fn open(&mut self, transport: Transport) -> Result<OwnedFd> {
        let kind = if transport == Transport::Tcp { SocketType::STREAM } else { SocketType::DGRAM };
        let (one, other) = pair(kind)?;
        rustix::io::write(&other, b"hello")?;
        self.peers.push(other);
        Ok(one)
    }

    /// A new peer of a listener for datagrams.
    pub fn flow(&mut self, listener: u64, flow: u64) -> Result<()> {
        let socket = self.open(Transport::Udp)?;
        let peer = SocketAddr::from(([192, 0, 2, 7], 9));
        self.answer(Answer::Flow { listener, flow, peer, socket, facts: FACTS, first: b"first".to_vec() });
        self.answer(Answer::Datagram { flow, facts: Facts::default(), bytes: b"second".to_vec() });
        Ok(())
    }
}

impl Opener for Toy {
    fn fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    fn ask(&mut self, question: &Ask) -> Result<()> {
        self.asked.push(*question);
        match *question {
            Ask::Connect { peer, .. } if peer.port() == 2 => {}
            Ask::Connect { id, peer, .. } if peer.port() == 1 => {
                self.answer(Answer::Refused { id, errno: Errno::ACCESS });
            }
            Ask::Connect { id, transport, .. } => {
                let socket = self.open(transport)?;
                self.answer(Answer::Opened { id, socket, entry: None });
            }
            Ask::Listen { id, transport: Transport::Tcp, .. } => {
                self.answer(Answer::Listening { id, listeners: Vec::new() });
            }
            Ask::Listen { id, address, .. } => {
                self.answer(Answer::Listening { id, listeners: Vec::new() });
                self.flow(id, 1 << 63 | u64::from(address.port()))?;
            }
            Ask::Bind { id, address, .. } => {
                let port = if address.port() == 0 { 7 } else { address.port() };
                self.answer(Answer::Bound { id, name: SocketAddr::new(address.ip(), port) });
            }
            Ask::Settle { id } => self.answer(Answer::Settled { id }),
            Ask::Close { .. } | Ask::Spare { .. } => {}
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Answer> {
        let _ = rustix::io::read(&self.signal, &mut [0; 64]);
        self.answers.pop_front().ok_or(Errno::AGAIN)
    }
}
