package main

import (
	"bufio"
	"fmt"
	"io"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// These methods are written by k8s.io/code-generator's
// prerelease-lifecycle-gen. kube-apiserver warns by the same methods
// (endpoints/deprecation).
type deprecated interface {
	APILifecycleDeprecated() (major, minor int)
}

type removed interface {
	APILifecycleRemoved() (major, minor int)
}

type replaced interface {
	APILifecycleReplacement() schema.GroupVersionKind
}

// writeDeprecations writes the kinds that are deprecated in some release. The
// format is explained in src/deprecation/built_in_kinds.rs, which reads it.
func writeDeprecations(to io.Writer, kinds *runtime.Scheme) {
	var lines []string
	for kind, goType := range kinds.AllKnownTypes() {
		// Lists are not resources: the resource is registered for the kind.
		if kind.Version == runtime.APIVersionInternal || strings.HasSuffix(kind.Kind, "List") {
			continue
		}
		object, err := kinds.New(kind)
		if err != nil {
			panic(fmt.Sprintf("%v: %v", goType, err))
		}
		if line := lifecycle(kind, object); line != "" {
			lines = append(lines, line)
		}
	}
	sort.Strings(lines)
	out := bufio.NewWriter(to)
	fmt.Fprintln(out, "# Written by tools/schema (`make schema`). Not to be edited.")
	fmt.Fprintln(out, "kubernetes", kubernetesVersion())
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
	utilruntime.Must(out.Flush())
}

func lifecycle(kind schema.GroupVersionKind, object any) string {
	known, is := object.(deprecated)
	if !is {
		return ""
	}
	major, minor := known.APILifecycleDeprecated()
	if major == 0 && minor == 0 {
		return ""
	}
	// No resource of Kubernetes has another name than the guessed one. A test
	// compares the names with a server's discovery.
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	line := fmt.Sprintf("%s %s %s deprecated %d.%d", kind.GroupVersion(), resource.Resource, kind.Kind, major, minor)
	if removed, is := object.(removed); is {
		if major, minor := removed.APILifecycleRemoved(); major != 0 || minor != 0 {
			line += fmt.Sprintf(" removed %d.%d", major, minor)
		}
	}
	if replaced, is := object.(replaced); is {
		if instead := replaced.APILifecycleReplacement(); !instead.Empty() {
			line += fmt.Sprintf(" use %s %s", instead.GroupVersion(), instead.Kind)
		}
	}
	return line
}
