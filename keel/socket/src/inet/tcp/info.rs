//! State of a connection, and `TCP_INFO`.

use super::super::super::netns::NetNs;
use super::super::super::options::Value;
use super::super::statistics::Count;
use super::Tcp;
use core::cell::Cell;

/// States of the protocol that occur, with Linux's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Connected, both streams open.
    Established = 1,
    /// Waits for a place in the listener's backlog.
    SynSent = 2,
    /// The own stream has ended.
    FinWait2 = 5,
    /// No connection.
    Close = 7,
    /// The peer's stream has ended.
    CloseWait = 8,
    /// Accepts connections.
    Listen = 10,
}

/// Counters of a socket. Each transfer counts as a segment.
#[derive(Debug, Default)]
pub struct Counters {
    bytes_sent: Cell<u64>,
    bytes_received: Cell<u64>,
    segments_sent: Cell<u32>,
    segments_received: Cell<u32>,
}

impl Counters {
    /// Bytes left.
    pub fn sent(&self, ns: &NetNs, bytes: usize) {
        Count::TcpSegments.add(ns, 1);
        Count::Packets.add(ns, 1);
        Count::Bytes.add(ns, bytes as u64);
        self.bytes_sent.set(self.bytes_sent.get() + bytes as u64);
        self.segments_sent.set(self.segments_sent.get().wrapping_add(1));
    }

    /// Counts received bytes.
    pub fn received(&self, bytes: usize) {
        self.bytes_received.set(self.bytes_received.get() + bytes as u64);
        self.segments_received.set(self.segments_received.get().wrapping_add(1));
    }
}

/// Bytes of a segment on the loopback device, and its largest packet.
pub const SEGMENT: u32 = 32768;
const LARGEST_SEGMENT: u32 = 65483;
const MTU: u32 = 65535;
/// Retransmission and delayed acknowledgement timeouts in microseconds.
const RTO_US: u32 = 201_000;
const ATO_US: u32 = 40_000;
/// Window in segments, and an initial slow start threshold.
const WINDOW: u32 = 10;
const INFINITE: u32 = 0x7fff_ffff;
/// `TCPI_OPT_TIMESTAMPS`, `TCPI_OPT_SACK`, `TCPI_OPT_WSCALE`.
const OPTIONS: u8 = 7;
/// Window scales (4 bits each).
const SCALES: u8 = 0x77;

impl Tcp {
    /// `TCP_INFO`. What describes the network has the values of an idle loopback device.
    pub(super) fn info(&self) -> Value {
        let counters = &self.counters;
        let connected = self.is_connected();
        let (backlog, max_backlog) = if self.state.get() == State::Listen { self.backlog() } else { (0, 0) };
        let set = |value: u32| if connected { value } else { 0 };
        let mut out = Value::from_slice(&[self.state.get() as u8, 0, 0, 0, 0]);
        out.extend_from_slice(if connected { &[OPTIONS, SCALES, 0] } else { &[0, 0, 0] });
        let words = [
            if connected { RTO_US } else { 1_000_000 },
            set(ATO_US),
            if connected { SEGMENT } else { 536 },
            set(536),
            backlog as u32,
            max_backlog as u32,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            set(MTU),
            set(SEGMENT * 2),
            set(20),
            set(10),
            INFINITE,
            WINDOW,
            set(LARGEST_SEGMENT),
            3,
            0,
            set(SEGMENT * 2),
            0,
        ];
        let add = |out: &mut Value, words: &[u32]| words.iter().for_each(|w| out.extend_from_slice(&w.to_ne_bytes()));
        add(&mut out, &words);
        let sent = counters.bytes_sent.get();
        for long in [u64::MAX, u64::MAX, sent, counters.bytes_received.get()] {
            out.extend_from_slice(&long.to_ne_bytes());
        }
        let (segments_sent, segments_received) = (counters.segments_sent.get(), counters.segments_received.get());
        add(&mut out, &[segments_sent, segments_received, 0, set(10), segments_received, segments_sent]);
        for long in [0u64; 4] {
            out.extend_from_slice(&long.to_ne_bytes());
        }
        add(&mut out, &[segments_sent, 0]);
        for long in [sent, 0] {
            out.extend_from_slice(&long.to_ne_bytes());
        }
        add(&mut out, &[0, 0, 0, set(SEGMENT * 2)]);
        out
    }
}
