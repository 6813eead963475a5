//! No caller's rights, slowness or flood becomes another's.

mod aside;
mod endless_watches;
mod neighbour;
mod readers;
mod shared_reads;
mod watch_starts;
