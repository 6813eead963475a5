//! The `Available` condition of an APIService.

use chrono::{DateTime, SecondsFormat, Utc};

/// `True`, `False` or `Unknown` in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The reason for the condition, in kube-aggregator's words. Its other reasons are
/// about Service objects, which a configured backend does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The backend has not been checked yet.
    Unchecked,
    /// The APIService has no service.
    Local,
    Passed,
    FailedDiscoveryCheck,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unchecked => "",
            Self::Local => "Local",
            Self::Passed => "Passed",
            Self::FailedDiscoveryCheck => "FailedDiscoveryCheck",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub status: ConditionStatus,
    pub reason: Reason,
    pub message: String,
    /// The last time at which the status changed. Changes of reason or message do
    /// not count.
    pub last_transition_time: DateTime<Utc>,
}

impl Condition {
    /// Returns the condition before the first check: not available, as in
    /// kube-aggregator, and not shown in the API.
    pub fn unchecked(now: DateTime<Utc>) -> Self {
        Self {
            status: ConditionStatus::Unknown,
            reason: Reason::Unchecked,
            message: String::new(),
            last_transition_time: now,
        }
    }

    pub fn local(now: DateTime<Utc>) -> Self {
        Self {
            status: ConditionStatus::True,
            reason: Reason::Local,
            message: "Local APIServices are always available".to_owned(),
            last_transition_time: now,
        }
    }

    pub fn checked(result: Result<(), String>, now: DateTime<Utc>) -> Self {
        let (status, reason, message) = match result {
            Ok(()) => (
                ConditionStatus::True,
                Reason::Passed,
                "all checks passed".to_owned(),
            ),
            Err(why) => (ConditionStatus::False, Reason::FailedDiscoveryCheck, why),
        };
        Self {
            status,
            reason,
            message,
            last_transition_time: now,
        }
    }

    /// Returns this condition as the successor of `before`: if the status stays, the
    /// time of the last transition stays too.
    pub fn after(mut self, before: &Self) -> Self {
        if self.status == before.status && before.reason != Reason::Unchecked {
            self.last_transition_time = before.last_transition_time;
        }
        self
    }

    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// Returns the time in the form of `metav1.Time`.
    pub fn last_transition_text(&self) -> String {
        self.last_transition_time
            .to_rfc3339_opts(SecondsFormat::Secs, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_status_is_a_transition() {
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let failed = |why: &str, t| Condition::checked(Err(why.to_owned()), at(t));
        let first = failed("one", 2).after(&Condition::unchecked(at(1)));
        assert_eq!(first.last_transition_time, at(2));
        let second = failed("two", 3).after(&first);
        assert_eq!(second.last_transition_time, at(2));
        assert_eq!(second.message, "two");
        let passed = Condition::checked(Ok(()), at(4)).after(&second);
        assert_eq!(passed.last_transition_text(), "1970-01-01T00:00:04Z");
        assert!(passed.is_true() && !second.is_true());
    }
}
