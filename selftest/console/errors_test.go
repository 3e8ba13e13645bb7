package console

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest"
)

// Given errors with more or fewer fields, then the text contains all of them, and errors.Is finds the
// errno.
func TestErrorText(t *testing.T) {
	for text, err := range map[string]error{
		`selftest: batch "b": no such file or directory`:                                           notFound("batch", "b"),
		`selftest: session: the session is ending (cannot send after transport endpoint shutdown)`: errEnding,
		`selftest: group "g": a test uses the group (device or resource busy)`:                     refuse(syscall.EBUSY, "group", "g", "a test uses the group"),
	} {
		if err.Error() != text {
			t.Errorf("%q, want %q", err, text)
		}
	}
	if !errors.Is(notFound("batch", "b"), syscall.ENOENT) {
		t.Error("its number is not found")
	}
}

// NewSession fails on a node that has no NI whose NID could name the session.
func TestNoNID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := node.New(node.Config{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := selftest.Enable(n, selftest.Config{})
		if err != nil {
			t.Fatal(err)
		}
		c := New(n, a, Config{})
		_, err = c.NewSession(t.Context(), SessionOptions{Name: "n"})
		want(t, "no NI", err, syscall.EADDRNOTAVAIL, "session")
		shut(t, c)
		if err := errors.Join(a.Close(t.Context()), n.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// NewSession fails on a node whose only NID is large: the name of a session has room for
// a short one.
//
// selftest 2.2 large
func TestLargeNIDNamesNoSession(t *testing.T) {
	onStage(t, 0, func(t *testing.T, s *stage) {
		c := s.console(s.player("large", "fd00::1", true))
		_, err := c.NewSession(t.Context(), SessionOptions{Name: "n"})
		want(t, "fd00::1@tcp", err, syscall.EADDRNOTAVAIL, "session")
	})
}
