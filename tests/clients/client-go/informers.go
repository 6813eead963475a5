package main

import (
	"context"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// The longest time that an informer may take for all changes.
const patience = 2 * time.Minute

// Contents are names and versions of objects.
type contents = map[string]string

// Follower has something that follows the objects of a namespace.
type follower interface {
	hasSynced() bool
	contents() contents
}

// Follow runs all informers, and reports what they hold in the end.
func follow(ctx context.Context, inJSON, inProtobuf *rest.Config, namespace string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	counts := &counter{}
	followers, err := start(ctx, counts.count(inJSON), counts.count(inProtobuf), namespace)
	if err != nil {
		return err
	}
	for name, follower := range followers {
		if !eventually(follower.hasSynced) {
			return fmt.Errorf("%s has not synced", name)
		}
	}
	// Every informer but the one without it must have asked for WatchList.
	check("WatchList is used", func() error {
		if used := counts.watchLists.Load(); used < 4 {
			return fmt.Errorf("%d times", used)
		}
		return nil
	})
	say(map[string]any{"step": "synced"})
	var finish struct {
		Last string `json:"last"`
	}
	hear(&finish)
	held := map[string]contents{}
	for name, follower := range followers {
		eventually(func() bool {
			_, found := follower.contents()[finish.Last]
			return found
		})
		held[name] = follower.contents()
	}
	say(map[string]any{"informers": held})
	return nil
}

func eventually(condition func() bool) bool {
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

func start(ctx context.Context, inJSON, inProtobuf *rest.Config, namespace string) (map[string]follower, error) {
	typed, err := kubernetes.NewForConfig(inJSON)
	if err != nil {
		return nil, err
	}
	binary, err := kubernetes.NewForConfig(inProtobuf)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(inJSON)
	if err != nil {
		return nil, err
	}
	partial, err := metadata.NewForConfig(inProtobuf)
	if err != nil {
		return nil, err
	}
	resource := core.SchemeGroupVersion.WithResource("configmaps")
	ofType := func(client kubernetes.Interface) cache.SharedIndexInformer {
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
		return factory.Core().V1().ConfigMaps().Informer()
	}
	all := map[string]cache.SharedIndexInformer{
		"typed JSON informer":        ofType(typed),
		"typed protobuf informer":    ofType(binary),
		"informer without WatchList": withoutWatchList(binary, namespace),
		"dynamic informer":           dynamicinformer.NewFilteredDynamicSharedInformerFactory(untyped, 0, namespace, nil).ForResource(resource).Informer(),
		"metadata informer":          metadatainformer.NewFilteredSharedInformerFactory(partial, 0, namespace, nil).ForResource(resource).Informer(),
	}
	followers := map[string]follower{}
	for name, informer := range all {
		go informer.RunWithContext(ctx)
		followers[name] = informed{informer}
	}
	retrying := &retrying{client: typed.CoreV1().ConfigMaps(namespace)}
	go retrying.run(ctx)
	followers["RetryWatcher"] = retrying
	return followers, nil
}

// Informed is a follower by an informer.
type informed struct{ informer cache.SharedIndexInformer }

func (i informed) hasSynced() bool { return i.informer.HasSynced() }

func (i informed) contents() contents {
	held := contents{}
	for _, object := range i.informer.GetStore().List() {
		accessor, err := meta.Accessor(object)
		if err != nil {
			panic(err)
		}
		held[accessor.GetName()] = accessor.GetResourceVersion()
	}
	return held
}

// Lists is a client that says that its server has no WatchList.
type lists struct{}

func (lists) IsWatchListSemanticsUnSupported() bool { return true }

func withoutWatchList(client kubernetes.Interface, namespace string) cache.SharedIndexInformer {
	maps := client.CoreV1().ConfigMaps(namespace)
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return maps.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return maps.Watch(ctx, options)
		},
	}
	return cache.NewSharedIndexInformer(
		cache.ToListWatcherWithWatchListSemantics(listWatch, lists{}), &core.ConfigMap{}, 0, cache.Indexers{})
}
