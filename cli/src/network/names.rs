//! Names in the pod: its own, those of peers, and what resolves them.

use super::{NetMode, NetworkArgs};
use abi::boot::Given;
use broker::address::{HOST_V4, POD_V4, RESOLVER_V4};
use broker::dns::hosts::Configuration;
use policy::Name;
use policy::rule::HOST_LOOPBACK;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Parses `--domainname`.
pub(super) fn domain(text: &str) -> std::result::Result<String, String> {
    /// Longest domain in bytes (Linux `__NEW_UTS_LEN`).
    const MOST: usize = 64;
    match Name::parse(text) {
        Ok(_) if text.len() <= MOST => Ok(text.to_owned()),
        _ => Err("not a domain; use up to 64 letters, digits, dots and hyphens".into()),
    }
}

/// Parses `--dns-search`.
pub(super) fn search(text: &str) -> std::result::Result<String, String> {
    match Name::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) if text == "." => Ok(text.to_owned()),
        Err(_) => Err("not a domain; write one such as example.org, or `.` for none".into()),
    }
}

/// Parses `--dns-option`.
pub(super) fn resolver_option(text: &str) -> std::result::Result<String, String> {
    match text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        true => Err("not an option of resolv.conf(5); write one such as ndots:2".into()),
        false => Ok(text.to_owned()),
    }
}

/// Parses `NAME:ADDRESS` or `NAME=ADDRESS`; as in docker, `host-gateway` is the host.
pub(super) fn add_host(text: &str) -> std::result::Result<(Name, IpAddr), String> {
    let (name, address) = text.split_once([':', '=']).ok_or("write NAME:ADDRESS")?;
    let name = Name::parse(name).map_err(|error| error.to_string())?;
    let address = match address {
        "host-gateway" => HOST_V4.into(),
        _ => address.trim_matches(['[', ']']).parse().map_err(|_| "not an address; write NAME:ADDRESS")?,
    };
    Ok((name, address))
}

impl NetworkArgs {
    /// Files of the pod: names and the name server.
    pub fn files(&self, mode: NetMode, hostname: &[u8]) -> Vec<Given> {
        let given = |at: &str, content| Given { at: at.into(), mode: 0o644, uid: 0, gid: 0, content: Some(content) };
        let (resolver, hosts) = match mode {
            NetMode::Host => self.host_files(hostname),
            NetMode::Policy => self.own_files(hostname),
            // Without these options the pod's kernel writes the names.
            NetMode::None if self.add_host.is_empty() && self.domainname.is_none() => return Vec::new(),
            NetMode::None => {
                let own = Ipv4Addr::new(127, 0, 1, 1);
                return vec![given("/etc/hosts", self.own_hosts(hostname, own).into_bytes())];
            }
        };
        vec![given("/etc/resolv.conf", resolver), given("/etc/hosts", hosts)]
    }

    /// The setting of `--domainname`.
    pub fn settings(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let name = self.domainname.as_ref()?;
        Some((b"kernel/domainname".to_vec(), name.clone().into_bytes()))
    }

    /// Names of the pod, the longest first: with its domain, and without.
    fn names(&self, hostname: &[u8]) -> String {
        let name = String::from_utf8_lossy(hostname);
        match (&self.domainname, name.split_once('.')) {
            (Some(domain), _) => format!("{name}.{domain} {name}"),
            (None, Some((short, _))) if !short.is_empty() => format!("{name} {short}"),
            (None, _) => name.into_owned(),
        }
    }

    /// What a resolver searches, and its options: those of the command line, or the host's.
    fn search_and_options(&self, host: &Configuration) -> String {
        let chosen = |own: &[String], host: &[String]| if own.is_empty() { host.to_vec() } else { own.to_vec() };
        let mut search = chosen(&self.dns_search, &host.search);
        search.retain(|domain| domain != ".");
        let options = chosen(&self.dns_option, &host.options);
        let line = |word: &str, list: &[String]| match list {
            [] => String::new(),
            list => format!("{word} {}\n", list.join(" ")),
        };
        line("search", &search) + &line("options", &options)
    }

