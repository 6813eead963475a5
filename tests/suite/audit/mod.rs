//! What is written down of requests, held against what kube-apiserver writes of
//! the same ones.

mod backends;
mod differential;
mod world;
