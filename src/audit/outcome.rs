//! The facts that a request's bodies tell. They are read once, when the event is
//! written, and not by the task that serves the request.

use std::sync::OnceLock;

use kubernetes_wire::representation::scan;

use super::body::Body;
use super::object;
use super::object_ref::ObjectRef;

/// The fields of a Status that an event has, in this order. `code` is the code that
/// the client got, and the ListMeta is left out.
const STATUS_FIELDS: [&[u8]; 4] = [b"status", b"message", b"reason", b"details"];

/// Parts of a 400's message which show that an object could not be decoded.
const NOT_DECODED: [&str; 3] = [
    " cannot be handled as a ",
    "the object provided is unrecognized",
    "does not match the expected API version",
];

#[derive(Debug)]
pub(super) struct Bodies {
    pub(super) request: Option<Body>,
    pub(super) response: Option<Body>,
    pub(super) wants: AuditedBodies,
    /// The object, with the fields that the URL names.
    pub(super) reference: Option<ObjectRef>,
    pub(super) code: u16,
    outcome: OnceLock<Outcome>,
}

/// The parts of the bodies that an event holds, and the form in which they are
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AuditedBodies {
    pub(super) request_object: bool,
    pub(super) response_object: bool,
    /// Whether the request's object completes objectRef.
    pub(super) reference: bool,
    /// A patch is written as it was sent.
    pub(super) is_patch: bool,
    pub(super) is_delete: bool,
    pub(super) without_managed_fields: bool,
}

/// The facts from the bodies. All byte vectors are JSON.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) reference: Option<ObjectRef>,
    /// Fields of responseStatus, each with a comma before it.
    pub(super) status: Option<Vec<u8>>,
    pub(super) request: Option<Vec<u8>>,
    pub(super) response: Option<Vec<u8>>,
    /// Whether an object was left out because it was too large to be held.
    pub(super) is_cut: bool,
}

impl Bodies {
    pub(super) fn new(
        request: Option<Body>,
        response: Option<Body>,
        wants: AuditedBodies,
        reference: Option<ObjectRef>,
        code: u16,
    ) -> Self {
        Self {
            request,
            response,
            wants,
            reference,
            code,
            outcome: OnceLock::new(),
        }
    }

    pub(super) fn outcome(&self) -> &Outcome {
        self.outcome.get_or_init(|| self.read())
    }

    fn read(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let mut is_cut = false;
        let mut json = |body: &Option<Body>, is_wanted: bool| {
            let body = body.as_ref()?;
            let whole = (!body.is_cut()).then(|| body.whole()).flatten();
            is_cut |= is_wanted && whole.is_none();
            let whole = whole.filter(|bytes| !bytes.is_empty())?;
            let json = object::json(&whole)?;
            Some(json)
        };
        let response = json(&self.response, self.wants.response_object);
        let request = json(&self.request, self.wants.request_object);
        outcome.is_cut = is_cut;
        if let Some(response) = &response
            && scan::text_at(response, &["kind"]).is_some_and(|kind| kind == "Status")
        {
            outcome.status = Some(status(response));
        }
        if let Some(request) = request
            && !self.refused_unread(outcome.status.as_deref().unwrap_or_default())
        {
            if self.wants.reference {
                outcome.reference = self.reference.clone().map(|mut reference| {
                    reference.fill(&request);
                    reference
                });
            }
            if self.wants.request_object {
                let strip = self.wants.without_managed_fields && !self.wants.is_patch;
                let request = stripped(request, strip);
                outcome.request = Some(if self.wants.is_delete {
                    object::internal_options(&request)
                } else {
                    request
                });
            }
        }
        if self.wants.response_object {
            let strip = self.wants.without_managed_fields;
            outcome.response = response.map(|response| stripped(response, strip));
        }
        outcome
    }

    /// Tells whether the API server answered before it looked at the body. Its own
    /// event then has nothing of the body. The code does not always tell: a 400 may
    /// also be about the object's content, a 403 may come from an admission plugin,
    /// and a 404 from the storage. For those, the message decides.
    fn refused_unread(&self, status: &[u8]) -> bool {
        let says = |text: &str| status.windows(text.len()).any(|w| w == text.as_bytes());
        match self.code {
            400 => NOT_DECODED.into_iter().any(says),
            401 | 405 | 406 | 413 | 415 | 429 => true,
            403 => says(" is forbidden: User \\\""),
            404 => says("\"the server could not find the requested resource\""),
            _ => false,
        }
    }
}

fn stripped(json: Vec<u8>, strip: bool) -> Vec<u8> {
    if strip {
        object::without_managed_fields(&json)
    } else {
        json
    }
}

fn status(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for name in STATUS_FIELDS {
        let mut members = scan::members(json).map_while(Result::ok);
        if let Some(member) = members.find(|m| m.key == name) {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name);
            out.extend_from_slice(b"\":");
            out.extend_from_slice(member.value);
        }
    }
    out
}
