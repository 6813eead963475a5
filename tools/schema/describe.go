package main

import (
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// forms names the types that write their JSON with their own code.
var forms = map[string]string{
	"meta/v1.Time":                                       "time",
	"meta/v1.MicroTime":                                  "microtime",
	"meta/v1.FieldsV1":                                   "fieldsv1",
	"api/resource.Quantity":                              "quantity",
	"pkg/runtime.RawExtension":                           "rawextension",
	"util/intstr.IntOrString":                            "intorstring",
	"apiextensions/v1.JSON":                              "json",
	"apiextensions/v1.JSONSchemaPropsOrArray":            "schemaorarray",
	"apiextensions/v1.JSONSchemaPropsOrBool":             "schemaorbool",
	"apiextensions/v1.JSONSchemaPropsOrStringArray":      "schemaorstrings",
	"apiextensions/v1beta1.JSON":                         "json",
	"apiextensions/v1beta1.JSONSchemaPropsOrArray":       "schemaorarray",
	"apiextensions/v1beta1.JSONSchemaPropsOrBool":        "schemaorbool",
	"apiextensions/v1beta1.JSONSchemaPropsOrStringArray": "schemaorstrings",
}

// nestedKinds names the fields whose objects get kind and apiVersion from
// kube-apiserver. Protobuf has no place for these; kube-apiserver's conversion
// sets them (k8s.io/kubernetes/pkg/apis/apps/v1/conversion.go and its older
// siblings).
var nestedKinds = map[string]string{
	"apps/v1.StatefulSetSpec.volumeClaimTemplates":      "v1/PersistentVolumeClaim",
	"apps/v1beta1.StatefulSetSpec.volumeClaimTemplates": "v1/PersistentVolumeClaim",
	"apps/v1beta2.StatefulSetSpec.volumeClaimTemplates": "v1/PersistentVolumeClaim",
}

type message struct {
	name   string
	form   string
	fields []string
}

func (m *message) write(out io.Writer) {
	line := "message " + m.name
	if m.form != "" {
		line += " " + m.form
	}
	fmt.Fprintln(out, line)
	for _, field := range m.fields {
		fmt.Fprintln(out, " "+field)
	}
}

// describer collects messages by name, which is the end of the package's path
// and the type's name: "core/v1.Pod".
type describer struct {
	messages map[string]*message
	types    map[string]reflect.Type
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	typeMeta      = reflect.TypeFor[metav1.TypeMeta]()
)

func shortName(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], "/") + "." + t.Name()
}

// describe adds a type that is a protobuf message, and the types of its fields.
func (d *describer) describe(t reflect.Type) string {
	name := shortName(t)
	if known, found := d.types[name]; found {
		if known != t {
			panic(fmt.Sprintf("%v and %v are both called %s", known, t, name))
		}
		return name
	}
	if !hasProtobuf(t) {
		panic(name + " has no protobuf")
	}
	m := &message{name: name, form: forms[name]}
	d.types[name] = t
	d.messages[name] = m
	pointer := reflect.PointerTo(t)
	if m.form == "" && (pointer.Implements(jsonMarshaler) || pointer.Implements(textMarshaler)) ||
		m.form != "" && !pointer.Implements(jsonMarshaler) {
		panic(name + ": JSON of its own, or no longer")
	}
	switch {
	case strings.HasPrefix(m.form, "schemaor"):
		field, _ := t.FieldByName("Schema")
		m.form += " " + d.describe(field.Type.Elem())
	case m.form != "":
	case t.Kind() == reflect.Slice:
		// A named list is a protobuf message with one field.
		if t.Elem().Kind() != reflect.String {
			panic(name + ": a list of no strings")
		}
		m.form = "strings"
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			if line := d.field(name, t, i); line != "" {
				m.fields = append(m.fields, line)
			}
		}
	default:
		panic(name + ": neither a struct nor a list")
	}
	return name
}

// field returns "number name type flags".
func (d *describer) field(owner string, t reflect.Type, index int) string {
	f := t.Field(index)
	where := owner + "." + f.Name
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	tag, hasTag := f.Tag.Lookup("protobuf")
	inline := f.Anonymous && name == ""
	if f.Type == typeMeta && inline && !hasTag && index == 0 {
		return "typemeta"
	}
	if name == "-" && !hasTag {
		return ""
	}
	if !f.IsExported() || name == "-" || !hasTag || tag == "-" {
		panic(where + ": is not in both encodings")
	}
	if name == "" && !inline {
		name = f.Name
	}

	var flags []string
	for _, option := range strings.Split(options, ",") {
		switch option {
		case "", "inline":
		case "omitempty", "omitzero":
			flags = append(flags, option)
		default:
			panic(where + ": JSON option " + option)
		}
	}

	parts := strings.Split(tag, ",")
	number, err := strconv.Atoi(parts[1])
	if err != nil || number <= 0 {
		panic(where + ": protobuf number")
	}
	for _, part := range parts[3:] {
		switch option, _, _ := strings.Cut(part, "="); option {
		case "name", "casttype", "castkey", "castvalue", "json", "proto3", "customtype":
		default:
			panic(where + ": protobuf option " + part)
		}
	}
	if strings.Contains(options, "omitzero") && shortName(f.Type) != "meta/v1.Time" {
		panic(where + ": omitzero of what may be zero in other ways")
	}
	written, wire := d.fieldType(where, f.Type)
	checkWire(where, t, index, number, written, wire)
	if inline {
		if f.Type.Kind() != reflect.Struct || len(flags) > 0 {
			panic(where + ": inlined and no plain struct")
		}
		name = "."
	}
	if kind, found := nestedKinds[owner+"."+name]; found {
		flags = append(flags, "kind="+kind)
	}
	return strings.Join(append([]string{parts[1], name, written}, flags...), " ")
}

// fieldType returns a prefix (* pointer, [] list, {} map by string) with a
// scalar or the name of a message, and the wire type in protobuf.
func (d *describer) fieldType(where string, t reflect.Type) (written, wire string) {
	if t.Kind() == reflect.Pointer {
		written, wire = d.elementType(where, t.Elem())
		return "*" + written, wire
	}
	if !hasProtobuf(t) {
		switch t.Kind() {
		case reflect.Slice:
			if t.Elem().Kind() == reflect.Uint8 {
				return "bytes", "bytes"
			}
			written, wire = d.elementType(where, t.Elem())
			return "[]" + written, wire
		case reflect.Map:
			if t.Key().Kind() != reflect.String || t.Key().Implements(textMarshaler) {
				panic(where + ": a map by no string")
			}
			written, _ = d.elementType(where, t.Elem())
			return "{}" + written, "bytes"
		}
	}
	return d.elementType(where, t)
}

func (d *describer) elementType(where string, t reflect.Type) (written, wire string) {
	if hasProtobuf(t) {
		return d.describe(t), "bytes"
	}
	if reflect.PointerTo(t).Implements(jsonMarshaler) || reflect.PointerTo(t).Implements(textMarshaler) {
		panic(where + ": a scalar with JSON of its own")
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool", "varint"
	case reflect.Int32:
		return "int32", "varint"
	case reflect.Int64:
		return "int64", "varint"
	case reflect.Float64:
		return "double", "fixed64"
	case reflect.String:
		return "string", "bytes"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", "bytes"
		}
	}
	panic(fmt.Sprintf("%s: %v", where, t))
}
