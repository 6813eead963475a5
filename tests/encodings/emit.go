package main

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The classes of input, which decide what the transcoder may do.
const (
	// kube-apiserver can write the input: the answer must be Go's.
	produced = "produced"
	// Only others can write the input: the answer must be Go's, if there is
	// one.
	foreign = "foreign"
	// The input has fields that the type does not have: there must be no
	// answer.
	more = "more"
)

type variant struct {
	name  string
	class string
	how   how
	times int
}

func variants(rounds int) []variant {
	return []variant{
		{"zero", produced, how{}, 0},
		{"full", produced, how{}, 1},
		{"empty", produced, how{zeroes: true}, 1},
		{"sparse", produced, how{sparse: true}, rounds},
		{"boundaries", produced, how{odd: true}, rounds},
		{"random", produced, how{odd: true, sparse: true}, rounds},
		{"nested-json", produced, how{oddRaw: true, sparse: true}, rounds},
		{"broken-json", foreign, how{brokenRaw: true, sparse: true}, 1},
		{"invalid-utf8", foreign, how{invalid: true, sparse: true}, 1},
		{"odd-quantities", foreign, how{oddQuantities: true}, 1},
		{"type-meta", foreign, how{typeMeta: true}, 1},
	}
}

// emitter writes one record per object: apiVersion, kind, Go type, variant,
// seed, class, protobuf, Go's JSON of the protobuf, JSON, Go's protobuf of the
// JSON.
type emitter struct {
	codec *codec
	out   *bufio.Writer
	seed  int64
}

func (e *emitter) record(k kind, variant string, seed int64, class string, protobuf, toJSON, json, toProtobuf []byte) {
	for _, text := range []string{k.gvk.GroupVersion().String(), k.gvk.Kind, k.goType.String(), variant, strconv.FormatInt(seed, 10), class} {
		writeField(e.out, []byte(text))
	}
	for _, field := range [][]byte{protobuf, toJSON, json, toProtobuf} {
		writeField(e.out, field)
	}
}

func emit(codec *codec, seed int64, rounds int) {
	e := &emitter{codec, bufio.NewWriterSize(os.Stdout, 1<<20), seed}
	seen := map[reflect.Type]bool{}
	for _, k := range kinds(codec.scheme) {
		if !hasProtobuf(k.goType) {
			fmt.Fprintln(os.Stderr, "no protobuf form:", k.gvk.GroupVersion().String(), k.gvk.Kind)
			continue
		}
		all := variants(rounds)
		if seen[k.goType] {
			// The options types are the same in each group.
			all = all[:2]
		}
		seen[k.goType] = true
		for _, v := range all {
			for round := range max(v.times, 1) {
				e.object(k, v, e.derived(k, v.name, round))
			}
		}
	}
	must(e.out.Flush())
}

// derived returns a seed that does not depend on which other objects are made.
func (e *emitter) derived(k kind, variant string, round int) int64 {
	hash := fnv.New64a()
	fmt.Fprint(hash, e.seed, k.gvk, variant, round)
	return int64(hash.Sum64() >> 1)
}

func (e *emitter) object(k kind, v variant, seed int64) {
	obj, err := e.codec.new(k.gvk)
	must(err)
	if v.times > 0 {
		newFiller(seed, v.how).fill(reflect.ValueOf(obj).Elem())
		served(obj)
	}
	protobuf, toJSON := e.protobuf(k, obj)
	// Objects in lists do not name their kind, other objects do.
	named := k.gvk
	if seed%2 == 0 {
		named = schema.GroupVersionKind{}
	}
	json, toProtobuf := e.json(k, obj, named)
	e.record(k, v.name, seed, v.class, protobuf, toJSON, json, toProtobuf)
	if v.name == "sparse" || v.name == "random" {
		e.mangled(k, v.name, seed, protobuf, json)
	}
}

func (e *emitter) protobuf(k kind, obj runtime.Object) (in, out []byte) {
	in, err := e.codec.toProtobuf(obj, k.gvk)
	if err != nil {
		return nil, notAsked
	}
	return in, answer(e.codec.jsonOfProtobuf(k.gvk, in))
}

func (e *emitter) json(k kind, obj runtime.Object, named schema.GroupVersionKind) (in, out []byte) {
	in, err := e.codec.toJSON(obj, named)
	if err != nil {
		return nil, notAsked
	}
	return in, answer(e.codec.protobufOfJSON(k.gvk, in))
}

// mangled writes records of the object in forms that only other programs write.
func (e *emitter) mangled(k kind, name string, seed int64, protobuf, json []byte) {
	if json != nil {
		for _, style := range slices.Sorted(maps.Keys(jsonStyles)) {
			in := mangleJSON(json, jsonStyles[style], seed)
			class := foreign
			if e.codec.jsonHasMore(k.gvk, in) {
				class = more
			}
			out := answer(e.codec.protobufOfJSON(k.gvk, in))
			e.record(k, name+"-json-"+style, seed, class, nil, notAsked, in, out)
		}
	}
	if protobuf != nil {
		for _, style := range slices.Sorted(maps.Keys(protoStyles)) {
			in := mangleProtobuf(k.goType, protobuf, protoStyles[style], seed)
			class := foreign
			if e.protobufHasMore(k, in) {
				class = more
			}
			out := answer(e.codec.jsonOfProtobuf(k.gvk, in))
			e.record(k, name+"-protobuf-"+style, seed, class, in, out, nil, notAsked)
		}
	}
}

func (e *emitter) protobufHasMore(k kind, data []byte) bool {
	return envelopeHasMore(k.goType, data)
}

func envelopeHasMore(message reflect.Type, data []byte) bool {
	var unknown runtime.Unknown
	if len(data) < 4 || unknown.Unmarshal(data[4:]) != nil {
		return false
	}
	return protobufHasMore(message, unknown.Raw)
}
