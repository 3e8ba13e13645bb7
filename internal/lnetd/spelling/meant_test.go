package spelling_test

import (
	"fmt"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/spelling"
	"github.com/lnetd/lnetd/lnet"
)

func TestNetType(t *testing.T) {
	for text, want := range map[string]string{
		"tpc": "tcp", "TCP": "tcp", "tcpp1": "tcp", "10.0.0.1@tpc": "tcp", "10.0.0.[1-3]@tpc2": "tcp", "*@tpc*": "tcp",
		"o2id": "o2ib", "o2ip1": "o2ib", "o2bi[0-3]": "o2ib", "10.0.0.1@02ib": "o2ib", "tpc(eth0)": "tcp", "tpc, o2ib": "tcp",
		"": "", "@": "", "ethernet": "", "10.0.0.1": "", "x@y": "", "1": "",
	} {
		if got := spelling.NetType(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The error of parsing a text leads to the type that was meant, also if other errors wrap it.
func TestMeantNetType(t *testing.T) {
	_, nid := lnet.ParseNID("10.0.0.1@tpc")
	_, net := lnet.ParseNet("o2id1")
	_, list := lnet.ExpandNIDs("10.0.0.[1-3]@tpc", 5)
	_, other := lnet.ParseNID("10.0.0.999@tcp")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nid, "did you mean 'tcp'?"}, {fmt.Errorf("option: %w", net), "did you mean 'o2ib'?"}, {list, "did you mean 'tcp'?"},
		{other, ""}, {nil, ""}, {lnet.ErrUnknownType, ""},
	} {
		if got := spelling.MeantNetType(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	if got := spelling.DidYouMean("tcp") + spelling.DidYouMean(""); got != "did you mean 'tcp'?" {
		t.Error(got)
	}
}
