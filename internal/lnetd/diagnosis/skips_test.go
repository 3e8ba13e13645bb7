package diagnosis_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
)

// Skipped lists the examinations for which facts are missing, with the reasons. If all facts are known, the list is
// empty.
func TestSkipped(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *diagnosis.Facts)
		want   []diagnosis.Skip
	}{
		{"nothing", func(*diagnosis.Facts) {}, nil},
		{"no lnetd", func(f *diagnosis.Facts) { f.Node, f.Peer = nil, nil },
			[]diagnosis.Skip{{Check: "NIs, peers, routes and programs", Reason: "lnetd does not answer"}}},
		{"no LNet", func(f *diagnosis.Facts) { f.Node.Down, f.Peer = true, nil },
			[]diagnosis.Skip{{Check: "NIs, peers and routes", Reason: "LNet is not configured"}}},
		{"another host", func(f *diagnosis.Facts) { f.Host, f.HostUnknown = nil, "lnetd runs in another network namespace" },
			[]diagnosis.Skip{{Check: "interfaces, addresses, limits and disks of the host", Reason: "lnetd runs in another network namespace"}}},
		{"RDMA", func(f *diagnosis.Facts) { rdma(t, f) },
			[]diagnosis.Skip{{Check: "interfaces and ports of NIs on o2ib", Reason: "doctor only knows the network below nets of the type tcp"}}},
		{"no permission", func(f *diagnosis.Facts) {
			f.Host.Skips = []diagnosis.Skip{{Check: "limits of lnetd", Reason: "permission denied"}}
			f.Peer.Skips = []diagnosis.Skip{{Check: "hosts with the address", Reason: "no permission"}}
		}, []diagnosis.Skip{{Check: "limits of lnetd", Reason: "permission denied"}, {Check: "hosts with the address", Reason: "no permission"}}},
		{"no answer", func(f *diagnosis.Facts) { failed(f) },
			[]diagnosis.Skip{{Check: "discovery, the other NIDs and the way of answers of 10.0.0.2@tcp", Reason: "the peer does not answer"}}},
		{"no path", func(f *diagnosis.Facts) { f.Peer.Path, f.Peer.TCP = nil, nil },
			[]diagnosis.Skip{{Check: "the host and the port of 10.0.0.2@tcp", Reason: "there is no path"}}},
		{"a gateway", func(f *diagnosis.Facts) { answeredFrom(t, f, gateway) },
			[]diagnosis.Skip{{Check: "the host and the port of 10.0.0.2@tcp", Reason: "the path leads through the gateway 10.0.0.9@tcp"}}},
		{"another driver", func(f *diagnosis.Facts) { f.Peer.NID, f.Peer.TCP = nid(t, "10.0.0.2@o2ib"), nil },
			[]diagnosis.Skip{{Check: "the host and the port of 10.0.0.2@o2ib", Reason: "doctor cannot probe nets of the type o2ib"}}},
		{"no large packets", func(f *diagnosis.Facts) { f.Peer.TCP.Large = diagnosis.Untried },
			[]diagnosis.Skip{{Check: "large packets of 10.0.0.2@tcp", Reason: "the host does not answer to small packets, or answers too rarely"}}},
	} {
		f := healthy(t)
		c.change(f)
		if diff := cmp.Diff(append([]diagnosis.Skip{}, c.want...), diagnosis.Skipped(f)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
