//! The `Status` object, in which clients receive every error.
//!
//! The structure and messages are those of k8s.io/apimachinery `api/errors`.
//! The order of the fields is that of `meta/v1 Status`, because clients compare
//! bytes.

use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::GroupResource;

/// The seconds of `Retry-After` in every answer that says "try again soon".
/// kube-apiserver dictates it where it answers the same: too many requests (`retryAfter`
/// in k8s.io/apiserver `server/filters/maxinflight.go`), resource versions of the future
/// (the watch cache's `resourceVersionTooHighRetrySeconds`), and the end of the process
/// (`waitgroup.go`). Of priority levels it is the shortest time, which they raise.
pub const RETRY_SOON: u32 = 1;

/// `metav1.StatusReason`. `Unknown` is written as an absent reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The server gives no reason.
    Unknown,
    /// 409: the object to create already exists.
    AlreadyExists,
    /// 400: the request itself is wrong.
    BadRequest,
    /// 409: the object has changed since the client read it.
    Conflict,
    /// 410: the requested version or continue token is too old.
    Expired,
    /// 403: the caller lacks the right.
    Forbidden,
    /// 500: the server has failed.
    InternalError,
    /// 422: the object is not valid.
    Invalid,
    /// 405: the resource does not have the verb.
    MethodNotAllowed,
    /// 406: the server has none of the accepted media types.
    NotAcceptable,
    /// 404: the object, the resource or the path does not exist.
    NotFound,
    /// 413: the body is too large.
    RequestEntityTooLarge,
    /// 500: the server cannot do this in time; the client may try again.
    ServerTimeout,
    /// 503: the service is down or does not accept the request now.
    ServiceUnavailable,
    /// 504: the time limit of the request is over.
    Timeout,
    /// 429: the client must wait before it tries again.
    TooManyRequests,
    /// 401: the caller has not shown who they are.
    Unauthorized,
    /// 415: the server cannot read the media type of the body.
    UnsupportedMediaType,
}

impl Reason {
    /// Returns the reason as the JSON has it, empty for [`Reason::Unknown`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::AlreadyExists => "AlreadyExists",
            Self::BadRequest => "BadRequest",
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::Forbidden => "Forbidden",
            Self::InternalError => "InternalError",
            Self::Invalid => "Invalid",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::NotFound => "NotFound",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::ServerTimeout => "ServerTimeout",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::Timeout => "Timeout",
            Self::TooManyRequests => "TooManyRequests",
            Self::Unauthorized => "Unauthorized",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
        }
    }

    /// Parses a reason. The result is `None` for an unknown reason.
    pub fn parse(text: &str) -> Option<Self> {
        const ALL: [Reason; 18] = [
            Reason::Unknown,
            Reason::AlreadyExists,
            Reason::BadRequest,
            Reason::Conflict,
            Reason::Expired,
            Reason::Forbidden,
            Reason::InternalError,
            Reason::Invalid,
            Reason::MethodNotAllowed,
            Reason::NotAcceptable,
            Reason::NotFound,
            Reason::RequestEntityTooLarge,
            Reason::ServerTimeout,
            Reason::ServiceUnavailable,
            Reason::Timeout,
            Reason::TooManyRequests,
            Reason::Unauthorized,
            Reason::UnsupportedMediaType,
        ];
        ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

impl Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

fn no_reason(reason: &Reason) -> bool {
    *reason == Reason::Unknown
}

fn zero(seconds: &u32) -> bool {
    *seconds == 0
}

fn no_code(code: &u16) -> bool {
    *code == 0
}

/// `metav1.StatusCause`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// The `metav1.CauseType`, such as `FieldValueInvalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The explanation for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field that caused the error, such as `spec.replicas`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Cause {
    /// Makes a cause. `reason` is a `metav1.CauseType`, such as
    /// `FieldValueInvalid`.
    pub fn new(reason: &str, field: &str, message: impl Into<String>) -> Self {
        Self {
            reason: reason.to_owned(),
            message: message.into(),
            field: field.to_owned(),
        }
    }
}

/// `metav1.StatusDetails`. `kind` holds the plural resource in most errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// The name of the object, empty if the error is about no single object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group of the resource, empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural of the resource, or the kind of an invalid object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The UID of the object, if it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The single errors of which the failure consists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// The seconds after which the client may try again, 0 for none.
    #[serde(skip_serializing_if = "zero")]
    pub retry_after_seconds: u32,
}

