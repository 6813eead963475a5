package main

import (
	"bufio"
	"encoding/binary"
	"io"
)

// Records are fields one after the other, each its length in four bytes, the
// highest first, and its bytes.

// maxField is above every list that is made here; a length beyond it is a
// stream that lost its step.
const maxField = 256 << 20

func writeField(w *bufio.Writer, field []byte) {
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(field)))
	_, err := w.Write(length[:])
	must(err)
	_, err = w.Write(field)
	must(err)
}

func readField(r *bufio.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxField {
		return nil, io.ErrUnexpectedEOF
	}
	field := make([]byte, n)
	if _, err := io.ReadFull(r, field); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return field, nil
}

// answer is a field that says first how it ended: '=' bytes, '!' the error,
// '-' not asked.
func answer(data []byte, err error) []byte {
	if err != nil {
		return append([]byte("!"), err.Error()...)
	}
	return append([]byte("="), data...)
}

var notAsked = []byte("-")
