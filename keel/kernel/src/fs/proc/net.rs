//! `/proc/PID/net`: the network namespace of a process: the loopback device, its counters, sockets, and the heads of tables that have no rows.

use super::Generated;
use super::sockets::{self, Kind};
use crate::socket::inet::statistics::{self, Count};
use crate::socket::netns::NetNs;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::FileType;
use vfs::synth::{Entry, SynthDir};

const DEVICES: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
";

const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const TCP6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue \
     tr tm->when retrnsmt   uid  timeout inode\n";
const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";
const ICMP_ECHOES: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";
const UDP6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue \
     tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n";
const ROUTES: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";

const IP: &str = "Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards \
     InDelivers OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails \
     FragCreates OutTransmits";
const ICMP: &str = "InMsgs InErrors InCsumErrors InDestUnreachs InTimeExcds InParmProbs InSrcQuenchs InRedirects InEchos \
     InEchoReps InTimestamps InTimestampReps InAddrMasks InAddrMaskReps OutMsgs OutErrors OutRateLimitGlobal \
     OutRateLimitHost OutDestUnreachs OutTimeExcds OutParmProbs OutSrcQuenchs OutRedirects OutEchos OutEchoReps \
     OutTimestamps OutTimestampReps OutAddrMasks OutAddrMaskReps";
const TCP_COUNTERS: &str = "RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab \
     InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors";
const UDP_COUNTERS: &str =
    "InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors";
/// Events of packets, timers and lack of room, which never occur because a send copies directly to its receiver.
const TCP_EVENTS: &str = "SyncookiesSent SyncookiesRecv SyncookiesFailed EmbryonicRsts PruneCalled RcvPruned OfoPruned \
     OutOfWindowIcmps LockDroppedIcmps ArpFilter TW TWRecycled TWKilled PAWSActive PAWSEstab DelayedACKs \
     DelayedACKLocked DelayedACKLost ListenOverflows ListenDrops TCPRenoRecovery TCPSackRecovery TCPSACKReneging \
     TCPLostRetransmit TCPRenoFailures TCPSackFailures TCPLossFailures TCPFastRetrans TCPSlowStartRetrans TCPTimeouts \
     TCPLossProbes TCPRcvCollapsed TCPMemoryPressures TCPSpuriousRTOs TCPBacklogDrop PFMemallocDrop TCPDeferAcceptDrop \
     IPReversePathFilter TCPTimeWaitOverflow TCPReqQFullDoCookies TCPReqQFullDrop TCPRetransFail TCPOFOQueue TCPOFODrop \
     TCPSynRetrans TCPWqueueTooBig TCPZeroWindowDrop TCPRcvQDrop";
const IP_EVENTS: &str = "InNoRoutes InTruncatedPkts InMcastPkts OutMcastPkts InBcastPkts OutBcastPkts InOctets OutOctets \
     InMcastOctets OutMcastOctets InBcastOctets OutBcastOctets InCsumErrors InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts \
     ReasmOverlaps";

const RAW: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n";

/// Bytes of a line of the tables of IPv4 sockets and routes, which are padded.
const TCP_WIDTH: usize = 149;
const UDP_WIDTH: usize = 127;
const ROUTE_WIDTH: usize = 127;

fn padded(line: &str, width: usize) -> String {
    format!("{line:<width$}\n")
}

/// Names and values of a group of counters.
fn counters(name: &str, names: &str, first: &[String]) -> String {
    let rest = names.split(' ').count() - first.len();
    let values: String =
        first.iter().map(String::as_str).chain(core::iter::repeat_n("0", rest)).map(|v| format!(" {v}")).collect();
    format!("{name}: {names}\n{name}:{values}\n")
}

/// The loopback device: received counters equal the sent ones.
fn devices(ns: &NetNs) -> String {
    let (bytes, packets) = (Count::Bytes.get(ns), Count::Packets.get(ns));
    let row = format!(
        "    lo: {bytes:7} {packets:7}    0    0    0     0          0         0 {bytes:8} {packets:7}    0    0    0     0       \
         0          0\n"
    );
    let device = if ns.device().is_some() { ETH0 } else { "" };
    String::from(DEVICES) + &row + device
}

/// The device that leads out of the pod; its packets are the host's.
const ETH0: &str = "  eth0:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n";

/// Addresses of IPv6, by device.
fn addresses6(ns: &NetNs) -> Result<String> {
    let mut text = String::new();
    for (own, bits) in ns.lo.v6()? {
        let scope = if own.is_loopback() { 0x10 } else { 0 };
        text += &format!("{:032x} 01 {bits:02x} {scope:02x} 80       lo\n", u128::from(own));
    }
    if let Some(device) = ns.device() {
        let (address, bits) = (u128::from(device.v6.0), device.v6.1);
        text += &format!("{address:032x} 02 {bits:02x} 00 80     eth0\n");
    }
    Ok(text)
}

/// Routes of IPv4: to the device's network, and through its router.
fn routes(ns: &NetNs) -> String {
    let mut text = padded(ROUTES, ROUTE_WIDTH);
    if let Some(device) = ns.device() {
        let hex = |address: [u8; 4]| u32::from_ne_bytes(address);
        let mask = u32::MAX.checked_shl(32 - u32::from(device.v4.1)).unwrap_or(0);
        let network = (u32::from(device.v4.0) & mask).to_be_bytes();
        let router = hex(device.router4.octets());
        let line = format!("eth0\t00000000\t{router:08X}\t0003\t0\t0\t0\t00000000\t0\t0\t0");
        text += &padded(&line, ROUTE_WIDTH);
        let (network, mask) = (hex(network), hex(mask.to_be_bytes()));
        let line = format!("eth0\t{network:08X}\t00000000\t0001\t0\t0\t0\t{mask:08X}\t0\t0\t0");
        text += &padded(&line, ROUTE_WIDTH);
    }
    text
}

