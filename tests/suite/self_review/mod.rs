//! SelfSubjectAccessReviews: from memory, with views, and forwarded, against
//! kube-apiserver's answers.

mod answers;
mod asking;
mod kubectl;
mod memory;
mod random;
mod views;
