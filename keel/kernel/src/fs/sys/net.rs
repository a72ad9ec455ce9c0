//! The loopback device.

use super::{constant, dir, link};
use uapi::Errno;
use vfs::synth::Entry;

/// `/sys/class/net/lo`.
pub fn loopback() -> Entry {
    // Loopback has neither speed nor duplex mode.
    let without = || Entry::file(0o444, || Err(Errno::EINVAL)).sized(super::FILE_SIZE);
    let counter = || constant("0\n");
    dir([
        ("addr_assign_type", constant("0\n")),
        ("addr_len", constant("6\n")),
        ("address", constant("00:00:00:00:00:00\n")),
        ("broadcast", constant("00:00:00:00:00:00\n")),
        ("carrier", constant("1\n")),
        ("dev_id", constant("0x0\n")),
        ("dormant", constant("0\n")),
        ("duplex", without()),
        ("flags", constant("0x9\n")),
        ("ifalias", constant("\n")),
        ("ifindex", constant("1\n")),
        ("iflink", constant("1\n")),
        ("link_mode", constant("0\n")),
        ("mtu", constant("65536\n")),
        ("operstate", constant("unknown\n")),
        ("speed", without()),
        (
            "statistics",
            dir([
                ("rx_bytes", counter()),
                ("rx_dropped", counter()),
                ("rx_errors", counter()),
                ("rx_packets", counter()),
                ("tx_bytes", counter()),
                ("tx_dropped", counter()),
                ("tx_errors", counter()),
                ("tx_packets", counter()),
            ]),
        ),
        ("subsystem", link("../../../../class/net")),
        ("tx_queue_len", constant("1000\n")),
        ("type", constant("772\n")),
        ("uevent", constant("INTERFACE=lo\nIFINDEX=1\n")),
    ])
}
