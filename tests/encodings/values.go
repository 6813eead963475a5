package main

import (
	"math"
	"math/rand"
	"reflect"
	"strings"
	"time"
	"unsafe"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// These values are difficult for encoders and decoders.

var plainTexts = []string{"alpha", "beta-1", "gamma.example.com/path", "Delta value", "ε"}

var oddTexts = []string{
	"", " ", "<script>&amp;'\"\\/</script>", "line\nline\r\n\ttab", "\u2028\u2029", "\x00\x01\x07\b\f\x0b\x1f\x7f",
	"日本語", "😀𝄞", "\ufffd", "\ufeff", "e\u0301", "\u0080\u009f\u00a0\u07ff\u0800\uffff\U0010ffff",
	"null", "true", "12", "1e3", "{\"a\":1}", "\\u0041", "a\\\"b", strings.Repeat("long ", 60),
	"k8s\x00", "~`!@#$%^*()_+-=[]|;:,./?",
}

var invalidTexts = []string{
	"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80", "ok\x80ok", "\xe2\x80", "\xf0\x9f\x98",
}

var int32s = []int64{0, 1, -1, 127, 128, 255, 16384, 1<<21 - 1, math.MaxInt32, math.MinInt32, 65535}
var int64s = append([]int64{math.MaxInt64, math.MinInt64, 1 << 53, 1<<53 + 1, 1 << 35, -1 << 35}, int32s...)

var floats = []float64{
	0, 1, -1, 0.1, 1.5, 1e20, 1e21, 1.23e21, 1e-6, 1e-7, 9.99e-7, -1e-9, 123456789.123456789, 3.0e100,
	math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1), 100, 1 << 53, 0.30000000000000004,
	-933177232085836.25,
}

// quantities are canonical, as the server writes them.
var quantities = []string{
	"0", "1", "100m", "1500m", "2Gi", "512Mi", "1k", "10M", "3G", "1Ti", "1n", "5u", "-1", "-500m", "1Ei",
	"9223372036854775807", "8Ei", "123456789", "1e3", "12E", "1e100", "0.5", "1048576Ki",
}

// oddQuantities are written by people, or exist only as a cached string.
var oddQuantities = []string{
	"0.5Gi", "1.5", "1000m", "1024Mi", "1e3", "1E3", "0.0001", "+1", "01", "1.0", "1.", ".5", "0.1Ki", "1e-9",
	"1e-10", "999999999999999999999", "100000000000000000000Ki", "0Ki", "0m", "-0", "5e-3", "1e9", "1E", "12e6Mi", "x", "",
	"1.23456789123", "3.1415926535Gi", "9223372036854775808", "1000k", "1e1000", "1Ki ", " 1",
}

var times = []time.Time{
	{},
	time.Unix(0, 0),
	time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC),
	time.Date(2026, 1, 2, 3, 4, 5, 999999999, time.FixedZone("", 5*3600+1800)),
	time.Date(2026, 7, 2, 23, 59, 59, 500000000, time.FixedZone("", -8*3600)),
	time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC),
	time.Date(1969, 12, 31, 23, 59, 59, 1000, time.UTC),
	time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC),
	time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
	time.Date(2024, 2, 29, 0, 0, 0, 100000, time.UTC),
	time.Date(1900, 3, 1, 12, 0, 0, 0, time.UTC),
	time.Date(2000, 12, 31, 0, 0, 0, 1000, time.UTC),
}

var durations = []time.Duration{
	0, 1, -1, 999, 1000, 1500, time.Millisecond, 1500 * time.Microsecond, time.Second, 90 * time.Second,
	time.Hour, 36*time.Hour + 5*time.Minute + 3*time.Second + 7, math.MaxInt64, math.MinInt64, -90 * time.Minute,
}

// rawValues are JSON inside of objects. Encoders compact it and escape HTML
// characters.
var rawValues = []string{
	`{}`, `{"a":1}`, `{"b":{"c":[1,2.50,-3e2,null,true,"x"]},"a":"<&>"}`, `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`, `{"u":"\u00e9\u2028 \ud83d\ude00"}`,
}

var oddRawValues = []string{
	" { \"a\" :\n [ 1 , 2 ] }\t", "[]", "\"text\"", "1.0", "true", "null", " null ", "{\"a\":\"<b>&\u2028\u2029\"}",
	`{"a":1,"a":2}`, `[[[[{"x":[]}]]]]`, `1e400`, `{"z":12345678901234567890,"y":0.10,"x":-0}`, "\"\\/\"",
}

// brokenRawValues cannot be shown as JSON.
var brokenRawValues = []string{"", "{", "k8s\x00\n\x00", "nul", "{\"a\":1}x", "\xff", "\"\x01\"", "{\"a\":\"\xff\"}", "01"}

func pick[T any](r *rand.Rand, from []T) T { return from[r.Intn(len(from))] }

func quantity(text string) resource.Quantity {
	q, err := resource.ParseQuantity(text)
	must(err)
	return q
}

