package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The longest time that a cache may take for all changes.
const patience = 2 * time.Minute

// Contents are names and versions of objects.
type contents = map[string]string

// Follow runs a manager with leader election, one controller and three caches,
// and reports what they hold in the end.
func follow(ctx context.Context, config *rest.Config, task task) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := manager.New(config, manager.Options{
		LeaderElection:          true,
		LeaderElectionID:        "manager",
		LeaderElectionNamespace: task.Namespace,
		// It need not find a server for so long while that restarts.
		LeaseDuration: duration(3 * time.Minute),
		RenewDeadline: duration(2 * time.Minute),
		Metrics:       server.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{task.Changes: {}},
		},
	})
	if err != nil {
		return err
	}
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(configMaps)
	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(configMaps)
	for _, object := range []client.Object{partial, untyped} {
		if _, err := m.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	seen := &reconciler{client: m.GetClient(), held: contents{}}
	if err := builder.ControllerManagedBy(m).For(&core.ConfigMap{}).Complete(seen); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	if !m.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("the caches have not synced")
	}
	all := map[string]func() contents{
		"typed cache":        func() contents { return list(ctx, m.GetCache(), &core.ConfigMapList{}) },
		"unstructured cache": func() contents { return list(ctx, m.GetCache(), untypedList()) },
		"metadata cache":     func() contents { return list(ctx, m.GetCache(), partialList()) },
		"reconciler":         seen.contents,
	}
	for _, held := range all {
		eventually(func() bool { return held()["first"] != "" })
	}
	check("manager leads", func() error {
		select {
		case <-m.Elected():
			return nil
		case err := <-ended:
			return fmt.Errorf("the manager ended: %v", err)
		case <-time.After(patience):
			return fmt.Errorf("it does not lead")
		}
	})
	say(map[string]any{"step": "synced"})
	var finish struct {
		Last string `json:"last"`
	}
	hear(&finish)
	held := map[string]contents{}
	for name, one := range all {
		eventually(func() bool { return one()[finish.Last] != "" })
		held[name] = one()
	}
	// The reconciler has a queue of its own, which is empty a moment later.
	eventually(func() bool { return maps.Equal(seen.contents(), held["typed cache"]) })
	held["reconciler"] = seen.contents()
	say(map[string]any{"informers": held})
	return nil
}

func duration(d time.Duration) *time.Duration { return &d }

func untypedList() client.ObjectList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(configMaps)
	return list
}

func partialList() client.ObjectList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(configMaps)
	return list
}

func list(ctx context.Context, from client.Reader, into client.ObjectList) contents {
	held := contents{}
	if err := from.List(ctx, into); err != nil {
		return held
	}
	objects, err := meta.ExtractList(into)
	if err != nil {
		panic(err)
	}
	for _, object := range objects {
		accessor, err := meta.Accessor(object)
		if err != nil {
			panic(err)
		}
		held[accessor.GetName()] = accessor.GetResourceVersion()
	}
	return held
}

func eventually(condition func() bool) {
	for deadline := time.Now().Add(patience); !condition() && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
}

// Reconciler notes the version of each object that it is asked to reconcile.
type reconciler struct {
	client client.Client
	lock   sync.Mutex
	held   contents
}

func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	object := &core.ConfigMap{}
	err := r.client.Get(ctx, request.NamespacedName, object)
	r.lock.Lock()
	defer r.lock.Unlock()
	switch {
	case errors.IsNotFound(err):
		delete(r.held, request.Name)
	case err != nil:
		return reconcile.Result{}, err
	default:
		r.held[request.Name] = object.ResourceVersion
	}
	return reconcile.Result{}, nil
}

func (r *reconciler) contents() contents {
	r.lock.Lock()
	defer r.lock.Unlock()
	return maps.Clone(r.held)
}
