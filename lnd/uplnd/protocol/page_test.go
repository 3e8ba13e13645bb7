package protocol

import (
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// sessionRecord is a record of the session in docs/uplnd-protocol.md: its title, such as "lnetd: SEND", and
// its bytes up to "*", which means zeros to the end.
type sessionRecord struct {
	title string
	bytes []byte
	zeros bool
}

// readSession returns the session of the page.
func readSession(t *testing.T) (session []sessionRecord) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/uplnd-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## A session in hex\n")
	_, rest, _ = strings.Cut(rest, "\n```\n")
	block, _, found := strings.Cut(rest, "\n```\n")
	if !found {
		t.Fatal("the page has no session")
	}
	for line := range strings.Lines(block) {
		text, _, _ := strings.Cut(strings.TrimSpace(line), "#")
		if !strings.HasPrefix(line, " ") {
			session = append(session, sessionRecord{title: strings.TrimSpace(text)})
			continue
		}
		last := &session[len(session)-1]
		if text == "*" {
			last.zeros = true
			continue
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			t.Fatalf("%s: %v", last.title, err)
		}
		last.bytes = append(last.bytes, b...)
	}
	return session
}

// sized returns the bytes of a record with a fixed size.
func (r *sessionRecord) sized(t *testing.T, size int) []byte {
	t.Helper()
	if len(r.bytes) > size || len(r.bytes) != size && !r.zeros {
		t.Fatalf("%s: %d bytes, want %d", r.title, len(r.bytes), size)
	}
	return append(r.bytes[:len(r.bytes):len(r.bytes)], make([]byte, size-len(r.bytes))...)
}

// The session in docs/uplnd-protocol.md has valid records, whose bytes are those that this package encodes.
func TestSessionOfPage(t *testing.T) {
	entries, records := 0, 0
	for _, r := range readSession(t) {
		side, name, _ := strings.Cut(r.title, ": ")
		var again []byte
		switch name {
		case "Attach":
			var a Attach
			if err := a.Decode(r.sized(t, AttachSize)); err != nil {
				t.Errorf("%s: %v", r.title, err)
			}
			again = a.Append(nil)
		case "Attached":
			a, err := DecodeAnswer(r.sized(t, AttachedSize))
			if err != nil {
				t.Fatalf("%s: %v", r.title, err)
			}
			again = a.Append(nil)
		case "failure":
			_, err := DecodeAnswer(r.bytes)
			var f *Failure
			if !errors.As(err, &f) || f.Errno != syscall.ESHUTDOWN {
				t.Fatalf("%s: %v", r.title, err)
			}
			again = f.Append(nil)
		case "", "ring file": // the area, and what other packages define
			continue
		default:
			entries++
			again = sessionEntry(t, side, name, [EntrySize]byte(r.sized(t, EntrySize)))
		}
		if want := r.sized(t, len(again)); string(again) != string(want) {
			t.Errorf("%s: bytes\n%x, want\n%x", r.title, again, want)
		}
		records++
	}
	if entries < 12 || records < entries+3 {
		t.Errorf("%d entries in %d records, want at least 12 in 15", entries, records)
	}
}

// sessionEntry decodes an entry of a side and returns the encoding of the result.
func sessionEntry(t *testing.T, side, name string, b [EntrySize]byte) []byte {
	t.Helper()
	decode := (*Entry).DecodeReport
	if side == "lnetd" {
		decode = (*Entry).DecodeOrder
	}
	var e Entry
	if err := decode(&e, &b); err != nil || e.Op.String() != name {
		t.Errorf("%s: %s: decoded %v, %v", side, name, e.Op, err)
	}
	e.Put(&b)
	return b[:]
}
