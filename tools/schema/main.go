// Command schema writes the description of Kubernetes' built-in types that
// apifront embeds (crates/wire/src/schema/kubernetes.txt). It has the fields of
// every struct in Go's order, each with its JSON name, its protobuf number, its
// type and when JSON leaves it out. The tags of the Go types describe both
// encodings. The program ends if it does not understand a tag, so that no
// release of Kubernetes is described wrongly.
//
// The format is explained in crates/wire/src/schema/parse.rs, which reads it.
//
// With the argument `deprecations` it writes which of those kinds are
// deprecated since when (src/deprecation/kubernetes.txt). With the argument
// `drift` and the names of such schemas of several releases it writes how they
// differ (`make schema-drift`).
package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"sort"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

func main() {
	kinds := scheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{
		apidiscoveryv2.AddToScheme,
		apidiscoveryv2beta1.AddToScheme,
		apiextensionsv1.AddToScheme,
		apiextensionsv1beta1.AddToScheme,
		apiregistrationv1.AddToScheme,
		apiregistrationv1beta1.AddToScheme,
		metav1.AddMetaToScheme,
		metav1beta1.AddMetaToScheme,
	} {
		utilruntime.Must(add(kinds))
	}

	if len(os.Args) > 1 && os.Args[1] == "drift" {
		utilruntime.Must(writeDrift(os.Stdout, os.Args[2:]))
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "deprecations" {
		writeDeprecations(os.Stdout, kinds)
		return
	}

	d := describer{messages: map[string]*message{}, types: map[string]reflect.Type{}}
	type served struct{ groupVersion, kind, message string }
	var all []served
	for kind, goType := range kinds.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || !hasProtobuf(goType) {
			continue
		}
		name := d.describe(goType)
		all = append(all, served{kind.GroupVersion().String(), kind.Kind, name})
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		return a.groupVersion+" "+a.kind < b.groupVersion+" "+b.kind
	})

	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintln(out, "# Written by tools/schema (`make schema`). Not to be edited.")
	fmt.Fprintln(out, "kubernetes", kubernetesVersion())
	for _, name := range sortedKeys(d.messages) {
		d.messages[name].write(out)
	}
	group := ""
	for _, kind := range all {
		if kind.groupVersion != group {
			group = kind.groupVersion
			fmt.Fprintln(out, "group", group)
		}
		fmt.Fprintf(out, " %s %s\n", kind.kind, kind.message)
	}
	utilruntime.Must(out.Flush())
}

// kubernetesVersion returns the version of Kubernetes: that of k8s.io/api, with
// 1 in place of its 0.
func kubernetesVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		panic("built without modules")
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/api" {
			return "v1." + strings.TrimPrefix(module.Version, "v0.")
		}
	}
	panic("k8s.io/api is no dependency")
}

func hasProtobuf(goType reflect.Type) bool {
	_, found := reflect.PointerTo(goType).MethodByName("MarshalToSizedBuffer")
	return found
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
