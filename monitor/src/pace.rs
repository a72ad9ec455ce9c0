//! Rates: how much of a connector a pod may use per second.
//!
//! A request that exceeds a rate is held, and so are later ones that must not overtake it; no request is refused. The
//! accounting is the generic cell rate algorithm (ITU-T I.371): each unit of use moves a point in time ahead, and a request
//! starts while that point lies less than [`BURST`] in the future. So a pod that was idle may use the rate of [`BURST`] at
//! once, and a single large request is followed by a pause of its length.

use abi::request::{FileRequest, PodRequest, Request, SocketRequest, StreamRequest};
use abi::ring::Submission;
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Use that an idle pod has in advance, as time at its rate.
const BURST: u64 = 100_000_000;
const SECOND: u64 = 1_000_000_000;

/// Limits of one connector; `None`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Bytes per second.
    pub bytes: Option<NonZeroU64>,
    /// Requests per second.
    pub operations: Option<NonZeroU64>,
}

impl Rate {
    fn is_limited(self) -> bool {
        self.bytes.is_some() || self.operations.is_some()
    }
}

/// Limits of the connectors that have some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Granted files and the image.
    pub files: Rate,
    /// Sockets of the host.
    pub network: Rate,
}

/// Requests that keep their order. The first two have a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Files,
    Network,
    Output,
}

/// One limit.
#[derive(Clone, Copy, Debug)]
struct Limit {
    rate: NonZeroU64,
    /// When what was used is paid for, ns of CLOCK_MONOTONIC.
    paid_at: u64,
}

impl Limit {
    fn new(rate: NonZeroU64) -> Self {
        Self { rate, paid_at: 0 }
    }

    /// When the next request may start; the past if now.
    fn opens_at(&self) -> u64 {
        self.paid_at.saturating_sub(BURST)
    }

    fn charge(&mut self, units: u64, now: u64) {
        let cost = u128::from(units) * u128::from(SECOND) / u128::from(self.rate.get());
        self.paid_at = self.paid_at.max(now).saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
    }
}

/// The limits of one connector.
#[derive(Clone, Copy, Debug)]
struct Account {
    bytes: Option<Limit>,
    operations: Option<Limit>,
}

impl Account {
    fn new(rate: Rate) -> Self {
        Self { bytes: rate.bytes.map(Limit::new), operations: rate.operations.map(Limit::new) }
    }

    fn opens_at(&self) -> u64 {
        let limits = [&self.bytes, &self.operations];
        limits.into_iter().flatten().map(Limit::opens_at).max().unwrap_or(0)
    }

    fn charge(&mut self, bytes: u64, operations: u64, now: u64) {
        if let Some(limit) = &mut self.bytes {
            limit.charge(bytes, now);
        }
        if let Some(limit) = &mut self.operations {
            limit.charge(operations, now);
        }
    }
}

/// How a request is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    line: Line,
    /// Others see its effect: it must not overtake a held request about files.
    shows: bool,
    /// It frees something: it keeps its place but costs nothing.
    free: bool,
}

impl Kind {
    /// `None`: never held.
    fn of(request: &Submission) -> Option<Self> {
        let free = |line| Some(Self { line, shows: false, free: true });
        let paid = |line, shows| Some(Self { line, shows, free: false });
        match Request::decode(&request.operation()) {
            Ok(Request::File(FileRequest::Close(_) | FileRequest::Unmap(_))) => free(Line::Files),
            // Its completion says that the files have what was sent before.
            Ok(Request::Pod(PodRequest::Nop(nop))) if nop.after_files => free(Line::Files),
            Ok(Request::File(_)) => paid(Line::Files, false),
            Ok(Request::Socket(SocketRequest::SocketClose(_))) => free(Line::Network),
            Ok(Request::Socket(SocketRequest::SocketSend(_) | SocketRequest::SocketConnect(_))) => {
                paid(Line::Network, true)
            }
            Ok(Request::Socket(_)) => paid(Line::Network, false),
            Ok(Request::Stream(StreamRequest::StreamWrite(_))) => paid(Line::Output, true),
            _ => None,
        }
    }
}

/// A request that waits.
#[derive(Debug)]
struct Held {
    /// Place among all requests that were held.
    place: u64,
    kind: Kind,
    request: Submission,
}

/// The rates of a pod and the requests that they hold.
#[derive(Debug, Default)]
pub struct Pacer {
    files: Option<Account>,
    network: Option<Account>,
    /// By [`Line`].
    held: [VecDeque<Held>; 3],
    next_place: u64,
    alarm: Arc<Alarm>,
}

