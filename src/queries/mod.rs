//! Queries: an API group of apifront's own, `query.apifront.dev`. Like a
//! SelfSubjectAccessReview, a Query is answered by the request that creates it, and
//! nothing is stored.

mod api_group;
mod metrics;
mod object;
mod order;
mod orders;
mod selections;
mod settings;
mod shown;
mod table_columns;
mod windows;

pub use api_group::{GROUP, KIND, group_version, kind, queries, source};
pub use metrics::{Outcome, QueryMetrics};
pub use object::QueriedObject;
pub use order::{Order, Wanted};
pub use orders::{Asked, KeptOrders};
pub use selections::{Selections, SelectionsKey};
pub use settings::QueriesSettings;
pub use shown::Shown;
pub use windows::{OpenWindow, Windows, Work};
