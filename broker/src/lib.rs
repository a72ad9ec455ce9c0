//! The broker: a process beside the monitor that opens the host's sockets for a pod.
//!
//! The monitor serves a hostile guest, so it may be taken over; its jail therefore forbids it to create, bind or connect
//! sockets. The broker does that: it holds the pod's policy and nothing of the guest, decides about each request of the
//! monitor ([`protocol`]), and passes sockets that are connected to an allowed peer, or listen on a published port. From
//! then on the monitor uses the socket without further checks. To some of these peers it may connect again by itself ([`prepared`]).
//!
//! A connected datagram socket still sends to any address with `sendto`, `sendmsg` or `sendmmsg`. So the monitor's
//! jail must forbid destination addresses: `sendto` with a null address only, neither `sendmsg` nor `sendmmsg`, and only
//! socket options without an effect on the peer. [`client`] needs no more than `sendto` and `recvmsg`.

#![forbid(unsafe_code)]

pub mod address;
pub mod client;
#[cfg(feature = "server")]
pub mod control;
#[cfg(feature = "server")]
pub mod dns;
pub mod facts;
pub mod prepared;
pub mod protocol;
pub mod seqpacket;
#[cfg(feature = "server")]
pub mod server;

pub use client::{Client, Event};
pub use facts::Facts;
pub use protocol::{Id, Refused, Reply, Request, Transport};
