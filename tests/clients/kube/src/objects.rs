//! The checks of reads and writes.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::runner::{self, Pages, Task, expect};

pub fn config_map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([("app".to_owned(), name.to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(data_of(data)),
        ..ConfigMap::default()
    }
}

fn data_of(data: &[(&str, &str)]) -> BTreeMap<String, String> {
    data.iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect()
}

pub async fn check(client: &Client, task: &Task) {
    let maps = Maps(Api::namespaced(client.clone(), &task.namespace));
    runner::check("create", maps.create()).await;
    runner::check("read", maps.holds("crud", &[("a", "1")])).await;
    runner::check("list", maps.list()).await;
    runner::check("replace", maps.replace()).await;
    runner::check("patch json", maps.patch_json()).await;
    runner::check("patch merge", maps.patch_merge()).await;
    runner::check("patch strategic", strategic(client, &task.namespace)).await;
    runner::check("apply", maps.apply("one", false)).await;
    runner::check("apply conflict", maps.apply_conflict()).await;
    runner::check("apply by force", maps.apply("two", true)).await;
    runner::check("pages", pages(client, &task.pages)).await;
    runner::check("metadata list", metadata(client, &task.pages)).await;
    runner::check("delete", maps.delete()).await;
}

/// The ConfigMaps of the program's own namespace.
struct Maps(Api<ConfigMap>);

impl Maps {
    async fn holds(&self, name: &str, data: &[(&str, &str)]) -> Result<()> {
        expect(self.0.get(name).await?.data, Some(data_of(data)))
    }

    async fn create(&self) -> Result<()> {
        let made = config_map("crud", &[("a", "1")]);
        let made = self.0.create(&PostParams::default(), &made).await?;
        expect(made.data, Some(data_of(&[("a", "1")])))
    }

    async fn list(&self) -> Result<()> {
        let labelled = ListParams::default().labels("app=crud");
        expect(
            self.0.list(&labelled).await?.items,
            vec![self.0.get("crud").await?],
        )
    }

    async fn replace(&self) -> Result<()> {
        let mut changed = self.0.get("crud").await?;
        changed.data = Some(data_of(&[("a", "2")]));
        self.0
            .replace("crud", &PostParams::default(), &changed)
            .await?;
        self.holds("crud", &[("a", "2")]).await
    }

    async fn patch_json(&self) -> Result<()> {
        let patch = json!([{ "op": "replace", "path": "/data/a", "value": "3" }]);
        let patch: Patch<Value> = Patch::Json(serde_json::from_value(patch)?);
        self.0
            .patch("crud", &PatchParams::default(), &patch)
            .await?;
        self.holds("crud", &[("a", "3")]).await
    }

    async fn patch_merge(&self) -> Result<()> {
        let patch = Patch::Merge(json!({ "data": { "a": null, "b": "1" } }));
        self.0
            .patch("crud", &PatchParams::default(), &patch)
            .await?;
        self.holds("crud", &[("b", "1")]).await
    }

    async fn apply(&self, manager: &str, force: bool) -> Result<()> {
        let applied = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "applied" },
            "data": { "owner": manager },
        });
        let mut parameters = PatchParams::apply(manager);
        parameters.force = force;
        self.0
            .patch("applied", &parameters, &Patch::Apply(applied))
            .await?;
        self.holds("applied", &[("owner", manager)]).await
    }

    async fn apply_conflict(&self) -> Result<()> {
        let error = self.apply("two", false).await.expect_err("a conflict");
        match error.downcast_ref() {
            Some(kube::Error::Api(status)) if status.is_conflict() => Ok(()),
            _ => Err(error),
        }
    }

    async fn delete(&self) -> Result<()> {
        let made = config_map("deleted", &[]);
        self.0.create(&PostParams::default(), &made).await?;
        self.0.delete("deleted", &DeleteParams::default()).await?;
        match self.0.get_opt("deleted").await? {
            None => Ok(()),
            Some(left) => bail!("it is not gone: {left:?}"),
        }
    }
}

async fn strategic(client: &Client, namespace: &str) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let labels = json!({ "app": "strategic" });
    let container = |name: &str| json!({ "name": name, "image": "example.test/image:1" });
    let made = serde_json::from_value(json!({
        "metadata": { "name": "strategic" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [container("a"), container("b")] },
            },
        },
    }))?;
    deployments.create(&PostParams::default(), &made).await?;
    let change = json!({ "name": "b", "image": "example.test/image:2" });
    let patch = json!({ "spec": { "template": { "spec": { "containers": [change] } } } });
    let parameters = PatchParams::default();
    deployments
        .patch("strategic", &parameters, &Patch::Strategic(patch))
        .await?;
    let found = serde_json::to_value(deployments.get("strategic").await?)?;
    let containers = &found["spec"]["template"]["spec"]["containers"];
    let images = [0, 1].map(|at| containers[at]["image"].as_str());
    expect(
        images,
        [Some("example.test/image:1"), Some("example.test/image:2")],
    )
}

async fn pages(client: &Client, pages: &Pages) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &pages.namespace);
    let (mut names, mut requests, mut parameters) = (vec![], 0, ListParams::default());
    parameters = parameters.limit(pages.limit);
    loop {
        let page = maps.list(&parameters).await?;
        names.extend(page.items.iter().map(ResourceExt::name_any));
        requests += 1;
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => parameters.continue_token = Some(token),
            _ => break,
        }
    }
    let expected: Vec<_> = (0..pages.objects).map(|n| format!("page-{n:02}")).collect();
    expect(names, expected)?;
    expect(requests, pages.objects.div_ceil(pages.limit as usize))
}

async fn metadata(client: &Client, pages: &Pages) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &pages.namespace);
    let found = maps.list_metadata(&ListParams::default()).await?;
    expect(found.items.len(), pages.objects)
}
