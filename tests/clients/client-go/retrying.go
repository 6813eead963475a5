package main

import (
	"context"
	"maps"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// Retrying follows by a RetryWatcher. When that ends, because its version is
// too old, it lists again.
type retrying struct {
	client typed.ConfigMapInterface
	lock   sync.Mutex
	held   contents
}

func (r *retrying) hasSynced() bool { return r.contents() != nil }

func (r *retrying) contents() contents {
	r.lock.Lock()
	defer r.lock.Unlock()
	return maps.Clone(r.held)
}

func (r *retrying) run(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := r.client.List(ctx, metav1.ListOptions{})
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		r.hold(list)
		watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return r.client.Watch(ctx, options)
			},
		})
		if err != nil {
			continue
		}
		for event := range watcher.ResultChan() {
			r.see(event)
		}
		<-watcher.Done()
	}
}

func (r *retrying) hold(list *core.ConfigMapList) {
	held := contents{}
	for _, object := range list.Items {
		held[object.Name] = object.ResourceVersion
	}
	r.lock.Lock()
	r.held = held
	r.lock.Unlock()
}

func (r *retrying) see(event watch.Event) {
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	switch event.Type {
	case watch.Added, watch.Modified:
		r.held[object.GetName()] = object.GetResourceVersion()
	case watch.Deleted:
		delete(r.held, object.GetName())
	}
}
