//! Tests API Priority and Fairness: the cluster's FlowSchemas and
//! PriorityLevelConfigurations have the same meaning here as in kube-apiserver.

mod changes;
mod classification;
mod seats;
mod vocabulary;
