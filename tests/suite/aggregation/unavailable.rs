//! Backends that fail: their conditions, the conditions' texts, and the answers to
//! callers.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::Value;

use super::HostileTwins;
use crate::harness::apifront::oracle;
use crate::harness::backend::{Backend, Mood};
use crate::harness::certificates::Pair;
use crate::harness::client::Client;
use crate::harness::differential::Differential;
use crate::harness::eventually;
use crate::harness::expect::Expect;
use crate::harness::twins::{Parts, Registration, SETTLES_WITHIN, Twins, condition};
use crate::harness::{pace, ports};

/// One kind of failure, in its own group.
struct Case {
    name: &'static str,
    kind: Kind,
    available: bool,
}

enum Kind {
    Mood(Mood),
    /// Nobody listens at the port.
    Nobody,
    /// Another authority signed the certificate.
    Stranger,
    AnotherName,
    NoBundle,
    /// The APIService names no authority and skips verification.
    Insecure,
}

fn cases() -> Vec<Case> {
    use Kind::*;
    let case = |name, kind, available| Case {
        name,
        kind,
        available,
    };
    vec![
        case("fine", Mood(self::Mood::Fine), true),
        case("mute", Mood(self::Mood::Mute), false),
        case("hanging", Mood(self::Mood::Hanging), false),
        // Only the status of the answer decides.
        case("half-hanging", Mood(self::Mood::HangingAfterHead), true),
        case("closing", Mood(self::Mood::Closing), false),
        case("hanging-up", Mood(self::Mood::ClosingAfterRequest), false),
        case("half-closed", Mood(self::Mood::HalfClosed), true),
        case("slow", Mood(self::Mood::Slow(Duration::from_secs(2))), true),
        case("moved", Mood(self::Mood::Status(301)), false),
        case("unauthorized", Mood(self::Mood::Status(401)), false),
        case("missing", Mood(self::Mood::Status(404)), false),
        case("failing", Mood(self::Mood::Status(500)), false),
        case("unavailable", Mood(self::Mood::Status(503)), false),
        case("no-content", Mood(self::Mood::Status(204)), true),
        case("html", Mood(self::Mood::Html), true),
        case("garbage", Mood(self::Mood::Garbage(1000)), true),
        case("huge", Mood(self::Mood::Huge(20_000)), true),
        case("nobody", Nobody, false),
        case("stranger", Stranger, false),
        case("another-name", AnotherName, false),
        case("no-bundle", NoBundle, false),
        case("insecure", Insecure, true),
    ]
}

fn group(name: &str) -> String {
    format!("{name}.hostile.example.com")
}

struct Moods {
    twins: Twins,
    backends: Vec<Backend>,
}

impl Moods {
    async fn start() -> Self {
        let mut backends = Vec::new();
        let twins = Twins::start(async |parts: &Parts| {
            let mut all = Vec::new();
            for case in cases() {
                let (registration, backend) = case.start(parts);
                all.push(registration);
                backends.extend(backend);
            }
            all
        })
        .await;
        Self { twins, backends }
    }
}

impl Case {
    fn start(&self, parts: &Parts) -> (Registration, Option<Backend>) {
        let group = group(self.name);
        let certificates = &parts.oracle.certificates;
        let with =
            |serving: &Pair, mood| Backend::start(&group, serving, &parts.front_proxies, mood);
        let backend = match &self.kind {
            Kind::Mood(mood) => Some(with(&parts.serving, *mood)),
            Kind::Nobody => None,
            Kind::Stranger => {
                let stranger = certificates.stranger_serving("stranger-serving");
                Some(with(&stranger, Mood::Fine))
            }
            Kind::AnotherName => {
                let another = certificates.serving_for("another-name", &["another.name.svc"]);
                Some(with(&another, Mood::Fine))
            }
            Kind::NoBundle | Kind::Insecure => Some(with(&parts.serving, Mood::Fine)),
        };
        let port = backend.as_ref().map_or_else(ports::free, Backend::port);
        let registration = Registration::new(&group, "v1", self.name, port);
        let registration = match &self.kind {
            Kind::NoBundle => registration,
            Kind::Insecure => {
                let mut registration = registration;
                registration.manifest["spec"]["insecureSkipTLSVerify"] = true.into();
                registration
            }
            _ => registration.trust(parts.ca()),
        };
        (registration, backend)
    }
}

/// Returns the part of a condition in which both servers must agree. Each server has
/// its own words for connection errors.
fn comparable(condition: &Value) -> String {
    let text = |field: &str| condition[field].as_str().unwrap_or("").to_owned();
    let mut message = text("message");
    // kube-apiserver names the backend `localhost`, apifront names its address.
    while let Some(at) = message.find("localhost:") {
        message.replace_range(at..at + "localhost:".len(), "127.0.0.1:");
    }
    if let Some(at) = message
        .find("\": ")
        .filter(|_| message.contains(": Get \""))
    {
        message.truncate(at);
    }
    format!("{} {}: {message}", text("status"), text("reason"))
}

