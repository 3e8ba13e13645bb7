package limit

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// The reserve is a quarter of the limit, and bounded.
func TestDescriptorReserve(t *testing.T) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	limit, reserve := descriptorLimit(), DescriptorReserve()
	if uint64(limit) != min(l.Cur, 1<<30) || reserve != min(limit/4, 2048) {
		t.Errorf("%d of %d, the limit is %d", reserve, limit, l.Cur)
	}
	if err := CheckDescriptor(limit - reserve - 1); err != nil {
		t.Error(err)
	}
	var e *DescriptorError
	if err := CheckDescriptor(limit - reserve); !errors.As(err, &e) || !errors.Is(err, syscall.EMFILE) || e.Limit != limit {
		t.Error(err)
	}
	forClients := reserve * 3 / 4
	if err := CheckClientDescriptor(limit - forClients - 1); err != nil {
		t.Error(err)
	}
	if err := CheckClientDescriptor(limit - forClients); !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), "not available to clients") {
		t.Error(err)
	}
}
