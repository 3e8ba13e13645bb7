package uplnd

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/memory/shared"
)

// A proxy hangs if it has read no order for Config.Patience. Time with an empty ring does not count. A proxy
// that reads may have any number of orders in the ring.
func TestOverdue(t *testing.T) {
	const entries, patience = 64, 10 * time.Second
	h, files, err := rings.Create(shared.Sizes{Submissions: entries, Completions: entries})
	if err != nil {
		t.Fatal(err)
	}
	c, err := rings.Attach(files)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(h.Close(), c.Close()) }()
	p := &proxyEnd{ni: &ni{server: &Server{config: Config{Entries: entries, Patience: patience}}}, ring: h}
	now := time.Now()
	look := func(after time.Duration) error {
		now = now.Add(after)
		return p.overdue(now)
	}
	put := func() { p.put(&protocol.Entry{Op: protocol.Timeout}) }
	read := func() {
		var b [protocol.EntrySize]byte
		if more, err := c.Completions.Read(b[:]); !more {
			t.Fatal(err)
		}
		c.Completions.Release()
	}
	wants := func(step string, err error, late bool) {
		t.Helper()
		if errors.Is(err, syscall.ETIMEDOUT) != late {
			t.Errorf("%s: %v", step, err)
		}
	}
	wants("nothing to read", look(0), false)
	put()
	wants("the first look after an hour of silence", look(time.Hour), false)
	wants("not read in time, but not late", look(patience), false)
	put()
	put()
	read()
	wants("one of three read", look(patience), false)
	put()
	read()
	wants("as many to read as before, but others", look(patience), false)
	wants("nothing read", look(patience+1), true)
}
