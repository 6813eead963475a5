// Runs the scenario of ../README.md with controller-runtime.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	log.SetLogger(logr.Discard())
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var task task
	hear(&task)
	say(map[string]any{"version": version("sigs.k8s.io/controller-runtime")})
	config, err := clientcmd.BuildConfigFromFlags("", task.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 200
	direct, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		return err
	}
	checkObjects(ctx, direct, task)
	checkErrors(ctx, direct, task)
	return follow(ctx, config, task)
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version[1:]
		}
	}
	return ""
}
