package coretest

import (
	"slices"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// The cases of group A of transport-tests: domains and their properties.
var domainCases = []scenario{
	{name: "T006_Limits", run: limits},
	{name: "T007_SeveralDomains", run: severalDomains},
	{name: "T008_NIDs", run: nids},
}

// limits checks that the limits of a domain are those of the Harness, and powers of two.
//
// transport-tests A (6)
// transport 3.4 (3)
func limits(s *stage) {
	got := s.domain(0).Limits()
	if got != s.h.Limits {
		s.t.Errorf("limits %+v, not %+v", got, s.h.Limits)
	}
	for _, n := range []int{got.BufferSize, got.SegmentSize, got.Segments} {
		if n < 2 || n&(n-1) != 0 {
			s.t.Errorf("%d is no power of two, or less than 2", n)
		}
	}
}

// severalDomains sends messages between three domains on two hosts. Objects of one domain are invalid in
// the others.
//
// transport-tests A (7)
// transport 3.3 (3)-(4)
func severalDomains(s *stage) {
	var m [3]*machine
	for k := range m {
		m[k] = s.machine(k % 2)
	}
	for k, from := range m {
		to := m[(k+1)%3]
		in, out := to.buffer(100), from.buffer(100)
		fill(out, k, 100)
		to.receive(in, 100, 1)
		from.send(out, 100, to)
		from.expect(out)
		if e := to.expect(in); e.sender != from.Self().Address() {
			s.t.Errorf("the sender is %v", e.sender)
		}
		s.check(in, 0, 100, k)
		in.Queue = transport.MsgRecv
		s.want("add a buffer of another domain", from.Add(in), syscall.EINVAL)
		s.want("deregister it there", from.domain.Deregister(in), syscall.EINVAL)
	}
	s.want("close a domain that is used", m[0].domain.Close(), syscall.EBUSY)
	m[0].close()
	in, out := m[2].buffer(100), m[1].buffer(100)
	m[2].receive(in, 100, 1)
	m[1].send(out, 100, m[2])
	m[2].expect(in)
	m[1].expect(out)
}

// nids checks that the NIDs of a domain can be parsed and include those of the host.
//
// transport-tests A (8)
// transport 6.1 (5)
func nids(s *stage) {
	ctx, cancel := s.context()
	defer cancel()
	got, err := s.domain(0).NIDs(ctx)
	s.must(err)
	for _, nid := range got {
		if again, err := lnet.ParseNID(nid.String()); err != nil || again != nid {
			s.t.Errorf("%v reads as %v, %v", nid, again, err)
		}
	}
	for _, nid := range []lnet.NID{lnet.LoopbackNID, s.net.Hosts[0].NID} {
		if !slices.Contains(got, nid) {
			s.t.Errorf("NIDs %v, without %v", got, nid)
		}
	}
}
