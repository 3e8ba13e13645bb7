package console

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// Names are shown on terminals, and programs that have read them as JSON send them back. So a name with
// characters that cannot be shown is refused, no matter where it comes from.
func TestNamesCanBeShown(t *testing.T) {
	onStage(t, 0, func(t *testing.T, s *stage) {
		if _, err := s.NewSession(s.ctx, SessionOptions{Key: key, Name: "Sitzung Größe 1"}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{
			"", strings.Repeat("x", 32), "a\nb", "\x1b[31m", "a\x7f", "\u009b31m", "\x9b31m", "\u202egnp.exe", "\xff", "a\x00b", "\ufffd",
		} {
			if _, err := s.NewSession(s.ctx, SessionOptions{Key: key, Name: name, Force: true}); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("session %q: %v", name, err)
			}
			if err := s.AddBatch(key, name); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("batch %q: %v", name, err)
			}
			if _, err := s.AddGroup(s.ctx, key, name, []string{"10.0.0.1@tcp"}); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("group %q: %v", name, err)
			}
			if shown := message.NameOf(name).String(); shown != name {
				continue // it cannot be sent by others
			}
			q := message.JoinRequest{Header: message.NewHeader(message.Supported), Session: message.NoSession, Group: message.NameOf(name)}
			if r := s.join(lnet.ProcessID{NID: s.master.nid, PID: 77}, &q); r.Status != message.EINVAL {
				t.Errorf("join of group %q: %v", name, r.Status)
			}
		}
		for _, name := range []string{"käse", "テスト", "a b", "-", "12345-10.0.0.1@tcp"} {
			if err := s.AddBatch(key, name); err != nil {
				t.Errorf("batch %q: %v", name, err)
			}
		}
	})
}

// A command with any number of lists of NIDs addresses a limited number of nodes.
func TestNodesOfOneCommandAreBounded(t *testing.T) {
	onStage(t, 0, func(t *testing.T, s *stage) {
		if _, err := s.NewSession(s.ctx, SessionOptions{Key: key, Name: "s"}); err != nil {
			t.Fatal(err)
		}
		var lists []string
		for k := range 5 {
			lists = append(lists, fmt.Sprintf("10.%d.[0-63].[0-255]@tcp", k))
		}
		commands := map[string]func() error{
			"AddGroup":        func() error { _, err := s.AddGroup(s.ctx, key, "g", lists); return err },
			"RemoveFromGroup": func() error { _, err := s.RemoveFromGroup(s.ctx, key, "g", lists); return err },
			"Stat":            func() error { _, err := s.Stat(s.ctx, key, lists, 0); return err },
			"Ping":            func() error { _, err := s.Ping(s.ctx, key, Target{Nodes: lists}, 0); return err },
		}
		for name, command := range commands {
			if err := command(); !errors.Is(err, syscall.ENOMEM) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
