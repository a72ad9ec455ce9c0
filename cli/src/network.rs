//! Options of the pod's network, and what follows from them.

mod names;

use crate::failure::{Failure, Result};
use broker::address::{HOST_V4, HOST_V6, POD_V4, POD_V6};
use broker::server::setup::{Publish, Setup};
use clap::Args;
use policy::rule::Refusal;
use policy::{Listen, Name, Network, Rule, Verdict};
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Maximum number of ports of one range.
const MOST_PORTS: u16 = 1024;

/// Network options of `run` and `trace`.
#[derive(Args, Debug, Default)]
pub struct NetworkArgs {
    /// Network of the pod [default: policy if a rule, a published port or a policy file names one, else none]
    #[arg(long, visible_alias = "network", value_name = "none|policy|host", value_parser = net)]
    pub net: Option<NetMode>,

    /// Allow peers: a name, *.NAME, an address, ADDRESS/BITS, host.hull.internal, or `all`. Repeatable
    #[arg(long, value_name = "[tcp:|udp:|icmp:]PEER[:PORT[-PORT]]", value_parser = allow)]
    pub allow: Vec<Rule>,

    /// Deny peers; wins over all that is allowed. Repeatable
    #[arg(long, value_name = "[tcp:|udp:|icmp:]PEER[:PORT[-PORT]]", value_parser = deny)]
    pub deny: Vec<Rule>,

    /// Publish ports of the pod at ports of the host; without HOST: at a free one. Repeatable
    #[arg(short, long, value_name = "[IP:][HOST[-HOST]:]POD[/udp]", value_parser = publish)]
    pub publish: Vec<Published>,

    /// Publish all ports that the image or --expose names, at free ports of the host
    #[arg(short = 'P', long)]
    pub publish_all: bool,

    /// Name ports for --publish-all, besides those of the image. Repeatable
    #[arg(long, value_name = "PORT[-PORT][/udp]", value_parser = expose)]
    pub expose: Vec<Exposed>,

    /// Let the pod open ports of the host by listening on ports with the same numbers. Repeatable
    #[arg(long, value_name = "[tcp:|udp:][ADDRESS:]PORT[-PORT]", value_parser = allow_listen)]
    pub allow_listen: Vec<Listen>,

    /// Name server to ask instead of the host's. Repeatable
    #[arg(long, value_name = "ADDRESS")]
    pub dns: Vec<IpAddr>,

    /// Domain to search for names without a dot, in place of the host's; `.`: none. Repeatable
    #[arg(long, value_name = "DOMAIN", value_parser = names::search)]
    pub dns_search: Vec<String>,

    /// Option of the pod's /etc/resolv.conf, such as ndots:2, in place of the host's. Repeatable
    #[arg(long, visible_alias = "dns-opt", value_name = "OPTION", value_parser = names::resolver_option)]
    pub dns_option: Vec<String>,

    /// Domain of the host name: the pod's full name is HOSTNAME.DOMAIN
    #[arg(long, value_name = "DOMAIN", value_parser = names::domain)]
    pub domainname: Option<String>,

    /// Add a line to the pod's /etc/hosts. Repeatable
    #[arg(long, value_name = "NAME:ADDRESS", value_parser = names::add_host)]
    pub add_host: Vec<(Name, IpAddr)>,

    /// Enter a network namespace before sockets are opened: /run/netns/NAME or /proc/PID/ns/net. Needs root
    #[arg(long, value_name = "PATH")]
    pub net_namespace: Option<PathBuf>,

    /// Append a line of JSON to a file for each decision about the network
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,

    /// Write the policy that the run needed to a file: what it used of what it was allowed
    #[arg(long, value_name = "FILE")]
    pub record_policy: Option<PathBuf>,

    /// Do not report the first denial on the terminal
    #[arg(short, long)]
    pub quiet: bool,
}

/// `--net`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetMode {
    /// The pod's own loopback device
    None,
    /// Also the peers that rules allow, and published ports
    Policy,
    /// The host's network, loopback included: all addresses and ports are the host's
    Host,
}

