package discovery

import "testing"

// discovery 3 numbers
func TestStateNumbers(t *testing.T) {
	for _, c := range []struct {
		state State
		bit   int
		name  string
	}{
		{MultiRail, 0, "MULTI_RAIL"},
		{Configured, 3, "CONFIGURED"},
		{Discovered, 4, "DISCOVERED"},
		{NIDsUpToDate, 8, "NIDS_UPTODATE"},
		{ForcePush, 14, "FORCE_PUSH"},
		{MarkDeleted, 19, "MARK_DELETED"},
		{LockPrimary, 20, "LOCK_PRIMARY"},
		{BadConfig, 21, "BAD_CONFIG"},
		{State(1) << 25, 25, "0x2000000"},
	} {
		if c.state != 1<<c.bit || c.state.String() != c.name {
			t.Errorf("%s is %#x, want bit %d, %s", c.state, uint32(c.state), c.bit, c.name)
		}
	}
	if got := (MultiRail | Discovered).String(); got != "MULTI_RAIL|DISCOVERED" {
		t.Error(got)
	}
}

func TestModeString(t *testing.T) {
	for m, want := range map[Mode]string{On: "on", Off: "off", Verify: "verify", 9: "unknown"} {
		if m.String() != want {
			t.Errorf("%d is %s, want %s", m, m, want)
		}
	}
}
