//! Tables of kube-apiserver, made again.
