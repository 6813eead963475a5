//! Kubernetes' library of networks: `cidr('10.0.0.0/8').containsIP('10.1.2.3')`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cel::ExecutionError;
use cel::common::types::{STRING_TYPE, Type};
use cel::common::value::CowVal;
use kubernetes_wire::api::query::go_quote;

use super::addresses;
use super::opaque::{self, OpaqueType};
use super::values::{self, Arguments, failed};
use super::{Called, Declarations};
use crate::go_address;

/// An address in a network, and the number of its bits that name the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cidr {
    ip: IpAddr,
    bits: u8,
}

impl OpaqueType for Cidr {
    fn type_of() -> &'static Type {
        static TYPE: Type = Type::new_unspecified_type("net.CIDR");
        &TYPE
    }
}

pub(super) fn declare(declarations: &mut Declarations) {
    let (of, ip_type) = (Cidr::type_of(), IpAddr::type_of());
    let text = &STRING_TYPE;
    declarations.named_type(of);
    declarations.function("cidr", &[text], cidr);
    declarations.function("isCIDR", &[text], is_cidr);
    declarations.function("string", &[of], string);
    declarations.method(of, "containsIP", &[text], contains_ip_text);
    declarations.method(of, "containsIP", &[ip_type], contains_ip);
    declarations.method(of, "containsCIDR", &[text], contains_cidr_text);
    declarations.method(of, "containsCIDR", &[of], contains_cidr);
    declarations.method(of, "ip", &[], ip);
    declarations.method(of, "prefixLength", &[], prefix_length);
    declarations.method(of, "masked", &[], masked);
}

impl Cidr {
    fn parse(text: &str) -> Result<Self, String> {
        let cidr = Self::read(text).map_err(|error| {
            format!(
                "network address parse error during conversion from string: \
                 netip.ParsePrefix({}): {error}",
                go_quote(text)
            )
        })?;
        addresses::refuse_mapped(text, cidr.ip)?;
        Ok(cidr)
    }

    fn read(text: &str) -> Result<Self, String> {
        let (ip, bits) = text.rsplit_once('/').ok_or("no '/'")?;
        let address = go_address::parse(ip.as_bytes())?;
        if address.has_zone {
            return Err("IPv6 zones cannot be present in a prefix".to_owned());
        }
        let is_number = bits.bytes().all(|b| b.is_ascii_digit())
            && !bits.is_empty()
            && (bits.len() == 1 || !bits.starts_with('0'));
        if !is_number {
            return Err(format!("bad bits after slash: {}", go_quote(bits)));
        }
        let ip = address.ip;
        match bits.parse() {
            Ok(bits) if bits <= width(ip) => Ok(Self { ip, bits }),
            _ => Err("prefix length out of range".to_owned()),
        }
    }

    fn masked(self) -> Self {
        Self {
            ip: network(self.ip, self.bits),
            ..self
        }
    }

    fn contains_ip(self, ip: IpAddr) -> bool {
        network(ip, self.bits) == self.masked().ip
    }

    fn contains(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains_ip(other.ip)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

/// Returns the number of bits of an address.
fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// Returns an address with only its first bits.
fn network(ip: IpAddr, bits: u8) -> IpAddr {
    let others = u32::from(width(ip).saturating_sub(bits));
    match ip {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(others).unwrap_or_default();
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(others).unwrap_or_default();
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

/// Reads an argument that is a text.
fn cidr_of(
    function: &'static str,
    args: &Arguments<'_, '_, '_>,
    at: usize,
) -> Result<Cidr, ExecutionError> {
    Cidr::parse(args.parsed_text(at)?).map_err(|error| {
        let error = format!("network address parse error during conversion from string: {error}");
        failed(function, error)
    })
}

fn cidr<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    opaque::value(cidr_of("cidr", &Arguments::of("cidr", &args), 0)?)
}

fn is_cidr<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let text = Arguments::of("isCIDR", &args).parsed_text(0)?;
    values::bool(Cidr::parse(text).is_ok())
}

fn string<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let cidr: &Cidr = Arguments::of("string", &args).opaque(0)?;
    values::text(cidr.to_string())
}

fn contains_ip_text<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("containsIP", &args);
    let ip = addresses::parse(args.parsed_text(1)?).map_err(|error| failed("containsIP", error))?;
    values::bool(args.opaque::<Cidr>(0)?.contains_ip(ip))
}

fn contains_ip<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("containsIP", &args);
    values::bool(args.opaque::<Cidr>(0)?.contains_ip(*args.opaque(1)?))
}

fn contains_cidr_text<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("containsCIDR", &args);
    let other = cidr_of("containsCIDR", &args, 1)?;
    values::bool(args.opaque::<Cidr>(0)?.contains(other))
}

fn contains_cidr<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("containsCIDR", &args);
    values::bool(args.opaque::<Cidr>(0)?.contains(*args.opaque(1)?))
}

fn ip<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    opaque::value(Arguments::of("ip", &args).opaque::<Cidr>(0)?.ip)
}

fn prefix_length<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let cidr: &Cidr = Arguments::of("prefixLength", &args).opaque(0)?;
    values::int(cidr.bits.into())
}

fn masked<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    opaque::value(Arguments::of("masked", &args).opaque::<Cidr>(0)?.masked())
}