impl Pacer {
    /// A pacer. Without rates it holds nothing.
    pub fn new(rates: Rates) -> Self {
        let account = |rate: Rate| rate.is_limited().then(|| Account::new(rate));
        Self { files: account(rates.files), network: account(rates.network), ..Self::default() }
    }

    /// What tells when held requests may start, if any can be held.
    pub fn alarm(&self) -> Option<Arc<Alarm>> {
        (!self.is_off()).then(|| self.alarm.clone())
    }

    /// Whether there are no rates.
    pub fn is_off(&self) -> bool {
        self.files.is_none() && self.network.is_none()
    }

    /// Number of held requests.
    pub fn len(&self) -> usize {
        self.held.iter().map(VecDeque::len).sum()
    }

    fn account(&mut self, line: Line) -> Option<&mut Account> {
        match line {
            Line::Files => self.files.as_mut(),
            Line::Network => self.network.as_mut(),
            Line::Output => None,
        }
    }

    fn line(&mut self, line: Line) -> &mut VecDeque<Held> {
        let [files, network, output] = &mut self.held;
        match line {
            Line::Files => files,
            Line::Network => network,
            Line::Output => output,
        }
    }

    /// Takes a request if it must wait.
    pub fn hold(&mut self, request: &Submission, now: u64) -> bool {
        let Some(kind) = Kind::of(request) else { return false };
        let place = self.next_place;
        if self.line(kind.line).is_empty() && self.may_start(kind, place, now) {
            self.charge_operation(kind, now);
            return false;
        }
        self.next_place += 1;
        self.line(kind.line).push_back(Held { place, kind, request: *request });
        self.set_alarm();
        true
    }

    fn charge_operation(&mut self, kind: Kind, now: u64) {
        if !kind.free
            && let Some(account) = self.account(kind.line)
        {
            account.charge(0, 1, now);
        }
    }

    /// Whether the first request of a line may start.
    fn may_start(&mut self, kind: Kind, place: u64, now: u64) -> bool {
        let overtakes = kind.shows && self.line(Line::Files).front().is_some_and(|held| held.place < place);
        let is_open = kind.free || self.account(kind.line).is_none_or(|account| account.opens_at() <= now);
        is_open && !overtakes
    }

    /// Counts bytes that a started request moves; it was counted as an operation when it started.
    pub fn charge(&mut self, request: &Request, bytes: u64, now: u64) {
        let line = match request {
            Request::File(_) => Line::Files,
            Request::Socket(_) => Line::Network,
            _ => return,
        };
        if let Some(account) = self.account(line) {
            account.charge(bytes, 0, now);
        }
    }

    /// Counts bytes that sockets moved.
    pub fn charge_network(&mut self, bytes: u64, now: u64) {
        if let Some(account) = &mut self.network {
            account.charge(bytes, 0, now);
        }
    }

    /// The first held request that may start at `now`, or the first of all if the pod ends. The caller starts it, and then charges
    /// its bytes, before it calls again.
    pub fn release(&mut self, now: u64, all: bool) -> Option<Submission> {
        let lines = [Line::Files, Line::Network, Line::Output];
        let first = |line| self.line(line).front().map(|held| (held.place, held.kind));
        let mut firsts = lines.map(first);
        firsts.sort_unstable_by_key(|first| first.map(|(place, _)| place));
        let startable = |(place, kind): &(u64, Kind)| all || self.may_start(*kind, *place, now);
        let found = firsts.into_iter().flatten().find(startable);
        let Some((_, kind)) = found else {
            self.set_alarm();
            return None;
        };
        self.charge_operation(kind, now);
        self.line(kind.line).pop_front().map(|held| held.request)
    }

    /// Has the alarm ring when the first account with held requests opens.
    fn set_alarm(&self) {
        let accounts = [&self.files, &self.network].into_iter().zip(&self.held);
        let waits = accounts.filter(|(_, held)| !held.is_empty());
        if let Some(at) = waits.filter_map(|(account, _)| account.as_ref()).map(Account::opens_at).min() {
            self.alarm.set(at);
        }
    }
}

/// A thread that calls a waker at a time.
#[derive(Debug, Default)]
pub struct Alarm {
    /// When, ns of CLOCK_MONOTONIC.
    at: Mutex<Option<u64>>,
    changed: Condvar,
}

