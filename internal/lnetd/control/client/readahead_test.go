package client

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// closable is a body that records that it was closed.
type closable struct {
	io.Reader
	closed bool
}

func (c *closable) Close() error { c.closed = true; return nil }

// A body is read as it is, also if it ends with an error or comes byte by byte.
func TestReadAhead(t *testing.T) {
	text := strings.Repeat("0123456789", 20_000)
	broken := errors.New("broken")
	for name, body := range map[string]io.Reader{
		"at once": strings.NewReader(text), "in bytes": iotest.OneByteReader(strings.NewReader(text)),
		"broken": io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)),
	} {
		r := newReadAhead(&closable{Reader: body}, 100, func() {})
		got, err := io.ReadAll(r)
		if string(got) != text || errors.Is(err, broken) != (name == "broken") {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A body is read up to a limit while the reader does nothing, then slowly, and Close ends it.
func TestReadAheadOfASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pages atomic.Int32
		body := &closable{Reader: strings.NewReader(strings.Repeat("x", 10*readAheadPage))}
		r := newReadAhead(body, 3*readAheadPage, func() { pages.Add(1) })
		synctest.Wait()
		if n := pages.Load(); n != 3 {
			t.Errorf("%d pages were read ahead", n)
		}
		if n, err := io.ReadFull(r, make([]byte, readAheadPage)); n != readAheadPage || err != nil {
			t.Error(n, err)
		}
		synctest.Wait()
		if n := pages.Load(); n != 4 {
			t.Errorf("%d pages were read after one was consumed", n)
		}
		time.Sleep(readAheadPause)
		synctest.Wait()
		if n := pages.Load(); n != 5 {
			t.Errorf("%d pages were read while the reader paused", n)
		}
		if err := r.Close(); err != nil || !body.closed {
			t.Error(err, body.closed)
		}
	})
}
