//! Policy files, rules, names and queries: no text makes the parsers fail, and no rule allows what is never allowed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use policy::query::Query;
use policy::{Name, Policy, Protocol};
use std::net::{IpAddr, Ipv6Addr};

/// Metadata servers in spellings that no network of several addresses names on purpose.
const METADATA: [&str; 3] = ["169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1"];

fuzz_target!(|data: &[u8]| {
    let (address, rest) = data.split_at(data.len().min(16));
    let (query, file) = rest.split_at(rest.iter().position(|byte| *byte == 0).unwrap_or(0));
    let query = String::from_utf8_lossy(query);
    let name = Name::parse(&query);
    let Ok(policy) = Policy::parse(file) else { return };
    if let Ok(query) = Query::parse(&query) {
        query.explain(&policy);
    }
    let mut octets = [0; 16];
    octets[..address.len()].copy_from_slice(address);
    let names: Vec<&Name> = name.iter().collect();
    policy.network.connect(Protocol::Tcp, IpAddr::V6(Ipv6Addr::from(octets)), 80, &names);
    let literal = policy.network.rules.iter().any(|rule| matches!(rule.peer, policy::Peer::Net(_)));
    for metadata in METADATA.iter().filter(|_| !literal) {
        let address = metadata.parse().expect("an address");
        assert!(!policy.network.connect(Protocol::Tcp, address, 80, &names).is_allowed());
    }
});
