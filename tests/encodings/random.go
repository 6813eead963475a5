package main

import (
	"fmt"
	"math"
	"math/rand"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// This file makes random values, beside the chosen values in values.go.

// randomInteger returns integers of all lengths in bits with equal probability.
func randomInteger(r *rand.Rand, bits int) int64 {
	n := int64(r.Uint64() >> (64 - bits + 1 + r.Intn(bits-1)))
	if r.Intn(2) == 0 {
		return -n
	}
	return n
}

func randomFloat(r *rand.Rand) float64 {
	switch r.Intn(4) {
	case 0:
		// This is a number as people write it.
		text := fmt.Sprintf("%d.%de%d", r.Intn(1000), r.Intn(1000), r.Intn(50)-25)
		value, err := strconv.ParseFloat(text, 64)
		must(err)
		return value
	case 1:
		return float64(randomInteger(r, 64))
	case 2:
		// Of numbers with this many bits, some lie halfway between the two shortest texts.
		return math.Ldexp(float64(randomInteger(r, 64)>>10|1), -r.Intn(8))
	}
	for {
		if f := math.Float64frombits(r.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	}
}

func randomText(r *rand.Rand) string {
	var text strings.Builder
	for range r.Intn(12) {
		// Characters with few and with many bytes are equally frequent.
		limit := []int{0x20, 0x80, 0x800, 0x10000, 0x110000}[r.Intn(5)]
		c := rune(r.Intn(limit))
		if c >= 0xd800 && c < 0xe000 {
			c = '<'
		}
		text.WriteRune(c)
	}
	return text.String()
}

var suffixes = []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e", "E"}

// randomQuantityText returns text that can be parsed but need not be canonical.
func randomQuantityText(r *rand.Rand) string {
	for {
		digits := func(most int) string {
			var text strings.Builder
			for range r.Intn(most + 1) {
				text.WriteByte(byte('0' + r.Intn(10)*r.Intn(2)))
			}
			return text.String()
		}
		text := pick(r, []string{"", "", "-", "+"}) + digits([]int{3, 6, 18, 21}[r.Intn(4)])
		if r.Intn(3) == 0 {
			text += "." + digits([]int{2, 10}[r.Intn(2)])
		}
		suffix := pick(r, suffixes)
		if suffix == "e" {
			suffix += strconv.Itoa(r.Intn(30) - 12)
		}
		if _, err := resource.ParseQuantity(text + suffix); err == nil {
			return text + suffix
		}
	}
}

func randomTime(r *rand.Rand) time.Time {
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	nanoseconds := r.Int63n(1e9)
	return time.Unix(first+r.Int63n(last-first), nanoseconds-nanoseconds%pick(r, []int64{1, 1000, 1e6, 1e8, 1e9}))
}

func randomDuration(r *rand.Rand) time.Duration {
	d := time.Duration(randomInteger(r, 64))
	return d - d%pick(r, []time.Duration{1, 1000, time.Millisecond, time.Second, time.Minute, time.Hour})
}

// randomJSON returns valid JSON that need not be compact.
func randomJSON(r *rand.Rand, depth int) string {
	space := func() string { return pick(r, []string{"", "", "", " ", "\n\t"}) }
	choices := 8
	if depth <= 0 {
		choices = 5
	}
	switch r.Intn(choices) {
	case 0:
		return pick(r, []string{"null", "true", "false"})
	case 1:
		return strconv.FormatInt(randomInteger(r, 64), 10)
	case 2:
		return pick(r, []string{"0.0", "-0", "1e5", "1E+2", "-1.50e-3", "12345678901234567890123", strconv.FormatFloat(randomFloat(r), 'g', -1, 64)})
	case 3, 4:
		return randomJSONText(r)
	case 5:
		items := []string{}
		for range r.Intn(4) {
			items = append(items, space()+randomJSON(r, depth-1)+space())
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	members := []string{}
	for range r.Intn(4) {
		members = append(members, space()+randomJSONText(r)+space()+":"+space()+randomJSON(r, depth-1)+space())
	}
	return "{" + space() + strings.Join(members, ",") + "}"
}

func randomJSONText(r *rand.Rand) string {
	text := strconv.QuoteToGraphic(randomText(r))
	// JSON does not have these escapes of Go.
	if strings.Contains(text, `\x`) || strings.Contains(text, `\a`) || strings.Contains(text, `\v`) || strings.Contains(text, `\U`) {
		return `"<&\u003c\u2028\ud83d\ude00\/"`
	}
	return text
}
