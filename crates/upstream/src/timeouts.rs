//! The time limits of requests to an API server.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub health_check_interval: Duration,
    pub connect_timeout: Duration,
    pub request_timeout: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            health_check_interval: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            // kube-apiserver's --request-timeout: a longer wait never helps.
            request_timeout: Duration::from_secs(60),
        }
    }
}
