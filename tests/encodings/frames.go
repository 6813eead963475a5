package main

import (
	"bufio"
	"encoding/binary"
	"io"
)

// A record is a sequence of fields. Each field is its length in four bytes,
// big-endian, and its bytes.

// maxField is larger than every list that is made here. A larger length means
// that the reader has lost its place in the stream.
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

// answer returns a field whose first byte tells the outcome: '=' before the
// bytes, '!' before the error, '-' for not asked.
func answer(data []byte, err error) []byte {
	if err != nil {
		return append([]byte("!"), err.Error()...)
	}
	return append([]byte("="), data...)
}

var notAsked = []byte("-")
