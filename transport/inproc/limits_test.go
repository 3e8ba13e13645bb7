package inproc

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// Domains report the limits of LNet. Descriptors are longer if a NID is large.
//
// transport-tests A (6)
// transport 3.4 (3)
func TestLimits(t *testing.T) {
	want := transport.Limits{
		BufferSize: 1 << 20, SegmentSize: 4096, Segments: 256, DescriptorSize: 48, Confine: true, Synchronous: true,
	}
	n := newFakeNode()
	if got := openOn(t, newCore(n)).Limits(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	large, err := lnet.ParseNID("fd00::1@tcp")
	if err != nil {
		t.Fatal(err)
	}
	old, silent := openOn(t, newCore(n)), openOn(t, newCore(n))
	n.nids = append(n.nids, large)
	stop(t, start(t, silent, at(large, 34, 1)))
	want.DescriptorSize = 64
	for _, d := range []*domain{openOn(t, newCore(n)), old} {
		if got := d.Limits(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	n.nids = n.nids[:2] // TMs at the NID may continue to exist
	for _, d := range []*domain{old, silent} {
		if got := d.Limits(); got != want {
			t.Errorf("%+v with the large NID gone, want %+v", got, want)
		}
	}
}

// A large NID that the node gets after the domain was opened makes descriptors longer, as the limits then
// report. Those of other TMs stay as they are.
//
// transport 3.4 (1)
func TestLargeNIDComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabric := simlnd.New(simConfig)
		t.Cleanup(fabric.Close)
		driver, err := simlnd.NewDriver(fabric.Host("one", "10.6.0.1", "fd00::1"), socklnd.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		n := startNode(t, node.Config{Parameters: static()}, driver, "10.6.0.1@tcp")
		d, err := transport.NewDomain(t.Context(), New(n))
		if err != nil {
			t.Fatal(err)
		}
		describes := func(nid lnet.NID, size, limit int) {
			t.Helper()
			tm, err := d.Open(t.Context(), nid.String()+":12345:34:*", nil)
			if err != nil {
				t.Fatal(err)
			}
			b := transport.NewBuffer(make([]byte, 10))
			b.Queue, b.Callbacks = transport.PassiveBulkRecv, &transport.Callbacks{transport.PassiveBulkRecv: func(*transport.BufferEvent) {}}
			if err := errors.Join(d.Register(t.Context(), b), tm.Add(b)); err != nil {
				t.Fatal(err)
			}
			if len(b.Descriptor) != size || d.Limits().DescriptorSize != limit {
				t.Errorf("at %v a descriptor has %d bytes, not %d; the limit is %d, not %d",
					nid, len(b.Descriptor), size, d.Limits().DescriptorSize, limit)
			}
			if err := errors.Join(tm.Shutdown(t.Context()), d.Deregister(b)); err != nil {
				t.Error(err)
			}
		}
		small := nidOf(n)
		describes(small, 48, 48)
		large, err := lnet.ParseNID("fd00::1@tcp")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.AddNI(t.Context(), driver, lnd.Config{NID: large}); err != nil {
			t.Fatal(err)
		}
		describes(large, 64, 64)
		describes(small, 48, 64)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}
