//! Rates: how much of a connector a pod may use per second.
//!
//! A request that exceeds a rate is held, and so are later ones that must not overtake it; no request is refused. The
//! accounting is the generic cell rate algorithm (ITU-T I.371): each unit of use moves a point in time ahead, and a request
//! starts while that point lies less than [`BURST`] in the future. So a pod that was idle may use the rate of [`BURST`] at
//! once, and a single large request is followed by a pause of its length.

use abi::request::{FileRequest, Request, SocketRequest, StreamRequest};
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

/// Which rate a request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meter {
    Files,
    Network,
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

/// What a request takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    meter: Option<Meter>,
    /// Others see its effect: it must not overtake a held write to a file.
    shows: bool,
    /// It frees something: it waits its turn but costs nothing.
    free: bool,
}

impl Kind {
    fn of(request: &Submission) -> Self {
        let free = |meter| Self { meter: Some(meter), shows: false, free: true };
        let paid = |meter, shows| Self { meter: Some(meter), shows, free: false };
        match Request::decode(&request.operation()) {
            Ok(Request::File(FileRequest::Close(_) | FileRequest::Unmap(_))) => free(Meter::Files),
            Ok(Request::File(_)) => paid(Meter::Files, false),
            Ok(Request::Socket(SocketRequest::SocketClose(_))) => free(Meter::Network),
            Ok(Request::Socket(SocketRequest::SocketSend(_) | SocketRequest::SocketConnect(_))) => {
                paid(Meter::Network, true)
            }
            Ok(Request::Socket(_)) => paid(Meter::Network, false),
            Ok(Request::Stream(StreamRequest::StreamWrite(_))) => Self { meter: None, shows: true, free: false },
            _ => Self { meter: None, shows: false, free: false },
        }
    }
}

/// Which held requests a later one must stay behind.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    files: bool,
    network: bool,
    streams: bool,
}

/// The rates of a pod and the requests that they hold.
#[derive(Debug, Default)]
pub struct Pacer {
    files: Option<Account>,
    network: Option<Account>,
    held: VecDeque<Submission>,
    ahead: Ahead,
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
        self.held.len()
    }

    fn account(&mut self, meter: Meter) -> Option<&mut Account> {
        match meter {
            Meter::Files => self.files.as_mut(),
            Meter::Network => self.network.as_mut(),
        }
    }

    /// Takes a request if it must wait.
    pub fn hold(&mut self, request: &Submission, now: u64) -> bool {
        let kind = Kind::of(request);
        if self.may_start(kind, now) {
            self.charge_operation(kind, now);
            return false;
        }
        self.stay(kind);
        self.held.push_back(*request);
        self.set_alarm();
        true
    }

    fn charge_operation(&mut self, kind: Kind, now: u64) {
        if let Some(account) = kind.meter.filter(|_| !kind.free).and_then(|meter| self.account(meter)) {
            account.charge(0, 1, now);
        }
    }

    fn may_start(&mut self, kind: Kind, now: u64) -> bool {
        let ahead = self.ahead;
        let behind = match kind.meter {
            Some(Meter::Files) => ahead.files,
            Some(Meter::Network) => ahead.network,
            None => kind.shows && ahead.streams,
        };
        let open = kind.free
            || kind.meter.and_then(|meter| self.account(meter)).is_none_or(|account| account.opens_at() <= now);
        let overtakes = behind || kind.shows && ahead.files;
        open && !overtakes
    }

    /// Notes that a request of this kind is held.
    fn stay(&mut self, kind: Kind) {
        match kind.meter {
            Some(Meter::Files) => self.ahead.files = true,
            Some(Meter::Network) => self.ahead.network = true,
            None => self.ahead.streams |= kind.shows,
        }
    }

    /// Counts bytes that a started request moves; the request was charged as an operation when it started.
    pub fn charge(&mut self, request: &Request, bytes: u64, now: u64) {
        let meter = match request {
            Request::File(_) => Meter::Files,
            Request::Socket(_) => Meter::Network,
            _ => return,
        };
        if let Some(account) = self.account(meter) {
            account.charge(bytes, 0, now);
        }
    }

    /// Counts bytes that sockets moved.
    pub fn charge_network(&mut self, bytes: u64, now: u64) {
        if let Some(account) = &mut self.network {
            account.charge(bytes, 0, now);
        }
    }

    /// The held requests that may start at `now`, or all of them if the pod ends. The caller starts them, and then charges
    /// their bytes, before it calls again.
    pub fn release(&mut self, now: u64, all: bool) -> Option<Submission> {
        if self.held.is_empty() {
            return None;
        }
        self.ahead = Ahead::default();
        let mut found = None;
        for place in 0..self.held.len() {
            let kind = Kind::of(&self.held[place]);
            if found.is_none() && (all || self.may_start(kind, now)) {
                self.charge_operation(kind, now);
                found = Some(place);
            } else {
                self.stay(kind);
            }
        }
        if found.is_none() {
            self.set_alarm();
        }
        found.and_then(|place| self.held.remove(place))
    }

    /// Has the alarm ring when the first account with held requests opens.
    fn set_alarm(&self) {
        let account = |account: &Option<Account>, held: bool| account.as_ref().filter(|_| held).map(Account::opens_at);
        let accounts = [account(&self.files, self.ahead.files), account(&self.network, self.ahead.network)];
        if let Some(at) = accounts.into_iter().flatten().min() {
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
        // Requests of the pod itself are never held.
        assert!(!pacer.hold(&submission(4, abi::request::Nop {}), SECOND));
        assert!(pacer.release(SECOND + SECOND / 4, false).is_none());
        assert_eq!(pacer.release(SECOND + SECOND / 2, false).map(|request| request.id), Some(3));
        assert_eq!(pacer.release(6 * SECOND, false).map(|request| request.id), Some(2));
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
