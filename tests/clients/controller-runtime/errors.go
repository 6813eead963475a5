package main

import (
	"context"
	"fmt"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CheckErrors makes the checks of errors: each must be what the library calls
// it.
func checkErrors(ctx context.Context, direct client.WithWatch, task task) {
	o := objects{direct, task.Namespace}
	paged := client.InNamespace(task.Pages.Namespace)
	for _, refused := range []struct {
		name string
		is   func(error) bool
		ask  func() error
	}{
		{"404", errors.IsNotFound, func() error {
			_, err := o.read(ctx, "missing")
			return err
		}},
		{"409 exists", errors.IsAlreadyExists, func() error { return o.Create(ctx, o.configMap("crud", nil)) }},
		{"409 conflict", errors.IsConflict, func() error {
			stale := o.configMap("crud", nil)
			stale.ResourceVersion = "1"
			return o.Update(ctx, stale)
		}},
		{"410 page", errors.IsResourceExpired, func() error {
			more := client.Continue(task.Expired.Continue)
			return o.List(ctx, &core.ConfigMapList{}, paged, client.Limit(task.Pages.Limit), more)
		}},
		{"410 watch", errors.IsResourceExpired, func() error {
			options := &client.ListOptions{Raw: &meta.ListOptions{ResourceVersion: task.Expired.ResourceVersion}}
			watcher, err := o.Watch(ctx, &core.ConfigMapList{}, paged, options)
			if err != nil {
				return err
			}
			defer watcher.Stop()
			event := <-watcher.ResultChan()
			if event.Type != watch.Error {
				return fmt.Errorf("an event: %v", event)
			}
			return errors.FromObject(event.Object)
		}},
		{"422", errors.IsInvalid, func() error {
			return o.Create(ctx, o.configMap("invalid", map[string]string{"not valid": ""}))
		}},
		{"429", errors.IsTooManyRequests, func() error {
			guarded := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "guarded", Namespace: task.Namespace}}
			return o.SubResource("eviction").Create(ctx, guarded, &policy.Eviction{})
		}},
	} {
		check(refused.name, func() error {
			if err := refused.ask(); !refused.is(err) {
				return fmt.Errorf("not the error: %v", err)
			}
			return nil
		})
	}
}
