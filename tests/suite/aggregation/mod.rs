//! Extension API servers behind apifront as behind kube-apiserver's aggregator.

mod wardle;