/// `metav1.ListMeta`. A Status never sets any field but `continue`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusMeta {
    /// The token with which an expired list can continue in the newest state.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// A failure as a client reads it, or a success without an object.
///
/// ```
/// use kubernetes_wire::api::{GroupVersionResource, Status};
///
/// let pods = GroupVersionResource::new("", "v1", "pods").group_resource();
/// let status = Status::not_found(&pods, "web");
/// assert_eq!(status.http_status(), 404);
/// let json = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"web\" not found","reason":"NotFound","details":{"name":"web","kind":"pods"},"code":404}"#;
/// assert_eq!(status.to_json(), format!("{json}\n"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Always `Status`.
    pub kind: &'static str,
    /// Always `v1`.
    pub api_version: &'static str,
    /// The metadata, written as `{}` when it is empty.
    pub metadata: StatusMeta,
    /// `Success` or `Failure`.
    pub status: &'static str,
    /// The explanation for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The reason for programs.
    #[serde(skip_serializing_if = "no_reason")]
    pub reason: Reason,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Boxed to keep errors without details small. Most errors have none.
    pub details: Option<Box<Details>>,
    /// The HTTP status code, or 0 in a success that is written without a code.
    #[serde(skip_serializing_if = "no_code")]
    pub code: u16,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {}: {}",
            self.code,
            self.reason.as_str(),
            self.message
        )
    }
}

impl std::error::Error for Status {}

impl Status {
    /// Makes a failure without details. `code` is the HTTP status code.
    pub fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            kind: "Status",
            api_version: "v1",
            metadata: StatusMeta::default(),
            status: "Failure",
            message: message.into(),
            reason,
            details: None,
            code,
        }
    }

    /// Makes a success. Kubernetes writes the code in some places and omits it in
    /// others; 0 omits it.
    pub fn success(code: u16) -> Self {
        Self {
            status: "Success",
            ..Self::failure(code, Reason::Unknown, "")
        }
    }

    /// Reads a failure that a server wrote in JSON. The result is `None` if it
    /// is not a Status, or has an unknown reason.
    pub fn from_json(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Written {
            kind: String,
            #[serde(default)]
            message: String,
            #[serde(default)]
            reason: String,
            #[serde(default)]
            details: Option<Box<Details>>,
            code: u16,
        }
        let written: Written = serde_json::from_slice(body).ok()?;
        let reason = Reason::parse(&written.reason)?;
        (written.kind == "Status").then(|| Self {
            details: written.details,
            ..Self::failure(written.code, reason, written.message)
        })
    }

    /// Returns the Status with these details.
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Sets `details.retryAfterSeconds`. Answers also carry it as
    /// `Retry-After`.
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details
            .get_or_insert_with(Box::default)
            .retry_after_seconds = seconds;
        self
    }

    /// Says that the client should try again after [`RETRY_SOON`]. client-go repeats any
    /// request whose answer says so, even a write.
    pub fn retry_soon(self) -> Self {
        self.with_retry_after(RETRY_SOON)
    }

    /// Makes a 400 with this message.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, Reason::BadRequest, message)
    }

    /// Makes the 401 for a caller who has not shown who they are.
    pub fn unauthorized() -> Self {
        Self::failure(401, Reason::Unauthorized, "Unauthorized")
    }

    /// Makes the 404 for an object that does not exist.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::failure(
            404,
            Reason::NotFound,
            format!("{resource} \"{name}\" not found"),
        )
        .with_details(Details::named(resource, name))
    }

    /// Returns kube-apiserver's answer for a path that nobody serves.
    pub fn unknown_path() -> Self {
        Self::failure(
            404,
            Reason::NotFound,
            "the server could not find the requested resource",
        )
        .with_details(Details::default())
    }

    /// Makes the 409 for an object that exists and was to be created.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::failure(
            409,
            Reason::AlreadyExists,
            format!("{resource} \"{name}\" already exists"),
        )
        .with_details(Details::named(resource, name))
    }

    /// Makes the 409 for an update of an object that has changed. `why` ends the
    /// message.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        Self::failure(
            409,
            Reason::Conflict,
            format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"),
        )
        .with_details(Details::named(resource, name))
    }

    /// Returns the 422 for an invalid object, with the causes. `kind` names the
    /// object's kind instead of its resource.
    pub fn invalid(kind: &GroupResource, name: &str, causes: Vec<Cause>) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for cause in &causes {
            let text = format!("{}: {}", cause.field, cause.message);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let aggregate = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{kind} \"{name}\" is invalid: {aggregate}");
        Self::failure(422, Reason::Invalid, message).with_details(Details {
            causes,
            ..Details::named(kind, name)
        })
    }

    /// Makes the 405 for a verb that the resource does not have.
    pub fn method_not_allowed(resource: &GroupResource, verb: &str) -> Self {
        Self::failure(
            405,
            Reason::MethodNotAllowed,
            format!("{verb} is not supported on resources of kind \"{resource}\""),
        )
        .with_details(Details::named(resource, ""))
    }

    /// Makes a 413 with this message.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::failure(413, Reason::RequestEntityTooLarge, message)
    }

    /// Makes the 410 for a version or a continue token that is too old.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, Reason::Expired, message)
    }

    /// Makes the 504 for a request whose own time limit has passed.
    pub fn timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        Self::failure(504, Reason::Timeout, message)
    }

    /// Makes a 500 with the text of an error.
    pub fn internal_error(error: impl std::fmt::Display) -> Self {
        let message = error.to_string();
        Self::failure(
            500,
            Reason::InternalError,
            format!("Internal error occurred: {message}"),
        )
        .with_details(Details {
            causes: vec![Cause {
                reason: String::new(),
                message,
                field: String::new(),
            }],
            ..Details::default()
        })
    }

    /// Makes a 503 with this message.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, Reason::ServiceUnavailable, message)
    }

    /// Returns the code as the type of the `http` crate.
    pub fn http_status(&self) -> StatusCode {
        StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the seconds for the `Retry-After` header, 0 for none.
    pub fn retry_after(&self) -> u32 {
        self.details.as_ref().map_or(0, |d| d.retry_after_seconds)
    }

    /// Returns compact JSON with the trailing newline that the API server
    /// writes.
    pub fn to_json(&self) -> Bytes {
        let mut out = super::go_json::to_vec(self);
        out.push(b'\n');
        out.into()
    }
}

