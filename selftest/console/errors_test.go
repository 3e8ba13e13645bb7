package console

import (
	"encoding/json"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest"
)

// Given errors with more or less in them, then they say all that they know, and
// their number can be found.
func TestErrorText(t *testing.T) {
	for text, err := range map[string]error{
		`selftest: batch "b": no such file or directory`:                                       notFound("batch", "b"),
		`selftest: session: it is being ended (cannot send after transport endpoint shutdown)`: errEnding,
		`selftest: group "g": a test uses it (device or resource busy)`:                        refuse(syscall.EBUSY, "group", "g", "a test uses it"),
	} {
		if err.Error() != text {
			t.Errorf("%q, want %q", err, text)
		}
	}
	if !errors.Is(notFound("batch", "b"), syscall.ENOENT) {
		t.Error("its number is not found")
	}
}

// Given the states, then their texts can be read back, and no others.
//
// selftest 7.2
func TestStateText(t *testing.T) {
	all := []State{Active, Busy, Down, Unknown}
	text, err := json.Marshal(all)
	if err != nil || string(text) != `["Active","Busy","Down","Unknown"]` {
		t.Errorf("%s, %v", text, err)
	}
	var back []State
	if err := json.Unmarshal([]byte(`["active","BUSY","Down","Unknown"]`), &back); err != nil || !cmp.Equal(back, all) {
		t.Errorf("%v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`["dead"]`), &back); err == nil {
		t.Error("there is a state dead")
	}
	if s := Invalid.String(); s != "states 0xe" {
		t.Error(s)
	}
}

// Given a node without a NID that could name a session, then there is none.
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
