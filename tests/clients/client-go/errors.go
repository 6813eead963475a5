package main

import (
	"context"
	"fmt"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// CheckErrors makes the checks of errors: each must be what the library calls
// it.
func checkErrors(ctx context.Context, client kubernetes.Interface, task task) {
	maps := client.CoreV1().ConfigMaps(task.Namespace)
	paged := client.CoreV1().ConfigMaps(task.Pages.Namespace)
	create := func(made *core.ConfigMap) error {
		_, err := maps.Create(ctx, made, meta.CreateOptions{})
		return err
	}
	for _, refused := range []struct {
		name string
		is   func(error) bool
		ask  func() error
	}{
		{"404", errors.IsNotFound, func() error {
			_, err := maps.Get(ctx, "missing", meta.GetOptions{})
			return err
		}},
		{"409 exists", errors.IsAlreadyExists, func() error { return create(configMap("crud", nil)) }},
		{"409 conflict", errors.IsConflict, func() error {
			stale := configMap("crud", nil)
			stale.ResourceVersion = "1"
			_, err := maps.Update(ctx, stale, meta.UpdateOptions{})
			return err
		}},
		{"410 page", errors.IsResourceExpired, func() error {
			_, err := paged.List(ctx, meta.ListOptions{Limit: task.Pages.Limit, Continue: task.Expired.Continue})
			return err
		}},
		{"410 watch", errors.IsResourceExpired, func() error {
			watcher, err := paged.Watch(ctx, meta.ListOptions{ResourceVersion: task.Expired.ResourceVersion})
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
			return create(configMap("invalid", map[string]string{"not valid": ""}))
		}},
		{"429", errors.IsTooManyRequests, func() error {
			eviction := &policy.Eviction{ObjectMeta: meta.ObjectMeta{Name: "guarded", Namespace: task.Namespace}}
			return client.PolicyV1().Evictions(task.Namespace).Evict(ctx, eviction)
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
