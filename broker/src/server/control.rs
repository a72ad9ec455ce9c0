//! The control socket: the user's commands to a running pod.
//!
//! Who connects must be the user of the pod, or root. Each connection carries one command and has a deadline, and only a
//! few exist at a time: others wait in the socket's queue.

use super::poller::Poller;
use crate::control::{DONE, MAX_COMMAND, MAX_PART, REFUSED};
use crate::seqpacket;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SocketFlags, accept_with};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Maximum number of connections at a time.
const MOST: usize = 8;
/// How long a connection may take.
const LONGEST: Duration = Duration::from_secs(2);

/// A user at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User id.
    pub user: u32,
    /// Process id.
    pub process: i32,
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    caller: Caller,
    until: Instant,
    /// What is left of the answer.
    answer: Option<Vec<u8>>,
}

/// The control socket and its connections.
#[derive(Debug)]
pub struct Control {
    listener: OwnedFd,
    owner: u32,
    /// Token of the listener; those of the connections follow.
    first: u64,
    connections: [Option<Connection>; MOST],
    /// The listener is watched.
    watched: bool,
}

impl Control {
    /// Serves a listening socket. `owner`: the user who may command. `first`: its first token.
    pub fn new(listener: OwnedFd, owner: u32, first: u64, poller: &Poller) -> Result<Self, Errno> {
        poller.add(&listener, first)?;
        Ok(Self { listener, owner, first, connections: Default::default(), watched: true })
    }

    /// When the next connection has taken too long.
    pub fn deadline(&self) -> Option<Instant> {
        self.connections.iter().flatten().map(|connection| connection.until).min()
    }

    /// Closes connections that have taken too long.
    pub fn expire(&mut self, now: Instant, poller: &Poller) {
        for slot in &mut self.connections {
            slot.take_if(|connection| connection.until <= now);
        }
        self.listen(poller);
    }

    /// Accepts connections only while there is room.
    fn listen(&mut self, poller: &Poller) {
        let has_room = self.connections.iter().any(Option::is_none);
        if std::mem::replace(&mut self.watched, has_room) != has_room {
            // The listener stays in the poller as long as it exists.
            let _ = poller.set(&self.listener, self.first, has_room, false);
        }
    }

    /// Serves what is ready. `serve` carries a command out: the answer, or why it is refused. Returns a caller who may not
    /// command.
    pub fn ready(
        &mut self,
        token: u64,
        now: Instant,
        poller: &Poller,
        serve: impl FnOnce(&[u8], Caller) -> Result<String, String>,
    ) -> Option<Caller> {
        let Some(number) = token.checked_sub(self.first + 1) else {
            let stranger = self.accept(now, poller);
            self.listen(poller);
            return stranger;
        };
        let slot = usize::try_from(number).ok().and_then(|index| self.connections.get_mut(index))?;
        let connection = slot.as_mut()?;
        match connection.advance(serve) {
            Some(()) => {
                let answers = connection.answer.is_some();
                // It is watched as long as it exists.
                let _ = poller.set(&connection.socket, token, !answers, answers);
            }
            None => *slot = None,
        }
        self.listen(poller);
        None
    }

    /// Accepts a connection; returns a caller who may not command.
    fn accept(&mut self, now: Instant, poller: &Poller) -> Option<Caller> {
        let (index, slot) = self.connections.iter_mut().enumerate().find(|(_, slot)| slot.is_none())?;
        // The caller may have gone.
        let socket = accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()?;
        let credentials = socket_peercred(&socket).ok()?;
        let caller = Caller { user: credentials.uid.as_raw(), process: credentials.pid.as_raw_nonzero().get() };
        if caller.user != self.owner && caller.user != 0 {
            return Some(caller);
        }
        if poller.add(&socket, self.first + 1 + index as u64).is_ok() {
            *slot = Some(Connection { socket, caller, until: now + LONGEST, answer: None });
        }
        None
    }
}

impl Connection {
    /// Reads the command and writes the answer as far as possible; `None`: the connection ends.
    fn advance(&mut self, serve: impl FnOnce(&[u8], Caller) -> Result<String, String>) -> Option<()> {
        if self.answer.is_none() {
            let mut message = [0; MAX_COMMAND + 1];
            // Descriptors that come along are closed.
            let length = match seqpacket::receive(&self.socket, &mut message, &mut Vec::new()) {
                Err(Errno::AGAIN) => return Some(()),
                Err(Errno::MSGSIZE) => message.len(),
                Ok(length) if length > 0 => length,
                _ => return None,
            };
            let (first, text) = match serve(&message[..length], self.caller) {
                Ok(text) => (DONE, text),
                Err(text) => (REFUSED, text),
            };
            self.answer = Some([&[first], text.as_bytes()].concat());
        }
        let answer = self.answer.as_mut()?;
        while !answer.is_empty() {
            let length = answer.len().min(MAX_PART);
            match seqpacket::send(&self.socket, &answer[..length], &[]) {
                Ok(()) => drop(answer.drain(..length)),
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return Some(()),
                Err(_) => return None,
            }
        }
        None
    }
}
