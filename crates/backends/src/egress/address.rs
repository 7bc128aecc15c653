//! Which addresses are public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Blocks that are not globally reachable, with the length of their prefix.
const PRIVATE_V4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    // Relays of 6to4, which are obsolete.
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    (Ipv4Addr::new(255, 255, 255, 255), 32),
];

/// All that is global in IPv6; loopback, link-local, unique-local and multicast lie outside of it.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Blocks within it that are not.
const PRIVATE_V6: [(Ipv6Addr, u32); 3] = [
    // Protocol assignments, Teredo among them.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Blocks that carry an IPv4 address, and how many bits stand before it: mapped, compatible, NAT64 and 6to4.
const CARRIERS: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 0), 96),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
];

/// The one address of its kind that is not link-local.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Whether an address is reachable from everywhere, as IANA's registries of special addresses have it. One that
/// carries an IPv4 address is what that address is.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match carried(address) {
            Some(carried) => is_public_v4(carried),
            None => {
                is_within_v6(address, GLOBAL_V6)
                    && !PRIVATE_V6.iter().any(|block| is_within_v6(address, *block))
            }
        },
    }
}

/// Whether this is a cloud's metadata address, which returns credentials of the machine to any caller. Nothing that a
/// host uses is at such an address, so none is reached even where private ones are allowed.
pub(super) fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => match carried(address) {
            Some(carried) => carried.is_link_local(),
            None => address.is_unicast_link_local() || address == METADATA_V6,
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !PRIVATE_V4.iter().any(|(block, prefix)| {
        let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
        address.to_bits() & mask == block.to_bits()
    })
}

fn is_within_v6(address: Ipv6Addr, (block, prefix): (Ipv6Addr, u32)) -> bool {
    let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
    address.to_bits() & mask == block.to_bits()
}

fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let carrier = CARRIERS.iter().find(|block| is_within_v6(address, **block))?;
    let bits = address.to_bits() >> (96 - carrier.1);
    u32::try_from(bits & u128::from(u32::MAX)).ok().map(Ipv4Addr::from_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_globally_reachable_is_not_public() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "fc00::1",
            "fdff:ffff::1",
            "ff02::1",
            "100::1",
            "64:ff9b:1::1",
            "2001::1",
            "2001:1ff::1",
            "2001:db8::1",
            "3fff::1",
            "5f00::1",
            "4000::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::192.168.1.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.1.2.3",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:c0a8:101::1",
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert!(!is_public(address), "{text}");
        }
    }

    #[test]
    fn the_rest_is() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2001:200::1",
            "2606:4700::1111",
            "3ffe::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert!(is_public(address), "{text}");
        }
    }

    #[test]
    fn metadata_is_link_local_however_it_is_written() {
        for text in [
            "169.254.169.254",
            "169.254.170.2",
            "::ffff:169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
        ] {
            assert!(is_metadata(text.parse().unwrap()), "{text}");
        }
        for text in ["127.0.0.1", "10.0.0.1", "192.168.0.1", "::1", "fd00::1", "1.1.1.1"] {
            assert!(!is_metadata(text.parse().unwrap()), "{text}");
        }
    }
}
