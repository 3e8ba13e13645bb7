package fuzz

import (
	"errors"
	"io"
	"math"
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// lnetNamed fails the test unless err says what is wrong, or how much is missing.
func lnetNamed(t *testing.T, err error) {
	t.Helper()
	var (
		field   *lnet.FieldError
		short   *lnet.TruncatedError
		magic   *lnet.MagicError
		version *lnet.VersionError
	)
	switch {
	case errors.As(err, &field) && field.What != "" && field.Err != nil:
	case errors.As(err, &short) && short.Need > short.Have && errors.Is(err, io.ErrUnexpectedEOF):
	case errors.As(err, &magic), errors.As(err, &version), errors.Is(err, lnet.ErrProtocolQuery):
	default:
		t.Fatalf("error %T names nothing: %v", err, err)
	}
	if text := err.Error(); len(text) > 2000 {
		t.Fatalf("error of %d bytes: %s", len(text), text)
	}
}

// lnetBounded fails the test if f, which may be called several times, allocates more than limit bytes. It
// may miss small allocations.
func lnetBounded(t *testing.T, limit uint64, f func()) {
	t.Helper()
	before := roughlyAllocated()
	f()
	if roughlyAllocated()-before <= limit {
		return
	}
	// Other goroutines allocate too, at any time. Only the allocations of f appear in every attempt.
	least := uint64(math.MaxUint64)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > limit {
		t.Fatalf("%d bytes allocated, not more than %d expected", least, limit)
	}
}

// roughlyAllocated returns the number of bytes allocated so far, without stopping the world for an exact
// count.
func roughlyAllocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// textLimit returns how many bytes parsing the text may allocate.
func textLimit(s string) uint64 { return 1<<16 + 256*uint64(len(s)) }
