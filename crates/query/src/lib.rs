//! Questions about objects: which are selected, in which order, how many of each kind,
//! and one page of them.
//!
//! ```text
//! QuerySpec ─ Plan::new ─▶ Plan ─ answer ─▶ Answer: total, rows, counts, warnings
//!                           │      ▲             ▲
//!                           │  Candidates: objects of one state that may be shown
//!                           │      ▼             │
//!                           └─▶ KeptOrder ───────┴─▶ Window: what changes in a page
//! ```
//!
//! Expressions are CEL. They are callers' input: `expression` bounds their size, their
//! depth, and what their evaluation costs.

// No value from the wire or a file may cause a panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used
    )
)]

mod answer;
mod candidate;
mod cell;
mod continue_token;
mod counts;
mod evaluation;
mod expression;
mod first_rows;
mod go_address;
mod go_url;
mod kept_order;
mod plan;
mod quantity;
mod ranked;
mod spec;
mod value_order;
mod warnings;
mod window;

pub use answer::{Answer, Failed, answer};
pub use candidate::{Candidate, Unreadable};
pub use continue_token::{Continue, NotContinuable};
pub use expression::{Expression, InvalidExpression, TooExpensive, Valueless};
pub use kept_order::{Changed, KeptOrder, NotKept, Page, rows};
pub use plan::{Invalid, Plan};
pub use spec::{
    Column, Count, OrderBy, Query, QuerySpec, QueryStatus, ResourceReference, Row, RowChange,
};
pub use window::{Difference, Window};
