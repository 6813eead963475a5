//! Kubernetes' library of IP addresses: `ip('::1').isLoopback()`.

use std::net::IpAddr;

use cel::common::types::{STRING_TYPE, Type};
use cel::common::value::CowVal;
use kubernetes_wire::api::query::go_quote;

use super::opaque::{self, OpaqueType};
use super::values::{self, Arguments, failed};
use super::{Called, Declarations};
use crate::go_address;

impl OpaqueType for IpAddr {
    fn type_of() -> &'static Type {
        static TYPE: Type = Type::new_unspecified_type("net.IP");
        &TYPE
    }
}

pub(super) fn declare(declarations: &mut Declarations) {
    let of = IpAddr::type_of();
    let text = &STRING_TYPE;
    declarations.named_type(of);
    declarations.function("ip", &[text], ip);
    declarations.function("isIP", &[text], is_ip);
    declarations.function("ip.isCanonical", &[text], is_canonical);
    declarations.function("string", &[of], string);
    declarations.method(of, "family", &[], family);
    declarations.method(of, "isUnspecified", &[], is_unspecified);
    declarations.method(of, "isLoopback", &[], is_loopback);
    declarations.method(of, "isLinkLocalMulticast", &[], is_link_local_multicast);
    declarations.method(of, "isLinkLocalUnicast", &[], is_link_local_unicast);
    declarations.method(of, "isGlobalUnicast", &[], is_global_unicast);
}

/// Reads an address. As in kube-apiserver, it has no zone, and an IPv4 address is not
/// written as an IPv6 address.
pub(super) fn parse(text: &str) -> Result<IpAddr, String> {
    let quoted = || go_quote(text);
    let address = go_address::parse(text.as_bytes()).map_err(|error| {
        format!(
            "IP Address {} parse error during conversion from string: {error}",
            quoted()
        )
    })?;
    if address.has_zone {
        return Err(format!(
            "IP address {} with zone value is not allowed",
            quoted()
        ));
    }
    refuse_mapped(text, address.ip)
}

/// Refuses an IPv4 address that is written as an IPv6 address: `::ffff:1.2.3.4`.
pub(super) fn refuse_mapped(text: &str, ip: IpAddr) -> Result<IpAddr, String> {
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err(format!(
            "IPv4-mapped IPv6 address {} is not allowed",
            go_quote(text)
        )),
        ip => Ok(ip),
    }
}

fn ip<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let text = Arguments::of("ip", &args).parsed_text(0)?;
    opaque::value(parse(text).map_err(|error| failed("ip", error))?)
}

fn is_ip<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let text = Arguments::of("isIP", &args).parsed_text(0)?;
    values::bool(parse(text).is_ok())
}

fn is_canonical<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let text = Arguments::of("ip.isCanonical", &args).parsed_text(0)?;
    let ip = parse(text).map_err(|error| failed("ip.isCanonical", error))?;
    values::bool(ip.to_string() == text)
}

fn string<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let ip: &IpAddr = Arguments::of("string", &args).opaque(0)?;
    values::text(ip.to_string())
}

fn family<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let ip: &IpAddr = Arguments::of("family", &args).opaque(0)?;
    values::int(if ip.is_ipv4() { 4 } else { 6 })
}

fn is_unspecified<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let ip: &IpAddr = Arguments::of("isUnspecified", &args).opaque(0)?;
    values::bool(ip.is_unspecified())
}

fn is_loopback<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let ip: &IpAddr = Arguments::of("isLoopback", &args).opaque(0)?;
    values::bool(ip.is_loopback())
}

fn is_link_local_multicast<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    values::bool(
        match Arguments::of("isLinkLocalMulticast", &args).opaque(0)? {
            IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
            IpAddr::V6(v6) => matches!(v6.octets(), [0xff, scope, ..] if scope & 0xf == 2),
        },
    )
}

fn is_link_local_unicast<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let ip = Arguments::of("isLinkLocalUnicast", &args).opaque(0)?;
    values::bool(is_link_local(ip))
}

fn is_link_local(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Private addresses are global, too.
fn is_global_unicast<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let ip: &IpAddr = Arguments::of("isGlobalUnicast", &args).opaque(0)?;
    let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    let is_other =
        ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local(ip);
    values::bool(!is_broadcast && !is_other)
}
