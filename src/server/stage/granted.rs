//! Authorizes requests. No other module does.
//!
//! A grant carries the attributes that it was given for. The code that serves a
//! request takes the grant, and derives from these attributes what it serves.
//! Therefore the authorized request and the served request cannot differ.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use kubernetes_wire::api::{Attributes, GroupVersionResource, Status};
use kubernetes_wire::request::Scope;

use super::identified::{Caller, Identified};
use crate::audit::Trail;
use crate::authz::{Decision, Purpose, Verdict};
use crate::flow::Admitted;
use crate::server::state::gate::Gate;

/// Annotations of the audit log with the decision and its reason:
/// k8s.io/apiserver `endpoints/filters/authorization.go`.
const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";
const NOBODY_COULD_SAY: &str = "internal error";

/// A request that its caller is authorized to make.
pub(in crate::server) struct Granted {
    identified: Arc<Identified>,
    attributes: Attributes,
}

pub(in crate::server) enum NotGranted {
    /// The caller lacks the right, or no authorizer could be asked.
    Refused(Status),
    /// Only upstream knows as which user the request is made, so only upstream can
    /// authorize it.
    OnlyUpstream,
}

impl Granted {
    /// Returns the objects that the grant covers. Returns `None` if kube-apiserver
    /// serves something else, or nothing, at the request's path.
    pub(in crate::server) fn scope(&self, namespaced: bool) -> Option<Scope<'_>> {
        let info = self.info();
        let path = Some(info.path.as_str()).filter(|_| info.is_canonical())?;
        Scope::from_grant(&self.attributes, namespaced, path)
    }

    pub(in crate::server) fn resource(&self) -> Option<&GroupVersionResource> {
        match &self.attributes {
            Attributes::Resource { gvr, .. } => Some(gvr),
            Attributes::NonResource { .. } => None,
        }
    }
}

impl Deref for Granted {
    type Target = Identified;

    fn deref(&self) -> &Identified {
        &self.identified
    }
}

/// Asks for a request's grant when a step needs it, and only once. A request that is
/// forwarded to upstream needs no grant, because upstream authorizes it.
pub(in crate::server) struct PendingGrant<'t> {
    identified: Arc<Identified>,
    granted: Option<Arc<Granted>>,
    trail: Option<&'t mut Trail>,
    seats: Option<&'t mut Admitted>,
}

impl<'t> PendingGrant<'t> {
    pub(in crate::server) fn new(
        identified: Arc<Identified>,
        trail: Option<&'t mut Trail>,
    ) -> Self {
        Self {
            identified,
            granted: None,
            trail,
            seats: None,
        }
    }

    /// Adds the seats that the request holds.
    pub(super) fn with_seats(self, seats: &'t mut Admitted) -> Self {
        Self {
            seats: Some(seats),
            ..self
        }
    }

    /// Returns the seats that the request holds, for a step that may give them back.
    pub(in crate::server) fn seats(&mut self) -> Option<&mut Admitted> {
        self.seats.as_deref_mut()
    }

    pub(in crate::server) fn identified(&self) -> &Arc<Identified> {
        &self.identified
    }

    /// Shows a piece of the request's body to the audit log.
    pub(in crate::server) fn show(&mut self, piece: &Bytes) {
        if let Some(trail) = &mut self.trail {
            trail.request_piece(piece);
        }
    }

    pub(in crate::server) fn annotate(&mut self, key: &'static str, value: String) {
        if let Some(trail) = &mut self.trail {
            trail.annotate(key, value);
        }
    }

    /// Notes in the audit log that the request is allowed as a view, after the
    /// request for the whole resource was refused.
    pub(super) fn allow_view(&mut self, reason: String) {
        if let Some(trail) = &mut self.trail {
            trail.annotate_anew(DECISION, "allow".to_owned());
            trail.annotate_anew(REASON, reason);
        }
    }

    /// Tells whether upstream would have to be asked for the grant, and was not
    /// asked for some time. If the answer would cost a request to upstream, too, it
    /// is better to forward such a request.
    pub(in crate::server) fn is_first_read(&self) -> bool {
        let identified = &self.identified;
        match (identified.caller(), &identified.generation().gate) {
            // Degraded mode needs upstream's decisions about the reads that it may
            // answer.
            (Caller::User(user), Gate::Delegated(gate))
                if self.granted.is_none() && identified.purpose() == Purpose::Usual =>
            {
                let attributes = identified.info().attributes();
                gate.authorizer.is_first_read(user, &attributes)
            }
            _ => false,
        }
    }

    pub(in crate::server) async fn ask(&mut self) -> Result<Arc<Granted>, NotGranted> {
        if let Some(granted) = &self.granted {
            return Ok(granted.clone());
        }
        let attributes = self.identified.info().attributes();
        match self.identified.caller() {
            Caller::Owner(_) => {}
            Caller::OwnerAsSomebody => return Err(NotGranted::OnlyUpstream),
            Caller::User(user) => {
                let generation = self.identified.generation();
                let Gate::Delegated(gate) = &generation.gate else {
                    let error = "a user came in where only the owner may";
                    return Err(NotGranted::Refused(Status::internal_error(error)));
                };
                let purpose = self.identified.purpose();
                let authorizer = &gate.authorizer;
                let asked = authorizer.authorize_request(user, &attributes, purpose);
                let ruling = self.identified.asking().during(asked).await;
                if let Some(trail) = &mut self.trail {
                    annotate(trail, ruling.verdict.as_deref());
                }
                ruling.outcome.map_err(NotGranted::Refused)?;
            }
        }
        let granted = Arc::new(Granted {
            identified: self.identified.clone(),
            attributes,
        });
        self.granted = Some(granted.clone());
        Ok(granted)
    }
}

/// Adds the decision and its reason to the audit log. `verdict` is `None` if no
/// authorizer could be asked.
fn annotate(trail: &mut Trail, verdict: Option<&Verdict>) {
    let Some(verdict) = verdict else {
        trail.annotate(REASON, NOBODY_COULD_SAY);
        return;
    };
    let is_allowed = verdict.decision == Decision::Allow;
    trail.annotate(DECISION, if is_allowed { "allow" } else { "forbid" });
    trail.annotate(REASON, verdict.reason.clone());
}
