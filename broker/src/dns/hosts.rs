//! The host's own configuration of names: `/etc/resolv.conf` and `/etc/hosts`.

use policy::Name;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::path::Path;
use std::time::Duration;

/// Maximum size of a file that is read.
const MAX_BYTES: u64 = 1 << 20;
/// Name servers, as the C library has it.
const MOST_SERVERS: usize = 3;
/// Maximum number of domains of a search list (glibc has had 6).
const MOST_DOMAINS: usize = 6;

/// How the host resolves names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Name servers.
    pub servers: Vec<SocketAddr>,
    /// Domains to search.
    pub search: Vec<String>,
    /// `ndots` and the like, for the pod's C library.
    pub options: Vec<String>,
    /// How long a server may take.
    pub timeout: Duration,
    /// How often all servers are asked.
    pub attempts: u32,
}

impl Default for Configuration {
    fn default() -> Self {
        let servers = vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53)];
        Self { servers, search: vec![], options: vec![], timeout: Duration::from_secs(5), attempts: 2 }
    }
}

/// The text of a file; empty if it can't be read.
fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    let _ = File::open(path).map(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The address of a server; an IPv6 one may name the interface by number.
fn server(text: &str) -> Option<SocketAddr> {
    match text.split_once('%') {
        None => Some(SocketAddr::new(text.parse().ok()?, 53)),
        Some((address, interface)) => {
            let index = interface.parse().ok().or_else(|| {
                let path = Path::new("/sys/class/net").join(Path::new(interface).file_name()?).join("ifindex");
                read(&path).trim().parse().ok()
            })?;
            Some(SocketAddrV6::new(address.parse().ok()?, 53, 0, index).into())
        }
    }
}

impl Configuration {
    /// Reads the host's.
    pub fn of_host() -> Self {
        Self::parse(&read(Path::new("/etc/resolv.conf")))
    }

    /// Parses resolv.conf(5).
    pub fn parse(text: &str) -> Self {
        let mut own = Self { servers: Vec::new(), ..Self::default() };
        let clamped = |text: &str, most| text.parse::<u32>().ok().map(|number| number.clamp(1, most));
        for line in text.lines() {
            let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
            match words.next() {
                Some("nameserver") if own.servers.len() < MOST_SERVERS => {
                    own.servers.extend(words.next().and_then(server));
                }
                // The last one counts.
                Some("search" | "domain") => {
                    own.search = words.take(MOST_DOMAINS).map(str::to_owned).filter(|name| is_domain(name)).collect();
                }
                Some("options") => {
                    for word in words {
                        match word.split_once(':') {
                            Some(("timeout", value)) => {
                                let seconds = clamped(value, 30).unwrap_or(5);
                                own.timeout = Duration::from_secs(seconds.into());
                            }
                            Some(("attempts", value)) => own.attempts = clamped(value, 5).unwrap_or(2),
                            Some(("ndots", value)) if value.parse::<u8>().is_ok() => own.options.push(word.to_owned()),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        if own.servers.is_empty() {
            own.servers = Self::default().servers;
        }
        own
    }
}

/// Whether a word is a domain: it is written to a file of the pod.
fn is_domain(word: &str) -> bool {
    word == "." || Name::parse(word).is_ok()
}

/// Names of `/etc/hosts`.
#[derive(Clone, Debug, Default)]
pub struct Hosts(HashMap<Name, Vec<IpAddr>>);

impl Hosts {
    /// Reads the host's.
    pub fn of_host() -> Self {
        Self::parse(&read(Path::new("/etc/hosts")))
    }

    /// Parses hosts(5).
    pub fn parse(text: &str) -> Self {
        let mut own = HashMap::<Name, Vec<IpAddr>>::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { continue };
            for name in words.filter_map(|word| Name::parse(word).ok()) {
                own.entry(name).or_default().push(address);
            }
        }
        Self(own)
    }

    /// Addresses of a name.
    pub fn get(&self, name: &Name) -> Option<&[IpAddr]> {
        self.0.get(name).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolv_conf() {
        let text = "# x\nnameserver 127.0.0.53\nnameserver fe80::1%7\nnameserver 1.1.1.1\nnameserver 2.2.2.2\n\
                    domain a.example\nsearch corp.example b.example  bad/name\n\
                    options edns0 timeout:1 attempts:99 ndots:2 trust-ad";
        let own = Configuration::parse(text);
        assert_eq!(
            own.servers.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["127.0.0.53:53", "[fe80::1%7]:53", "1.1.1.1:53"]
        );
        assert_eq!(own.search, ["corp.example", "b.example"]);
        assert_eq!((own.timeout, own.attempts, own.options), (Duration::from_secs(1), 5, vec!["ndots:2".to_owned()]));
        assert_eq!(Configuration::parse("nameserver x\n"), Configuration::default());
    }

    #[test]
    fn hosts() {
        let hosts = Hosts::parse("127.0.0.1 localhost\n10.1.1.1\tdb.corp DB2.corp # x y\n::1 localhost\nbad a\n");
        let get = |name: &str| hosts.get(&Name::parse(name).unwrap()).map(<[_]>::len);
        assert_eq!((get("db.corp"), get("db2.corp"), get("localhost"), get("x")), (Some(1), Some(1), Some(2), None));
        assert_eq!(get("a"), None);
    }
}
