package config

import (
	"strconv"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// An NI that is added to a net gets the LND timeout that all NIs of the net have, unless it sets
// one. NIs of other nets do not matter.
func TestAddedNIHasTheNetsTimeout(t *testing.T) {
	tcp := lnet.MakeNet(lnet.TypeTCP, 0)
	ni := func(device, timeout string) NI {
		i := NI{Net: tcp, Device: device}
		if timeout != "" {
			n, _ := strconv.Atoi(timeout)
			i.Options = lnd.Values{"timeout": int64(n)}
		}
		return i
	}
	for name, tt := range map[string]struct {
		have []NI
		add  NI
		want string
	}{
		"all have it":     {[]NI{ni("a", "20"), ni("b", "20")}, ni("c", ""), "20"},
		"some have it":    {[]NI{ni("a", "20"), ni("b", "")}, ni("c", ""), ""},
		"they differ":     {[]NI{ni("a", "20"), ni("b", "30")}, ni("c", ""), ""},
		"it says its own": {[]NI{ni("a", "20")}, ni("c", "7"), "7"},
		"another net":     {[]NI{ni("a", "20")}, NI{Net: lnet.MakeNet(lnet.TypeTCP, 1), Device: "c"}, ""},
	} {
		have := State{NIs: tt.have}
		got, _, err := Add(&have, "d", &Config{State: State{NIs: []NI{tt.add}}}, testDrivers)
		shown := ""
		if n, ok := got.NIs[len(tt.have)].Options["timeout"]; ok {
			shown = strconv.FormatInt(n, 10)
		}
		if err != nil || shown != tt.want {
			t.Errorf("%s: %v, %+v", name, err, got.NIs)
		}
	}
}
