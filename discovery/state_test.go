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

// A peer is up to date if a round was successful, and no ping or push is needed or under
// way. It needs a push after a local change, unless it does not support discovery.
//
// discovery 3 ready, 3 push
func TestUpToDate(t *testing.T) {
	const done = MultiRail | Discovered | NIDsUpToDate
	l := Local{Seq: 2}
	for _, c := range []struct {
		name  string
		state State
		told  uint32
		want  bool
	}{
		{"a round has ended", done, 2, true},
		{"it does not know of our NIs", done, 1, false},
		{"nor need it, as it does not discover", done | NoDiscovery, 1, true},
		{"nor as it is not Multi-Rail", done &^ MultiRail, 1, true},
		{"no round has ended", done &^ Discovered, 2, false},
		{"its NIDs are not known", done &^ NIDsUpToDate, 2, false},
		{"a round runs", done | Discovering, 2, false},
		{"it is to be asked", done | ForcePing, 2, false},
		{"it is to be told", done | ForcePush, 2, false},
		{"the last round failed", done | Rediscover, 2, false},
	} {
		v := &View{State: c.state, AckedSeq: c.told}
		if v.UpToDate(l) != c.want || v.MustWait(l) == c.want {
			t.Errorf("%s: up to date %v, must wait %v", c.name, v.UpToDate(l), v.MustWait(l))
		}
	}
}
