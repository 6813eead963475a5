//! Kubernetes' library of quantities: `quantity('1.5Gi').add(quantity('1G'))`. The
//! numbers behind them are those of `quantity.rs`.

use cel::common::types::{INT_TYPE, STRING_TYPE, Type};
use cel::common::value::CowVal;

use super::super::meter;
use super::opaque::{self, OpaqueType};
use super::values::{self, Arguments, failed};
use super::{Called, Declarations};
use crate::quantity::Quantity;

impl OpaqueType for Quantity {
    fn type_of() -> &'static Type {
        static TYPE: Type = Type::new_unspecified_type("kubernetes.Quantity");
        &TYPE
    }
}

pub(super) fn declare(declarations: &mut Declarations) {
    let of = Quantity::type_of();
    declarations.function("quantity", &[&STRING_TYPE], quantity);
    declarations.function("isQuantity", &[&STRING_TYPE], is_quantity);
    declarations.function("sign", &[of], sign);
    declarations.method(of, "isInteger", &[], is_integer);
    declarations.method(of, "asInteger", &[], as_integer);
    declarations.method(of, "asApproximateFloat", &[], as_approximate_float);
    opaque::declare_order::<Quantity>(declarations);
    declarations.method(of, "add", &[of], add);
    declarations.method(of, "add", &[&INT_TYPE], add_int);
    declarations.method(of, "sub", &[of], sub);
    declarations.method(of, "sub", &[&INT_TYPE], sub_int);
}

fn quantity<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let text = Arguments::of("quantity", &args).text(0)?;
    let quantity = Quantity::parse(text).map_err(|error| failed("quantity", error))?;
    meter::spend_units(quantity.digits())?;
    opaque::value(quantity)
}

fn is_quantity<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let text = Arguments::of("isQuantity", &args).text(0)?;
    values::bool(Quantity::parse(text).is_ok())
}

fn sign<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let quantity: &Quantity = Arguments::of("sign", &args).opaque(0)?;
    values::int(quantity.sign().into())
}

fn is_integer<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let quantity: &Quantity = Arguments::of("isInteger", &args).opaque(0)?;
    values::bool(quantity.as_i64().is_some())
}

fn as_integer<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let quantity: &Quantity = Arguments::of("asInteger", &args).opaque(0)?;
    let error = || failed("asInteger", "cannot convert value to integer");
    values::int(quantity.as_i64().ok_or_else(error)?)
}

fn as_approximate_float<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let quantity: &Quantity = Arguments::of("asApproximateFloat", &args).opaque(0)?;
    values::double(quantity.as_f64())
}

fn add<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("add", &args);
    opaque::value(args.opaque::<Quantity>(0)?.plus(args.opaque(1)?))
}

fn add_int<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("add", &args);
    let other = Quantity::from(args.int(1)?);
    opaque::value(args.opaque::<Quantity>(0)?.plus(&other))
}

fn sub<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("sub", &args);
    opaque::value(args.opaque::<Quantity>(0)?.minus(args.opaque(1)?))
}

fn sub_int<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("sub", &args);
    let other = Quantity::from(args.int(1)?);
    opaque::value(args.opaque::<Quantity>(0)?.minus(&other))
}