/// Parses `--net`. Networks of other engines are explained.
fn net(text: &str) -> std::result::Result<NetMode, String> {
    match text {
        "none" => Ok(NetMode::None),
        "policy" => Ok(NetMode::Policy),
        "host" => Ok(NetMode::Host),
        "" => Err("no network is named; choose one of none, policy, host".into()),
        _ if text.starts_with("container:") || text.starts_with("ns:") => {
            Err("a pod shares its network with no other; choose one of none, policy, host".into())
        }
        _ => {
            let remedy = "choose one of none, policy, host: policy allows what --allow PEER names, or --allow all";
            Err(format!("Hull has no such network; {remedy}"))
        }
    }
}

fn allow(text: &str) -> std::result::Result<Rule, String> {
    Rule::parse(text, Verdict::Allow).map_err(|error| error.to_string())
}

fn allow_listen(text: &str) -> std::result::Result<Listen, String> {
    text.parse().map_err(str::to_owned)
}

fn deny(text: &str) -> std::result::Result<Rule, String> {
    Rule::parse(text, Verdict::Deny(Refusal::Access)).map_err(|error| error.to_string())
}

/// Ports of the pod and the host's ports for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published(Vec<Publish>);

/// Parses `[IP:][HOST[-HOST]:]POD[-POD][/tcp|/udp]`. Without a port of the host it is 0 until
/// [`NetworkArgs::find_ports`].
pub fn publish(text: &str) -> std::result::Result<Published, String> {
    const FORM: &str =
        "not a published port; write [IP:][HOST[-HOST]:]POD[/udp], such as 8080:80 or 127.0.0.1:5353:53/udp";
    let wrong = || FORM.to_owned();
    let (ports, udp) = match text.rsplit_once('/') {
        None => (text, false),
        Some((ports, "tcp")) => (ports, false),
        Some((ports, "udp")) => (ports, true),
        Some(_) => return Err(wrong()),
    };
    let (rest, pod) = ports.rsplit_once(':').unwrap_or(("", ports));
    let (address, host) = match rest.rsplit_once(':') {
        None => (None, rest),
        Some((address, host)) => (Some(address), host),
    };
    let address: Option<IpAddr> = match address {
        None => None,
        Some(text) => {
            let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
            let address = match inside {
                Some(text) => text.parse::<Ipv6Addr>().map(IpAddr::V6).ok(),
                None => text.parse::<Ipv4Addr>().map(IpAddr::V4).ok(),
            };
            Some(address.ok_or_else(wrong)?)
        }
    };
    let pod: policy::Ports = pod.parse().map_err(|_| wrong())?;
    let host: Option<policy::Ports> = if host.is_empty() { None } else { Some(host.parse().map_err(|_| wrong())?) };
    let count = host.map_or(pod.last - pod.first, |host| host.last - host.first);
    if pod.first != pod.last && pod.last - pod.first != count {
        return Err("the ranges differ in length; write HOST-HOST:POD with the pod's first port".into());
    }
    if count >= MOST_PORTS {
        return Err(format!("more than {MOST_PORTS} ports; publish fewer"));
    }
    if pod.first.checked_add(count).is_none() {
        return Err("the pod's ports would end beyond 65535; choose lower ones".into());
    }
    let addresses = match address {
        Some(address) => vec![(address, false)],
        None => vec![(Ipv4Addr::UNSPECIFIED.into(), false), (Ipv6Addr::UNSPECIFIED.into(), true)],
    };
    let publish = |number: u16| {
        let one = move |(address, optional)| {
            let host = SocketAddr::new(address, host.map_or(0, |host| host.first + number));
            Publish { udp, host, pod: pod.first + number, optional }
        };
        addresses.clone().into_iter().map(one)
    };
    Ok(Published((0..=count).flat_map(publish).collect()))
}

/// Ports of the pod that an image names, or `--expose`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposed {
    udp: bool,
    ports: policy::Ports,
}

/// Parses `PORT[-PORT][/tcp|/udp]`.
pub fn expose(text: &str) -> std::result::Result<Exposed, String> {
    const FORM: &str = "not a port; write PORT[-PORT][/udp], such as 80 or 53/udp";
    let (ports, kind) = text.split_once('/').unwrap_or((text, "tcp"));
    let udp = match kind {
        "tcp" => false,
        "udp" => true,
        _ => return Err(FORM.to_owned()),
    };
    ports.parse().map(|ports| Exposed { udp, ports }).map_err(|_| FORM.to_owned())
}

