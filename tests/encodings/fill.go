package main

import (
	"math/rand"
	"reflect"
)

// how an object is made.
type how struct {
	// Scalars are zero; pointers point to such, and maps and slices are there
	// and empty.
	zeroes bool
	// Texts, numbers and times that are unusual.
	odd bool
	// Some of the fields are left out.
	sparse bool
	// Texts that are no UTF-8.
	invalid bool
	// Nested JSON other than objects, or with whitespace.
	oddRaw bool
	// Nested JSON that is none.
	brokenRaw bool
	// Quantities whose text is not the canonical one.
	oddQuantities bool
	// Objects in lists that name their kind.
	typeMeta bool
}

// Past this depth slices and maps have one entry, which bounds what a Pod with
// all of its volumes, probes and affinities becomes.
const wideDepth = 5

// A type that contains itself is left out inside of itself twice.
const maxRecursion = 2

// No object has more values than this; what would follow stays zero.
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

// absent decides whether a pointer, slice or map is left nil.
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
		// Objects held as such are in memory alone.
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
	// Two at least, so that their order shows.
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