impl Details {
    /// Makes the details of an error about one object. `name` is empty if the error
    /// is about the whole resource.
    pub fn named(resource: &GroupResource, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_kube_apiserver() {
        let pods = GroupResource {
            group: String::new(),
            resource: "pods".into(),
        };
        assert_eq!(
            Status::not_found(&pods, "x").to_json(),
            concat!(
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
                r#""message":"pods \"x\" not found","reason":"NotFound","#,
                r#""details":{"name":"x","kind":"pods"},"code":404}"#,
                "\n"
            )
        );
        assert_eq!(
            Status::unauthorized().to_json(),
            concat!(
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
                r#""message":"Unauthorized","reason":"Unauthorized","code":401}"#,
                "\n"
            )
        );
        assert_eq!(
            Status::success(0).to_json(),
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Success\"}\n"
        );
    }

    #[test]
    fn soon_is_after_a_second() {
        let status = Status::service_unavailable("x").retry_soon();
        assert_eq!(status.retry_after(), 1);
        let json = String::from_utf8(status.to_json().to_vec()).unwrap();
        let details = r#""details":{"retryAfterSeconds":1}"#;
        assert!(json.contains(details), "{json}");
    }

    #[test]
    fn each_cause_is_told_once() {
        let kind = GroupResource {
            group: "x.test".into(),
            resource: "Widget".into(),
        };
        let cause = Cause::new("FieldValueRequired", "spec.a", "Required value");
        let other = Cause::new("FieldValueInvalid", "spec.b", "Invalid value: 1");
        let one = Status::invalid(&kind, "w", vec![cause.clone(), cause.clone()]);
        assert_eq!(
            one.message,
            "Widget.x.test \"w\" is invalid: spec.a: Required value"
        );
        let two = Status::invalid(&kind, "w", vec![cause, other]);
        assert_eq!(
            two.message,
            "Widget.x.test \"w\" is invalid: [spec.a: Required value, spec.b: Invalid value: 1]"
        );
        assert_eq!(two.details.map(|d| d.causes.len()), Some(2));
    }
}
