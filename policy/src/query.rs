//! Questions about a policy, for `hull policy explain`.

use crate::file::Policy;
use crate::name::Name;
use crate::network::{Decision, Reason};
use crate::rule::{HOST_LOOPBACK, Peer, Protocol, Rule, RuleError, Verdict};
use std::fmt::Write;
use std::net::IpAddr;
use thiserror::Error;

/// An operation of a pod to decide on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// `connect tcp ADDRESS:PORT`, `connect icmp ADDRESS`.
    Address(Protocol, IpAddr, u16),
    /// `connect tcp NAME:PORT`: the name's question, and a connection to a public address of it.
    Name(Protocol, Name, u16),
    /// `connect tcp host.hull.internal:PORT`.
    Host(Protocol, u16),
    /// `resolve NAME`.
    Resolve(Name),
}

/// Why a text is not a query.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QueryError {
    /// Neither form.
    #[error("write `connect tcp|udp|icmp PEER[:PORT]` or `resolve NAME`")]
    Form,
    /// A connection has one port.
    #[error("name one port: PEER:PORT")]
    Port,
    /// A connection has one peer.
    #[error("name one peer: a host or an address")]
    Peer,
    /// The peer can't be parsed.
    #[error(transparent)]
    Rule(#[from] RuleError),
}

impl Query {
    /// Parses a query.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        match words[..] {
            ["resolve", name] => Ok(Self::Resolve(Name::parse(name).map_err(RuleError::from)?)),
            ["connect", protocol, peer] => {
                let protocol: Protocol = protocol.parse().map_err(|()| QueryError::Form)?;
                let Rule { peer, ports, .. } = Rule::parse(&format!("{protocol}:{peer}"), Verdict::Allow)?;
                let port = match protocol {
                    Protocol::Icmp => 0,
                    _ if ports.first == ports.last => ports.first,
                    _ => return Err(QueryError::Port),
                };
                match peer {
                    Peer::Name(name) => Ok(Self::Name(protocol, name, port)),
                    Peer::HostLoopback => Ok(Self::Host(protocol, port)),
                    Peer::Net(net) if net.prefix_len() == net.max_prefix_len() => {
                        Ok(Self::Address(protocol, net.addr(), port))
                    }
                    Peer::All | Peer::Below(_) | Peer::Net(_) => Err(QueryError::Peer),
                }
            }
            _ => Err(QueryError::Form),
        }
    }

    /// Whether the policy allows it, and lines that say why.
    pub fn explain(&self, policy: &Policy) -> (bool, String) {
        let network = &policy.network;
        let mut text = String::new();
        let mut say = |what: &str, decision: Decision<'_>| {
            let _ = writeln!(text, "{what}: {}", reason(&decision));
            decision.is_allowed()
        };
        let allowed = match self {
            Self::Address(protocol, address, port) => say("connect", network.connect(*protocol, *address, *port, &[])),
            Self::Host(protocol, port) => say("connect", network.connect_host(*protocol, *port)),
            Self::Resolve(name) => say("resolve", network.resolve(name)),
            Self::Name(protocol, name, port) => {
                let resolved = say("resolve", network.resolve(name));
                // An address of documentation, which no rule but one for names is about.
                let public = IpAddr::from([192, 0, 2, 1]);
                resolved & say("connect to a public address of it", network.connect(*protocol, public, *port, &[name]))
            }
        };
        if matches!(self, Self::Name(..)) {
            text.push_str(NAME_LIMITS);
        }
        (allowed, text)
    }
}

/// What a rule for a name can't hold.
const NAME_LIMITS: &str = "\
note: a rule for a name allows the addresses that the pod was told for it. Other hosts may share them (CDNs), and a peer that \
is allowed can carry any name further (DNS over HTTPS, encrypted ClientHello). Addresses in private networks need a rule of their \
own or `private = true`; link-local ones and metadata servers need a rule that names them.\n";

/// The reason of a decision, in one line.
pub fn reason(decision: &Decision<'_>) -> String {
    let place = |rule: &Rule| match rule.line {
        0 => format!("the option {rule}"),
        Rule::ADDED => format!("a rule added at run time: {rule}"),
        line => format!("line {line}: {rule}"),
    };
    match decision.reason {
        Reason::Rule(rule) if decision.is_allowed() => format!("allowed by {}", place(rule)),
        Reason::Rule(rule) => format!("denied by {}", place(rule)),
        Reason::NoRule => "denied: no rule allows it".to_owned(),
        Reason::OwnLoopback => "allowed: the pod's own loopback device".to_owned(),
        Reason::LinkLocal => "denied: a link-local address or a metadata server, which no rule names".to_owned(),
        Reason::PrivateAnswer(rule) => {
            format!("denied: {} does not lead into private networks (`private = true`)", place(rule))
        }
        Reason::HostAddress => "denied: an address of the host itself, which no rule names".to_owned(),
        Reason::Multicast => format!("denied: groups and broadcasts are no peers; {HOST_LOOPBACK} and hosts are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations() {
        let text =
            "version = 1\n[network]\nallow = [\n\"*.debian.org:443\",\n\"10.0.0.0/8\"]\ndeny = [\"10.9.0.0/16\"]";
        let policy = Policy::parse(text.as_bytes()).unwrap();
        let explain = |query: &str| {
            let (allowed, text) = Query::parse(query).unwrap().explain(&policy);
            (allowed, text.lines().take_while(|line| !line.starts_with("note")).collect::<Vec<_>>().join("; "))
        };
        for (query, allowed, why) in [
            ("connect tcp 10.1.2.3:22", true, "connect: allowed by line 5: allow 10.0.0.0/8"),
            ("connect tcp 10.9.2.3:22", false, "connect: denied by line 6: deny 10.9.0.0/16"),
            ("connect udp [::1]:53", true, "connect: allowed: the pod's own loopback device"),
            ("connect icmp 1.1.1.1", false, "connect: denied: no rule allows it"),
            ("resolve deb.debian.org", true, "resolve: allowed by line 4: allow *.debian.org:443"),
            ("connect tcp host.hull.internal:80", false, "connect: denied: no rule allows it"),
            (
                "connect tcp deb.debian.org:80",
                false,
                "resolve: allowed by line 4: allow *.debian.org:443; \
                 connect to a public address of it: denied: no rule allows it",
            ),
        ] {
            assert_eq!(explain(query), (allowed, why.to_owned()), "{query}");
        }
    }

    #[test]
    fn what_is_no_query() {
        for text in ["", "connect", "connect sctp a:1", "listen tcp 80", "resolve a b"] {
            assert_eq!(Query::parse(text), Err(QueryError::Form), "{text}");
        }
        assert_eq!(Query::parse("connect tcp a.example"), Err(QueryError::Port));
        assert_eq!(Query::parse("connect tcp a.example:1-2"), Err(QueryError::Port));
        for text in ["connect tcp all:1", "connect tcp *.a.example:1", "connect udp 10.0.0.0/8:1"] {
            assert_eq!(Query::parse(text), Err(QueryError::Peer), "{text}");
        }
    }
}
