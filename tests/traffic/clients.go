package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Slots are the objects, with the last turn of each that was written for sure.
type slots struct{ turns []atomic.Int64 }

func newSlots(objects int) *slots { return &slots{turns: make([]atomic.Int64, objects)} }

func (s *slots) name(number int) string { return fmt.Sprintf("slot-%05d", number) }

func (s *slots) any() int { return rand.IntN(len(s.turns)) }

// Version is a resourceVersion.
func version(object meta.Object) int64 {
	version, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err)
	}
	return version
}

// Informer keeps the versions that client-go told it of, in their order.
type informer struct {
	shared   cache.SharedIndexInformer
	lock     sync.Mutex
	versions []int64
	// Updates without a change: client-go tells them after a new list.
	repeated int
}

func startInformer(ctx context.Context, config *rest.Config, namespace string, tally *tally) (*informer, error) {
	client, err := kubernetes.NewForConfig(alone(config, tally))
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	i := &informer{shared: factory.Core().V1().ConfigMaps().Informer()}
	_, err = i.shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { i.heard(object.(*core.ConfigMap)) },
		UpdateFunc: func(before, after any) {
			if before.(*core.ConfigMap).ResourceVersion == after.(*core.ConfigMap).ResourceVersion {
				i.lock.Lock()
				i.repeated++
				i.lock.Unlock()
				return
			}
			i.heard(after.(*core.ConfigMap))
		},
	})
	if err != nil {
		return nil, err
	}
	go i.shared.RunWithContext(ctx)
	return i, nil
}

func (i *informer) hasSynced() bool { return i.shared.HasSynced() }

func (i *informer) heard(object *core.ConfigMap) {
	i.lock.Lock()
	defer i.lock.Unlock()
	i.versions = append(i.versions, version(object))
}

func (i *informer) reached(version int64) bool {
	i.lock.Lock()
	defer i.lock.Unlock()
	for n := len(i.versions) - 1; n >= 0; n-- {
		if i.versions[n] == version {
			return true
		}
	}
	return false
}

// Compare returns how many versions were lost, were told twice, and came before
// an older one that was written.
func (i *informer) compare(written []int64) (lost, repeated, disordered int) {
	i.lock.Lock()
	defer i.lock.Unlock()
	seen := make(map[int64]int, len(i.versions))
	highest := int64(0)
	for _, version := range i.versions {
		seen[version]++
		if seen[version] > 1 {
			repeated++
		}
	}
	for _, version := range written {
		if seen[version] == 0 {
			lost++
		}
	}
	// The state at the start comes in any order.
	for _, version := range i.versions {
		if version < written[0] {
			continue
		}
		if version < highest {
			disordered++
		}
		highest = max(highest, version)
	}
	return lost, repeated + i.repeated, disordered
}

// Writer changes one object after the other.
type writer struct {
	ended    chan struct{}
	versions []int64
}

func startWriter(ctx context.Context, config *rest.Config, namespace string, slots *slots, rate int, tally *tally) (*writer, error) {
	client, err := kubernetes.NewForConfig(alone(config, tally))
	if err != nil {
		return nil, err
	}
	w := &writer{ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		for turn := int64(1); pause(ctx, rate); turn++ {
			slot := slots.any()
			patch := fmt.Appendf(nil, `{"data":{"turn":"%d"}}`, turn)
			began := time.Now()
			// A write that has begun may end.
			call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			after, err := client.CoreV1().ConfigMaps(namespace).
				Patch(call, slots.name(slot), types.MergePatchType, patch, meta.PatchOptions{})
			cancel()
			tally.call(began, err)
			if err == nil {
				slots.turns[slot].Store(turn)
				w.versions = append(w.versions, version(after))
			}
		}
	}()
	return w, nil
}

// Written returns the versions of the writes that succeeded. The writer has ended.
func (w *writer) written() []int64 { return w.versions }

// Read gets and lists until the context ends.
func read(ctx context.Context, connect func() (kubernetes.Interface, error), namespace string, slots *slots, rate int, tally *tally) {
	for turn := 0; pause(ctx, rate); turn++ {
		slot := slots.any()
		least := slots.turns[slot].Load()
		began := time.Now()
		call, cancel := context.WithTimeout(ctx, 30*time.Second)
		shown, err := ask(call, connect, namespace, slots.name(slot), turn)
		cancel()
		if ctx.Err() != nil {
			return
		}
		tally.call(began, err)
		if err == nil && shown >= 0 && shown < least {
			tally.add(func(c *counts) { c.stale++ })
		}
	}
}

// Ask reads in one of three ways. It returns the turn that the object had, or -1
// where the answer may be old.
func ask(ctx context.Context, connect func() (kubernetes.Interface, error), namespace, name string, way int) (int64, error) {
	client, err := connect()
	if err != nil {
		return 0, err
	}
	maps := client.CoreV1().ConfigMaps(namespace)
	switch way % 3 {
	case 0:
		object, err := maps.Get(ctx, name, meta.GetOptions{})
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(object.Data["turn"], 10, 64)
	case 1:
		list, err := maps.List(ctx, meta.ListOptions{})
		if err != nil {
			return 0, err
		}
		for _, object := range list.Items {
			if object.Name == name {
				return strconv.ParseInt(object.Data["turn"], 10, 64)
			}
		}
		return 0, fmt.Errorf("%s is missing in a list", name)
	default:
		_, err := maps.List(ctx, meta.ListOptions{ResourceVersion: "0"})
		return -1, err
	}
}

// Newcomer is a client whose connection is closed after each answer.
func newcomer(config *rest.Config, tally *tally) (kubernetes.Interface, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: tls, DisableKeepAlives: true}
	return kubernetes.NewForConfigAndClient(config, &http.Client{Transport: counting{transport, tally}})
}

// Pause waits for the next turn. It tells whether there is one.
func pause(ctx context.Context, rate int) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Second / time.Duration(rate)):
		return true
	}
}