impl Moods {
    /// Returns what both conditions say, as far as they must agree.
    async fn conditions(&self, name: &str) -> [String; 2] {
        self.both_conditions(name).await.map(|c| comparable(&c))
    }

    async fn both_conditions(&self, name: &str) -> [Value; 2] {
        let (direct, front) = (self.twins.direct_client(), self.twins.front_client());
        let (direct, front) = tokio::join!(condition(&direct, name), condition(&front, name));
        [direct, front].map(|condition| condition.expect("a condition"))
    }

    /// Asks both servers for the paths of a case. On a busy machine a slow backend may
    /// fail a check of either server: answers count if neither has changed its mind
    /// meanwhile.
    async fn compare(&self, case: &Case, paths: &[String], both: &mut Differential) {
        let name = format!("v1.{}", group(case.name));
        let since = async || {
            let conditions = self.both_conditions(&name).await;
            conditions.map(|c| c["lastTransitionTime"].clone())
        };
        loop {
            self.twins.settled(&name, case.available).await;
            let before = since().await;
            let mut found = Vec::new();
            for path in paths {
                let difference = both.difference(Expect::NotAsked, Method::GET, path, &[], "");
                found.push(difference.await);
            }
            if found.iter().all(String::is_empty) || since().await == before {
                both.add(found);
                return;
            }
        }
    }
}

#[tokio::test]
async fn conditions_and_answers_are_those_of_the_aggregator() {
    let moods = Moods::start().await;
    for case in cases() {
        let name = format!("v1.{}", group(case.name));
        moods.twins.settled(&name, case.available).await;
        // kube-apiserver may first say that it does not know the service yet.
        let until = Instant::now() + SETTLES_WITHIN;
        let mut said = moods.conditions(&name).await;
        while said[0] != said[1] && Instant::now() < until {
            pace::of_tries(Duration::from_millis(100)).await;
            said = moods.conditions(&name).await;
        }
        assert_eq!(said[0], said[1], "{}", case.name);
    }
    let mut both = moods.twins.differential();
    for case in cases() {
        let root = format!("/apis/{}/v1", group(case.name));
        let mut paths = vec!["/things/status/200", "/things/x/status"];
        if !case.available {
            paths.extend(["/things/echo", "", "/things?watch=1"]);
        }
        let paths: Vec<String> = paths.iter().map(|path| format!("{root}{path}")).collect();
        moods.compare(&case, &paths, &mut both).await;
    }
    let front = moods.twins.front_client();
    both.finish();
    let text = front.get("/apis/mute.hostile.example.com/v1/things").await;
    assert_eq!(text.status, 503);
    assert_eq!(text.text(), "service unavailable\n");
    let metric = |name: &str| {
        let label = [("name", format!("v1.{}", group(name)))];
        let front = &moods.twins.front;
        async move {
            let labels: Vec<(&str, &str)> = label.iter().map(|(k, v)| (*k, v.as_str())).collect();
            front
                .metric("aggregator_unavailable_apiservice", &labels)
                .await
        }
    };
    if !oracle() {
        assert_eq!(metric("fine").await, 0.0);
        assert_eq!(metric("mute").await, 1.0);
    }
    assert!(moods.backends.len() > 10);
}

/// The next check notices a failure within 30 s. It notices the return sooner, since
/// failed checks are repeated quickly.
#[tokio::test]
async fn what_comes_and_goes_is_noticed() {
    let hostile = HostileTwins::start().await;
    let name = "v1.hostile.example.com";
    let path = "/apis/hostile.example.com/v1/things/status/200";
    let (direct, front) = (hostile.twins.direct_client(), hostile.twins.front_client());
    hostile.backend.become_(Mood::Status(500));
    hostile.twins.settled(name, false).await;
    for client in [&direct, &front] {
        let answer = client.get(path).await;
        assert_eq!(answer.text(), "service unavailable\n");
    }
    let of = async |client: &Client| condition(client, name).await.expect("a condition");
    let before = of(&front).await["lastTransitionTime"].clone();
    hostile.backend.become_(Mood::Status(404));
    eventually("the other message", SETTLES_WITHIN, || async {
        of(&front).await["message"].to_string().contains("404")
    })
    .await;
    assert_eq!(of(&front).await["lastTransitionTime"], before);
    hostile.backend.become_(Mood::Fine);
    hostile.twins.settled(name, true).await;
    for client in [&direct, &front] {
        eventually("it answers again", SETTLES_WITHIN, || async {
            client.get(path).await.status == 200
        })
        .await;
    }
    skip_under_oracle!("the rest is about apifront's checks of its backends");
    let lost = [("name", name), ("reason", "FailedDiscoveryCheck")];
    let counted = hostile
        .twins
        .front
        .metric("aggregator_unavailable_apiservice_total", &lost)
        .await;
    assert_eq!(counted, 1.0);
}