    /// The host's files: programs ask its name servers themselves.
    fn host_files(&self, hostname: &[u8]) -> (Vec<u8>, Vec<u8>) {
        // A host without these files has no names.
        let mut resolver = std::fs::read("/etc/resolv.conf").unwrap_or_default();
        if !self.dns.is_empty() || !self.dns_search.is_empty() || !self.dns_option.is_empty() {
            let host = Configuration::of_host();
            let usual = host.servers.iter().map(SocketAddr::ip);
            let servers: Vec<IpAddr> = if self.dns.is_empty() { usual.collect() } else { self.dns.clone() };
            let servers: String = servers.iter().map(|ip| format!("nameserver {ip}\n")).collect();
            resolver = (servers + &self.search_and_options(&host)).into_bytes();
        }
        let mut hosts = std::fs::read("/etc/hosts").unwrap_or_default();
        hosts.extend(format!("\n127.0.0.1\t{}\n", self.names(hostname)).into_bytes());
        hosts.extend(self.added_hosts().into_bytes());
        (resolver, hosts)
    }

    /// Lines of `--add-host`.
    fn added_hosts(&self) -> String {
        self.add_host.iter().map(|(name, address)| format!("{address}\t{name}\n")).collect()
    }

    fn own_files(&self, hostname: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let host = Configuration::of_host();
        let resolver = format!("nameserver {RESOLVER_V4}\n{}", self.search_and_options(&host));
        (resolver.into_bytes(), self.own_hosts(hostname, POD_V4).into_bytes())
    }

    /// Names that a pod has without the host's, and its own at an address.
    fn own_hosts(&self, hostname: &[u8], own: Ipv4Addr) -> String {
        let mut hosts = String::from("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n");
        let _ = writeln!(hosts, "{own}\t{}", self.names(hostname));
        if self.rules().names_host() {
            let _ = writeln!(hosts, "{HOST_V4}\t{HOST_LOOPBACK}");
        }
        hosts + &self.added_hosts()
    }
}

#[cfg(test)]
mod tests {
    use super::super::allow;
    use super::*;

    #[test]
    fn files_of_the_pod() {
        let mut options = NetworkArgs::default();
        options.add(vec![allow("host.hull.internal:80").unwrap()], vec![], vec![]);
        options.add_host.push(add_host("db:host-gateway").unwrap());
        assert_eq!(add_host("db=::1"), add_host("db:[::1]"));
        let files = options.files(NetMode::Policy, b"box");
        let text = |index: usize| String::from_utf8(files[index].content.clone().unwrap()).unwrap();
        assert!(text(0).starts_with("nameserver 10.0.2.3\n"));
        assert!(text(1).ends_with("\n10.0.2.15\tbox\n10.0.2.2\thost.hull.internal\n10.0.2.2\tdb\n"), "{}", text(1));
        let mut options = NetworkArgs { domainname: Some("x.org".into()), ..NetworkArgs::default() };
        options.dns_search.push(search(".").unwrap());
        options.dns_option.extend(["ndots:3", "rotate"].map(|text| resolver_option(text).unwrap()));
        let files = options.files(NetMode::Policy, b"box");
        let text = |index: usize| String::from_utf8(files[index].content.clone().unwrap()).unwrap();
        assert_eq!(text(0), "nameserver 10.0.2.3\noptions ndots:3 rotate\n");
        assert!(text(1).ends_with("\n10.0.2.15\tbox.x.org box\n"), "{}", text(1));
        let files = options.files(NetMode::None, b"box");
        assert!(files.len() == 1 && files[0].content.as_ref().unwrap().ends_with(b"\n127.0.1.1\tbox.x.org box\n"));
        assert_eq!(NetworkArgs::default().files(NetMode::None, b"box"), []);
        assert_eq!(NetworkArgs::default().names(b"a.b.c"), "a.b.c a");
        for wrong in ["", "a b", "-", "x\n"] {
            assert!(search(wrong).is_err() && domain(wrong).is_err(), "{wrong}");
        }
        assert!(resolver_option("a b").is_err());
    }
}
