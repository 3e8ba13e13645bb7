package pattern

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/lnetd/lnetd/selftest/message"
)

// Word is the word that is repeated in a bulk, in the byte order of the sender.
const Word = 0xeeb0eeb1eeb2eeb3

// PoisonWord is the word that a receiver's memory is filled with before data arrives.
const PoisonWord = 0xbeefbeefbeefbeef

const (
	wordSize  = 8
	chunkSize = 4096
)

// The patterns as chunks of 4096 bytes, for copying and comparing.
var (
	little = chunk(binary.LittleEndian, Word)
	big    = chunk(binary.BigEndian, Word)
	poison = chunk(binary.LittleEndian, PoisonWord)
)

func chunk(o binary.ByteOrder, word uint64) *[chunkSize]byte {
	c := new([chunkSize]byte)
	for k := 0; k < chunkSize; k += wordSize {
		o.PutUint64(c[k:], word)
	}
	return c
}

func of(o message.Order) *[chunkSize]byte {
	if o == message.BigEndian {
		return big
	}
	return little
}

// Fill fills b with the pattern of a sender with byte order o. If the length is not a multiple of 8, the rest
// gets the beginning of a word.
func Fill(b []byte, o message.Order) { repeat(b, of(o)) }

func repeat(b []byte, c *[chunkSize]byte) {
	for len(b) > 0 {
		b = b[copy(b, c[:]):]
	}
}

// Poison fills with poison those words of b that Check will compare.
func Poison(b []byte, c message.Check) {
	switch {
	case c == message.CheckFull:
		repeat(b, poison)
	case c == message.CheckSimple && len(b) >= wordSize:
		copy(b, poison[:wordSize])
		copy(b[lastWord(b):], poison[:wordSize])
	}
}

// lastWord returns the offset of the last whole word of b. b must have at least one word.
func lastWord(b []byte) int { return (len(b) - wordSize) &^ (wordSize - 1) }

// MismatchError describes a word of a bulk that does not match the pattern.
type MismatchError struct {
	Offset    int // of the word
	Got, Want uint64
}

func (e *MismatchError) Error() string {
	if e.Got == PoisonWord {
		return fmt.Sprintf("bulk: no data arrived at offset %d", e.Offset)
	}
	return fmt.Sprintf("bulk: the data at offset %d is %#x instead of %#x", e.Got, e.Offset, e.Want)
}

// Check compares those words of b that c selects with the pattern of a sender with byte order o. It returns a
// *MismatchError for the first word that differs. If the length of b is not a multiple of 8, it ignores the
// rest. It returns nil if c selects no words.
func Check(b []byte, c message.Check, o message.Order) error {
	switch {
	case c == message.CheckFull:
		return checkAll(b[:len(b)&^(wordSize-1)], of(o))
	case c == message.CheckSimple && len(b) >= wordSize:
		if err := checkWord(b, 0, of(o)); err != nil {
			return err
		}
		return checkWord(b, lastWord(b), of(o))
	}
	return nil
}

func checkAll(b []byte, c *[chunkSize]byte) error {
	for off := 0; off < len(b); off += chunkSize {
		end := min(off+chunkSize, len(b))
		if bytes.Equal(b[off:end], c[:end-off]) {
			continue
		}
		for ; off < end; off += wordSize {
			if err := checkWord(b, off, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkWord(b []byte, off int, c *[chunkSize]byte) error {
	got := binary.LittleEndian.Uint64(b[off:])
	if want := binary.LittleEndian.Uint64(c[:]); got != want {
		return &MismatchError{Offset: off, Got: got, Want: want}
	}
	return nil
}
