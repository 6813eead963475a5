//! Writes findings for people and for programs.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::{Finding, Section, Verdict};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Default)]
pub struct Report<W> {
    output: Output,
    out: W,
    findings: Vec<Finding>,
    /// The section whose title was written last.
    section: Option<Section>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    healthy: bool,
    findings: &'a [Finding],
}

impl<W: Write> Report<W> {
    pub fn new(output: Output, out: W) -> Self {
        Self {
            output,
            out,
            findings: Vec::new(),
            section: None,
        }
    }

    /// Adds a finding. Text is written at once, because some checks take seconds.
    pub(super) fn add(&mut self, finding: Finding) -> io::Result<()> {
        if self.output == Output::Text {
            self.write(&finding)?;
        }
        self.findings.push(finding);
        Ok(())
    }

    pub(super) fn add_all(&mut self, findings: Vec<Finding>) -> io::Result<()> {
        findings
            .into_iter()
            .try_for_each(|finding| self.add(finding))
    }

    fn write(&mut self, finding: &Finding) -> io::Result<()> {
        if self.section != Some(finding.section) {
            if self.section.is_some() {
                writeln!(self.out)?;
            }
            writeln!(self.out, "{}", finding.section.title())?;
            self.section = Some(finding.section);
        }
        let mark = finding.verdict.mark();
        writeln!(self.out, "  {mark} {}: {}", finding.subject, finding.found)?;
        if let Some(remedy) = &finding.remedy {
            writeln!(self.out, "    → {remedy}")?;
        }
        self.out.flush()
    }

    fn count(&self, verdict: Verdict) -> usize {
        let findings = self.findings.iter();
        findings
            .filter(|finding| finding.verdict == verdict)
            .count()
    }

    /// Writes the end. Returns true if there is no fault.
    pub(super) fn finish(mut self) -> io::Result<bool> {
        let faults = self.count(Verdict::Fault);
        let healthy = faults == 0;
        match self.output {
            Output::Text => {
                let (good, neutral) = (self.count(Verdict::Good), self.count(Verdict::Neutral));
                writeln!(self.out, "\n{good} ✓  {neutral} –  {faults} ✗")?;
            }
            Output::Json => {
                let document = Document {
                    api_version: "apifront.dev/v1alpha1",
                    kind: "DoctorReport",
                    healthy,
                    findings: &self.findings,
                };
                serde_json::to_writer_pretty(&mut self.out, &document)?;
                writeln!(self.out)?;
            }
        }
        self.out.flush()?;
        Ok(healthy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(output: Output) -> (String, bool) {
        let mut out = Vec::new();
        let mut report = Report::new(output, &mut out);
        let (files, ports) = (Section::Configuration, Section::Ports);
        for finding in [
            Finding::good(files, "front.yaml", "valid"),
            Finding::neutral(ports, "9443", "none"),
            Finding::fault(ports, "6443", "taken").mended_by("free it"),
        ] {
            report.add(finding).unwrap();
        }
        let healthy = report.finish().unwrap();
        (String::from_utf8(out).unwrap(), healthy)
    }

    #[test]
    fn people_read_lines_with_marks_and_remedies() {
        let (text, healthy) = written(Output::Text);
        let expected = "Configuration\n  ✓ front.yaml: valid\n\nPorts\n  – 9443: none\n  ✗ 6443: taken\n    → free it\n\n1 ✓  1 –  1 ✗\n";
        assert_eq!((text.as_str(), healthy), (expected, false));
    }

    #[test]
    fn programs_read_one_document() {
        let (json, healthy) = written(Output::Json);
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["healthy"], healthy);
        assert_eq!(document["findings"][2]["section"], "ports");
        assert_eq!(document["findings"][2]["verdict"], "fault");
        assert_eq!(document["findings"][2]["remedy"], "free it");
        assert_eq!(document["findings"][0].get("remedy"), None);
    }
}
