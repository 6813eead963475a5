//! The type that an event has for a watcher with a selector.

use kubernetes_wire::representation::EventType;

use crate::store::{Change, Event, Filter};

/// Returns the event type of a change that upstream sent for this watcher
/// alone.
pub(super) fn event_type(change: Change) -> EventType {
    match change {
        Change::Added => EventType::Added,
        Change::Modified => EventType::Modified,
        Change::Deleted => EventType::Deleted,
    }
}

/// Returns the type of event that a watcher gets, like kube-apiserver's
/// `cache_watcher.go`. An object that enters the selection is ADDED, and an
/// object that leaves it is DELETED, whatever happened to the object. A DELETED
/// object is shown as it was when it last matched, at the event's version.
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
