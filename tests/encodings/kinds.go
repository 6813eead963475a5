package main

import (
	"reflect"
	"sort"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

// newScheme returns a scheme with every versioned kind that kube-apiserver
// serves. Kinds that it sends to webhooks have only JSON.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		apiextensionsv1beta1.AddToScheme,
		apiregistrationv1.AddToScheme,
		apiregistrationv1beta1.AddToScheme,
		apidiscoveryv2.AddToScheme,
		apidiscoveryv2beta1.AddToScheme,
		metav1.AddMetaToScheme,
		metav1beta1.AddMetaToScheme,
	} {
		must(add(scheme))
	}
	// Unversioned kinds (Status, APIGroupList, ...) are in v1 on the wire.
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme
}

// kind is a kind that clients can name. Internal versions exist only in memory.
type kind struct {
	gvk    schema.GroupVersionKind
	goType reflect.Type
}

func kinds(scheme *runtime.Scheme) []kind {
	var all []kind
	for gvk, goType := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal {
			continue
		}
		all = append(all, kind{gvk, goType})
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i].gvk, all[j].gvk
		if a.GroupVersion() != b.GroupVersion() {
			return a.GroupVersion().String() < b.GroupVersion().String()
		}
		return a.Kind < b.Kind
	})
	return all
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
