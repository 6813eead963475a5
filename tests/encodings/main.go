// This program uses the real Kubernetes types to make the bytes that the
// transcoder must write. Without a flag it makes objects of every kind from a
// seed and writes them with Go's conversions; see emit.go for the records.
package main

import (
	"flag"
	"fmt"
)

func main() {
	seed := flag.Int64("seed", 1, "where random decisions begin")
	rounds := flag.Int("rounds", 2, "objects per kind of each random variant")
	list := flag.Bool("kinds", false, "print the kinds that have a protobuf form")
	asked := flag.Bool("decode", false, "answer questions from stdin")
	file := flag.String("bench", "", "measure with the PodList in this file of JSON")
	flag.Parse()
	codec := newCodec(newScheme())
	switch {
	case *list:
		for _, k := range kinds(codec.scheme) {
			if hasProtobuf(k.goType) {
				fmt.Println(k.gvk.GroupVersion(), k.gvk.Kind)
			}
		}
	case *asked:
		ask(codec)
	case *file != "":
		bench(codec, *file, *rounds)
	default:
		emit(codec, *seed, *rounds)
	}
}
