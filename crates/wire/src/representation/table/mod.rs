//! `as=Table`: the output of `kubectl get`, printed by the server.
//!
//! A [`Printer`] makes [`Row`]s exactly as kube-apiserver's printers do
//! (`pkg/printers/internalversion`, and `tableconvertor` of custom resources).
//! Nothing is guessed: if a kind has no printer here, or an object has a value that
//! its printer does not know for certain, the API server is asked.

mod age;
mod columns;
mod conditions;
mod custom;
mod json_path;
mod meta;
mod printed;
mod printer;
mod releases;
mod row;
pub mod selector;

mod admission;
mod api_machinery;
mod autoscaling;
mod certificates;
mod core;
mod devices;
mod events;
mod jobs;
mod lifecycle;
mod networking;
mod nodes;
mod pods;
mod policy;
mod quotas;
mod scheduling;
mod services;
mod simple;
mod storage;
mod workloads;

pub use custom::CustomColumn;
pub use printed::{Printed, PrintedRow};
pub use printer::{Cells, NotPrintable, Printer, RowWriter, TableOptions};
pub use row::Row;

use printer::{PrintRow, Quirks, Source};

#[cfg(test)]
mod tests;
