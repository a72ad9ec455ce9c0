//! Settings of the network namespace that programs may change, `/proc/sys/net`.

use crate::socket::inet::settings::Settings;
use alloc::format;
use alloc::string::String;
use core::str::FromStr;
use uapi::{Errno, Result};

/// A setting.
pub struct Setting {
    /// Path beneath `/proc/sys`.
    pub path: &'static str,
    /// Its text.
    pub show: fn(&Settings) -> String,
    /// Sets it to a text without blanks around it. EINVAL.
    pub change: fn(&Settings, &str) -> Result<()>,
}

/// A number in a range. EINVAL.
fn number<T: FromStr + PartialOrd>(text: &str, min: T, max: T) -> Result<T> {
    text.parse().ok().filter(|value| *value >= min && *value <= max).ok_or(Errno::EINVAL)
}

/// Two numbers.
fn pair<T: FromStr + PartialOrd + Copy>(text: &str, min: T, max: T) -> Result<[T; 2]> {
    let mut words = text.split_ascii_whitespace().map(|word| number(word, min, max));
    match (words.next(), words.next(), words.next()) {
        (Some(first), Some(last), None) => Ok([first?, last?]),
        _ => Err(Errno::EINVAL),
    }
}

/// All of them.
pub static SETTINGS: [Setting; 6] = [
    Setting {
        path: "net/core/somaxconn",
        show: |all| format!("{}", all.most_backlog.get()),
        change: |all, text| {
            all.most_backlog.set(number(text, 0, i32::MAX as u32)?);
            Ok(())
        },
    },
    Setting {
        path: "net/ipv4/ip_local_port_range",
        show: |all| {
            let [first, last] = all.ephemeral.get();
            format!("{first}\t{last}")
        },
        change: |all, text| {
            let [first, last] = pair(text, 1, u16::MAX)?;
            if last < first || first < all.first_unprivileged.get() {
                return Err(Errno::EINVAL);
            }
            all.ephemeral.set([first, last]);
            Ok(())
        },
    },
    Setting {
        path: "net/ipv4/ip_nonlocal_bind",
        show: |all| format!("{}", u8::from(all.binds_anywhere.get())),
        change: |all, text| {
            all.binds_anywhere.set(number(text, 0, u8::MAX)? != 0);
            Ok(())
        },
    },
    Setting {
        path: "net/ipv4/ip_unprivileged_port_start",
        show: |all| format!("{}", all.first_unprivileged.get()),
        change: |all, text| {
            let first: u16 = number(text, 0, u16::MAX)?;
            // The ephemeral ports are unprivileged ones.
            if all.ephemeral.get()[0] < first {
                return Err(Errno::EINVAL);
            }
            all.first_unprivileged.set(first);
            Ok(())
        },
    },
    Setting {
        path: "net/ipv4/ping_group_range",
        show: |all| {
            let [first, last] = all.ping_groups.get();
            format!("{first}\t{last}")
        },
        change: |all, text| {
            let [first, last] = pair(text, 0, i32::MAX as u32)?;
            // An empty range has one form.
            all.ping_groups.set(if last < first { [1, 0] } else { [first, last] });
            Ok(())
        },
    },
    Setting {
        path: "net/ipv6/bindv6only",
        show: |all| format!("{}", u8::from(all.only_v6.get())),
        change: |all, text| {
            all.only_v6.set(number(text, 0, 1)? != 0);
            Ok(())
        },
    },
];
