package server

import (
	"os"
	"testing"
)

// A user may run two captures, all users together one less than the maximum, and administrators all.
func TestCaptureSlots(t *testing.T) {
	var s captureSlots
	users := os.Geteuid() + 1 // the UIDs from here on are not administrators
	acquire := func(user int, want bool) {
		t.Helper()
		if got := s.acquire(user); got != want {
			t.Errorf("user %d: %v with %+v", user, got, s.used)
		}
	}
	for _, user := range []int{anyUser, users, users + 1} {
		acquire(user, true)
		acquire(user, true)
		acquire(user, false)
	}
	acquire(users+2, true)
	acquire(users+3, false)
	acquire(0, true)
	acquire(os.Geteuid(), false)
	s.release(users)
	acquire(users, true)
	s.release(users)
	acquire(os.Geteuid(), true)
	acquire(users, false)
	for _, user := range []int{anyUser, anyUser, users, users + 1, users + 1, users + 2, 0, os.Geteuid()} {
		s.release(user)
	}
	if s.all != 0 || s.ofUsers != 0 || len(s.used) != 0 {
		t.Errorf("at the end: %d, %d, %v", s.all, s.ofUsers, s.used)
	}
}
