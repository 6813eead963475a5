//go:build tools

// Package kwok pins the version of the fake kubelet that the tests run.
package kwok

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
