//! Jobs and cron jobs.

use serde::Deserialize;

use super::NotPrintable;
use super::age::{Moment, human_duration};
use super::meta::{Object, PodTemplate, moment, nullable};
use super::row::{Cell, Row};
use super::selector::{Selector, format_selector};

const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobSpec {
    completions: Option<i64>,
    parallelism: Option<i64>,
    selector: Option<Selector>,
    template: PodTemplate,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JobStatus {
    succeeded: i64,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "moment")]
    start_time: Option<Moment>,
    #[serde(deserialize_with = "moment")]
    completion_time: Option<Moment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
}

type Job = Object<JobSpec, JobStatus>;

pub(crate) fn print_job(object: &[u8]) -> Result<Row, NotPrintable> {
    job_row(&serde_json::from_slice(object)?)
}

/// Prints a job as releases before 1.34 do, which do not know the status
/// SuccessCriteriaMet.
pub(super) fn print_job_before_1_34(object: &[u8]) -> Result<Row, NotPrintable> {
    let mut job: Job = serde_json::from_slice(object)?;
    job.status
        .conditions
        .retain(|condition| condition.r#type != SUCCESS_CRITERIA_MET);
    job_row(&job)
}

fn job_row(job: &Job) -> Result<Row, NotPrintable> {
    let [containers, images] = job.spec.template.container_cells();
    let duration = match (job.status.start_time, job.status.completion_time) {
        (None, _) => Cell::text(""),
        (Some(start), None) => Cell::Age(start),
        (Some(start), Some(end)) => {
            let duration = end.0.signed_duration_since(start.0);
            Cell::text(human_duration(duration).as_str())
        }
    };
    Ok(Row::new(vec![
        Cell::text(&job.metadata.name),
        Cell::text(job_status(job)),
        Cell::text(&completions(job)),
        duration,
        job.metadata.age(),
        containers,
        images,
        Cell::text(&format_selector(job.spec.selector.as_ref())?),
    ]))
}

fn completions(job: &Job) -> String {
    let succeeded = job.status.succeeded;
    match (job.spec.completions, job.spec.parallelism) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, Some(parallelism @ 2..)) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_status(job: &Job) -> &'static str {
    let holds = |r#type: &str| {
        let first = job.status.conditions.iter().find(|c| c.r#type == r#type);
        first.is_some_and(|c| c.status == "True")
    };
    if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if job.metadata.deletion_timestamp.is_some() {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else if holds(SUCCESS_CRITERIA_MET) {
        SUCCESS_CRITERIA_MET
    } else {
        "Running"
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CronJobSpec {
    schedule: String,
    time_zone: Option<String>,
    suspend: Option<bool>,
    job_template: JobTemplate,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobTemplate {
    spec: JobSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CronJobStatus {
    #[serde(deserialize_with = "nullable")]
    active: Vec<serde::de::IgnoredAny>,
    #[serde(deserialize_with = "moment")]
    last_schedule_time: Option<Moment>,
}

pub(crate) fn print_cron_job(object: &[u8]) -> Result<Row, NotPrintable> {
    let cron: Object<CronJobSpec, CronJobStatus> = serde_json::from_slice(object)?;
    let template = &cron.spec.job_template.spec;
    let [containers, images] = template.template.container_cells();
    let suspend = match cron.spec.suspend {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let active = i64::try_from(cron.status.active.len()).map_err(|_| NotPrintable)?;
    Ok(Row::new(vec![
        Cell::text(&cron.metadata.name),
        Cell::text(&cron.spec.schedule),
        Cell::text(cron.spec.time_zone.as_deref().unwrap_or("<none>")),
        Cell::text(suspend),
        Cell::integer(active),
        cron.status
            .last_schedule_time
            .map_or_else(|| Cell::text("<none>"), Cell::Age),
        cron.metadata.age(),
        containers,
        images,
        Cell::text(&format_selector(template.selector.as_ref())?),
    ]))
}
