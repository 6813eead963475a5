//! Decides whether a caller may impersonate another user.
//!
//! Constrained impersonation (KEP-5284, on since Kubernetes 1.36) has modes. They
//! are tried in the order of [`Mode::ALL`], but the mode that last allowed the
//! caller is tried first. Modes that do not apply to the wanted user are skipped.
//! The first mode that allows wins; if none does, the first refusal is the answer.
//! `Legacy`, the mode of older releases, is last.
//!
//! An upstream without constrained impersonation has only `Legacy`: rights that an
//! older cluster grants on `*` must not become rights to modes that it does not
//! have.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kubernetes_wire::api::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED};
use kubernetes_wire::api::{Attributes, Status, UserInfo};
use moka::future::Cache;

use super::impersonation_mode::Mode;
use super::settings::ConstrainedImpersonation;
use super::well_known_usernames::{node_name, service_account};
use super::{Authorizer, Decision, Purpose, forbidden, impersonation_attributes};
use crate::authn::Impersonation;

/// The number of callers whose last mode is remembered, as in the API server. A
/// forgotten caller costs a few more reviews.
const MAX_REMEMBERED_CALLERS: u64 = 10_000;

/// The time for all questions of a request: kube-apiserver's `--request-timeout`. A
/// head has room for 16,000 groups. kube-apiserver also asks about each, though
/// without a network in between.
const QUESTIONS_TIMEOUT: Duration = Duration::from_secs(60);

/// After this many questions, other tasks get a turn on the thread: all questions
/// may be answered from memory, without a pause.
const QUESTIONS_AT_ONCE: usize = 32;

const ASSOCIATED_NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
const NODES_GROUP: &str = "system:nodes";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonated {
    pub user: UserInfo,
    /// The mode that allowed it. The audit log names it, except `Legacy`.
    pub mode: Mode,
}

/// The caller who wants to act as another user, and the purpose of the decisions.
#[derive(Clone, Copy)]
struct Requestor<'a> {
    user: &'a UserInfo,
    purpose: Purpose,
}

/// A release of Kubernetes: major and minor.
type Release = (u32, u32);

/// The first release in which constrained impersonation is on by default.
const CONSTRAINED_SINCE: Release = (1, 36);

/// Tells whether upstream has the constrained modes. An unknown release counts as an
/// old one: apifront then grants fewer rights than upstream would, never more.
fn has_constrained_modes(setting: ConstrainedImpersonation, release: Option<Release>) -> bool {
    match setting {
        ConstrainedImpersonation::Enabled => true,
        ConstrainedImpersonation::Disabled => false,
        ConstrainedImpersonation::Auto => release.is_some_and(|r| r >= CONSTRAINED_SINCE),
    }
}

pub struct ImpersonationAuthorizer {
    authorizer: Arc<Authorizer>,
    last_modes: Cache<String, Mode>,
    setting: ArcSwap<ConstrainedImpersonation>,
    release: Box<dyn Fn() -> Option<Release> + Send + Sync>,
}

impl ImpersonationAuthorizer {
    /// `release` returns upstream's release once it is known.
    pub fn new(
        authorizer: Arc<Authorizer>,
        release: impl Fn() -> Option<Release> + Send + Sync + 'static,
    ) -> Self {
        Self {
            authorizer,
            last_modes: Cache::new(MAX_REMEMBERED_CALLERS),
            setting: ArcSwap::default(),
            release: Box::new(release),
        }
    }

    pub fn reload(&self, setting: ConstrainedImpersonation) {
        self.setting.store(Arc::new(setting));
    }

    fn knows(&self, mode: Mode) -> bool {
        mode == Mode::Legacy || has_constrained_modes(**self.setting.load(), (self.release)())
    }

    /// Returns the wanted user if `requestor` may make the request `attributes` as
    /// that user, else a 403 with the API server's text. The request itself must
    /// still be authorized for the returned user.
    ///
    /// The questions are asked one after the other until the first refusal, and
    /// equal ones only once. Dropping the future ends them.
    pub async fn impersonate(
        &self,
        requestor: &UserInfo,
        impersonation: &Impersonation,
        attributes: &Attributes,
        purpose: Purpose,
    ) -> Result<Impersonated, Status> {
        let by = Requestor {
            user: requestor,
            purpose,
        };
        let decided = self.decide(by, impersonation, attributes);
        tokio::time::timeout(QUESTIONS_TIMEOUT, decided)
            .await
            .unwrap_or_else(|_| Err(Status::timeout()))
    }

    async fn decide(
        &self,
        by: Requestor<'_>,
        impersonation: &Impersonation,
        attributes: &Attributes,
    ) -> Result<Impersonated, Status> {
        let requestor = by.user;
        let wanted = &impersonation.wanted;
        let last = self.last_modes.get(&requestor.name).await;
        let others = Mode::ALL.into_iter().filter(|mode| Some(*mode) != last);
        let mut refused = None;
        for mode in last.into_iter().chain(others) {
            if !mode.applies(wanted, requestor) || !self.knows(mode) {
                continue;
            }
            match self.check(mode, by, wanted, attributes).await {
                Ok(user) => {
                    if last != Some(mode) {
                        self.last_modes.insert(requestor.name.clone(), mode).await;
                    }
                    return Ok(Impersonated { user, mode });
                }
                Err(status) if status.code != 403 => return Err(status),
                Err(status) => {
                    refused.get_or_insert(status);
                }
            }
        }
        Err(refused.unwrap_or_else(|| Status::internal_error("all impersonation modes failed")))
    }

