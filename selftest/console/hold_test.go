package console

import (
	"context"
	"errors"
	"syscall"
	"testing"
)

// A hold ends its own session, but not a later one with the same key.
func TestHold(t *testing.T) {
	onStage(t, 1, func(t *testing.T, s *stage) {
		if _, err := s.Console.Hold(key); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("hold of no session: %v", err)
		}
		begin := func(name string) *Hold {
			t.Helper()
			if _, err := s.NewSession(s.ctx, SessionOptions{Key: key, Name: name}); err != nil {
				t.Fatal(err)
			}
			h, err := s.Console.Hold(key)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		first := begin("first")
		if _, err := s.Console.Hold(key + 1); !errors.Is(err, syscall.EACCES) {
			t.Errorf("hold with another key: %v", err)
		}
		select {
		case <-first.Over():
			t.Error("the first session is over")
		default:
		}
		if err := s.EndSession(s.ctx, key); err != nil {
			t.Fatal(err)
		}
		<-first.Over()
		second := begin("second")
		if err := first.End(s.ctx); err != nil {
			t.Error(err)
		}
		if i, err := s.ShowSession(); err != nil || i.Name != "second" {
			t.Errorf("%+v, %v", i, err)
		}
		gone, cancel := context.WithCancel(s.ctx)
		cancel()
		_ = second.End(gone) // continues in the background
		<-second.Over()
		if _, err := s.ShowSession(); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the second session: %v", err)
		}
	})
}