/// A socket at a port of the host that no other socket has, at one address or at all.
fn free_port(udp: bool, address: Option<IpAddr>) -> std::io::Result<(u16, OwnedFd)> {
    // One for both protocols of addresses, where the host has both.
    let all: [SocketAddr; 2] = [(Ipv6Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::UNSPECIFIED, 0).into()];
    let all = address.map_or(all.to_vec(), |address| vec![(address, 0).into()]);
    if udp {
        let socket = UdpSocket::bind(&all[..])?;
        Ok((socket.local_addr()?.port(), socket.into()))
    } else {
        let socket = TcpListener::bind(&all[..])?;
        Ok((socket.local_addr()?.port(), socket.into()))
    }
}

/// The pod's network device. `host`: the pod has the host's network.
pub fn device(host: bool) -> abi::boot::Network {
    let (address4, address6) = ((POD_V4.octets(), 24), (POD_V6.octets(), 64));
    abi::boot::Network { address4, gateway4: HOST_V4.octets(), address6, gateway6: HOST_V6.octets(), host }
}

impl NetworkArgs {
    /// Adds the rules and ports of a policy file, which come before those of the command line.
    pub fn add(&mut self, rules: Vec<Rule>, ports: Vec<Published>, listen: Vec<Listen>) {
        // Their order does not matter for decisions; allowed and denied ones are told apart by themselves.
        self.allow.splice(..0, rules);
        self.publish.splice(..0, ports);
        self.allow_listen.splice(..0, listen);
    }

    /// Whether the pod has a network beyond its loopback device.
    pub fn mode(&self) -> Result<NetMode> {
        let reason = [
            (!self.allow.is_empty() || !self.deny.is_empty(), "rules for the network"),
            (!self.publish.is_empty(), "published ports"),
            (!self.allow_listen.is_empty(), "ports to listen on"),
        ];
        let reason = reason.into_iter().find(|(given, _)| *given).map(|(_, what)| what);
        match (self.net, reason) {
            (Some(NetMode::Host), Some(what)) => {
                let remedy = "leave them out, or use --net policy";
                Err(Failure::request("--net host", format!("there are {what}"), remedy))
            }
            (Some(NetMode::Host), None) if self.record_policy.is_some() => {
                Err(Failure::request("--record-policy", "--net host has no policy", "use --net policy --allow all"))
            }
            (Some(NetMode::None), Some(what)) => {
                Err(Failure::request("--net none", format!("there are {what}"), "leave one of both out"))
            }
            (Some(mode), _) => Ok(mode),
            (None, Some(_)) => Ok(NetMode::Policy),
            (None, None) => {
                let useless = [
                    (!self.dns.is_empty(), "--dns"),
                    (!self.dns_search.is_empty(), "--dns-search"),
                    (!self.dns_option.is_empty(), "--dns-option"),
                    (self.net_namespace.is_some(), "--net-namespace"),
                    (self.audit.is_some(), "--audit"),
                    (self.record_policy.is_some(), "--record-policy"),
                ];
                match useless.into_iter().find(|(given, _)| *given) {
                    None => Ok(NetMode::None),
                    Some((_, option)) => {
                        let remedy = "allow peers with --allow PEER, or write --net policy";
                        Err(Failure::request(option, "the pod has no network", remedy))
                    }
                }
            }
        }
    }

    /// Publishes the exposed ports that are not published yet, and those of `--expose`, each at a port of the host that is free
    /// at this moment.
    pub fn publish_exposed(&mut self, exposed: &[Exposed]) -> Result<()> {
        let each = |exposed: &Exposed| {
            let udp = exposed.udp;
            (exposed.ports.first..=exposed.ports.last).map(move |port| (udp, port))
        };
        let mut ports: BTreeSet<(bool, u16)> = exposed.iter().chain(&self.expose).flat_map(each).collect();
        for one in self.publish.iter().flat_map(|published| &published.0) {
            ports.remove(&(one.udp, one.pod));
        }
        let failure = |why: String, remedy: &str| Err(Failure::request("--publish-all", why, remedy));
        if ports.len() > MOST_PORTS.into() {
            return failure(format!("more than {MOST_PORTS} ports"), "publish some with --publish HOST:POD");
        }
        // All are held until the last is found, so they differ.
        let mut held = Vec::new();
        for (udp, pod) in ports {
            let (host, socket) = match free_port(udp, None) {
                Ok(found) => found,
                Err(error) => {
                    return failure(format!("no port is free: {error}"), "publish ports with --publish HOST:POD");
                }
            };
            held.push(socket);
            let address = |ip: IpAddr| SocketAddr::new(ip, host);
            self.publish.push(Published(vec![
                Publish { udp, host: address(Ipv4Addr::UNSPECIFIED.into()), pod, optional: false },
                Publish { udp, host: address(Ipv6Addr::UNSPECIFIED.into()), pod, optional: true },
            ]));
        }
        Ok(())
    }

