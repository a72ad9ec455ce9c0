//! The pod's name server: answers what the policy allows with the host's configuration.
//!
//! Each socket of the pod that is connected to the name server is one end of a local pair of sockets. A question whose
//! name no rule allows is never sent, and answered with NXDOMAIN. Other questions are answered from `--add-host` and
//! `/etc/hosts`, or sent to the host's name servers, each from a socket and with an id of its own; the answer is written anew
//! from those of its records that belong to the question.

pub mod hosts;
pub mod message;
mod upstream;

use crate::address::{HOST_V4, HOST_V6};
use crate::server::judge::Judge;
use crate::server::poller::Poller;
use domain::base::iana::Rcode;
use hosts::{Configuration, Hosts};
use message::{Answer, Asked, MAX_MESSAGE, Question};
use policy::Name;
use policy::rule::HOST_LOOPBACK;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use upstream::{Progress, Query};

/// Maximum number of sockets of the pod; beyond it the one that was used least recently is closed.
const MOST_CLIENTS: usize = 512;
/// Maximum number of questions under way to the host's name servers.
const MOST_QUERIES: usize = 256;
/// Maximum number of clients that wait for one answer.
const MOST_WAITERS: usize = 64;
/// Messages that are read from one client before others have their turn.
const TURN: usize = 16;
/// Maximum number of bytes of answers that a client has not read.
const MOST_OUTPUT: usize = 2 * (MAX_MESSAGE + 2);
/// Validity of addresses that the broker itself knows.
const OWN_TTL: Duration = Duration::from_secs(60);

/// A socket of the pod.
#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    is_stream: bool,
    used: u64,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// The name server.
#[derive(Debug)]
pub struct Resolver {
    configuration: Configuration,
    hosts: Hosts,
    clients: HashMap<u64, Client>,
    queries: HashMap<u64, Query>,
    /// Questions under way.
    asked: HashMap<(Vec<u8>, u16), u64>,
    next: u64,
    uses: u64,
}

/// What the name server needs for its work.
#[derive(Debug)]
pub struct Context<'a> {
    /// Decides.
    pub judge: &'a mut Judge,
    /// Watches its sockets.
    pub poller: &'a Poller,
    /// The time.
    pub now: Instant,
}

impl Resolver {
    /// `first`: its tokens begin there.
    pub fn new(configuration: Configuration, hosts: Hosts, first: u64) -> Self {
        let (clients, queries, asked) = Default::default();
        Self { configuration, hosts, clients, queries, asked, next: first, uses: 0 }
    }

    fn token(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A socket for the pod.
    pub fn open(&mut self, is_stream: bool, poller: &Poller) -> Result<OwnedFd, Errno> {
        let kind = if is_stream { SocketType::STREAM } else { SocketType::DGRAM };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, given) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        if self.clients.len() >= MOST_CLIENTS
            && let Some(oldest) = self.clients.iter().min_by_key(|(_, client)| client.used).map(|(token, _)| *token)
        {
            self.clients.remove(&oldest);
        }
        let token = self.token();
        poller.add(&own, token)?;
        self.uses += 1;
        let client = Client { socket: own, is_stream, used: self.uses, input: Vec::new(), output: Vec::new() };
        self.clients.insert(token, client);
        Ok(given)
    }

    /// The next time at which [`Self::expire`] has work.
    pub fn deadline(&self) -> Option<Instant> {
        self.queries.values().map(|query| query.deadline).min()
    }

    /// Asks other servers where one takes too long.
    pub fn expire(&mut self, context: &mut Context<'_>) {
        let late = self.queries.iter().filter(|(_, query)| query.deadline <= context.now).map(|(token, _)| *token);
        for token in late.collect::<Vec<_>>() {
            self.retry(token, context);
        }
    }

    /// Serves a socket that is ready.
    pub fn ready(&mut self, token: u64, context: &mut Context<'_>) {
        if self.clients.contains_key(&token) {
            self.uses += 1;
            if self.serve(token, context).is_err() {
                self.clients.remove(&token);
            }
        } else if let Some(query) = self.queries.get_mut(&token) {
            match query.ready(context) {
                Progress::Waits => {}
                Progress::Failed => self.retry(token, context),
                Progress::Answer(answer) => self.finish(token, Some(&answer), context),
            }
        }
    }

    /// Reads and answers questions; an error if the client is gone.
    fn serve(&mut self, token: u64, context: &mut Context<'_>) -> Result<(), Errno> {
        let mut buffer = vec![0; MAX_MESSAGE];
        for _ in 0..TURN {
            let Some(client) = self.clients.get_mut(&token) else { return Ok(()) };
            client.used = self.uses;
            client.flush(token, context.poller)?;
            let (length, _) = match recv(&client.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                // The other end may be closed, which datagram sockets do not tell before they are used.
                Err(error) => return Err(error),
                Ok(read) => read,
            };
            let bytes = &buffer[..length];
            if !client.is_stream {
                self.hear(token, bytes, context);
                continue;
            }
            if bytes.is_empty() {
                return Err(Errno::PIPE);
            }
            client.input.extend_from_slice(bytes);
            while let Some(client) = self.clients.get_mut(&token)
                && let Some(message) = take_framed(&mut client.input)
            {
                self.hear(token, &message, context);
            }
        }
        Ok(())
    }

