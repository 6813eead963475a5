//! Examines everything that a start needs, and reports for each part what was found
//! and how to repair it. It changes nothing.

mod api_server;
mod backends;
mod callers;
mod certificates;
mod claims;
mod client;
mod features;
mod finding;
mod impersonation;
mod ports;
mod queries;
mod report;
mod resources;
mod rights;
mod shapes;

use std::io::{self, Write};
use std::sync::Arc;

use apifront_upstream::{Settings, Upstream};
use chrono::Utc;

use self::api_server::Reached;
pub use self::finding::{Finding, Section, Verdict};
use self::impersonation::Named;
pub use self::report::{Output, Report};
use crate::config::{self, Config, ConfigErrors, Source};
use crate::metrics::Metrics;
use crate::server;

const CONFIGURATION: Section = Section::Configuration;

/// Examines a start with this configuration. Returns true if there is no fault.
pub async fn examine<W: Write>(source: &Source, mut report: Report<W>) -> io::Result<bool> {
    let config = match source.load() {
        Ok(config) => config,
        Err(errors) => {
            report.add_all(invalid(&errors))?;
            return report.finish();
        }
    };
    let name = match source.file() {
        Some(file) => file.display().to_string(),
        None => "flags".to_owned(),
    };
    report.add(Finding::good(CONFIGURATION, name, "valid"))?;
    let metrics = Metrics::new().map_err(io::Error::other)?;
    report.add(files(&config, &metrics).await)?;
    let settings = server::upstream_settings(&config).await;
    let servers = settings
        .as_ref()
        .map_or(&[][..], |settings| &settings.servers);
    report.add_all(certificates::examine(&config, servers, Utc::now()))?;
    report.add_all(ports::examine(&config).await)?;
    if config.upstream == config::Upstream::Demo {
        let found = "the demo's, in the process, with sample objects; --kubeconfig or --config \
                     names a cluster's";
        report.add(Finding::neutral(Section::ApiServers, "API server", found))?;
        return report.finish();
    }
    // If the settings are wrong, the finding about the files has told the reason.
    if let Ok(settings) = settings {
        cluster(&config, &metrics, settings, &mut report).await?;
    }
    report.finish()
}

fn invalid(errors: &ConfigErrors) -> Vec<Finding> {
    let file = errors.file.as_ref().map(|file| file.display().to_string());
    let file = file.unwrap_or_else(|| "flags".to_owned());
    let finding = |error: &config::FieldError| {
        let remedy = "config/front-configuration.yaml describes every field; the other checks \
                      need a valid configuration";
        Finding::fault(CONFIGURATION, file.clone(), error.to_string()).mended_by(remedy)
    };
    errors.errors.iter().map(finding).collect()
}

/// Reads the files that the configuration names, like a start.
async fn files(config: &Config, metrics: &Metrics) -> Finding {
    match server::check(config, metrics).await {
        Ok(()) => Finding::good(CONFIGURATION, "files", "can be used"),
        Err(error) => Finding::fault(CONFIGURATION, "files", error.to_string())
            .mended_by("correct the file or the field that the text names"),
    }
}

async fn cluster<W: Write>(
    config: &Config,
    metrics: &Metrics,
    settings: Settings,
    report: &mut Report<W>,
) -> io::Result<()> {
    let mut reached = Vec::new();
    for server in &settings.servers {
        let (findings, found) = api_server::examine(server).await;
        report.add_all(findings)?;
        reached.extend(found);
    }
    report.add_all(api_server::one_cluster(&reached).into_iter().collect())?;
    let Some(first) = reached.first() else {
        let found = "everything else needs an API server that answers";
        return report.add(Finding::neutral(Section::Rights, "not examined", found));
    };
    let answering = Settings {
        servers: reached
            .iter()
            .map(|reached| reached.server.clone())
            .collect(),
        ..settings
    };
    let upstream = match Upstream::new(&answering, metrics.upstream.clone()) {
        Ok(upstream) => Arc::new(upstream),
        Err(error) => {
            let finding = Finding::fault(Section::ApiServers, "upstream", error.to_string());
            return report.add(finding);
        }
    };
    serving(config, metrics, first, &upstream, report).await
}

/// Examines everything that needs an API server that answers.
async fn serving<W: Write>(
    config: &Config,
    metrics: &Metrics,
    first: &Reached,
    upstream: &Arc<Upstream>,
    report: &mut Report<W>,
) -> io::Result<()> {
    let client = &first.client;
    let discovered = resources::discover(client).await;
    let known = discovered.as_deref().unwrap_or_default();
    let api_services = backends::api_services(client).await;
    let remote = backends::remote(&api_services);
    let named = Named::ask(client).await;
    report.add_all(rights::examine(client, config, known, &named).await)?;
    report.add(callers::examine(&first.server, config, &named).await)?;
    report.add_all(features::examine(client, first.release).await)?;
    match &discovered {
        Ok(known) => {
            let findings = resources::examine(upstream, config, known, &remote).await;
            report.add_all(findings)?;
            report.add_all(shapes::examine(client, config, known).await)?;
        }
        Err(error) => {
            let found = format!("cannot be discovered: {error}");
            let remedy = "allow apifront's user to get /api and /apis (system:discovery)";
            let finding = Finding::fault(Section::Resources, "discovery", found);
            report.add(finding.mended_by(remedy))?;
        }
    }
    report.add_all(queries::examine(client, config).await)?;
    report.add_all(backends::configured(config, metrics).await)?;
    report.add_all(claims::configured(config).await)?;
    report.add_all(backends::of_the_cluster(&api_services))?;
    report.add_all(claims::of_the_cluster(first, config, known, &remote).await)
}
