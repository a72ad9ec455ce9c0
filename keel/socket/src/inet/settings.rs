//! Settings of a network namespace that take effect, `/proc/sys/net`.

use core::cell::Cell;

/// The settings.
#[derive(Debug)]
pub struct Settings {
    /// `ipv4/ip_unprivileged_port_start`: ports below need a capability.
    pub first_unprivileged: Cell<u16>,
    /// `ipv4/ip_local_port_range`: first and last ephemeral port.
    pub ephemeral: Cell<[u16; 2]>,
    /// `ipv4/ip_nonlocal_bind`.
    pub binds_anywhere: Cell<bool>,
    /// `ipv4/ping_group_range`: groups that may have ICMP sockets.
    pub ping_groups: Cell<[u32; 2]>,
    /// `ipv6/bindv6only`.
    pub only_v6: Cell<bool>,
    /// `core/somaxconn`: the largest backlog.
    pub most_backlog: Cell<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            first_unprivileged: Cell::new(1024),
            ephemeral: Cell::new([32768, 60999]),
            binds_anywhere: Cell::new(false),
            ping_groups: Cell::new([1, 0]),
            only_v6: Cell::new(false),
            most_backlog: Cell::new(4096),
        }
    }
}
