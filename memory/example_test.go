package memory_test

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/memory"
)

// A message consists of a header and a body in different places. A part of it is taken without a copy.
func ExampleVector() {
	header, body := []byte("from: a\n"), []byte("hello, world\n")
	v := memory.Vector{
		Segments: []memory.Segment{{Bytes: header}, {Bytes: body}},
		Length:   len(header) + len(body),
	}
	part := v.Slice(6, 7)
	for _, piece := range part.AppendBuffers(nil) {
		fmt.Printf("%q\n", piece)
	}

	part.CopyFrom([]byte("b\nHELLO"))
	fmt.Printf("%s%s", header, body)
	// Output:
	// "a\n"
	// "hello"
	// from: b
	// HELLO, world
}

// A region is released when no descriptor uses it. Programs get their regions from Node.Register, which also
// registers the memory with devices.
func ExampleRegion() {
	r := memory.NewRegion(make([]byte, 4096), nil)
	v := r.Slice(100, 200)
	if err := v.Pin(); err != nil { // as a descriptor does
		fmt.Println(err)
	}
	fmt.Println(errors.Is(r.Release(), memory.ErrInUse))
	v.Unpin()
	fmt.Println(r.Release())
	// Output:
	// true
	// <nil>
}
