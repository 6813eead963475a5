// Runs the scenario of ../README.md with client-go.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var task task
	hear(&task)
	say(map[string]any{"version": version("k8s.io/client-go")})
	config, err := clientcmd.BuildConfigFromFlags("", task.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 200
	inJSON := rest.CopyConfig(config)
	inJSON.ContentType = runtime.ContentTypeJSON
	inProtobuf := rest.CopyConfig(config)
	inProtobuf.ContentType = runtime.ContentTypeProtobuf
	inProtobuf.AcceptContentTypes = runtime.ContentTypeProtobuf

	typed, err := kubernetes.NewForConfig(inJSON)
	if err != nil {
		return err
	}
	binary, err := kubernetes.NewForConfig(inProtobuf)
	if err != nil {
		return err
	}
	checkObjects(ctx, binary, task)
	checkErrors(ctx, typed, task)
	check("pages in JSON", func() error { return pages(ctx, typed, task) })
	check("election", func() error { return elect(ctx, typed, task.Namespace) })
	return follow(ctx, inJSON, inProtobuf, task.Changes)
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
