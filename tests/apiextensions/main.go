// Runs the API server of custom resources of Kubernetes 1.38, which is not released
// yet: it has features that no release has. It needs a newer Go than the other
// programs.
package main

import (
	"os"

	"k8s.io/apiextensions-apiserver/pkg/cmd/server"
	"k8s.io/apiserver/pkg/server/signals"
	"k8s.io/component-base/cli"
)

func main() {
	until := signals.SetupSignalContext()
	os.Exit(cli.Run(server.NewServerCommand(until, os.Stdout, os.Stderr)))
}