impl Alarm {
    fn at(&self) -> MutexGuard<'_, Option<u64>> {
        // No code panics while it holds the lock.
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, at: u64) {
        let mut place = self.at();
        if place.is_none_or(|earlier| at < earlier) {
            *place = Some(at);
            self.changed.notify_one();
        }
    }

    /// Calls `wake` at each time that is set, without a lock, until it returns false.
    pub fn ring(&self, wake: impl Fn() -> bool) {
        let mut at = self.at();
        loop {
            let now = crate::server::clock_ns(rustix::time::ClockId::Monotonic);
            at = match *at {
                None => self.changed.wait(at).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due > now => {
                    let left = Duration::from_nanos(due - now);
                    self.changed.wait_timeout(at, left).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    *at = None;
                    drop(at);
                    if !wake() {
                        return;
                    }
                    self.at()
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::operation::Operation;
    use abi::request::{Read, SocketReceive, StreamPosition, StreamWrite, Write};

    fn submission<O: Operation>(id: u64, operation: O) -> Submission {
        let encoded = operation.encode();
        Submission { id, op: encoded.number, arguments: encoded.arguments, ..Submission::default() }
    }

    fn read(id: u64) -> Submission {
        submission(id, Read { handle: 1, offset: 0 })
    }

    fn pacer(files_bytes: u64, network_operations: u64) -> Pacer {
        let files = Rate { bytes: NonZeroU64::new(files_bytes), operations: None };
        let network = Rate { bytes: None, operations: NonZeroU64::new(network_operations) };
        Pacer::new(Rates { files, network })
    }

    /// Starts a request, which must not be held, and charges bytes.
    fn start(pacer: &mut Pacer, request: &Submission, bytes: u64, now: u64) {
        assert!(!pacer.hold(request, now));
        pacer.charge(&Request::decode(&request.operation()).unwrap(), bytes, now);
    }

    #[test]
    fn use_over_time_is_the_rate() {
        let mut pacer = pacer(1_000_000, 0);
        let (mut now, mut bytes) = (SECOND, 0);
        while now < 11 * SECOND {
            let request = read(1);
            let held = pacer.len() > 0 || pacer.hold(&request, now);
            if !held || pacer.release(now, false).is_some() {
                pacer.charge(&Request::decode(&request.operation()).unwrap(), 30_000, now);
                bytes += 30_000;
            }
            now += 1_000_000;
        }
        // Ten seconds, the burst, and the request that exceeded it.
        assert!((10_000_000..=10_140_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn one_connector_does_not_hold_the_other() {
        let mut pacer = pacer(1000, 2);
        start(&mut pacer, &read(1), 5000, SECOND);
        assert!(pacer.hold(&read(2), SECOND));
        let receive = submission(3, SocketReceive { socket: 1 });
        assert!(!pacer.hold(&receive, SECOND));
        assert!(pacer.hold(&receive, SECOND) && pacer.len() == 2);
        // Requests of the pod itself are not held, but for the one that waits for the files.
        assert!(!pacer.hold(&submission(4, abi::request::Nop { after_files: false }), SECOND));
        assert!(pacer.hold(&submission(5, abi::request::Nop { after_files: true }), SECOND));
        assert!(pacer.release(SECOND + SECOND / 4, false).is_none());
        assert_eq!(pacer.release(SECOND + SECOND / 2, false).map(|request| request.id), Some(3));
        assert_eq!(pacer.release(6 * SECOND, false).map(|request| request.id), Some(2));
        assert_eq!(pacer.release(6 * SECOND, false).map(|request| request.id), Some(5));
        assert!(pacer.release(6 * SECOND, false).is_none());
    }

    #[test]
    fn output_does_not_overtake_a_write_to_a_file() {
        let mut pacer = pacer(1000, 0);
        let print =
            |id| submission(id, StreamWrite { stream: 1, nonblocking: false, position: StreamPosition::Current });
        assert!(!pacer.hold(&print(1), SECOND));
        start(&mut pacer, &read(2), 2000, SECOND);
        assert!(!pacer.hold(&print(3), SECOND));
        assert!(pacer.hold(&submission(4, Write { handle: 1, offset: 0 }), SECOND));
        assert!(pacer.hold(&print(5), SECOND) && pacer.hold(&print(6), SECOND));
        // A file that is closed stays open for the write before.
        assert!(pacer.hold(&submission(7, abi::request::Close { handle: 1 }), SECOND));
        let order: Vec<u64> =
            std::iter::from_fn(|| pacer.release(4 * SECOND, false)).map(|request| request.id).collect();
        assert_eq!(order, [4, 5, 6, 7]);
    }

    #[test]
    fn the_end_starts_all() {
        let mut pacer = pacer(1, 0);
        start(&mut pacer, &read(1), u64::MAX, SECOND);
        assert!((2..5).all(|id| pacer.hold(&read(id), SECOND)));
        let order: Vec<u64> = std::iter::from_fn(|| pacer.release(SECOND, true)).map(|request| request.id).collect();
        assert_eq!(order, [2, 3, 4]);
    }
}
