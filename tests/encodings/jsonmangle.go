package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"unicode/utf16"
)

// This file writes JSON as programs other than kube-apiserver write it.

type member struct {
	name  string
	value *node
}

// node is a JSON value that keeps the order of members and the text of scalars.
type node struct {
	// kind is '{', '[', 's' for a string, or 'v' for numbers, booleans and
	// null.
	kind    byte
	members []member
	items   []*node
	text    string
}

func parseNode(decoder *json.Decoder) *node {
	token, err := decoder.Token()
	must(err)
	switch t := token.(type) {
	case json.Delim:
		n := &node{kind: byte(t)}
		for decoder.More() {
			if t == '{' {
				name, err := decoder.Token()
				must(err)
				n.members = append(n.members, member{name.(string), parseNode(decoder)})
			} else {
				n.items = append(n.items, parseNode(decoder))
			}
		}
		_, err := decoder.Token()
		must(err)
		return n
	case string:
		return &node{kind: 's', text: t}
	case nil:
		return &node{kind: 'v', text: "null"}
	default:
		return &node{kind: 'v', text: fmt.Sprint(t)}
	}
}

func parseJSON(data []byte) *node {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return parseNode(decoder)
}

// jsonStyle says what is unusual about the JSON.
type jsonStyle struct {
	whitespace, shuffle, nulls, escapes, surrogates, numbers, duplicates, more, otherCase bool
}

var jsonStyles = map[string]jsonStyle{
	"whitespace": {whitespace: true},
	"shuffled":   {shuffle: true},
	"nulls":      {nulls: true},
	"escapes":    {escapes: true},
	"surrogates": {surrogates: true},
	"numbers":    {numbers: true},
	"duplicates": {duplicates: true},
	"more":       {more: true},
	"other-case": {otherCase: true},
}

type jsonWriter struct {
	rand  *rand.Rand
	style jsonStyle
	out   strings.Builder
}

func mangleJSON(data []byte, style jsonStyle, seed int64) []byte {
	w := &jsonWriter{rand: rand.New(rand.NewSource(seed)), style: style}
	w.node(parseJSON(data))
	return []byte(w.out.String())
}

func (w *jsonWriter) space() {
	if w.style.whitespace {
		w.out.WriteString(pick(w.rand, []string{"", " ", "\n", "\t \r\n"}))
	}
}

func (w *jsonWriter) rarely(enabled bool) bool { return enabled && w.rand.Intn(12) == 0 }

func (w *jsonWriter) node(n *node) {
	w.space()
	defer w.space()
	if w.rarely(w.style.nulls) {
		io.WriteString(&w.out, "null")
		return
	}
	switch n.kind {
	case '{':
		w.object(n)
	case '[':
		w.out.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.node(item)
		}
		w.out.WriteByte(']')
	case 's':
		w.text(n.text)
	default:
		w.number(n.text)
	}
}

func (w *jsonWriter) object(n *node) {
	members := append([]member(nil), n.members...)
	if w.style.shuffle {
		w.rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	}
	if w.rarely(w.style.more) {
		extra := member{"brandNew", &node{kind: 's', text: "x"}}
		at := w.rand.Intn(len(members) + 1)
		members = append(members[:at:at], append([]member{extra}, members[at:]...)...)
	}
	if len(members) > 0 && w.rarely(w.style.duplicates) {
		members = append(members, members[w.rand.Intn(len(members))])
	}
	w.out.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.space()
		name := m.name
		if w.rarely(w.style.otherCase) {
			name = strings.ToUpper(name[:min(1, len(name))]) + name[min(1, len(name)):]
		}
		w.text(name)
		w.space()
		w.out.WriteByte(':')
		w.node(m.value)
	}
	w.space()
	w.out.WriteByte('}')
}

func (w *jsonWriter) number(text string) {
	if text[0] <= '9' && w.rarely(w.style.numbers) {
		text = pick(w.rand, []string{text + ".0", text + "e0", "1e2", "-0", "1.5", "9223372036854775808", "4294967296", "0.1e1", "\"1\""})
	}
	w.out.WriteString(text)
}

func (w *jsonWriter) text(text string) {
	w.out.WriteByte('"')
	for _, r := range text {
		switch {
		case w.rarely(w.style.escapes) || r < ' ' || r == '"' || r == '\\':
			if high, low := utf16.EncodeRune(r); high != 0xfffd {
				fmt.Fprintf(&w.out, "\\u%04x\\u%04X", high, low)
			} else {
				fmt.Fprintf(&w.out, "\\u%04X", r)
			}
		case w.style.escapes && r == '/':
			w.out.WriteString("\\/")
		default:
			w.out.WriteRune(r)
		}
	}
	// Half of a surrogate pair becomes U+FFFD.
	if w.rarely(w.style.surrogates) {
		w.out.WriteString(pick(w.rand, []string{"\\ud800", "\\uDC00x", "\\ud800\\u0041", "\\udbff\\udbff\\udfff"}))
	}
	w.out.WriteByte('"')
}
