package server

import "sync"

// Limits of captures that run at a time. Each has about 2 MB of memory, and costs each message time.
const (
	capturesMax    = 8
	capturesOfUser = 2 // of one user who is no administrator
	// capturesOfUsers is the maximum of all users who are no administrators, so that these cannot keep an administrator
	// from capturing.
	capturesOfUsers = capturesMax - 1
)

// captureSlots counts the captures that run.
type captureSlots struct {
	mu      sync.Mutex  // guards the fields below
	all     int         // including those of administrators
	ofUsers int         // of users who are no administrators
	used    map[int]int // captures of each user who is no administrator, by UID
}

// acquire counts a capture of a user and reports whether it may run. If so, the caller must call release.
func (s *captureSlots) acquire(user int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= capturesMax {
		return false
	}
	if !isAdministrator(user) {
		if s.ofUsers >= capturesOfUsers || s.used[user] >= capturesOfUser {
			return false
		}
		if s.used == nil {
			s.used = map[int]int{}
		}
		s.used[user]++
		s.ofUsers++
	}
	s.all++
	return true
}

func (s *captureSlots) release(user int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if isAdministrator(user) {
		return
	}
	s.ofUsers--
	if s.used[user]--; s.used[user] == 0 {
		delete(s.used, user)
	}
}
