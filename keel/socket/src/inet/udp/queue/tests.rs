//! Limits and offsets of waiting datagrams.

use super::*;
use core::net::{IpAddr, Ipv4Addr};
use std::vec;

fn datagram(len: usize) -> Datagram {
    let name = Endpoint { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 7 };
    let facts = Facts { to: name, device: 1, ttl: None, class: None, at_ns: 0, mark: 0, priority: 0, segment: 0 };
    Datagram { data: Rc::new(vec![len as u8; len]), from: name, facts, drops: 0 }
}

/// What counts against the limit comes back, whatever the order of sizes.
#[test]
fn charges_are_given_back() {
    let inbox = Inbox::default();
    let sizes = [0, 1, 127, 128, 129, 1000, 4095, 4096, 9000, 65_507];
    for round in 0..3 {
        for len in sizes.iter().cycle().skip(round).take(sizes.len()) {
            assert!(inbox.push(datagram(*len), usize::MAX));
        }
        let expected: usize = sizes.iter().map(|len| charge(*len)).sum();
        assert_eq!(inbox.usage(), (expected, 0));
        let mut count = 0;
        while let Some(datagram) = inbox.pop() {
            assert_eq!(datagram.data.len(), sizes[(round + count) % sizes.len()]);
            count += 1;
        }
        assert_eq!((count, inbox.usage().0, inbox.is_empty()), (sizes.len(), 0, true));
    }
}

/// As on Linux one datagram is taken beyond the limit; the next ones are lost and counted.
#[test]
fn a_full_inbox_loses_what_comes() {
    let inbox = Inbox::default();
    let limit = charge(100) * 2;
    let taken = (0..10).filter(|_| inbox.push(datagram(100), limit)).count();
    assert_eq!((taken, inbox.drops()), (3, 7));
    inbox.pop();
    assert!(inbox.push(datagram(100), limit));
    inbox.clear();
    assert_eq!(inbox.usage(), (0, 7));
}

/// Offsets count the bytes of all that waits (`SO_PEEK_OFF`); offset 0 also finds an empty datagram.
#[test]
fn offsets_lead_into_datagrams() {
    let inbox = Inbox::default();
    [3, 0, 5].into_iter().for_each(|len| assert!(inbox.push(datagram(len), usize::MAX)));
    let find = |skip| inbox.behind(skip).map(|(datagram, within)| (datagram.data.len(), within));
    let found = [0, 1, 2, 3, 4, 7, 8].map(find);
    let expected = [Some((3, 0)), Some((3, 1)), Some((3, 2)), Some((0, 0)), Some((5, 1)), Some((5, 4)), None];
    assert_eq!(found, expected);
}
