package main

import (
	"math/rand"
	"reflect"
)

// how describes how an object is made.
type how struct {
	// Scalars are zero, pointers point to zero values, and maps and slices
	// exist and are empty.
	zeroes bool
	// Some texts, numbers and times are unusual.
	odd bool
	// Some fields are left out.
	sparse bool
	// Some texts are not UTF-8.
	invalid bool
	// Some nested JSON is not an object, or has whitespace.
	oddRaw bool
	// Some nested JSON is invalid.
	brokenRaw bool
	// Some quantities have a text that is not canonical.
	oddQuantities bool
	// Objects in lists name their kind.
	typeMeta bool
}

// wideDepth is the depth past which slices and maps have one entry. This bounds
// the size of a Pod with all its volumes, probes and affinities.
const wideDepth = 5

// maxRecursion bounds how often a type may contain itself.
const maxRecursion = 2

// maxValues is the most values of an object. Further values stay zero.
const maxValues = 6000

type filler struct {
	rand   *rand.Rand
	how    how
	depth  int
	open   map[reflect.Type]int
	values int
}

func newFiller(seed int64, how how) *filler {
	return &filler{rand: rand.New(rand.NewSource(seed)), how: how, open: map[reflect.Type]int{}}
}

func (f *filler) length() int {
	switch {
	case f.how.sparse && f.depth < wideDepth:
		return f.rand.Intn(4)
	case f.depth < wideDepth && !f.how.odd:
		return 2
	}
	return 1
}

// absent decides whether a pointer, slice or map stays nil.
func (f *filler) absent() bool { return f.how.sparse && f.rand.Intn(3) == 0 }

func (f *filler) fill(v reflect.Value) {
	f.values++
	if f.values > maxValues {
		return
	}
	f.depth++
	defer func() { f.depth-- }()
	if v.Kind() == reflect.Struct && f.special(v) {
		return
	}
	if f.how.sparse && v.Kind() != reflect.Struct && f.rand.Intn(6) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!f.how.zeroes && (!f.how.sparse || f.rand.Intn(2) == 0))
	case reflect.Int32:
		v.SetInt(f.integer(int32s, 32))
	case reflect.Int, reflect.Int64:
		v.SetInt(f.integer(int64s, 64))
	case reflect.Uint32:
		v.SetUint(uint64(uint32(f.integer(int32s, 32))))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(f.integer(int64s, 64)))
	case reflect.Float32, reflect.Float64:
		switch {
		case f.unforeseen():
			v.SetFloat(randomFloat(f.rand))
		case !f.how.zeroes:
			v.SetFloat(pick(f.rand, floats))
		}
	case reflect.String:
		if !f.how.zeroes {
			v.SetString(f.text())
		}
	case reflect.Pointer:
		f.pointer(v)
	case reflect.Slice:
		f.slice(v)
	case reflect.Map:
		f.mapping(v)
	case reflect.Struct:
		f.fields(v)
	case reflect.Interface:
		// Objects held in interfaces exist only in memory.
	default:
		panic("no value for " + v.Type().String())
	}
}

func (f *filler) integer(boundaries []int64, bits int) int64 {
	switch {
	case f.how.zeroes:
		return 0
	case f.unforeseen():
		return randomInteger(f.rand, bits)
	case f.how.odd:
		return pick(f.rand, boundaries)
	}
	return int64(1 + f.rand.Intn(9))
}

func (f *filler) pointer(v reflect.Value) {
	inner := v.Type().Elem()
	if f.open[inner] >= maxRecursion || f.absent() {
		return
	}
	v.Set(reflect.New(inner))
	f.fill(v.Elem())
}

func (f *filler) slice(v reflect.Value) {
	inner := v.Type().Elem()
	if f.absent() {
		return
	}
	if inner.Kind() == reflect.Uint8 {
		data := make([]byte, 0)
		if !f.how.zeroes {
			data = make([]byte, pick(f.rand, []int{1, 2, 3, 4, 16, 57}))
			f.rand.Read(data)
		}
		v.SetBytes(data)
		return
	}
	n := f.length()
	if f.how.zeroes || f.open[inner] >= maxRecursion {
		n = 0
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		f.fill(v.Index(i))
	}
}

func (f *filler) mapping(v reflect.Value) {
	inner := v.Type().Elem()
	if f.absent() {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	if f.how.zeroes || f.open[inner] >= maxRecursion {
		return
	}
	// A map has at least two entries, so that their order shows.
	for range f.length() + 1 {
		key := reflect.New(v.Type().Key()).Elem()
		key.SetString(f.text())
		value := reflect.New(inner).Elem()
		f.fill(value)
		v.SetMapIndex(key, value)
	}
}

func (f *filler) fields(v reflect.Value) {
	f.open[v.Type()]++
	defer func() { f.open[v.Type()]-- }()
	for i := range v.NumField() {
		if field := v.Field(i); field.CanSet() {
			f.fill(field)
		}
	}
}
