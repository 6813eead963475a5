package main

import (
	"encoding/binary"
	"math/rand"
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// This file writes protobuf as programs other than kube-apiserver write it.

// fieldNumber reads the field's number from the struct tag of a generated type.
func fieldNumber(field reflect.StructField) (int, bool) {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0, false
	}
	number, err := strconv.Atoi(parts[1])
	return number, err == nil
}

// submessages returns the fields of a message that are messages with plain
// fields.
func submessages(message reflect.Type) map[int]reflect.Type {
	found := map[int]reflect.Type{}
	for i := range message.NumField() {
		field := message.Field(i)
		number, ok := fieldNumber(field)
		if !ok {
			continue
		}
		inner := field.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && len(fieldNumbers(inner)) > 0 && !asTimestamp(inner) {
			found[number] = inner
		}
	}
	return found
}

// asTimestamp tells whether a type is a Timestamp on the wire.
func asTimestamp(t reflect.Type) bool {
	return t == reflect.TypeFor[metav1.Time]() || t == reflect.TypeFor[metav1.MicroTime]()
}

func fieldNumbers(message reflect.Type) map[int]bool {
	numbers := map[int]bool{}
	for i := range message.NumField() {
		if number, ok := fieldNumber(message.Field(i)); ok {
			numbers[number] = true
		}
	}
	return numbers
}

type protoField struct {
	number int
	// bytes is the whole field. inner is what follows the length in wire type
	// 2.
	bytes, inner []byte
	wire         int
}

// parseFields splits a message into fields, and tells whether it is one.
func parseFields(data []byte) ([]protoField, bool) {
	var fields []protoField
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
			return nil, false
		}
		field := protoField{number: int(tag >> 3), wire: int(tag & 7)}
		end := n
		switch field.wire {
		case 0:
			_, m := binary.Uvarint(data[n:])
			if m <= 0 {
				return nil, false
			}
			end += m
		case 1:
			end += 8
		case 2:
			length, m := binary.Uvarint(data[n:])
			if m <= 0 || length > uint64(len(data)) {
				return nil, false
			}
			end += m + int(length)
			if end <= len(data) {
				field.inner = data[n+m : end]
			}
		case 5:
			end += 4
		default:
			return nil, false
		}
		if end > len(data) {
			return nil, false
		}
		field.bytes = data[:end]
		fields = append(fields, field)
		data = data[end:]
	}
	return fields, true
}

// protobufHasMore tells whether a message has fields that its type does not
// have. The generated decoder drops such fields.
func protobufHasMore(message reflect.Type, data []byte) bool {
	fields, ok := parseFields(data)
	if !ok {
		return false
	}
	known, messages := fieldNumbers(message), submessages(message)
	for _, field := range fields {
		if !known[field.number] {
			return true
		}
		if inner, ok := messages[field.number]; ok && field.wire == 2 && protobufHasMore(inner, field.inner) {
			return true
		}
	}
	return false
}

type protoStyle struct{ shuffle, twice, longVarints, more bool }

var protoStyles = map[string]protoStyle{
	"shuffled":     {shuffle: true},
	"twice":        {twice: true},
	"long-varints": {longVarints: true},
	"more":         {more: true},
}

type protoWriter struct {
	rand  *rand.Rand
	style protoStyle
}

// mangleProtobuf rewrites an object within its envelope.
func mangleProtobuf(message reflect.Type, data []byte, style protoStyle, seed int64) []byte {
	w := &protoWriter{rand.New(rand.NewSource(seed)), style}
	var unknown runtime.Unknown
	must(unknown.Unmarshal(data[4:]))
	unknown.Raw = w.message(message, unknown.Raw)
	envelope, err := unknown.Marshal()
	must(err)
	return append([]byte("k8s\x00"), envelope...)
}

func (w *protoWriter) rarely(enabled bool) bool { return enabled && w.rand.Intn(8) == 0 }

func (w *protoWriter) varint(out []byte, value uint64) []byte {
	out = binary.AppendUvarint(out, value)
	if w.rarely(w.style.longVarints) {
		out[len(out)-1] |= 0x80
		out = append(out, 0)
	}
	return out
}

func (w *protoWriter) message(message reflect.Type, data []byte) []byte {
	fields, ok := parseFields(data)
	if !ok {
		return data
	}
	if w.style.shuffle {
		w.rand.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	messages := submessages(message)
	var out []byte
	for _, field := range fields {
		for range 1 + w.times() {
			inner, isMessage := messages[field.number]
			switch {
			case field.wire == 2 && isMessage:
				out = w.bytes(out, field.number, w.message(inner, field.inner))
			case field.wire == 2:
				out = w.bytes(out, field.number, field.inner)
			default:
				out = append(out, field.bytes...)
			}
		}
	}
	if w.rarely(w.style.more) {
		switch w.rand.Intn(3) {
		case 0:
			out = w.bytes(out, 900, []byte("brand new"))
		case 1:
			out = w.varint(w.varint(out, 900<<3), 7)
		default:
			out = append(w.varint(out, 900<<3|1), 1, 2, 3, 4, 5, 6, 7, 8)
		}
	}
	return out
}

func (w *protoWriter) times() int {
	if w.rarely(w.style.twice) {
		return 1
	}
	return 0
}

func (w *protoWriter) bytes(out []byte, number int, inner []byte) []byte {
	out = w.varint(out, uint64(number)<<3|2)
	return append(w.varint(out, uint64(len(inner))), inner...)
}
