package fuzz

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnet"
)

// patience is the time limit for expected events.
const patience = 3 * time.Minute

// wire is a kernel's end of a connection to our node.
type wire struct {
	t    *testing.T
	name string
	conn net.Conn
	// others describes what our node has sent on other connections, for error messages.
	others func() string
	got    []byte           // everything that our node has sent
	seen   []recording.Unit // units of got that were checked
}

// next returns the next unit that our node sends.
func (w *wire) next(what string) recording.Unit {
	w.t.Helper()
	if err := w.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		w.t.Fatal(err)
	}
	for {
		units, err := recording.Parse(w.got)
		if len(units) > len(w.seen) {
			u := units[len(w.seen)]
			w.seen = append(w.seen, u)
			return u
		}
		if err != nil && !lnet.IsShort(err) {
			w.t.Fatalf("%s: waiting for %s: %v:\n%s", w.name, what, err, hex.Dump(w.got[w.parsed():]))
		}
		buf := make([]byte, 1<<16)
		n, err := w.conn.Read(buf)
		w.got = append(w.got, buf[:n]...)
		if n == 0 && err != nil {
			w.t.Fatalf("%s: waiting for %s: %v:\n%s%s", w.name, what, err, hex.Dump(w.got[w.parsed():]), w.others())
		}
	}
}

// waiting describes the bytes that have arrived and were not checked.
func (w *wire) waiting() string {
	_ = w.conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	more, _ := io.ReadAll(w.conn) // until the deadline
	w.got = append(w.got, more...)
	units, _ := recording.Parse(w.got)
	var s strings.Builder
	for _, u := range units[len(w.seen):] {
		fmt.Fprintf(&s, "%s: unexpected %s: %+v %+v\n", w.name, u.Name(), u.Frame, u.Header)
	}
	return s.String()
}

// parsed returns the number of bytes that were checked.
func (w *wire) parsed() int {
	n := 0
	for k := range w.seen {
		n += len(w.seen[k].Raw)
	}
	return n
}

// say sends a unit to our node.
func (w *wire) say(u *recording.Unit) {
	w.t.Helper()
	if _, err := w.conn.Write(u.Raw); err != nil {
		w.t.Fatalf("%s: %v", u.Name(), err)
	}
}

// hangUp closes the kernel's side of the connection. Our side may have closed it already.
func (w *wire) hangUp() {
	w.t.Helper()
	if err := w.conn.(*net.TCPConn).CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) {
		w.t.Fatal(err)
	}
}

// rest returns everything that our node sends until it closes the connection.
func (w *wire) rest() []recording.Unit {
	w.t.Helper()
	more, err := io.ReadAll(w.conn) // a reset ends it too
	w.got = append(w.got, more...)
	units, perr := recording.Parse(w.got)
	if perr != nil && (!lnet.IsShort(perr) || err == nil) {
		w.t.Errorf("the end of what we sent: %v", perr)
	}
	return units[len(w.seen):]
}

// rewrite encodes u again to raw bytes if it differs from the recorded unit.
func rewrite(t *testing.T, u *recording.Unit) {
	t.Helper()
	order := binary.LittleEndian
	raw, err := u.Version.AppendHeader(u.Frame.Append(nil, order), &u.Header)
	if err != nil {
		t.Fatal(err)
	}
	u.Raw = slices.Concat(raw, u.Payload)
}
