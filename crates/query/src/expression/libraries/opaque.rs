//! Values of types that only the functions of a library know, and their order:
//! `compareTo`, `isGreaterThan`, `isLessThan`.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt::Debug;

use cel::ExecutionError;
use cel::common::types::Type;
use cel::common::value::{CowVal, StaticVal, Val};

use super::values::{self, Arguments};
use super::{Called, Declarations};

/// A type of values without operators except `==`.
pub(super) trait OpaqueType: Clone + Debug + PartialEq + Send + Sync + 'static {
    fn type_of() -> &'static Type;
}

/// A value of such a type.
#[derive(Clone, Debug)]
pub(super) struct Opaque<T>(pub(super) T);

impl<T: OpaqueType> Val for Opaque<T> {
    fn get_type(&self) -> &Type {
        T::type_of()
    }

    fn cel_type() -> &'static Type {
        T::type_of()
    }

    fn equals(&self, other: &dyn Val) -> bool {
        let other = other.downcast_ref::<Self>();
        other.is_some_and(|other| other.0 == self.0)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl<T: OpaqueType> StaticVal for Opaque<T> {}

/// Makes a value of expressions.
pub(super) fn value<'b, 'v, T: OpaqueType>(value: T) -> Called<'b, 'v> {
    Ok(CowVal::owned(Opaque(value)))
}

/// Declares how values of a type are compared.
pub(super) fn declare_order<T: OpaqueType + Ord>(declarations: &mut Declarations) {
    let of = T::type_of();
    declarations.method(of, "isGreaterThan", &[of], |args| {
        values::bool(compared::<T>("isGreaterThan", &args)?.is_gt())
    });
    declarations.method(of, "isLessThan", &[of], |args| {
        values::bool(compared::<T>("isLessThan", &args)?.is_lt())
    });
    declarations.method(of, "compareTo", &[of], |args| {
        values::int(compared::<T>("compareTo", &args)? as i64)
    });
}

/// Compares the two arguments of a function.
fn compared<T: OpaqueType + Ord>(
    function: &'static str,
    args: &[CowVal<'_, '_>],
) -> Result<Ordering, ExecutionError> {
    let args = Arguments::of(function, args);
    Ok(args.opaque::<T>(0)?.cmp(args.opaque(1)?))
}