    async fn check(
        &self,
        mode: Mode,
        mut requestor: Requestor<'_>,
        wanted: &UserInfo,
        attributes: &Attributes,
    ) -> Result<UserInfo, Status> {
        let as_node;
        if mode == Mode::AssociatedNode {
            as_node = without_node(requestor.user);
            requestor.user = &as_node;
        }
        if mode != Mode::Legacy {
            let on = format!("impersonate-on:{}:{}", mode.as_str(), verb_of(attributes));
            self.allowed(requestor, &with_verb(attributes, on)).await?;
        }
        self.check_name(mode, requestor, wanted).await?;
        if !wanted.uid.is_empty() {
            self.allowed(requestor, &impersonation_attributes::uid(mode, &wanted.uid))
                .await?;
        }
        self.check_groups(mode, requestor, &wanted.groups).await?;
        self.check_extra(mode, requestor, &wanted.extra).await?;
        Ok(become_user(mode, wanted))
    }

    async fn check_name(
        &self,
        mode: Mode,
        requestor: Requestor<'_>,
        wanted: &UserInfo,
    ) -> Result<(), Status> {
        let mut attributes = impersonation_attributes::user(mode, &wanted.name);
        if let Attributes::Resource { name, .. } = &mut attributes
            && mode == Mode::AssociatedNode
        {
            // The answer must hold for every node, because each pod of the account
            // may be on another.
            *name = "*".to_owned();
        }
        self.allowed(requestor, &attributes).await
    }

    async fn check_groups(
        &self,
        mode: Mode,
        requestor: Requestor<'_>,
        groups: &[String],
    ) -> Result<(), Status> {
        if groups.is_empty() {
            return Ok(());
        }
        if mode != Mode::Legacy {
            if let Some((name, why)) = impersonation_attributes::refused_group(groups) {
                let attributes = impersonation_attributes::group(mode, name);
                return Err(forbidden(requestor.user, &attributes, why));
            }
            if groups.len() >= impersonation_attributes::MIN_VALUES_AT_ONCE {
                let all = impersonation_attributes::group(mode, "*");
                if self.allowed(requestor, &all).await.is_ok() {
                    return Ok(());
                }
            }
        }
        let mut seen = HashSet::new();
        for group in groups {
            if seen.insert(group) {
                let attributes = impersonation_attributes::group(mode, group);
                self.allowed(requestor, &attributes).await?;
                pause_after(seen.len()).await;
            }
        }
        Ok(())
    }

    async fn check_extra(
        &self,
        mode: Mode,
        requestor: Requestor<'_>,
        extra: &BTreeMap<String, Vec<String>>,
    ) -> Result<(), Status> {
        if mode != Mode::Legacy && !extra.is_empty() {
            if let Some(why) = impersonation_attributes::refused_extra(extra) {
                let attributes = impersonation_attributes::extra(mode, "", "");
                return Err(forbidden(requestor.user, &attributes, &why));
            }
            let values: usize = extra.values().map(Vec::len).sum();
            if extra.len().max(values) >= impersonation_attributes::MIN_VALUES_AT_ONCE {
                let all = impersonation_attributes::extra(mode, "*", "*");
                if self.allowed(requestor, &all).await.is_ok() {
                    return Ok(());
                }
            }
        }
        let mut seen = HashSet::new();
        for (key, values) in extra {
            for value in values {
                if seen.insert((key, value)) {
                    let attributes = impersonation_attributes::extra(mode, key, value);
                    self.allowed(requestor, &attributes).await?;
                    pause_after(seen.len()).await;
                }
            }
        }
        Ok(())
    }

    async fn allowed(
        &self,
        requestor: Requestor<'_>,
        attributes: &Attributes,
    ) -> Result<(), Status> {
        let Requestor { user, purpose } = requestor;
        let verdict = self.authorizer.decide(user, attributes, purpose).await;
        let verdict = verdict.map_err(|e| e.to_status())?;
        match verdict.decision {
            Decision::Allow => Ok(()),
            _ => Err(forbidden(user, attributes, &verdict.reason)),
        }
    }
}

async fn pause_after(questions: usize) {
    if questions.is_multiple_of(QUESTIONS_AT_ONCE) {
        tokio::task::yield_now().await;
    }
}

/// Returns the wanted user with the groups that every such user has implicitly.
fn become_user(mode: Mode, wanted: &UserInfo) -> UserInfo {
    let mut user = wanted.clone();
    if mode != Mode::Legacy && node_name(&user.name).is_some() {
        user.groups = vec![NODES_GROUP.to_owned()];
    }
    if let Some((namespace, _)) = service_account(&wanted.name)
        && wanted.groups.is_empty()
    {
        user.groups = vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ];
    }
    let has = |group: &str| user.groups.iter().any(|g| g == group);
    let implied = match user.name.as_str() {
        ANONYMOUS => Some(UNAUTHENTICATED),
        _ if has(UNAUTHENTICATED) => None,
        _ => Some(AUTHENTICATED),
    };
    if let Some(group) = implied.filter(|g| !has(g)) {
        user.groups.push(group.to_owned());
    }
    user
}

/// Returns a service account without the data that distinguish its pods on a node:
/// the keys of its extra remain, the values do not.
fn without_node(requestor: &UserInfo) -> UserInfo {
    let keys = requestor.extra.keys().cloned().collect();
    UserInfo {
        extra: BTreeMap::from([(ASSOCIATED_NODE_KEYS.to_owned(), keys)]),
        ..requestor.clone()
    }
}

fn verb_of(attributes: &Attributes) -> &str {
    match attributes {
        Attributes::Resource { verb, .. } | Attributes::NonResource { verb, .. } => verb,
    }
}

fn with_verb(attributes: &Attributes, new: String) -> Attributes {
    let mut attributes = attributes.clone();
    match &mut attributes {
        Attributes::Resource { verb, .. } | Attributes::NonResource { verb, .. } => *verb = new,
    }
    attributes
}