    /// Gives the published ports that name no port of the host one that is free at this moment.
    pub fn find_ports(&mut self) -> Result<()> {
        // All are held until the last is found, so they differ.
        let mut held = Vec::new();
        for Published(all) in &mut self.publish {
            // A port of the pod has the same one at all addresses.
            let mut last: Option<(u16, u16)> = None;
            for one in all.iter_mut().filter(|one| one.host.port() == 0) {
                let found = match last {
                    Some((pod, found)) if pod == one.pod => found,
                    _ => {
                        let address = Some(one.host.ip()).filter(|address| !address.is_unspecified());
                        let (found, socket) = free_port(one.udp, address).map_err(|error| {
                            let what = format!("--publish {}:{}", one.host.ip(), one.pod);
                            Failure::request(what, format!("no port is free: {error}"), "name one: HOST:POD")
                        })?;
                        held.push(socket);
                        last = Some((one.pod, found));
                        found
                    }
                };
                one.host.set_port(found);
            }
        }
        Ok(())
    }

    /// Published ports as docker writes them.
    pub fn ports(&self) -> Vec<String> {
        let kind = |publish: &Publish| if publish.udp { "udp" } else { "tcp" };
        let shown = |publish: &Publish| format!("{}->{}/{}", publish.host, publish.pod, kind(publish));
        self.publish.iter().flat_map(|published| &published.0).map(shown).collect()
    }

    /// The broker's configuration. `recorded`: what a recorded policy has besides the network.
    pub fn setup(&self, identity: Option<(u32, u32, Vec<u32>)>, weak: bool, recorded: String) -> Setup {
        let path = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
        let mut setup = Setup {
            publish: self.publish.iter().flat_map(|published| published.0.clone()).collect(),
            listen: self.allow_listen.iter().map(Listen::to_string).collect(),
            dns: self.dns.clone(),
            hosts: self.add_host.iter().map(|(name, address)| (name.to_string(), *address)).collect(),
            namespace: self.net_namespace.as_ref().map(path),
            audit: self.audit.as_ref().map(path),
            record: self.record_policy.as_ref().map(|file| (path(file), recorded)),
            tells: !self.quiet && std::io::stderr().is_terminal(),
            pod: std::process::id(),
            identity,
            weak,
            ..Setup::default()
        };
        setup.set_rules(&self.rules().rules);
        setup
    }

