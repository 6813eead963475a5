package main

import (
	"context"
	"fmt"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The kind that is read without its Go type.
var configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// Objects are the ConfigMaps of the program's own namespace.
type objects struct {
	client.WithWatch
	namespace string
}

func (o objects) configMap(name string, data map[string]string) *core.ConfigMap {
	return &core.ConfigMap{
		ObjectMeta: meta.ObjectMeta{
			Namespace: o.namespace, Name: name, Labels: map[string]string{"app": name},
		},
		Data: data,
	}
}

func (o objects) read(ctx context.Context, name string) (*core.ConfigMap, error) {
	read := &core.ConfigMap{}
	return read, o.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: name}, read)
}

func (o objects) holds(ctx context.Context, name string, data map[string]string) error {
	read, err := o.read(ctx, name)
	if err != nil {
		return err
	}
	return expect(read.Data, data)
}

// CheckObjects makes the checks of reads and writes.
func checkObjects(ctx context.Context, direct client.WithWatch, task task) {
	o := objects{direct, task.Namespace}
	check("create", func() error {
		made := o.configMap("crud", map[string]string{"a": "1"})
		if err := o.Create(ctx, made); err != nil {
			return err
		}
		return expect(made.Data, map[string]string{"a": "1"})
	})
	check("read", func() error { return o.holds(ctx, "crud", map[string]string{"a": "1"}) })
	check("list", func() error {
		list := &core.ConfigMapList{}
		err := o.List(ctx, list, client.InNamespace(o.namespace), client.MatchingLabels{"app": "crud"})
		if err != nil {
			return err
		}
		read, err := o.read(ctx, "crud")
		if err != nil {
			return err
		}
		return expect(list.Items, []core.ConfigMap{*read})
	})
	check("replace", func() error {
		changed, err := o.read(ctx, "crud")
		if err != nil {
			return err
		}
		changed.Data["a"] = "2"
		if err := o.Update(ctx, changed); err != nil {
			return err
		}
		return o.holds(ctx, "crud", map[string]string{"a": "2"})
	})
	patch := func(kind types.PatchType, patch string, data map[string]string) error {
		patched := o.configMap("crud", nil)
		if err := o.Patch(ctx, patched, client.RawPatch(kind, []byte(patch))); err != nil {
			return err
		}
		return o.holds(ctx, "crud", data)
	}
	check("patch json", func() error {
		return patch(types.JSONPatchType, `[{"op":"replace","path":"/data/a","value":"3"}]`, map[string]string{"a": "3"})
	})
	check("patch merge", func() error {
		return patch(types.MergePatchType, `{"data":{"a":null,"b":"1"}}`, map[string]string{"b": "1"})
	})
	check("patch strategic", func() error { return o.patchStrategic(ctx) })
	apply := func(manager string, options ...client.ApplyOption) error {
		applied := applycore.ConfigMap("applied", o.namespace).WithData(map[string]string{"owner": manager})
		return o.Apply(ctx, applied, append(options, client.FieldOwner(manager))...)
	}
	check("apply", func() error { return apply("one") })
	check("apply conflict", func() error {
		err := apply("two")
		if !errors.IsConflict(err) || !errors.HasStatusCause(err, meta.CauseTypeFieldManagerConflict) {
			return fmt.Errorf("not a conflict: %v", err)
		}
		return nil
	})
	check("apply by force", func() error {
		if err := apply("two", client.ForceOwnership); err != nil {
			return err
		}
		return o.holds(ctx, "applied", map[string]string{"owner": "two"})
	})
	check("pages", func() error { return pages(ctx, direct, task) })
	check("unstructured list", func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(configMaps)
		if err := o.List(ctx, list, client.InNamespace(task.Pages.Namespace)); err != nil {
			return err
		}
		return expect(len(list.Items), task.Pages.Objects)
	})
	check("metadata list", func() error {
		list := &meta.PartialObjectMetadataList{}
		list.SetGroupVersionKind(configMaps)
		if err := o.List(ctx, list, client.InNamespace(task.Pages.Namespace)); err != nil {
			return err
		}
		return expect(len(list.Items), task.Pages.Objects)
	})
	check("delete", func() error {
		made := o.configMap("deleted", nil)
		if err := o.Create(ctx, made); err != nil {
			return err
		}
		if err := o.Delete(ctx, made); err != nil {
			return err
		}
		if _, err := o.read(ctx, made.Name); !errors.IsNotFound(err) {
			return fmt.Errorf("it is not gone: %v", err)
		}
		return nil
	})
}

func (o objects) patchStrategic(ctx context.Context) error {
	labels := map[string]string{"app": "strategic"}
	made := &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Namespace: o.namespace, Name: "strategic"},
		Spec: apps.DeploymentSpec{
			Selector: &meta.LabelSelector{MatchLabels: labels},
			Template: core.PodTemplateSpec{
				ObjectMeta: meta.ObjectMeta{Labels: labels},
				Spec: core.PodSpec{Containers: []core.Container{
					{Name: "a", Image: "example.test/image:1"},
					{Name: "b", Image: "example.test/image:1"},
				}},
			},
		},
	}
	if err := o.Create(ctx, made); err != nil {
		return err
	}
	// The patch is the difference between the two.
	changed := made.DeepCopy()
	changed.Spec.Template.Spec.Containers[1].Image = "example.test/image:2"
	if err := o.Patch(ctx, changed, client.StrategicMergeFrom(made)); err != nil {
		return err
	}
	read := &apps.Deployment{}
	if err := o.Get(ctx, client.ObjectKeyFromObject(made), read); err != nil {
		return err
	}
	images := []string{}
	for _, container := range read.Spec.Template.Spec.Containers {
		images = append(images, container.Image)
	}
	return expect(images, []string{"example.test/image:1", "example.test/image:2"})
}

func pages(ctx context.Context, direct client.Client, task task) error {
	names, requests, more := []string{}, 0, ""
	for requests == 0 || more != "" {
		page := &core.ConfigMapList{}
		err := direct.List(ctx, page, client.InNamespace(task.Pages.Namespace),
			client.Limit(task.Pages.Limit), client.Continue(more))
		if err != nil {
			return err
		}
		for _, object := range page.Items {
			names = append(names, object.Name)
		}
		more = page.Continue
		requests++
	}
	expected := []string{}
	for number := range task.Pages.Objects {
		expected = append(expected, fmt.Sprintf("page-%02d", number))
	}
	if err := expect(names, expected); err != nil {
		return err
	}
	limit := int(task.Pages.Limit)
	return expect(requests, (task.Pages.Objects+limit-1)/limit)
}
