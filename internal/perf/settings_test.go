package perf

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/lnd"
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
		{"", false, "is not SETTING=VALUE"},
		{"peer_credits", false, "is not SETTING=VALUE"},
		{"=3", false, "is not SETTING=VALUE"},
		{"peer_credit=16", false, "there are busy_poll, conns_per_peer, credits,"},
		{"peer_credits=many", false, "invalid syntax"},
		{"peer_credits=0", false, "must be at least 1"},
		{"conns_per_peer=128", false, "must be 0 to 127"},
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

// Each field of a driver's configuration must be a setting or be listed here. Fields that may affect
// performance belong in tunables.
func TestEachFieldIsASettingOrNone(t *testing.T) {
	none := []string{
		"Accept", "AcceptPort", "AcceptPortBulk", "ConnectPort", "ConnectPortBulk", "AcceptBacklog", "AcceptTimeout", "MaxHalfOpen",
		"MaxHalfOpenPerSource", "SourcePorts", "SockTimeout", "MinReconnect", "MaxReconnect", "TypedConns", "Network", "Wall",
		"Seed", "Logger", "PeerTimeout", "PeerBufferCredits",
	}
	var fields []string
	for _, of := range []reflect.Type{reflect.TypeFor[socklnd.Config](), reflect.TypeFor[lnd.Tunables]()} {
		for k := range of.NumField() {
			if name := of.Field(k).Name; name != "Tunables" && !slices.Contains(none, name) {
				fields = append(fields, name)
			}
		}
	}
	if len(fields) != len(tunables) {
		t.Errorf("%d fields, %d settings:\n%v\n%v", len(fields), len(tunables), fields, Tunables())
	}
	for _, name := range Tunables() {
		c, before := socklnd.DefaultConfig(), socklnd.DefaultConfig()
		changed := false
		for _, value := range []string{"2", "1", "0"} {
			if tunables[name](&c, value) == nil {
				changed = changed || !reflect.DeepEqual(c, before)
			}
		}
		if !changed {
			t.Errorf("%s changes nothing", name)
		}
	}
}