    fn rules(&self) -> Network {
        Network { rules: self.allow.iter().chain(&self.deny).cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(text: &str) -> Vec<String> {
        let Published(all) = publish(text).unwrap();
        let kind = |udp| if udp { "udp" } else { "tcp" };
        all.iter().map(|one| format!("{} {} {}", kind(one.udp), one.host, one.pod)).collect()
    }

    #[test]
    fn exposed_ports() {
        let exposed = ["80", "53/udp", "7000-7001/tcp", "8080"].map(|text| expose(text).unwrap());
        for text in ["", "x", "0-", "80/icmp", "9-8", "80/tcp/udp", "1:2"] {
            assert!(expose(text).unwrap_err().starts_with("not a port; "), "{text}");
        }
        let mut network = NetworkArgs { publish: vec![publish("9:8080").unwrap()], ..NetworkArgs::default() };
        network.expose.push(expose("81").unwrap());
        network.publish_exposed(&exposed).unwrap();
        let all: Vec<_> = network.publish.iter().skip(1).flat_map(|published| &published.0).collect();
        let pods: Vec<_> = all.iter().filter(|one| !one.optional).map(|one| (one.udp, one.pod)).collect();
        assert_eq!(pods, [(false, 80), (false, 81), (false, 7000), (false, 7001), (true, 53)]);
        let hosts: BTreeSet<_> = all.iter().map(|one| (one.udp, one.host.port())).collect();
        assert!(hosts.len() == 5 && hosts.iter().all(|(_, port)| *port != 0));
        let many = [expose("1-2000").unwrap()];
        assert!(NetworkArgs::default().publish_exposed(&many).is_err());
    }

    #[test]
    fn published_ports() {
        assert_eq!(published("8080:80"), ["tcp 0.0.0.0:8080 80", "tcp [::]:8080 80"]);
        assert_eq!(published("127.0.0.1:53:54/udp"), ["udp 127.0.0.1:53 54"]);
        assert_eq!(published("[::1]:1-2:7/tcp"), ["tcp [::1]:1 7", "tcp [::1]:2 8"]);
        assert_eq!(published("1.1.1.1:5-6:8-9").len(), 2);
        assert_eq!(published("80"), ["tcp 0.0.0.0:0 80", "tcp [::]:0 80"]);
        assert_eq!(published("127.0.0.1::53-54/udp"), ["udp 127.0.0.1:0 53", "udp 127.0.0.1:0 54"]);
        for text in ["a:80", "80:0", "80:80/sctp", "::1:80:80", "1.2.3:80:80", "80-70:1", "[1.1.1.1]:80:80", ""] {
            assert!(publish(text).unwrap_err().starts_with("not a published port; "), "{text}");
        }
        assert!(publish("1-2:1-3").unwrap_err().starts_with("the ranges differ"));
        assert!(publish("1-1025:1").unwrap_err().starts_with("more than 1024"));
        assert!(publish("1-9:65530").unwrap_err().starts_with("the pod's ports"));
    }

    #[test]
    fn free_ports_are_found() {
        let publish = ["80", "81-82", "127.0.0.1::83/udp", "9:84"].map(|text| publish(text).unwrap());
        let mut network = NetworkArgs { publish: publish.into(), ..NetworkArgs::default() };
        network.find_ports().unwrap();
        let all: Vec<_> = network.publish.iter().flat_map(|published| &published.0).collect();
        let hosts: BTreeSet<_> = all.iter().map(|one| one.host.port()).collect();
        assert!(all.len() == 9 && hosts.len() == 5 && hosts.contains(&9) && !hosts.contains(&0), "{all:?}");
        assert_eq!(all[0].host.port(), all[1].host.port());
    }

    #[test]
    fn networks_of_other_engines() {
        assert_eq!(
            (net("none"), net("policy"), net("host")),
            (Ok(NetMode::None), Ok(NetMode::Policy), Ok(NetMode::Host))
        );
        assert!(net("container:x").unwrap_err().starts_with("a pod shares its network with no other; "));
        for text in ["bridge", "default", "mine"] {
            assert!(net(text).unwrap_err().starts_with("Hull has no such network; "), "{text}");
        }
    }

    #[test]
    fn modes() {
        let own = NetworkArgs::default;
        let rules = || vec![allow("a.b").unwrap()];
        assert_eq!(own().mode().unwrap(), NetMode::None);
        assert_eq!(NetworkArgs { allow: rules(), ..own() }.mode().unwrap(), NetMode::Policy);
        assert_eq!(NetworkArgs { net: Some(NetMode::Policy), ..own() }.mode().unwrap(), NetMode::Policy);
        let line = |options: NetworkArgs| options.mode().unwrap_err().to_string();
        let text = line(NetworkArgs { net: Some(NetMode::None), allow: rules(), ..own() });
        assert_eq!(text, "--net none: there are rules for the network; leave one of both out");
        assert_eq!(NetworkArgs { net: Some(NetMode::Host), ..own() }.mode().unwrap(), NetMode::Host);
        let text = line(NetworkArgs { net: Some(NetMode::Host), publish: vec![Published(vec![])], ..own() });
        assert_eq!(text, "--net host: there are published ports; leave them out, or use --net policy");
        assert!(
            line(NetworkArgs { audit: Some("x".into()), ..own() }).starts_with("--audit: the pod has no network; ")
        );
    }
}
