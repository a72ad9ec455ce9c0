//! A question to the host's name servers: one after the other, over UDP and, if the answer does not fit, TCP.

use super::hosts::Configuration;
use super::message::{self, Answer, Answered, MAX_MESSAGE, Question};
use super::{Context, take_framed};
use policy::Name;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use rustix::rand::{GetRandomFlags, getrandom};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A server that has not answered until then is not waited for: the pod's C library gives up after 5 s.
const PATIENCE: Duration = Duration::from_secs(2);
/// Datagrams that are read from a server before others have their turn.
const TURN: usize = 16;

/// A question under way.
#[derive(Debug)]
pub struct Query {
    /// Clients that wait, and their questions; the first one is sent.
    pub waiters: Vec<(u64, Question)>,
    /// The name that was asked for.
    pub name: Name,
    /// When the server is given up.
    pub deadline: Instant,
    token: u64,
    socket: OwnedFd,
    id: u16,
    /// The server and the round.
    server: usize,
    attempt: u32,
    stream: Option<Stream>,
}

/// A question over TCP.
#[derive(Debug, Default)]
struct Stream {
    output: Vec<u8>,
    input: Vec<u8>,
}

/// What became of a question.
#[derive(Debug)]
pub enum Progress {
    /// The server has not answered yet.
    Waits,
    /// It failed; another one may answer.
    Failed,
    /// The answer.
    Answer(Answer),
}

fn connect(server: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    match rustix::net::connect(&socket, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// A number that a sender beside the way can't guess.
fn random() -> Result<u16, Errno> {
    let mut bytes = [0; 2];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u16::from_ne_bytes(bytes))
}

impl Query {
    /// Asks the first server that can be asked; `None` if there is none.
    pub fn start(
        token: u64,
        waiter: (u64, Question),
        name: Name,
        configuration: &Configuration,
        context: &mut Context<'_>,
    ) -> Option<Self> {
        let (server, attempt) = (0, 0);
        let mut place = (server, attempt);
        loop {
            if let Ok((socket, id)) = ask(token, &waiter.1, place, configuration, context) {
                let deadline = context.now + configuration.timeout.min(PATIENCE);
                let (server, attempt) = place;
                let waiters = vec![waiter];
                return Some(Self { waiters, name, deadline, token, socket, id, server, attempt, stream: None });
            }
            place = next(place, configuration)?;
        }
    }

    /// Asks the next server; false if all were asked.
    pub fn retry(&mut self, configuration: &Configuration, context: &mut Context<'_>) -> bool {
        while let Some(place) = next((self.server, self.attempt), configuration) {
            (self.server, self.attempt) = place;
            let Some((_, question)) = self.waiters.first() else { return false };
            if let Ok((socket, id)) = ask(self.token, question, place, configuration, context) {
                (self.socket, self.id, self.stream) = (socket, id, None);
                self.deadline = context.now + configuration.timeout.min(PATIENCE);
                return true;
            }
        }
        false
    }

    /// Reads the server's answer.
    pub fn ready(&mut self, context: &mut Context<'_>) -> Progress {
        let result = match self.stream.is_some() {
            true => self.ready_stream(context),
            false => self.ready_datagram(context),
        };
        result.unwrap_or(Progress::Failed)
    }

    fn ready_datagram(&mut self, context: &mut Context<'_>) -> Result<Progress, Errno> {
        let mut buffer = vec![0; MAX_MESSAGE];
        for _ in 0..TURN {
            let (length, _) = match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN | Errno::INTR) => break,
                result => result?,
            };
            let Some((_, question)) = self.waiters.first() else { break };
            match message::answer(buffer[..length].to_vec(), question, self.id, false) {
                // A forged or late one.
                Answered::Other => {}
                Answered::Failed => return Ok(Progress::Failed),
                Answered::Answer(answer) => return Ok(Progress::Answer(answer)),
                Answered::Cut => {
                    self.change_to_stream(context)?;
                    break;
                }
            }
        }
        Ok(Progress::Waits)
    }

    fn change_to_stream(&mut self, context: &mut Context<'_>) -> Result<(), Errno> {
        let server = SocketAddr::try_from(rustix::net::getpeername(&self.socket)?.ok_or(Errno::NOTCONN)?)?;
        let (_, question) = self.waiters.first().ok_or(Errno::INVAL)?;
        let id = random()?;
        let message = question.query(id, true);
        let mut output = u16::try_from(message.len()).map_err(|_| Errno::MSGSIZE)?.to_be_bytes().to_vec();
        output.extend_from_slice(&message);
        let socket = connect(server, SocketType::STREAM)?;
        context.poller.add(&socket, self.token)?;
        context.poller.set_output(&socket, self.token, true)?;
        (self.socket, self.id, self.stream) = (socket, id, Some(Stream { output, input: Vec::new() }));
        self.deadline = context.now + PATIENCE;
        Ok(())
    }

    fn ready_stream(&mut self, context: &mut Context<'_>) -> Result<Progress, Errno> {
        let Some(stream) = &mut self.stream else { return Ok(Progress::Waits) };
        if !stream.output.is_empty() {
            match send(&self.socket, &stream.output, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                result => drop(stream.output.drain(..result?)),
            }
            if stream.output.is_empty() {
                context.poller.set_output(&self.socket, self.token, false)?;
            }
        }
        let mut buffer = [0; 4096];
        let length = match recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Progress::Waits),
            Ok((0, _)) => return Ok(Progress::Failed),
            result => result?.0,
        };
        // One message is at most 64 KiB, and the socket ends with it.
        stream.input.extend_from_slice(&buffer[..length]);
        let Some(message) = take_framed(&mut stream.input) else { return Ok(Progress::Waits) };
        let Some((_, question)) = self.waiters.first() else { return Ok(Progress::Failed) };
        Ok(match message::answer(message, question, self.id, true) {
            Answered::Answer(answer) => Progress::Answer(answer),
            _ => Progress::Failed,
        })
    }
}

/// The server after this one, and the round.
fn next((server, attempt): (usize, u32), configuration: &Configuration) -> Option<(usize, u32)> {
    let next = if server + 1 < configuration.servers.len() { (server + 1, attempt) } else { (0, attempt + 1) };
    (next.1 < configuration.attempts).then_some(next)
}

/// Sends a question; the socket and the id. Very old servers refuse EDNS: the second round is without.
fn ask(
    token: u64,
    question: &Question,
    (server, attempt): (usize, u32),
    configuration: &Configuration,
    context: &mut Context<'_>,
) -> Result<(OwnedFd, u16), Errno> {
    let server = *configuration.servers.get(server).ok_or(Errno::NOENT)?;
    let socket = connect(server, SocketType::DGRAM)?;
    let id = random()?;
    send(&socket, &question.query(id, attempt == 0), SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    context.poller.add(&socket, token)?;
    Ok((socket, id))
}
