//! The built-in resources: names, verbs and hashes as kube-apiserver 1.37
//! publishes them in discovery.

mod table;

use kubernetes_wire::api::GroupVersionResource;

use self::table::BUILT_IN;
use super::resource::{Fields, Resource, Scale, Subresource, Verbs};

pub(crate) use self::table::GROUP_ORDER;

struct BuiltIn {
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    singular: &'static str,
    kind: &'static str,
    namespaced: bool,
    verbs: Verbs,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    hash: &'static str,
    subresources: &'static [Subresource],
    /// Label and JSON pointer.
    fields: &'static [(&'static str, &'static str)],
    own_field_error: bool,
    generation: bool,
    create_on_update: bool,
    unconditional_update: bool,
    returns_deleted: bool,
    warning: Option<&'static str>,
}

const fn namespaced(
    group: &'static str,
    resource: &'static str,
    singular: &'static str,
    kind: &'static str,
    hash: &'static str,
) -> BuiltIn {
    BuiltIn {
        group,
        version: "v1",
        resource,
        singular,
        kind,
        namespaced: true,
        verbs: Verbs::All,
        short_names: &[],
        categories: &[],
        hash,
        subresources: &[],
        fields: &[],
        own_field_error: false,
        generation: false,
        create_on_update: false,
        unconditional_update: true,
        returns_deleted: false,
        warning: None,
    }
}

const fn cluster(
    group: &'static str,
    resource: &'static str,
    singular: &'static str,
    kind: &'static str,
    hash: &'static str,
) -> BuiltIn {
    let mut out = namespaced(group, resource, singular, kind, hash);
    out.namespaced = false;
    out
}

const fn review(
    group: &'static str,
    resource: &'static str,
    singular: &'static str,
    kind: &'static str,
    namespaced: bool,
) -> BuiltIn {
    let mut out = cluster(group, resource, singular, kind, "");
    out.verbs = Verbs::CreateOnly;
    out.namespaced = namespaced;
    out
}

impl BuiltIn {
    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    const fn all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    const fn subresources(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }

    const fn fields(mut self, fields: &'static [(&'static str, &'static str)]) -> Self {
        self.fields = fields;
        self.own_field_error = true;
        self
    }

    const fn generation(mut self) -> Self {
        self.generation = true;
        self
    }

    const fn create_on_update(mut self) -> Self {
        self.create_on_update = true;
        self
    }

    const fn conditional_update(mut self) -> Self {
        self.unconditional_update = false;
        self
    }

    const fn returns_deleted(mut self) -> Self {
        self.returns_deleted = true;
        self
    }
}

pub(super) fn resources() -> Vec<Resource> {
    BUILT_IN.iter().map(BuiltIn::resource).collect()
}

impl BuiltIn {
    fn resource(&self) -> Resource {
        let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
        let mut categories: Vec<String> = owned(self.categories);
        if ["apiextensions.k8s.io", "apiregistration.k8s.io"].contains(&self.group) {
            categories.push("api-extensions".to_owned());
        }
        Resource {
            gvr: GroupVersionResource::new(self.group, self.version, self.resource),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            singular: self.singular.to_owned(),
            namespaced: self.namespaced,
            verbs: self.verbs,
            short_names: owned(self.short_names),
            categories,
            storage_version_hash: self.hash.to_owned(),
            subresources: self.subresources.to_vec(),
            fields: Fields {
                extra: self
                    .fields
                    .iter()
                    .map(|&(label, pointer)| (label.to_owned(), pointer.to_owned()))
                    .collect(),
                own_error: self.own_field_error,
            },
            generation: self.generation,
            create_on_update: self.create_on_update,
            unconditional_update: self.unconditional_update,
            returns_deleted: self.returns_deleted,
            warning: self.warning.map(str::to_owned),
            scale: self
                .subresources
                .contains(&Subresource::Scale)
                .then(|| Scale {
                    spec_replicas: "/spec/replicas".to_owned(),
                    status_replicas: "/status/replicas".to_owned(),
                    selector: Some("/spec/selector".to_owned()),
                }),
            custom: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::schema::Schema;

    use super::*;

    #[test]
    fn the_table_names_kinds_and_groups_that_are_known() {
        for resource in resources() {
            let kind = Schema::builtin().kind(&resource.api_version(), &resource.kind);
            assert!(kind.is_some(), "{}", resource.kind);
            let group = resource.gvr.group.as_str();
            let known = group.is_empty() || GROUP_ORDER.contains(&group);
            assert!(known, "{}", resource.kind);
        }
    }
}
