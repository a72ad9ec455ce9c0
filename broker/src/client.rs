//! The monitor's end: sends requests and receives replies, without blocking.

use crate::facts::Facts;
use crate::prepared::Entry;
use crate::protocol::{Id, MAX_MESSAGE, Refused, Reply, Request, Transport};
use crate::seqpacket;
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use thiserror::Error;

/// Why a request was not sent, or no reply received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// Requests: the queue is full; try again when the descriptor is writable. Replies: there is none.
    #[error("not yet")]
    WouldBlock,
    /// The broker has ended. Sockets that it opened stay usable.
    #[error("the broker has ended")]
    Gone,
}

/// A reply with its descriptors.
#[derive(Debug)]
pub enum Event<'a> {
    /// [`Reply::Opened`].
    Opened(Id, OwnedFd, Option<Entry>),
    /// [`Reply::Refused`].
    Refused(Id, Refused),
    /// [`Reply::Listening`].
    Listening(Id, Vec<OwnedFd>),
    /// [`Reply::Flow`].
    Flow {
        /// Id of the `Listen`.
        listener: Id,
        /// Id of the flow, for [`Request::Close`].
        flow: Id,
        /// The peer.
        peer: SocketAddr,
        /// A socket connected to it.
        socket: OwnedFd,
        /// What the host tells of its first datagram.
        facts: Facts,
        /// Its first datagram.
        datagram: &'a [u8],
    },
    /// [`Reply::Datagram`].
    Datagram(Id, Facts, &'a [u8]),
    /// [`Reply::Revoked`].
    Revoked(Transport, SocketAddr),
    /// [`Reply::Spare`].
    Spare(bool, Vec<OwnedFd>),
    /// [`Reply::Bound`].
    Bound(Id, SocketAddr),
    /// [`Reply::Settled`].
    Settled(Id),
}

/// The monitor's end of the socket pair. Poll its descriptor for replies.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    buffer: Box<[u8; MAX_MESSAGE]>,
    descriptors: Vec<OwnedFd>,
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Client {
    /// A client with one end of a pair of `SOCK_SEQPACKET` sockets.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, buffer: Box::new([0; MAX_MESSAGE]), descriptors: Vec::new() }
    }

    /// Sends a request.
    pub fn send(&self, request: &Request) -> Result<(), ClientError> {
        loop {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, &request.encode(), flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return Err(ClientError::WouldBlock),
                Err(_) => return Err(ClientError::Gone),
            }
        }
    }

    /// Receives a reply. A message without the descriptor that belongs to it, because this process has none free, is
    /// reported as [`Event::Refused`] with EMFILE.
    pub fn receive(&mut self) -> Result<Event<'_>, ClientError> {
        let length = match seqpacket::receive(&self.socket, &mut self.buffer[..], &mut self.descriptors) {
            Ok(length) if length > 0 => length,
            Err(Errno::AGAIN) => return Err(ClientError::WouldBlock),
            _ => return Err(ClientError::Gone),
        };
        let reply = Reply::decode(&self.buffer[..length]).ok_or(ClientError::Gone)?;
        const EMFILE: Refused = Refused(Errno::MFILE.raw_os_error() as u16);
        Ok(match reply {
            Reply::Refused { id, error } => Event::Refused(id, error),
            Reply::Listening { id } => Event::Listening(id, std::mem::take(&mut self.descriptors)),
            Reply::Datagram { flow, facts, datagram } => Event::Datagram(flow, facts, datagram),
            Reply::Revoked { transport, peer } => Event::Revoked(transport, peer),
            Reply::Bound { id, name } => Event::Bound(id, name),
            Reply::Settled { id } => Event::Settled(id),
            Reply::Spare { v6 } => Event::Spare(v6, std::mem::take(&mut self.descriptors)),
            Reply::Opened { id, entry } => match self.descriptors.pop() {
                Some(socket) => Event::Opened(id, socket, entry),
                None => Event::Refused(id, EMFILE),
            },
            Reply::Flow { listener, flow, peer, facts, datagram } => match self.descriptors.pop() {
                Some(socket) => Event::Flow { listener, flow, peer, socket, facts, datagram },
                None => Event::Refused(flow, EMFILE),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{FLOW, REQUEST_BYTES};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (Client, OwnedFd) {
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (Client::new(one), other)
    }

    fn reply(socket: &OwnedFd, reply: Reply<'_>, descriptors: &[BorrowedFd<'_>]) {
        let mut buffer = [0; MAX_MESSAGE];
        let length = reply.encode(&mut buffer);
        seqpacket::send(socket, &buffer[..length], descriptors).unwrap();
    }

    #[test]
    fn requests_and_replies() {
        let (mut client, broker) = pair();
        let peer = "1.2.3.4:80".parse().unwrap();
        let request = Request::Connect { id: 3, transport: Transport::Tcp, local: None, peer };
        client.send(&request).unwrap();
        let (mut buffer, mut none) = ([0; REQUEST_BYTES + 1], Vec::new());
        let length = seqpacket::receive(&broker, &mut buffer, &mut none).unwrap();
        assert_eq!(Request::decode(&buffer[..length]), Some(request));
        assert!(matches!(client.receive(), Err(ClientError::WouldBlock)));
        reply(&broker, Reply::Opened { id: 3, entry: None }, &[broker.as_fd()]);
        assert!(matches!(client.receive(), Ok(Event::Opened(3, _, None))));
        reply(&broker, Reply::Opened { id: 4, entry: None }, &[]);
        assert!(matches!(client.receive(), Ok(Event::Refused(4, Refused(24)))));
        reply(&broker, Reply::Listening { id: 5 }, &[broker.as_fd(), broker.as_fd()]);
        assert!(matches!(client.receive(), Ok(Event::Listening(5, fds)) if fds.len() == 2));
        let flow = FLOW | 1;
        reply(
            &broker,
            Reply::Flow { listener: 5, flow, peer, facts: Facts::default(), datagram: b"x" },
            &[broker.as_fd()],
        );
        assert!(matches!(client.receive(), Ok(Event::Flow { listener: 5, datagram: b"x", .. })));
        reply(&broker, Reply::Datagram { flow, facts: Facts::default(), datagram: b"" }, &[]);
        assert!(matches!(client.receive(), Ok(Event::Datagram(_, _, b""))));
        drop(broker);
        assert_eq!(client.send(&request), Err(ClientError::Gone));
        assert!(matches!(client.receive(), Err(ClientError::Gone)));
    }

    #[test]
    fn a_slow_broker_blocks_nothing() {
        let (client, broker) = pair();
        let request = Request::Close { id: 1 };
        let sent = std::iter::repeat_with(|| client.send(&request)).take(100_000).position(|result| result.is_err());
        assert!(sent.is_some_and(|sent| sent > 10), "{sent:?}");
        assert_eq!(client.send(&request), Err(ClientError::WouldBlock));
        drop(broker);
    }
}
