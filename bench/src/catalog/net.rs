//! The network of a pod with peers outside of it, `hull bench net`. On the host the same programs use the loopback device
//! without a pod; the peers run on the host both times.

use super::{Benchmark, Kind};

/// What the measured program does. Its peers are threads of the benchmark itself, or `wrk`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Talk {
    /// Echoes datagrams of 200 bytes of some peers, of which each has a number of them under way.
    UdpServer { peers: u32, outstanding: u32 },
    /// Sends datagrams of 200 bytes and keeps a number of them under way.
    UdpClient { outstanding: u32 },
    /// Sends a stream.
    BulkOut,
    /// Receives a stream.
    BulkIn,
    /// Sends `count` messages of `bytes` each and waits for one byte.
    Messages { bytes: u32, count: u32 },
    /// Sends a request of 200 bytes and waits for an answer of as many.
    Request,
    /// Answers such requests.
    Answer,
    /// Connects, sends a request, waits for the answer and for the end of the stream.
    Connect,
    /// Accepts a connection, reads a request, answers and closes.
    Accept,
    /// nginx that serves a document of this size.
    Web { kib: u32 },
}

impl Talk {
    /// Endings of the names of its rows.
    pub const fn rows(self) -> &'static [&'static str] {
        match self {
            Self::UdpServer { .. } | Self::Answer => &["", "-p50", "-p99", "-cpu", "-exits"],
            Self::Web { .. } => &["", "-p99", "-cpu"],
            _ => &["", "-cpu", "-exits"],
        }
    }
}

/// Number of rules of a policy with many.
pub const RULES: u32 = 100;

const fn net(name: &'static str, what: &'static str, talk: Talk) -> Benchmark {
    Benchmark { name, what, kind: Kind::Net { talk, rules: false }, options: &[] }
}

/// In place of the host, a pod with few rules.
const fn rules(name: &'static str, what: &'static str, talk: Talk) -> Benchmark {
    Benchmark { name, what, kind: Kind::Net { talk, rules: true }, options: &[] }
}

/// Rows of one outstanding datagram and of 32 in a mode of the doorbell.
macro_rules! doorbell {
    ($mode:literal) => {
        [
            Benchmark {
                options: &["--doorbell", $mode],
                ..net(
                    concat!("net-udp-1-", $mode),
                    concat!("net-udp-1 with --doorbell ", $mode),
                    Talk::UdpServer { peers: 1, outstanding: 1 },
                )
            },
            Benchmark {
                options: &["--doorbell", $mode],
                ..net(
                    concat!("net-udp-32-", $mode),
                    concat!("net-udp-32 with --doorbell ", $mode),
                    Talk::UdpServer { peers: 1, outstanding: 32 },
                )
            },
        ]
    };
}

/// The modes that `--doorbell` fixes.
pub const DOORBELLS: &[[Benchmark; 2]] = &[doorbell!("exit"), doorbell!("event"), doorbell!("poll")];

const UDP_32: Talk = Talk::UdpServer { peers: 1, outstanding: 32 };

/// All others.
pub const ALL: &[Benchmark] = &[
    net(
        "net-udp-1",
        "an echo server of 200-byte datagrams, one under way: per echo; latency, processor time, exits per echo",
        Talk::UdpServer { peers: 1, outstanding: 1 },
    ),
    net("net-udp-32", "the same, 32 under way", UDP_32),
    net("net-udp-256", "the same, 32 of each of 8 peers under way", Talk::UdpServer { peers: 8, outstanding: 32 }),
    net("net-udp-out-1", "a client of such a server, one datagram under way", Talk::UdpClient { outstanding: 1 }),
    net("net-udp-out-32", "the same, 32 under way", Talk::UdpClient { outstanding: 32 }),
    net("net-tcp-out", "a stream sent over TCP, per KiB", Talk::BulkOut),
    net("net-tcp-in", "a stream received over TCP, per KiB", Talk::BulkIn),
    net("net-tcp-request", "a request of 200 bytes over TCP and its answer, client", Talk::Request),
    net("net-tcp-answer", "the same, server", Talk::Answer),
    net("net-connect", "connect, a request, its answer, close: client", Talk::Connect),
    net("net-accept", "the same, server", Talk::Accept),
    net("net-1m-64", "1 MiB over TCP in messages of 64 bytes", Talk::Messages { bytes: 64, count: 16384 }),
    net("net-1m-256", "the same, 256 bytes", Talk::Messages { bytes: 256, count: 4096 }),
    net("net-1m-1024", "the same, 1,024 bytes", Talk::Messages { bytes: 1024, count: 1024 }),
    net("net-1m-4096", "the same, 4,096 bytes", Talk::Messages { bytes: 4096, count: 256 }),
    net("net-1m-16384", "the same, 16,384 bytes", Talk::Messages { bytes: 16384, count: 64 }),
    net("net-1k-64", "64 messages of 1,024 bytes over TCP", Talk::Messages { bytes: 1024, count: 64 }),
    net("net-1k-512", "the same, 512 messages", Talk::Messages { bytes: 1024, count: 512 }),
    net("net-1k-4096", "the same, 4,096 messages", Talk::Messages { bytes: 1024, count: 4096 }),
    net("net-web-1", "nginx, documents of 1 KiB, wrk with 64 connections, per request", Talk::Web { kib: 1 }),
    net("net-web-10", "the same, 10 KiB", Talk::Web { kib: 10 }),
    net("net-web-100", "the same, 100 KiB", Talk::Web { kib: 100 }),
    net("net-web-1000", "the same, 1,000 KiB", Talk::Web { kib: 1000 }),
    rules("net-rules-udp-32", "net-udp-32 in a pod with few rules; in a pod with a hundred more", UDP_32),
    rules("net-rules-tcp-request", "the same for net-tcp-request", Talk::Request),
    rules("net-rules-connect", "the same for net-connect", Talk::Connect),
];
