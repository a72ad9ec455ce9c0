//! Rules for network peers as users write them: `[tcp:|udp:|icmp:]PEER[:PORT[-PORT]]`.

use crate::name::{Name, NameError};
use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// The name of the host's own loopback device.
pub const HOST_LOOPBACK: &str = "host.hull.internal";

/// Protocol of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
    /// Echo requests (`ping`).
    Icmp,
}

impl FromStr for Protocol {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "udp" => Ok(Self::Udp),
            "icmp" => Ok(Self::Icmp),
            _ => Err(()),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
        })
    }
}

/// Ports `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Lowest.
    pub first: u16,
    /// Highest, not below the lowest.
    pub last: u16,
}

impl Ports {
    /// All of them.
    pub const ALL: Self = Self { first: 0, last: u16::MAX };

    /// Whether `port` is one of them.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl FromStr for Ports {
    type Err = RuleError;
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let number = |text: &str| -> Result<u16, RuleError> {
            // Rust's parser accepts a sign.
            if !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(RuleError::Port);
            }
            text.parse().ok().filter(|port| *port > 0).ok_or(RuleError::Port)
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ports = Self { first: number(first)?, last: number(last)? };
        if ports.first <= ports.last { Ok(ports) } else { Err(RuleError::Port) }
    }
}

/// Whom a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Everybody; of special addresses only those that a rule for addresses names.
    All,
    /// A host by name.
    Name(Name),
    /// All hosts below a name, not that itself.
    Below(Name),
    /// An address or a network.
    Net(IpNet),
    /// The host's loopback device.
    HostLoopback,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Name(name) => name.fmt(f),
            Self::Below(name) => write!(f, "*.{name}"),
            Self::Net(net) if net.prefix_len() == net.max_prefix_len() => net.addr().fmt(f),
            Self::Net(net) => net.fmt(f),
            Self::HostLoopback => f.write_str(HOST_LOOPBACK),
        }
    }
}

/// Verdict of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pod may.
    Allow,
    /// The pod may not, and gets this error.
    Deny(Refusal),
}

/// Errno of a denied operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Refusal {
    /// EACCES, as of a firewall of the own machine.
    #[default]
    Access,
    /// ENETUNREACH, as without a route.
    Unreachable,
    /// ECONNREFUSED, as of a peer without a listener.
    Refused,
}

/// Why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// Nothing.
    #[error("no peer; write [tcp:|udp:|icmp:]PEER[:PORT[-PORT]]")]
    Empty,
    /// No port.
    #[error("a port is a number from 1 to 65535, a range is PORT-PORT")]
    Port,
    /// `icmp` has none.
    #[error("icmp has no ports")]
    IcmpPort,
    /// A network whose address has host bits set: probably another network was meant.
    #[error("{given} is not the network's address; write {meant}")]
    Network {
        /// As written.
        given: IpNet,
        /// With the bits behind the prefix cleared.
        meant: IpNet,
    },
    /// An IPv4-mapped address.
    #[error("an IPv4 address in an IPv6 spelling; write {0}")]
    Mapped(IpAddr),
    /// No prefix length.
    #[error("a prefix length is a number from 0 to {0}")]
    Prefix(u8),
    /// `[` without `]`, or something else than an IPv6 address between them.
    #[error("an IPv6 address or network stands between [ and ]")]
    Bracket,
    /// `*` elsewhere than as the first label.
    #[error("`*` stands for labels at the begin of a name only: *.NAME")]
    Wildcard,
    /// No name.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The verdict.
    pub verdict: Verdict,
    /// `None`: TCP, UDP and ICMP for addresses without ports; TCP and UDP otherwise.
    pub protocol: Option<Protocol>,
    /// Whom it is about.
    pub peer: Peer,
    /// Which ports.
    pub ports: Ports,
    /// A name of this rule may have addresses in private networks.
    pub private: bool,
    /// Its position, for explanations: line of a file, 0 for the command line, or [`Rule::ADDED`].
    pub line: usize,
}

impl Rule {
    /// The position of a rule that was added while the pod ran.
    pub const ADDED: usize = usize::MAX;

