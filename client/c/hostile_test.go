package c

import (
	"strconv"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// A program survives whatever lnetd sends and writes: records, descriptors, ring files, completions and the
// words of the rings. Each byte of a session is damaged in turn; then random numbers choose what is damaged,
// missing, repeated or of another length. Each operation that was accepted has exactly one final event. A call
// returns although lnetd sends notices without end.
//
// transport 9.8
func TestHostile(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		v.run(t, "testdata/hostile.c", "flood")
		v.run(t, "testdata/hostile.c", "bytes")
		v.run(t, "testdata/hostile.c", "random", strconv.Itoa(testenv.Fewer(2000)))
	})
}
