//go:build tools

// Package kubernetes pins the kube-apiserver that release.sh builds.
package kubernetes

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
