//! Tests API Priority and Fairness: FlowSchemas and PriorityLevelConfigurations
//! of the cluster mean the same here as in kube-apiserver.

mod changes;
mod classification;
mod seats;
mod vocabulary;
