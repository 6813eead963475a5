package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// passes is the number of passes of a round, enough for the garbage collector
// to run.
const passes = 10

// bench prints, for the list of pods in a file of JSON, the CPU seconds that Go
// needs for each conversion, as JSON. Each figure is the least of the rounds.
func bench(codec *codec, file string, rounds int) {
	data, err := os.ReadFile(file)
	must(err)
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "PodList"}
	list, err := codec.new(gvk)
	must(err)
	_, _, err = codec.json.Decode(data, &gvk, list)
	must(err)
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	var objects []kruntime.Object
	var asJSON, asProtobuf [][]byte
	for i := range items.Len() {
		obj := items.Index(i).Addr().Interface().(kruntime.Object)
		objects = append(objects, obj)
		text, err := codec.toJSON(obj, pod)
		must(err)
		asJSON = append(asJSON, text)
		message, err := codec.toProtobuf(obj, pod)
		must(err)
		asProtobuf = append(asProtobuf, message)
	}
	result := map[string]float64{
		"objects":        float64(len(objects)),
		"json_bytes":     total(asJSON),
		"protobuf_bytes": total(asProtobuf),
	}
	var out bytes.Buffer
	measure := func(name string, work func(i int)) {
		least := time.Duration(1<<63 - 1)
		for range rounds {
			runtime.GC()
			began := cpuTime()
			for range passes {
				for i := range objects {
					out.Reset()
					work(i)
				}
			}
			least = min(least, (cpuTime()-began)/passes)
		}
		result[name] = least.Seconds()
	}
	// Garbage collection is part of the cost, with the heap of a server.
	debug.SetGCPercent(100)
	measure("encode_json", func(i int) { must(codec.json.Encode(objects[i], &out)) })
	measure("encode_protobuf", func(i int) { must(codec.protobuf.Encode(objects[i], &out)) })
	measure("protobuf_to_json", func(i int) {
		obj := decode(codec.protobuf, asProtobuf[i], pod)
		must(codec.json.Encode(obj, &out))
	})
	measure("json_to_protobuf", func(i int) {
		obj := decode(codec.json, asJSON[i], pod)
		must(codec.protobuf.Encode(obj, &out))
	})
	must(json.NewEncoder(os.Stdout).Encode(result))
}

func decode(decoder kruntime.Decoder, data []byte, gvk schema.GroupVersionKind) kruntime.Object {
	obj, _, err := decoder.Decode(data, &gvk, nil)
	must(err)
	if _, ok := obj.(metav1.Object); !ok {
		must(fmt.Errorf("%T is no object", obj))
	}
	return obj
}

func total(all [][]byte) float64 {
	sum := 0
	for _, one := range all {
		sum += len(one)
	}
	return float64(sum)
}

// cpuTime returns the CPU time of the process, user and system, including the
// collector's threads.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
