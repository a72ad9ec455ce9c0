//! Ports of the host that a pod may open by listening: `[tcp:|udp:][ADDRESS:]PORT[-PORT]`.

use crate::rule::{Ports, Protocol};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Why a text does not name ports to listen on.
pub const FORM: &str =
    "not ports to listen on; write [tcp:|udp:][ADDRESS:]PORT[-PORT], such as 8080, udp:5353 or tcp:127.0.0.1:8000-8010";

/// Ports of the host with the same numbers as those of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// `None`: TCP and UDP.
    pub protocol: Option<Protocol>,
    /// Address of the host; `None`: all of them.
    pub address: Option<IpAddr>,
    /// Which ports.
    pub ports: Ports,
}

impl Listen {
    /// Whether it is about this protocol and port.
    pub fn covers(&self, protocol: Protocol, port: u16) -> bool {
        self.protocol.is_none_or(|own| own == protocol) && self.ports.contains(port)
    }
}

impl FromStr for Listen {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (protocol, rest) = match text.split_once(':') {
            Some(("tcp", rest)) => (Some(Protocol::Tcp), rest),
            Some(("udp", rest)) => (Some(Protocol::Udp), rest),
            _ => (None, text),
        };
        let (address, ports) = match rest.rsplit_once(':') {
            None => (None, rest),
            Some((address, ports)) => {
                let inside = address.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
                let address = match inside {
                    Some(text) => text.parse::<Ipv6Addr>().map(IpAddr::V6).ok(),
                    None => address.parse::<Ipv4Addr>().map(IpAddr::V4).ok(),
                };
                (Some(address.ok_or(FORM)?), ports)
            }
        };
        Ok(Self { protocol, address, ports: ports.parse().map_err(|_| FORM)? })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(protocol) = self.protocol {
            write!(f, "{protocol}:")?;
        }
        match self.address {
            Some(IpAddr::V4(address)) => write!(f, "{address}:")?,
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:")?,
            None => {}
        }
        match self.ports {
            Ports { first, last } if first == last => write!(f, "{first}"),
            Ports { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ports_to_listen_on() {
        for text in ["8080", "tcp:80-81", "udp:127.0.0.1:53", "[::1]:1-65535", "tcp:[::]:22", "0.0.0.0:1"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for text in
            ["", "tcp:", "0", "80-70", "icmp:1", "a:80", "::1:80", "[1.2.3.4]:80", "1.2.3.4", "tcp:udp:80", "+1", ":80"]
        {
            assert_eq!(text.parse::<Listen>(), Err(FORM), "{text}");
        }
        let listen: Listen = "tcp:80-81".parse().unwrap();
        assert!(listen.covers(Protocol::Tcp, 81) && !listen.covers(Protocol::Udp, 81));
        assert!(!listen.covers(Protocol::Tcp, 82));
    }

    proptest! {
        /// What is taken is shown as a text that means the same.
        #[test]
        fn any_text(text in "(tcp:|udp:)?[0-9a-f:.\\[\\]-]{0,20}") {
            if let Ok(listen) = text.parse::<Listen>() {
                prop_assert_eq!(listen.to_string().parse(), Ok(listen));
            }
        }
    }
}
