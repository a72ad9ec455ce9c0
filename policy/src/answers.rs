//! DNS answers that the pod got: addresses and their names.

use crate::address;
use crate::name::Name;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Maximum number of pairs of an address and a name; beyond it the oldest are dropped.
const MAX_PAIRS: usize = 4096;
/// Minimum validity of an answer: programs look up once and connect some time later.
const LEAST_TTL: Duration = Duration::from_secs(30);
/// And at most this long.
const MOST_TTL: Duration = Duration::from_secs(24 * 3600);

/// The answers that a pod got and that are still good.
#[derive(Debug, Default)]
pub struct Answers {
    names: HashMap<IpAddr, Vec<(Name, Instant)>>,
    /// Pairs in insertion order; some of them are removed already.
    order: VecDeque<(IpAddr, Name)>,
}

impl Answers {
    /// Records an answer at `now`: `name` has this address for `ttl`. It replaces an earlier answer for the same pair;
    /// others for the name stay valid.
    pub fn told(&mut self, name: &Name, address: IpAddr, ttl: Duration, now: Instant) {
        let address = address::canonical(address);
        let until = now + ttl.clamp(LEAST_TTL, MOST_TTL);
        let names = self.names.entry(address).or_default();
        if let Some((_, known)) = names.iter_mut().find(|(known, _)| known == name) {
            *known = until;
            return;
        }
        names.push((name.clone(), until));
        self.order.push_back((address, name.clone()));
        while self.order.len() > MAX_PAIRS {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let Some((address, name)) = self.order.pop_front() else { return };
        if let Some(names) = self.names.get_mut(&address) {
            names.retain(|(known, _)| *known != name);
            if names.is_empty() {
                self.names.remove(&address);
            }
        }
    }

    /// The names for which the pod got this address, if the answer is valid at `now`.
    pub fn names(&self, address: IpAddr, now: Instant) -> impl Iterator<Item = &Name> {
        let names = self.names.get(&address::canonical(address)).map_or(&[][..], Vec::as_slice);
        names.iter().filter(move |(_, until)| now <= *until).map(|(name, _)| name)
    }

    /// When the first of the names that this address has at `now` is no longer valid.
    pub fn until(&self, address: IpAddr, now: Instant) -> Option<Instant> {
        let names = self.names.get(&address::canonical(address))?;
        names.iter().map(|(_, until)| *until).filter(|until| now <= *until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn known(answers: &Answers, address: &str, now: Instant) -> Vec<String> {
        answers.names(address.parse().unwrap(), now).map(Name::to_string).collect()
    }

    #[test]
    fn answers_expire() {
        let (mut answers, start) = (Answers::default(), Instant::now());
        let second = Duration::from_secs(1);
        let address = "1.2.3.4".parse().unwrap();
        answers.told(&name("a.example"), address, second, start);
        answers.told(&name("b.example"), address, 100 * second, start);
        assert_eq!(known(&answers, "::ffff:1.2.3.4", start), ["a.example", "b.example"]);
        // A short TTL has a floor.
        assert_eq!(known(&answers, "1.2.3.4", start + 30 * second), ["a.example", "b.example"]);
        assert_eq!(known(&answers, "1.2.3.4", start + 31 * second), ["b.example"]);
        answers.told(&name("a.example"), address, 60 * second, start + 50 * second);
        assert_eq!(known(&answers, "1.2.3.4", start + 105 * second), ["a.example"]);
        assert!(known(&answers, "1.2.3.5", start).is_empty());
    }

    #[test]
    fn answers_are_bounded() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        for number in 0..2 * MAX_PAIRS as u32 {
            answers.told(&name("a.example"), IpAddr::from(number.to_be_bytes()), Duration::from_secs(60), now);
        }
        assert_eq!((answers.names.len(), answers.order.len()), (MAX_PAIRS, MAX_PAIRS));
        assert!(known(&answers, "0.0.0.1", now).is_empty());
        assert_eq!(known(&answers, &IpAddr::from((2 * MAX_PAIRS as u32 - 1).to_be_bytes()).to_string(), now).len(), 1);
    }
}
