//! SelfSubjectAccessReviews from memory, with views, and forwarded, compared with
//! kube-apiserver's answers.

mod answers;
mod asking;
mod kubectl;
mod memory;
mod random;
mod views;
