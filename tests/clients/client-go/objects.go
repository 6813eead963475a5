package main

import (
	"context"
	"fmt"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
)

func configMap(name string, data map[string]string) *core.ConfigMap {
	return &core.ConfigMap{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Data:       data,
	}
}

// CheckObjects makes the checks of reads and writes.
func checkObjects(ctx context.Context, client kubernetes.Interface, task task) {
	maps := client.CoreV1().ConfigMaps(task.Namespace)
	holds := func(name string, data map[string]string) error {
		read, err := maps.Get(ctx, name, meta.GetOptions{})
		if err != nil {
			return err
		}
		return expect(read.Data, data)
	}
	check("create", func() error {
		made, err := maps.Create(ctx, configMap("crud", map[string]string{"a": "1"}), meta.CreateOptions{})
		if err != nil {
			return err
		}
		return expect(made.Data, map[string]string{"a": "1"})
	})
	check("read", func() error { return holds("crud", map[string]string{"a": "1"}) })
	check("list", func() error {
		list, err := maps.List(ctx, meta.ListOptions{LabelSelector: "app=crud"})
		if err != nil {
			return err
		}
		read, err := maps.Get(ctx, "crud", meta.GetOptions{})
		if err != nil {
			return err
		}
		return expect(list.Items, []core.ConfigMap{*read})
	})
	check("replace", func() error {
		read, err := maps.Get(ctx, "crud", meta.GetOptions{})
		if err != nil {
			return err
		}
		read.Data["a"] = "2"
		if _, err := maps.Update(ctx, read, meta.UpdateOptions{}); err != nil {
			return err
		}
		return holds("crud", map[string]string{"a": "2"})
	})
	patch := func(kind types.PatchType, patch string, data map[string]string) error {
		if _, err := maps.Patch(ctx, "crud", kind, []byte(patch), meta.PatchOptions{}); err != nil {
			return err
		}
		return holds("crud", data)
	}
	check("patch json", func() error {
		return patch(types.JSONPatchType, `[{"op":"replace","path":"/data/a","value":"3"}]`, map[string]string{"a": "3"})
	})
	check("patch merge", func() error {
		return patch(types.MergePatchType, `{"data":{"a":null,"b":"1"}}`, map[string]string{"b": "1"})
	})
	check("patch strategic", func() error { return patchStrategic(ctx, client, task.Namespace) })

	apply := func(manager string, force bool) error {
		applied := applycore.ConfigMap("applied", task.Namespace).WithData(map[string]string{"owner": manager})
		_, err := maps.Apply(ctx, applied, meta.ApplyOptions{FieldManager: manager, Force: force})
		return err
	}
	check("apply", func() error { return apply("one", false) })
	check("apply conflict", func() error {
		err := apply("two", false)
		if !errors.IsConflict(err) || !errors.HasStatusCause(err, meta.CauseTypeFieldManagerConflict) {
			return fmt.Errorf("not a conflict: %v", err)
		}
		return nil
	})
	check("apply by force", func() error {
		if err := apply("two", true); err != nil {
			return err
		}
		return holds("applied", map[string]string{"owner": "two"})
	})
	check("pages", func() error { return pages(ctx, client, task) })
	check("delete", func() error {
		made := configMap("deleted", nil)
		if _, err := maps.Create(ctx, made, meta.CreateOptions{}); err != nil {
			return err
		}
		if err := maps.Delete(ctx, made.Name, meta.DeleteOptions{}); err != nil {
			return err
		}
		if _, err := maps.Get(ctx, made.Name, meta.GetOptions{}); !errors.IsNotFound(err) {
			return fmt.Errorf("it is not gone: %v", err)
		}
		return nil
	})
}

func patchStrategic(ctx context.Context, client kubernetes.Interface, namespace string) error {
	labels := map[string]string{"app": "strategic"}
	deployments := client.AppsV1().Deployments(namespace)
	made := &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: "strategic"},
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
	if _, err := deployments.Create(ctx, made, meta.CreateOptions{}); err != nil {
		return err
	}
	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"b","image":"example.test/image:2"}]}}}}`
	_, err := deployments.Patch(ctx, "strategic", types.StrategicMergePatchType, []byte(patch), meta.PatchOptions{})
	if err != nil {
		return err
	}
	read, err := deployments.Get(ctx, "strategic", meta.GetOptions{})
	if err != nil {
		return err
	}
	images := map[string]string{}
	for _, container := range read.Spec.Template.Spec.Containers {
		images[container.Name] = container.Image
	}
	return expect(images, map[string]string{"a": "example.test/image:1", "b": "example.test/image:2"})
}

func pages(ctx context.Context, client kubernetes.Interface, task task) error {
	names, requests, more := []string{}, 0, ""
	for requests == 0 || more != "" {
		options := meta.ListOptions{Limit: task.Pages.Limit, Continue: more}
		page, err := client.CoreV1().ConfigMaps(task.Pages.Namespace).List(ctx, options)
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
