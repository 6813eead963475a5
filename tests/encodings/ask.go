package main

import (
	"bufio"
	"errors"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ask answers one question after another until stdin ends. A question is
// apiVersion, kind, "protobuf" or "json", and the bytes in that encoding. The
// answer is the bytes in the other encoding, and "more" if the bytes have
// fields that the type does not have.
func ask(codec *codec) {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		apiVersion, err := readField(in)
		if errors.Is(err, io.EOF) {
			return
		}
		must(err)
		kind, err := readField(in)
		must(err)
		encoding, err := readField(in)
		must(err)
		data, err := readField(in)
		must(err)
		version, err := schema.ParseGroupVersion(string(apiVersion))
		must(err)
		gvk := version.WithKind(string(kind))
		goType, ok := codec.scheme.AllKnownTypes()[gvk]
		var has bool
		var said []byte
		switch {
		case !ok:
			said = answer(nil, errors.New("no such kind"))
		case string(encoding) == "protobuf":
			said = answer(codec.jsonOfProtobuf(gvk, data))
			has = envelopeHasMore(goType, data)
		default:
			said = answer(codec.protobufOfJSON(gvk, data))
			has = codec.jsonHasMore(gvk, data)
		}
		writeField(out, said)
		if has {
			writeField(out, []byte(more))
		} else {
			writeField(out, nil)
		}
		// The asker may be waiting for the answer.
		if in.Buffered() == 0 {
			must(out.Flush())
		}
	}
}
