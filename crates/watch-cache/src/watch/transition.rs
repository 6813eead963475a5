//! What a watcher with a selector sees of a change.

use kubernetes_wire::representation::EventType;

use crate::store::{Change, Event, Filter};

/// An object that enters the selection is ADDED, one that leaves it DELETED,
/// whatever happened to it; as kube-apiserver's `cache_watcher.go` maps events.
/// A DELETED object is shown as it was when it still matched, at the event's
/// version.
pub fn transition(event: &Event, filter: &Filter) -> Option<EventType> {
    let before = event.previous.as_ref().is_some_and(|o| filter.matches(o));
    let after = event.change != Change::Deleted && filter.matches(&event.object);
    match (before, after) {
        (false, true) => Some(EventType::Added),
        (true, true) => Some(EventType::Modified),
        (true, false) => Some(EventType::Deleted),
        (false, false) => None,
    }
}
