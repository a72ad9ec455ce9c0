//! What the host tells of a received datagram besides its bytes and its sender.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Size of an encoding.
pub const BYTES: usize = 24;
/// Bits of the second byte.
const HOPS: u8 = 1;
const CLASS: u8 = 2;

/// The facts, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The address that it was sent to, an IPv4 address in that form, and the index of the device that it came by; 0: unknown.
    pub to: Option<(IpAddr, u32)>,
    /// Hops that were left.
    pub hops: Option<u8>,
    /// Traffic class.
    pub class: Option<u8>,
}

impl Facts {
    /// Writes the encoding.
    pub fn encode(&self, bytes: &mut [u8; BYTES]) {
        bytes.fill(0);
        for (bit, at, value) in [(HOPS, 2, self.hops), (CLASS, 3, self.class)] {
            if let Some(value) = value {
                bytes[1] |= bit;
                bytes[at] = value;
            }
        }
        let Some((address, device)) = self.to else { return };
        bytes[4..8].copy_from_slice(&device.to_le_bytes());
        match address {
            IpAddr::V4(v4) => {
                bytes[0] = 4;
                bytes[8..12].copy_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                bytes[0] = 6;
                bytes[8..24].copy_from_slice(&v6.octets());
            }
        }
    }

    /// Reads an encoding; `None` if it is malformed.
    pub fn decode(bytes: &[u8; BYTES]) -> Option<Self> {
        let [kind, bits, hops, class, d0, d1, d2, d3, address @ ..] = *bytes;
        let [a, b, c, d, ..] = address;
        let ip = match kind {
            0 => None,
            4 => Some(IpAddr::from(Ipv4Addr::new(a, b, c, d))),
            6 => Some(IpAddr::from(Ipv6Addr::from(address))),
            _ => return None,
        };
        if bits & !(HOPS | CLASS) != 0 {
            return None;
        }
        let device = u32::from_le_bytes([d0, d1, d2, d3]);
        Some(Self {
            to: ip.map(|ip| (ip, device)),
            hops: (bits & HOPS != 0).then_some(hops),
            class: (bits & CLASS != 0).then_some(class),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_the_wire() {
        let v4: IpAddr = "127.0.0.5".parse().unwrap();
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        for facts in [
            Facts::default(),
            Facts { to: Some((v4, 1)), hops: Some(255), class: None },
            Facts { to: Some((v6, u32::MAX)), hops: None, class: Some(0) },
        ] {
            let mut bytes = [7; BYTES];
            facts.encode(&mut bytes);
            assert_eq!(Facts::decode(&bytes), Some(facts));
            bytes[1] |= 4;
            assert_eq!(Facts::decode(&bytes), None);
            bytes[..2].copy_from_slice(&[5, 0]);
            assert_eq!(Facts::decode(&bytes), None);
        }
    }
}