    /// Handles a message of a client.
    fn hear(&mut self, token: u64, bytes: &[u8], context: &mut Context<'_>) {
        let datagram = self.clients.get(&token).is_some_and(|client| !client.is_stream);
        let answer = match message::question(bytes) {
            Asked::Nothing => return,
            Asked::Answered(answer) => Some(answer),
            Asked::Question(question) => self.ask(token, question, datagram, context),
        };
        if let Some(answer) = answer {
            self.reply(token, &answer, context.poller);
        }
    }

    /// Answers a question, or sends it to the host's name servers.
    fn ask(&mut self, token: u64, question: Question, datagram: bool, context: &mut Context<'_>) -> Option<Vec<u8>> {
        let Some(name) = question.host_name() else {
            context.judge.unresolvable(&question.name.to_string());
            return Some(question.failure(Rcode::NXDOMAIN));
        };
        let own = |addresses: &[IpAddr]| Some(question.addresses(addresses, OWN_TTL, datagram));
        if name.as_str() == "localhost" || name.as_str().ends_with(".localhost") {
            return own(&[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        if !context.judge.resolve(&name) {
            return Some(question.failure(Rcode::NXDOMAIN));
        }
        if name.as_str() == HOST_LOOPBACK {
            return own(&[HOST_V4.into(), HOST_V6.into()]);
        }
        if let Some(addresses) = self.known(&name, context) {
            return own(&addresses);
        }
        let key = question.key();
        if let Some(query) = self.asked.get(&key).and_then(|token| self.queries.get_mut(token)) {
            if query.waiters.len() >= MOST_WAITERS {
                return Some(question.failure(Rcode::SERVFAIL));
            }
            query.waiters.push((token, question));
            return None;
        }
        if self.queries.len() >= MOST_QUERIES {
            return Some(question.failure(Rcode::SERVFAIL));
        }
        let number = self.token();
        match Query::start(number, (token, question.clone()), name, &self.configuration, context) {
            Some(query) => {
                self.asked.insert(key, number);
                self.queries.insert(number, query);
                None
            }
            None => Some(question.failure(Rcode::SERVFAIL)),
        }
    }

    /// Addresses of `--add-host` and `/etc/hosts`, as far as the policy accepts them.
    fn known(&self, name: &Name, context: &mut Context<'_>) -> Option<Vec<IpAddr>> {
        let fixed: Vec<IpAddr> = context.judge.fixed(name).collect();
        if !fixed.is_empty() {
            return Some(fixed);
        }
        let known = self.hosts.get(name)?;
        Some(known.iter().copied().filter(|ip| context.judge.answer(name, *ip, OWN_TTL, context.now)).collect())
    }

    fn retry(&mut self, token: u64, context: &mut Context<'_>) {
        let Some(query) = self.queries.get_mut(&token) else { return };
        if !query.retry(&self.configuration, context) {
            self.finish(token, None, context);
        }
    }

    /// Answers all clients that wait; `None`: no server answered.
    fn finish(&mut self, token: u64, answer: Option<&Answer>, context: &mut Context<'_>) {
        let Some(query) = self.queries.remove(&token) else { return };
        if let Some((_, question)) = query.waiters.first() {
            self.asked.remove(&question.key());
        }
        let mut accepted = HashMap::new();
        for (client, question) in &query.waiters {
            let Some(datagram) = self.clients.get(client).map(|client| !client.is_stream) else { continue };
            let reply = match answer {
                None => question.failure(Rcode::SERVFAIL),
                Some(answer) => answer.filtered(question, datagram, |ip, ttl| {
                    // Decided once.
                    *accepted.entry(ip).or_insert_with(|| context.judge.answer(&query.name, ip, ttl, context.now))
                }),
            };
            self.reply(*client, &reply, context.poller);
        }
    }

    fn reply(&mut self, token: u64, message: &[u8], poller: &Poller) {
        let Some(client) = self.clients.get_mut(&token) else { return };
        if !client.is_stream {
            // As with any datagram: it is lost if the client does not read.
            let _ = send(&client.socket, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            return;
        }
        let Ok(length) = u16::try_from(message.len()) else { return };
        client.output.extend_from_slice(&length.to_be_bytes());
        client.output.extend_from_slice(message);
        if client.output.len() > MOST_OUTPUT || client.flush(token, poller).is_err() {
            self.clients.remove(&token);
        }
    }
}

impl Client {
    /// Writes what has room; an error if the other end is closed.
    fn flush(&mut self, token: u64, poller: &Poller) -> Result<(), Errno> {
        if self.output.is_empty() {
            return Ok(());
        }
        match send(&self.socket, &self.output, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => drop(self.output.drain(..sent)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        poller.set_output(&self.socket, token, !self.output.is_empty())
    }
}

/// Takes a message with its length before it (RFC 1035, 4.2.2) from the begin of a stream.
fn take_framed(input: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = usize::from(u16::from_be_bytes(*input.first_chunk()?));
    let message = input.get(2..2 + length)?.to_vec();
    input.drain(..2 + length);
    Some(message)
}

#[cfg(test)]
mod tests;