    /// Whether it was written like another one: it is about the same peers, and may have another verdict.
    pub fn is_written_like(&self, other: &Self) -> bool {
        (self.protocol, &self.peer, self.ports) == (other.protocol, &other.peer, other.ports)
    }

    /// The rule with all that it says.
    pub fn summary(&self) -> String {
        let private = if self.private { " (also in private networks)" } else { "" };
        let error = match self.verdict {
            Verdict::Allow => String::new(),
            Verdict::Deny(refusal) => format!(" ({refusal:?})").to_lowercase(),
        };
        format!("{self}{private}{error}")
    }

    /// Parses `[tcp:|udp:|icmp:]PEER[:PORT[-PORT]]`.
    pub fn parse(text: &str, verdict: Verdict) -> Result<Self, RuleError> {
        let (protocol, rest) = match text.split_once(':') {
            Some((word, rest)) if word.parse::<Protocol>().is_ok() => (word.parse().ok(), rest),
            _ => (None, text),
        };
        let (peer, ports) = parse_peer(rest)?;
        if protocol == Some(Protocol::Icmp) && ports.is_some() {
            return Err(RuleError::IcmpPort);
        }
        Ok(Self { verdict, protocol, peer, ports: ports.unwrap_or(Ports::ALL), private: false, line: 0 })
    }

    /// Whether it is about this protocol and port; ICMP has port 0.
    pub fn covers(&self, protocol: Protocol, port: u16) -> bool {
        let ports = match protocol {
            Protocol::Icmp => self.ports == Ports::ALL,
            Protocol::Tcp | Protocol::Udp => self.ports.contains(port),
        };
        ports && self.protocol.is_none_or(|own| own == protocol)
    }

    /// How narrow it is: of several rules with the same verdict, the narrowest explains best.
    pub fn specificity(&self) -> (u8, usize, u16, bool) {
        let (kind, length) = match &self.peer {
            Peer::All => (0, 0),
            Peer::Net(net) => (1, usize::from(net.prefix_len()) + usize::from(128 - net.max_prefix_len())),
            Peer::Below(name) => (2, name.labels()),
            Peer::Name(name) => (3, name.labels()),
            Peer::HostLoopback => (4, 0),
        };
        (kind, length, u16::MAX - (self.ports.last - self.ports.first), self.protocol.is_some())
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.verdict {
            Verdict::Allow => "allow ",
            Verdict::Deny(_) => "deny ",
        })?;
        if let Some(protocol) = self.protocol {
            write!(f, "{protocol}:")?;
        }
        match &self.peer {
            Peer::Net(net) if net.max_prefix_len() == 128 && self.ports != Ports::ALL => write!(f, "[{}]", self.peer)?,
            peer => peer.fmt(f)?,
        }
        match self.ports {
            Ports::ALL => Ok(()),
            Ports { first, last } if first == last => write!(f, ":{first}"),
            Ports { first, last } => write!(f, ":{first}-{last}"),
        }
    }
}

/// An address or a network; `None` if the text looks like neither.
fn parse_net(text: &str) -> Result<Option<IpNet>, RuleError> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else { return Ok(None) };
    if address.to_canonical() != address {
        return Err(RuleError::Mapped(address.to_canonical()));
    }
    let most = if address.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        None => most,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map_err(|_| RuleError::Prefix(most))?
        }
        Some(_) => return Err(RuleError::Prefix(most)),
    };
    let net = IpNet::new(address, prefix).map_err(|_| RuleError::Prefix(most))?;
    if net.trunc() != net {
        return Err(RuleError::Network { given: net, meant: net.trunc() });
    }
    Ok(Some(net))
}