// cachedQuantity returns a quantity with a text that it was not parsed from.
// The encoders write that text.
func cachedQuantity(text string) resource.Quantity {
	var q resource.Quantity
	field := reflect.ValueOf(&q).Elem().FieldByName("s")
	*(*string)(unsafe.Pointer(field.UnsafeAddr())) = text
	return q
}

// special fills the types that write their JSON or protobuf with their own
// code.
func (f *filler) special(v reflect.Value) bool {
	set := func(value any) bool {
		v.Set(reflect.ValueOf(value))
		return true
	}
	switch v.Interface().(type) {
	case metav1.TypeMeta:
		if f.how.typeMeta && f.depth > 1 {
			return set(metav1.TypeMeta{Kind: "Inner", APIVersion: "inner/v1"})
		}
		return true
	case resource.Quantity:
		switch {
		case f.how.oddQuantities:
			if f.rand.Intn(2) == 0 {
				return set(cachedQuantity(randomQuantityText(f.rand)))
			}
			return set(cachedQuantity(pick(f.rand, oddQuantities)))
		case f.how.zeroes:
			return true
		case f.unforeseen():
			return set(quantity(randomQuantityText(f.rand)))
		}
		return set(quantity(pick(f.rand, quantities)))
	case metav1.Time:
		return f.how.zeroes || set(metav1.Time{Time: f.time()})
	case metav1.MicroTime:
		return f.how.zeroes || set(metav1.MicroTime{Time: f.time()})
	case metav1.Duration:
		if f.unforeseen() {
			return set(metav1.Duration{Duration: randomDuration(f.rand)})
		}
		return f.how.zeroes || set(metav1.Duration{Duration: pick(f.rand, durations)})
	case intstr.IntOrString:
		if f.how.zeroes {
			return true
		}
		number := intstr.FromInt32(int32(pick(f.rand, int32s)))
		text := intstr.FromString(f.text())
		if f.rand.Intn(2) == 0 {
			return set(number)
		}
		if f.how.oddRaw {
			text.IntVal = 7
		}
		return set(text)
	case runtime.RawExtension:
		return f.how.zeroes || set(runtime.RawExtension{Raw: f.raw()})
	case metav1.FieldsV1:
		return f.how.zeroes || set(metav1.FieldsV1{Raw: f.raw()})
	case apiextensionsv1.JSON:
		return f.how.zeroes || set(apiextensionsv1.JSON{Raw: f.raw()})
	case apiextensionsv1beta1.JSON:
		return f.how.zeroes || set(apiextensionsv1beta1.JSON{Raw: f.raw()})
	case apiextensionsv1.JSONSchemaPropsOrArray, apiextensionsv1beta1.JSONSchemaPropsOrArray:
		// Only one of both is set, as after decoding JSON.
		if f.rand.Intn(2) == 0 {
			f.fill(v.FieldByName("Schema"))
		} else {
			f.fill(v.FieldByName("JSONSchemas"))
		}
		return true
	case apiextensionsv1.JSONSchemaPropsOrBool, apiextensionsv1beta1.JSONSchemaPropsOrBool:
		switch f.rand.Intn(3) {
		case 0:
			v.FieldByName("Allows").SetBool(true)
		case 1:
			v.FieldByName("Allows").SetBool(true)
			f.fill(v.FieldByName("Schema"))
		}
		return true
	case apiextensionsv1.JSONSchemaPropsOrStringArray, apiextensionsv1beta1.JSONSchemaPropsOrStringArray:
		if f.rand.Intn(2) == 0 {
			f.fill(v.FieldByName("Schema"))
		} else {
			f.fill(v.FieldByName("Property"))
		}
		return true
	}
	return false
}

// unforeseen decides whether a value is random instead of chosen from a list.
func (f *filler) unforeseen() bool { return f.how.odd && f.rand.Intn(2) == 0 }

func (f *filler) time() time.Time {
	if f.unforeseen() {
		return randomTime(f.rand)
	}
	if f.how.odd {
		return pick(f.rand, times)
	}
	return time.Date(2026, 1, 2, 3, 4, f.rand.Intn(60), 0, time.UTC)
}

func (f *filler) raw() []byte {
	switch {
	case f.how.brokenRaw && f.rand.Intn(3) == 0:
		return []byte(pick(f.rand, brokenRawValues))
	case f.how.oddRaw && f.rand.Intn(2) == 0:
		return []byte(randomJSON(f.rand, 4))
	case f.how.oddRaw && f.rand.Intn(2) == 0:
		return []byte(pick(f.rand, oddRawValues))
	}
	return []byte(pick(f.rand, rawValues))
}

func (f *filler) text() string {
	switch {
	case f.how.invalid && f.rand.Intn(2) == 0:
		return pick(f.rand, invalidTexts)
	case f.how.odd && f.rand.Intn(3) > 0:
		if f.unforeseen() {
			return randomText(f.rand)
		}
		return pick(f.rand, oddTexts)
	}
	return pick(f.rand, plainTexts)
}
