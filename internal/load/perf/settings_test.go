package perf

import (
	"strings"
	"testing"

	"github.com/lnetd/lnetd/lnd/socklnd"
)

func TestParseSetting(t *testing.T) {
	for _, c := range []struct {
		text     string
		variable bool
		wrong    string
	}{
		{"GOMAXPROCS=1", true, ""},
		{"GODEBUG=gctrace=1,x=2", true, ""},
		{"peer_credits=16", false, ""},
		{"nagle=1", false, ""},
		{"nagle=true", false, ""},
		{"", false, "is not SETTING=VALUE"},
		{"peer_credits", false, "is not SETTING=VALUE"},
		{"=3", false, "is not SETTING=VALUE"},
		{"peer_credit=16", false, "the tunables are accept_backlog, "},
		{"peer_credits=many", false, "invalid syntax"},
		{"peer_credits=true", false, "invalid syntax"},
		{"conns_per_peer=false", false, "invalid syntax"},
		{"peer_credits=0", false, "0 is not in 1 to "},
		{"conns_per_peer=128", false, "128 is not in 0 to 127"},
		{"nagle=perhaps", false, "invalid syntax"},
	} {
		s, err := ParseSetting(c.text)
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q: %v, want %q", c.text, err, c.wrong)
			}
		case err != nil || s.Variable() != c.variable || s.String() != c.text:
			t.Errorf("%q: %v, %v", c.text, s, err)
		}
	}
	s, err := ParseSetting("peer_credits=16")
	if err != nil {
		t.Fatal(err)
	}
	c := socklnd.DefaultConfig()
	if s.apply(&c); c.Tunables.PeerCredits != 16 {
		t.Errorf("peer_credits is %d", c.Tunables.PeerCredits)
	}
}
