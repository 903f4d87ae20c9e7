//! Distinguishes addresses of the internet from addresses of private networks.

use std::net::IpAddr;

/// True for an address of the internet (IANA's registries of special-purpose addresses, RFC 6890).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, third, _] = address.octets();
            let is_special = address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_broadcast()
                || first == 0
                || first >= 240
                // Shared addresses of carriers, protocol assignments, and addresses for benchmarks.
                || (first == 100 && (64..128).contains(&second))
                || (first == 192 && second == 0 && third == 0)
                || (first == 198 && (18..20).contains(&second));
            !is_special
        }
        IpAddr::V6(address) => {
            if let Some(address) = address.to_ipv4_mapped() {
                return is_public(IpAddr::V4(address));
            }
            let segments = address.segments();
            if segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
                let [.., a, b, c, d] = address.octets();
                return is_public(IpAddr::from([a, b, c, d]));
            }
            !(address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                || address.is_unique_local()
                || address.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_no_registry_are_public() {
        for (text, expected) in [
            ("93.184.216.34", true),
            ("2606:2800:220:1::1", true),
            ("100.63.0.1", true),
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("198.18.0.1", false),
            ("0.0.0.0", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::1", false),
            ("::", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:93.184.216.34", true),
            ("64:ff9b::a00:1", false),
            ("64:ff9b::5db8:d822", true),
        ] {
            let address = text.parse().expect(text);
            assert_eq!(is_public(address), expected, "{text}");
        }
    }
}
