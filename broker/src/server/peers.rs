//! The peers that the pod was connected to, with the names by which the policy allowed them.
//!
//! When the policy changes they are judged anew. A connection outlives the validity of the answer that led to it, so its names
//! are kept here. Nobody tells the broker when a connection ends: a peer stays until the policy denies it, or until many others came.

use crate::protocol::Transport;
use policy::Name;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Maximum number of peers; beyond it the oldest are forgotten.
const MOST: usize = 16 << 10;
/// Maximum number of names of a peer.
const MOST_NAMES: usize = 8;

/// A peer.
pub type Peer = (Transport, SocketAddr);

/// The peers.
#[derive(Debug, Default)]
pub struct Peers {
    names: HashMap<Peer, Vec<Name>>,
    /// In the order of their first connections.
    order: VecDeque<Peer>,
    /// Some were forgotten.
    forgot: bool,
}

impl Peers {
    /// Adds a peer that the policy allowed with these names.
    pub fn add<'n>(&mut self, peer: Peer, names: impl Iterator<Item = &'n Name>) {
        let is_new = !self.names.contains_key(&peer);
        let known = self.names.entry(peer).or_default();
        for name in names {
            if known.len() < MOST_NAMES && !known.contains(name) {
                known.push(name.clone());
            }
        }
        if !is_new {
            return;
        }
        self.order.push_back(peer);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
            self.forgot = true;
        }
    }

    /// Whether peers were forgotten since this was asked last.
    pub fn take_forgot(&mut self) -> bool {
        std::mem::take(&mut self.forgot)
    }

    /// Removes and returns the peers that are not allowed any more.
    pub fn take_denied(&mut self, mut is_allowed: impl FnMut(&Peer, &[Name]) -> bool) -> Vec<Peer> {
        let mut denied = Vec::new();
        self.order.retain(|peer| {
            let kept = self.names.get(peer).is_some_and(|names| is_allowed(peer, names));
            if !kept {
                self.names.remove(peer);
                denied.push(*peer);
            }
            kept
        });
        denied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_and_their_names() {
        let mut peers = Peers::default();
        let peer = |text: &str| (Transport::Tcp, text.parse::<SocketAddr>().unwrap());
        let names = ["a.example", "b.example"].map(|text| Name::parse(text).unwrap());
        peers.add(peer("1.1.1.1:80"), names[..1].iter());
        peers.add(peer("1.1.1.1:80"), names.iter());
        peers.add(peer("1.1.1.2:80"), [].iter());
        let denied = peers.take_denied(|_, known| known == names);
        assert_eq!(denied, [peer("1.1.1.2:80")]);
        assert_eq!(peers.take_denied(|_, _| false), [peer("1.1.1.1:80")]);
        assert!(peers.take_denied(|_, _| false).is_empty() && !peers.take_forgot());
        for number in 0..=MOST as u32 {
            peers.add((Transport::Udp, SocketAddr::new(std::net::Ipv4Addr::from_bits(number).into(), 53)), [].iter());
        }
        assert!(peers.take_forgot() && !peers.take_forgot());
        assert_eq!(peers.take_denied(|_, _| false).len(), MOST);
    }
}
