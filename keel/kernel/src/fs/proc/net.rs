//! `/proc/net`: the loopback device, and the heads of tables that have no rows.

use super::{constant, sockets, text};
use alloc::format;
use alloc::string::String;
use uapi::raw::net;
use vfs::synth::{Entry, Table, table};

const DEVICES: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
";

const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const TCP6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue \
     tr tm->when retrnsmt   uid  timeout inode\n";
const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";
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

/// Bytes of a line of the tables of IPv4 sockets and routes, which are padded.
const TCP_WIDTH: usize = 149;
const UDP_WIDTH: usize = 127;
const ROUTE_WIDTH: usize = 127;

fn padded(line: &str, width: usize) -> String {
    format!("{line:<width$}\n")
}

/// Names and values of a group of counters.
fn counters(name: &str, names: &str, first: &[&str]) -> String {
    let rest = names.split(' ').count() - first.len();
    let values: String =
        first.iter().copied().chain(core::iter::repeat_n("0", rest)).map(|v| format!(" {v}")).collect();
    format!("{name}: {names}\n{name}:{values}\n")
}

fn snmp() -> String {
    [
        counters("Ip", IP, &["2", "64"]),
        counters("Icmp", ICMP, &[]),
        counters("Tcp", TCP_COUNTERS, &["1", "200", "120000", "-1"]),
        counters("Udp", UDP_COUNTERS, &[]),
        counters("UdpLite", UDP_COUNTERS, &[]),
    ]
    .concat()
}

/// The directory.
pub fn directory() -> Table {
    table([
        ("arp", constant("IP address       HW type     Flags       HW address            Mask     Device\n")),
        ("dev", constant(DEVICES)),
        ("dev_mcast", constant("")),
        ("if_inet6", constant("00000000000000000000000000000001 01 80 10 80       lo\n")),
        ("igmp", constant("Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n")),
        ("ipv6_route", constant("")),
        (
            "netlink",
            constant("sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"),
        ),
        ("packet", constant("sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n")),
        (
            "raw",
            constant(
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n",
            ),
        ),
        ("raw6", constant(UDP6)),
        ("route", text(|| padded(ROUTES, ROUTE_WIDTH))),
        ("snmp", text(snmp)),
        (
            "sockstat",
            constant(
                "sockets: used 0\nTCP: inuse 0 orphan 0 tw 0 alloc 0 mem 0\nUDP: inuse 0 mem 0\nUDPLITE: inuse 0\nRAW: inuse 0\n\
             FRAG: inuse 0 memory 0\n",
            ),
        ),
        (
            "sockstat6",
            constant("TCP6: inuse 0\nUDP6: inuse 0\nUDPLITE6: inuse 0\nRAW6: inuse 0\nFRAG6: inuse 0 memory 0\n"),
        ),
        ("tcp", text(|| padded(TCP, TCP_WIDTH) + &sockets::inet(net::AF_INET, net::SOCK_STREAM, TCP_WIDTH))),
        ("tcp6", text(|| String::from(TCP6) + &sockets::inet(net::AF_INET6, net::SOCK_STREAM, 0))),
        ("udp", text(|| padded(UDP, UDP_WIDTH) + &sockets::inet(net::AF_INET, net::SOCK_DGRAM, UDP_WIDTH))),
        ("udp6", text(|| String::from(UDP6) + &sockets::inet(net::AF_INET6, net::SOCK_DGRAM, 0))),
        ("unix", Entry::file(0o444, || Ok(sockets::unix()))),
    ])
}
