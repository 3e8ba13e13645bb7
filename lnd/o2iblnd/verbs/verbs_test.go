package verbs_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

func TestErrors(t *testing.T) {
	err := verbs.Wrap(syscall.ENOMEM, "queue of %d", 7)
	if !errors.Is(err, syscall.ENOMEM) || err.Error() != "verbs: queue of 7: cannot allocate memory" || verbs.Wrap(nil, "x") != nil {
		t.Error(err)
	}
	for err, full := range map[error]bool{err: true, syscall.EAGAIN: true, syscall.EINVAL: false, verbs.ErrClosed: false} {
		if verbs.Full(err) != full {
			t.Errorf("%v: full %v", err, !full)
		}
	}
}

func TestNames(t *testing.T) {
	got := fmt.Sprint(verbs.EventDisconnected, " ", verbs.EventKind(99), " ", verbs.AsyncPortError, " ", verbs.AsyncKind(77), ", ", verbs.Flushed, ", ", verbs.Status(200))
	if diff := cmp.Diff("DISCONNECTED 99 PORT_ERR 77, flushed, status 200", got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPiecesFit(t *testing.T) {
	for _, c := range []struct {
		first, count uint16
		pieces       int
		fit          bool
	}{{0, 0, 0, true}, {0, 1, 1, true}, {1, 1, 1, false}, {0xffff, 0xffff, 0x1fffe, true}, {0xffff, 0xffff, 0x1fffd, false}} {
		if verbs.PiecesFit([]verbs.Request{{}, {First: c.first, Count: c.count}}, c.pieces) != c.fit {
			t.Errorf("%+v", c)
		}
	}
}

func TestOwned(t *testing.T) {
	var o verbs.Owned
	if o.Owner() != nil {
		t.Error("an owner from the beginning")
	}
	if o.SetOwner(t); o.Owner() != any(t) {
		t.Error("another owner")
	}
}

func TestMap(t *testing.T) {
	b, err := verbs.Map(3<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] = 1
	if err := syscall.Munmap(b); err != nil {
		t.Fatal(err)
	}
	if _, err := verbs.Map(0, false); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("no bytes: %v", err)
	}
}
