//! The environment of expressions while functions are declared in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use cel::Env;
use cel::common::types::Type;
use cel::common::value::CowVal;

use super::Called;

/// A function of expressions.
pub(in super::super) type Function = for<'b, 'v> fn(Vec<CowVal<'b, 'v>>) -> Called<'b, 'v>;

pub(in super::super) struct Declarations {
    env: Arc<Env>,
    names: BTreeSet<&'static str>,
    types: BTreeSet<&'static str>,
}

impl Declarations {
    pub(in super::super) fn new(env: Env) -> Self {
        Self {
            env: Arc::new(env),
            names: BTreeSet::new(),
            types: BTreeSet::new(),
        }
    }

    /// Lets expressions name a type: `type(x) == net.IP`.
    pub(in super::super) fn named_type(&mut self, of: &'static Type) {
        self.types.insert(of.name());
        let added = Arc::get_mut(&mut self.env).map(|env| env.add_type(of.to_owned()));
        debug_assert!(matches!(added, Some(Ok(()))), "{}: {added:?}", of.name());
    }

    /// Declares `name(args)`.
    pub(in super::super) fn function(
        &mut self,
        name: &'static str,
        args: &[&Type],
        function: Function,
    ) {
        let id = format!("{name}({})", names_of(args));
        self.declare(name, |env| {
            env.add_overload(name, &id, owned(args), function)
        });
    }

    /// Declares `of.name(args)`.
    pub(in super::super) fn method(
        &mut self,
        of: &Type,
        name: &'static str,
        args: &[&Type],
        function: Function,
    ) {
        let id = format!("{}.{name}({})", of.name(), names_of(args));
        self.declare(name, |env| {
            env.add_member_overload(name, &id, of.to_owned(), owned(args), function)
        });
    }

    fn declare(
        &mut self,
        name: &'static str,
        declare: impl FnOnce(&mut Env) -> Result<(), cel::DeclarationError>,
    ) {
        self.names.insert(name);
        // Names and signatures are fixed, none is declared twice, and nobody else has the
        // environment yet.
        let declared = Arc::get_mut(&mut self.env).map(declare);
        debug_assert!(matches!(declared, Some(Ok(()))), "{name}: {declared:?}");
    }

    pub(in super::super) fn env(&self) -> &Arc<Env> {
        &self.env
    }

    pub(in super::super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(in super::super) fn has_type(&self, name: &str) -> bool {
        self.types.contains(name)
    }

    pub(in super::super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.iter().copied()
    }
}

fn names_of(types: &[&Type]) -> String {
    let names: Vec<&str> = types.iter().map(|one| one.name()).collect();
    names.join(",")
}

fn owned(types: &[&Type]) -> Vec<Type> {
    types.iter().map(|one| (*one).to_owned()).collect()
}
