// Runs client-go's informer of one resource against one server, and prints what
// it did: one JSON object per line. The first line comes when the informer has
// synced, and has the requests up to then and the objects. The second one comes
// when the object `-until` was added.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	goruntime "runtime"
	"sort"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Said is a line of the output.
type said struct {
	// The requests up to now.
	Lists      int `json:"lists"`
	Watches    int `json:"watches"`
	WatchLists int `json:"watchLists"`
	// The watch lists that were refused.
	Refused int `json:"refused"`
	// The objects as `namespace/name@version`, sorted.
	Objects []string `json:"objects"`
	// The bytes of the heap after a garbage collection.
	HeapBytes uint64 `json:"heapBytes"`
}

// Counter counts requests on their way.
type counter struct {
	next http.RoundTripper
	lock sync.Mutex
	said said
}

func (c *counter) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	initial := query.Get("sendInitialEvents") == "true"
	c.lock.Lock()
	switch {
	case initial:
		c.said.WatchLists++
	case query.Get("watch") == "true":
		c.said.Watches++
	default:
		c.said.Lists++
	}
	c.lock.Unlock()
	response, err := c.next.RoundTrip(request)
	if initial && (err != nil || response.StatusCode != http.StatusOK) {
		c.lock.Lock()
		c.said.Refused++
		c.lock.Unlock()
	}
	return response, err
}

func main() {
	server := flag.String("server", "", "the server's URL")
	ca := flag.String("ca", "", "the file of its authority")
	cert := flag.String("cert", "", "the file of the client's certificate")
	key := flag.String("key", "", "the file of its key")
	path := flag.String("resource", "", "group/version/resource, or version/resource")
	namespace := flag.String("namespace", "", "a namespace")
	until := flag.String("until", "", "the object to wait for")
	patience := flag.Duration("patience", 60*time.Second, "the longest time that it may take")
	flag.Parse()
	if err := run(*server, *ca, *cert, *key, *path, *namespace, *until, *patience); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(server, ca, cert, key, path, namespace, until string, patience time.Duration) error {
	resource, err := parse(path)
	if err != nil {
		return err
	}
	counts := &counter{}
	config := &rest.Config{
		Host:            server,
		TLSClientConfig: rest.TLSClientConfig{CAFile: ca, CertFile: cert, KeyFile: key},
		WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			counts.next = next
			return counts
		},
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	of := client.Resource(resource).Namespace(namespace)
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return of.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return of.Watch(ctx, options)
		},
	}
	informer := cache.NewSharedIndexInformer(
		cache.ToListWatcherWithWatchListSemantics(listWatch, client),
		&unstructured.Unstructured{}, 0, cache.Indexers{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("not synced within %v", patience)
	}
	if err := counts.tell(informer.GetStore()); err != nil {
		return err
	}
	for {
		if _, found, _ := informer.GetStore().GetByKey(until); found {
			return counts.tell(informer.GetStore())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no %s within %v", until, patience)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func parse(path string) (schema.GroupVersionResource, error) {
	parts := strings.Split(path, "/")
	switch len(parts) {
	case 2:
		return schema.GroupVersionResource{Version: parts[0], Resource: parts[1]}, nil
	case 3:
		return schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}, nil
	}
	return schema.GroupVersionResource{}, fmt.Errorf("not a resource: %q", path)
}

func heap() uint64 {
	var memory goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

func (c *counter) tell(store cache.Store) error {
	objects := []string{}
	for _, object := range store.List() {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		objects = append(objects, fmt.Sprintf("%s/%s@%s",
			accessor.GetNamespace(), accessor.GetName(), accessor.GetResourceVersion()))
	}
	sort.Strings(objects)
	c.lock.Lock()
	now := c.said
	c.lock.Unlock()
	now.Objects = objects
	now.HeapBytes = heap()
	return json.NewEncoder(os.Stdout).Encode(now)
}