fn sockstat(ns: &Rc<NetNs>) -> Result<Vec<u8>> {
    let [all, tcp, udp] = sockets::in_use(ns, net::AF_INET)?;
    let text = format!(
        "sockets: used {all}\nTCP: inuse {tcp} orphan 0 tw 0 alloc {tcp} mem 0\nUDP: inuse {udp} mem 0\nUDPLITE: inuse 0\n\
         RAW: inuse 0\nFRAG: inuse 0 memory 0\n"
    );
    Ok(text.into_bytes())
}

fn sockstat6(ns: &Rc<NetNs>) -> Result<Vec<u8>> {
    let [_, tcp, udp] = sockets::in_use(ns, net::AF_INET6)?;
    let text =
        format!("TCP6: inuse {tcp}\nUDP6: inuse {udp}\nUDPLITE6: inuse 0\nRAW6: inuse 0\nFRAG6: inuse 0 memory 0\n");
    Ok(text.into_bytes())
}

fn snmp(ns: &NetNs) -> String {
    let number = |count: Count| format!("{}", count.get(ns));
    let zero = || String::from("0");
    let packets = number(Count::Packets);
    let ip = [
        String::from("2"),
        String::from("64"),
        packets.clone(),
        zero(),
        zero(),
        zero(),
        zero(),
        zero(),
        packets.clone(),
        packets,
    ];
    let connected = statistics::tcp(ns).filter(|row| row.remote.is_some()).count();
    let segments = number(Count::TcpSegments);
    let tcp = [
        String::from("1"),
        String::from("200"),
        String::from("120000"),
        String::from("-1"),
        number(Count::TcpActiveOpens),
        number(Count::TcpPassiveOpens),
        number(Count::TcpAttemptFails),
        number(Count::TcpResets),
        format!("{connected}"),
        segments.clone(),
        segments,
        zero(),
        zero(),
        number(Count::TcpResets),
    ];
    let (received, dropped) = (number(Count::UdpReceived), number(Count::UdpDropped));
    let udp = [received, number(Count::UdpNoPorts), dropped.clone(), number(Count::UdpSent), dropped];
    [
        counters("Ip", IP, &ip),
        counters("Icmp", ICMP, &[]),
        counters("Tcp", TCP_COUNTERS, &tcp),
        counters("Udp", UDP_COUNTERS, &udp),
        counters("UdpLite", UDP_COUNTERS, &[]),
    ]
    .concat()
}

fn netstat(ns: &NetNs) -> String {
    let mut ip: [String; 14] = core::array::from_fn(|_| String::from("0"));
    ip[6] = format!("{}", Count::Bytes.get(ns));
    ip[7] = ip[6].clone();
    ip[13] = format!("{}", Count::Packets.get(ns));
    [counters("TcpExt", TCP_EVENTS, &[]), counters("IpExt", IP_EVENTS, &ip)].concat()
}

/// A table without rows.
fn head(text: &str) -> Result<Vec<u8>> {
    Ok(text.as_bytes().to_vec())
}

/// Makes the content of a file.
type Make = fn(&Rc<NetNs>) -> Result<Vec<u8>>;

/// The files.
const FILES: [(&str, Make); 22] = [
    ("arp", |_| head("IP address       HW type     Flags       HW address            Mask     Device\n")),
    ("dev", |ns| Ok(devices(ns).into_bytes())),
    ("dev_mcast", |_| head("")),
    ("icmp", |ns| sockets::inet(ns, &padded(ICMP_ECHOES, UDP_WIDTH), net::AF_INET, Kind::Echo, UDP_WIDTH)),
    ("icmp6", |ns| sockets::inet(ns, UDP6, net::AF_INET6, Kind::Echo, 0)),
    ("if_inet6", |ns| Ok(addresses6(ns)?.into_bytes())),
    ("igmp", |_| head("Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n")),
    ("ipv6_route", |_| head("")),
    ("netlink", |_| head("sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n")),
    ("netstat", |ns| Ok(netstat(ns).into_bytes())),
    ("packet", |_| head("sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n")),
    ("raw", |_| head(RAW)),
    ("raw6", |_| head(UDP6)),
    ("route", |ns| Ok(routes(ns).into_bytes())),
    ("snmp", |ns| Ok(snmp(ns).into_bytes())),
    ("sockstat", sockstat),
    ("sockstat6", sockstat6),
    ("tcp", |ns| sockets::inet(ns, &padded(TCP, TCP_WIDTH), net::AF_INET, Kind::Tcp, TCP_WIDTH)),
    ("tcp6", |ns| sockets::inet(ns, TCP6, net::AF_INET6, Kind::Tcp, 0)),
    ("udp", |ns| sockets::inet(ns, &padded(UDP, UDP_WIDTH), net::AF_INET, Kind::Udp, UDP_WIDTH)),
    ("udp6", |ns| sockets::inet(ns, UDP6, net::AF_INET6, Kind::Udp, 0)),
    ("unix", sockets::unix),
];

/// The directory of a namespace; `None`: the process has ended, and its directory is empty.
pub struct Directory(pub Option<Rc<NetNs>>);

impl SynthDir for Directory {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        let ns = self.0.clone().ok_or(Errno::EINVAL)?;
        let &(_, make) = FILES.iter().find(|(known, _)| known.as_bytes() == name).ok_or(Errno::ENOENT)?;
        let generation = ns.inode();
        Ok(Entry::file(0o444, Generated(move || make(&ns))).generation(generation))
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        if self.0.is_none() {
            return Ok(Vec::new());
        }
        Ok(FILES.iter().map(|(name, _)| (name.as_bytes().to_vec(), FileType::Regular)).collect())
    }
}
