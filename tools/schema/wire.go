package main

import (
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
)

// checkWire compares a field's description with what the generated code writes.
// People write the tags, and the wire types in them are not always right.
func checkWire(where string, owner reflect.Type, index, number int, written, wire string) {
	types := map[string]protowire.Type{
		"bytes": protowire.BytesType, "varint": protowire.VarintType, "fixed64": protowire.Fixed64Type,
	}
	empty := reflect.New(owner)
	found, always := wireTypes(where, empty)[number]
	set := reflect.New(owner)
	fill(set.Elem().Field(index))
	if !always {
		var present bool
		if found, present = wireTypes(where, set)[number]; !present {
			panic(fmt.Sprintf("%s: protobuf has no field %d", where, number))
		}
	}
	if found != types[wire] {
		panic(fmt.Sprintf("%s: wire type %d, not %s", where, found, wire))
	}
	kind := owner.Field(index).Type.Kind()
	optional := kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map
	if always == optional {
		panic(fmt.Sprintf("%s: %s, but written when empty: %t", where, written, always))
	}
}

// fill sets a value that is written, with one element.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	}
}

// wireTypes returns the wire types of the fields of the message at pointer, by
// number.
func wireTypes(where string, pointer reflect.Value) map[int]protowire.Type {
	marshaler, ok := pointer.Interface().(interface{ Marshal() ([]byte, error) })
	if !ok {
		panic(where + ": its owner does not marshal")
	}
	rest, err := marshaler.Marshal()
	if err != nil {
		panic(where + ": " + err.Error())
	}
	types := map[int]protowire.Type{}
	for len(rest) > 0 {
		number, kind, length := protowire.ConsumeField(rest)
		if length < 0 {
			panic(where + ": its owner's protobuf cannot be read")
		}
		types[int(number)] = kind
		rest = rest[length:]
	}
	return types
}
