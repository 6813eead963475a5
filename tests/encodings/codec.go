package main

import (
	"bytes"
	"errors"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// codec holds the serializers as kube-apiserver sets them up, except that they
// write lists in one piece. Writing item by item makes the same bytes, except
// for v1 List, which is never served and differs from its Marshal.
type codec struct {
	scheme   *runtime.Scheme
	json     *json.Serializer
	strict   *json.Serializer
	protobuf *protobuf.Serializer
}

func newCodec(scheme *runtime.Scheme) *codec {
	jsonOf := func(strict bool) *json.Serializer {
		return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
			json.SerializerOptions{Strict: strict})
	}
	return &codec{
		scheme:   scheme,
		json:     jsonOf(false),
		strict:   jsonOf(true),
		protobuf: protobuf.NewSerializer(scheme, scheme),
	}
}

var errNoProtobuf = errors.New("the type has no protobuf form")

// hasProtobuf tells whether a type has a protobuf form. Some, such as Table,
// have only JSON.
func hasProtobuf(goType reflect.Type) bool {
	_, ok := reflect.New(goType).Interface().(runtime.ProtobufMarshaller)
	return ok
}

// served sets what kube-apiserver sets when it converts from its own types and
// what protobuf has no place for: the kinds of templates.
func served(obj runtime.Object) {
	claim := metav1.TypeMeta{Kind: "PersistentVolumeClaim", APIVersion: "v1"}
	name := func(templates []corev1.PersistentVolumeClaim) {
		for i := range templates {
			templates[i].TypeMeta = claim
		}
	}
	switch set := obj.(type) {
	case *appsv1.StatefulSet:
		name(set.Spec.VolumeClaimTemplates)
	case *appsv1beta1.StatefulSet:
		name(set.Spec.VolumeClaimTemplates)
	case *appsv1beta2.StatefulSet:
		name(set.Spec.VolumeClaimTemplates)
	case *appsv1.StatefulSetList:
		for i := range set.Items {
			served(&set.Items[i])
		}
	case *appsv1beta1.StatefulSetList:
		for i := range set.Items {
			served(&set.Items[i])
		}
	case *appsv1beta2.StatefulSetList:
		for i := range set.Items {
			served(&set.Items[i])
		}
	}
}

func (c *codec) new(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return c.scheme.New(gvk)
}

// toJSON writes what the server writes, without the final newline. Objects
// without their kind are written as in lists.
func (c *codec) toJSON(obj runtime.Object, gvk schema.GroupVersionKind) ([]byte, error) {
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	var out bytes.Buffer
	if err := c.json.Encode(obj, &out); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// toProtobuf writes the object in its `k8s\0` envelope.
func (c *codec) toProtobuf(obj runtime.Object, gvk schema.GroupVersionKind) ([]byte, error) {
	if !hasProtobuf(reflect.TypeOf(obj).Elem()) {
		return nil, errNoProtobuf
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	var out bytes.Buffer
	if err := c.protobuf.Encode(obj, &out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// jsonOfProtobuf returns the JSON, without kind and apiVersion, that a client
// is shown of an object that was stored as protobuf.
func (c *codec) jsonOfProtobuf(gvk schema.GroupVersionKind, data []byte) ([]byte, error) {
	into, err := c.new(gvk)
	if err != nil {
		return nil, err
	}
	obj, _, err := c.protobuf.Decode(data, &gvk, into)
	if err != nil {
		return nil, err
	}
	served(obj)
	return c.toJSON(obj, schema.GroupVersionKind{})
}

// protobufOfJSON converts JSON to protobuf.
func (c *codec) protobufOfJSON(gvk schema.GroupVersionKind, data []byte) ([]byte, error) {
	into, err := c.new(gvk)
	if err != nil {
		return nil, err
	}
	obj, _, err := c.json.Decode(data, &gvk, into)
	if err != nil {
		return nil, err
	}
	return c.toProtobuf(obj, gvk)
}

// jsonHasMore tells whether JSON has fields that the type does not have. The
// server drops such fields.
func (c *codec) jsonHasMore(gvk schema.GroupVersionKind, data []byte) bool {
	into, err := c.new(gvk)
	if err != nil {
		return false
	}
	_, _, err = c.strict.Decode(data, &gvk, into)
	return runtime.IsStrictDecodingError(err) && strings.Contains(err.Error(), "unknown field")
}