fn parse_peer(text: &str) -> Result<(Peer, Option<Ports>), RuleError> {
    if text.is_empty() {
        return Err(RuleError::Empty);
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']').ok_or(RuleError::Bracket)?;
        let net = parse_net(inside)?.filter(|net| net.max_prefix_len() == 128).ok_or(RuleError::Bracket)?;
        let ports = match after.strip_prefix(':') {
            Some(ports) => Some(ports.parse()?),
            None if after.is_empty() => None,
            None => return Err(RuleError::Bracket),
        };
        return Ok((Peer::Net(net), ports));
    }
    // Without brackets an IPv6 address has no port.
    let is_v6 = text.split('/').next().is_some_and(|address| address.contains(':'));
    if let Some(net) = if is_v6 || !text.contains(':') { parse_net(text)? } else { None } {
        return Ok((Peer::Net(net), None));
    }
    let (peer, ports) = match text.rsplit_once(':') {
        Some((peer, ports)) => (peer, Some(ports.parse()?)),
        None => (text, None),
    };
    if let Some(net) = parse_net(peer)?.filter(|net| net.max_prefix_len() == 32) {
        return Ok((Peer::Net(net), ports));
    }
    let peer = match peer {
        "" => return Err(RuleError::Empty),
        "all" => Peer::All,
        _ => match peer.strip_prefix("*.") {
            Some(parent) if !parent.contains('*') => Peer::Below(Name::parse(parent)?),
            None if !peer.contains('*') => match Name::parse(peer)? {
                name if name.as_str() == HOST_LOOPBACK => Peer::HostLoopback,
                name => Peer::Name(name),
            },
            _ => return Err(RuleError::Wildcard),
        },
    };
    Ok((peer, ports))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(text: &str) -> Result<Rule, RuleError> {
        Rule::parse(text, Verdict::Allow)
    }

    #[test]
    fn rules_are_shown_as_they_are_written() {
        for text in [
            "all",
            "tcp:all:443",
            "pypi.org:443",
            "*.debian.org",
            "tcp:*.debian.org:80-443",
            "udp:10.0.0.0/8:53",
            "1.1.1.1",
            "icmp:1.1.1.1",
            "::1",
            "fd00::/8",
            "[fd00::/8]:443",
            "tcp:[2606:4700::1111]:1-65535",
            "host.hull.internal:5432",
            "0.0.0.0/0",
        ] {
            assert_eq!(rule(text).unwrap().to_string(), format!("allow {text}"));
        }
        assert_eq!(rule("PyPI.Org.:443").unwrap().to_string(), "allow pypi.org:443");
        assert_eq!(rule("HOST.hull.internal").unwrap().peer, Peer::HostLoopback);
    }

    #[test]
    fn what_is_no_rule() {
        assert_eq!(rule(""), Err(RuleError::Empty));
        assert_eq!(rule("tcp:"), Err(RuleError::Empty));
        assert_eq!(rule(":80"), Err(RuleError::Empty));
        for text in ["a:0", "a:65536", "a:80-", "a:90-80", "a:+80", "a:http", "a:"] {
            assert_eq!(rule(text), Err(RuleError::Port), "{text}");
        }
        assert_eq!(rule("icmp:1.1.1.1:80"), Err(RuleError::IcmpPort));
        assert!(matches!(rule("10.0.0.1/8"), Err(RuleError::Network { .. })));
        assert_eq!(rule("::ffff:1.2.3.4"), Err(RuleError::Mapped("1.2.3.4".parse().unwrap())));
        assert_eq!(rule("10.0.0.0/33"), Err(RuleError::Prefix(32)));
        assert_eq!(rule("fd00::/+8"), Err(RuleError::Prefix(128)));
        for text in ["[::1", "[1.2.3.4]:80", "[::1]80", "[a]:1"] {
            assert_eq!(rule(text), Err(RuleError::Bracket), "{text}");
        }
        for text in ["*", "a.*.b", "*.*.b", "*b.c"] {
            assert_eq!(rule(text), Err(RuleError::Wildcard), "{text}");
        }
        for text in ["0177.0.0.1", "2130706433:80", "127.1"] {
            assert_eq!(rule(text), Err(RuleError::Name(NameError::Number)), "{text}");
        }
    }

    proptest! {
        /// No text makes the parser fail, and what it takes is shown as a text that means the same.
        #[test]
        fn any_text(text in "(tcp:|udp:|icmp:)?[a-z0-9:./*\\[\\]-]{0,24}(:[0-9-]{1,6})?") {
            if let Ok(first) = rule(&text) {
                let shown = first.to_string();
                prop_assert_eq!(rule(shown.strip_prefix("allow ").unwrap()).unwrap(), first);
            }
        }
    }
}
