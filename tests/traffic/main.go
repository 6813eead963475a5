// Runs clients of one server while it is changed, and counts what they see:
// client-go's informers, a writer, and readers, whose connections stay open or
// are new for each request. The objects are ConfigMaps of one namespace.
//
// It prints `synced` when every informer has synced. Then it takes commands on
// standard input: `report NAME` prints what was counted since the report before;
// `finish` stops the writes, waits until all informers know of them, and prints
// the sums.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The longest time for the start, and for the end.
const patience = 2 * time.Minute

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig of all clients")
	namespace := flag.String("namespace", "traffic", "the namespace, which is made if it does not exist")
	objects := flag.Int("objects", 100, "the ConfigMaps that are written")
	informers := flag.Int("informers", 20, "the informers, each with its own connection")
	readers := flag.Int("readers", 4, "the readers, each with its own connection")
	newcomers := flag.Int("newcomers", 1, "the readers that open a connection for each request")
	writes := flag.Int("writes", 20, "the writes each second")
	reads := flag.Int("reads", 20, "the reads of each reader each second")
	flag.Parse()
	if err := run(*kubeconfig, *namespace, *objects, *informers, *readers, *newcomers, *writes, *reads); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace string, objects, informerCount, readers, newcomers, writes, reads int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	slots, err := prepare(ctx, config, namespace, objects)
	if err != nil {
		return err
	}

	groups := groups{
		informers: newTally("informers"), writer: newTally("writer"),
		readers: newTally("readers"), newcomers: newTally("newcomers"),
	}
	var informers []*informer
	for range informerCount {
		informer, err := startInformer(ctx, config, namespace, groups.informers)
		if err != nil {
			return err
		}
		informers = append(informers, informer)
	}
	if !eventually(func() bool { return all(informers, (*informer).hasSynced) }) {
		return fmt.Errorf("not every informer has synced within %v", patience)
	}
	groups.informers.forget()

	working, rest := context.WithCancel(ctx)
	defer rest()
	writer, err := startWriter(working, config, namespace, slots, writes, groups.writer)
	if err != nil {
		return err
	}
	for range readers {
		client, err := kubernetes.NewForConfig(alone(config, groups.readers))
		if err != nil {
			return err
		}
		go read(working, func() (kubernetes.Interface, error) { return client, nil }, namespace, slots, reads, groups.readers)
	}
	for range newcomers {
		go read(working, func() (kubernetes.Interface, error) { return newcomer(config, groups.newcomers) },
			namespace, slots, reads, groups.newcomers)
	}
	fmt.Println("synced")

	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		command, name, _ := strings.Cut(commands.Text(), " ")
		switch command {
		case "report":
			groups.report(name)
		case "finish":
			rest()
			<-writer.ended
			return finish(writer, informers, groups)
		default:
			return fmt.Errorf("unknown command %q", command)
		}
	}
	return fmt.Errorf("standard input ended before `finish`")
}

// Prepare makes the namespace and its objects.
func prepare(ctx context.Context, config *rest.Config, namespace string, objects int) (*slots, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	made := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, made, meta.CreateOptions{}); err != nil && !errors.IsAlreadyExists(err) {
		return nil, err
	}
	slots := newSlots(objects)
	for number := range objects {
		object := &core.ConfigMap{
			ObjectMeta: meta.ObjectMeta{Name: slots.name(number)},
			Data:       map[string]string{"turn": "0", "filler": strings.Repeat("x", 500)},
		}
		_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, object, meta.CreateOptions{})
		if err != nil && !errors.IsAlreadyExists(err) {
			return nil, err
		}
	}
	return slots, nil
}

// Finish waits until each informer heard of the last write, and compares what it
// heard with what was written.
func finish(writer *writer, informers []*informer, groups groups) error {
	written := writer.written()
	if len(written) == 0 {
		return fmt.Errorf("nothing was written")
	}
	last := written[len(written)-1]
	told := eventually(func() bool {
		return all(informers, func(i *informer) bool { return i.reached(last) })
	})
	lost, repeated, disordered := 0, 0, 0
	for _, informer := range informers {
		l, r, d := informer.compare(written)
		lost, repeated, disordered = lost+l, repeated+r, disordered+d
	}
	groups.total()
	fmt.Printf("events informers=%d written=%d expected=%d lost=%d repeated=%d disordered=%d told_of_last=%t\n",
		len(informers), len(written), len(written)*len(informers), lost, repeated, disordered, told)
	return nil
}

func eventually(condition func() bool) bool {
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(50 * time.Millisecond)
	}
	return true
}

func all(informers []*informer, condition func(*informer) bool) bool {
	for _, informer := range informers {
		if !condition(informer) {
			return false
		}
	}
	return true
}
