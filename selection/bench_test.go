package selection

import (
	"fmt"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// grid returns a node with the given nets and NIs per net, and peers that have the given
// number of NIDs on each of the nets.
func grid(nets, nis, peers, peerNIs int) (*View, []*Peer) {
	var local []*NI
	id := func(net, host int) lnet.NID {
		return lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, uint16(net)), 0x0a000000+uint32(host))
	}
	for net := range nets {
		for k := range nis {
			i := &NI{}
			i.Init(id(net, k+1), UnknownCPT, nil)
			i.Credits.Store(256)
			local = append(local, i)
		}
	}
	all := make([]*Peer, peers)
	for n := range all {
		var remote []*PeerNI
		for net := range nets {
			for k := range peerNIs {
				p := &PeerNI{}
				p.Init(id(net, 1000+n*peerNIs+k), nil)
				p.Credits.Store(8)
				remote = append(remote, p)
			}
		}
		all[n] = NewPeer(nil, Identity{Primary: remote[0].NID, MultiRail: true}, remote)
		all[n].Publish()
	}
	return &View{Local: NewLocal(nil, local)}, all
}

// manyRules returns n rules of all kinds, most of them for single NIDs of peers.
func manyRules(tb testing.TB, n int) *Policies {
	p := &Policies{}
	for k := range n {
		var r Rule
		var err error
		text := fmt.Sprintf("10.0.%d.%d@tcp%d", k/250, k%250, k%4)
		switch k % 4 {
		case 0:
			r.Dst, err = lnet.ParsePattern(text)
			r.Priority = uint32(k)
		case 1:
			r.Src, err = lnet.ParsePattern(text)
			r.Priority = uint32(k)
		case 2:
			r.Src, _ = lnet.ParsePattern("*@tcp[0-3]")
			r.Dst, err = lnet.ParsePattern(text)
		default:
			r.Dst, err = lnet.ParsePattern(fmt.Sprintf("10.0.[%d-%d].*@tcp*", k%200, k%200+k%50))
			r.Priority = uint32(k)
		}
		if err != nil {
			tb.Fatal(err)
		}
		// Some are for the same objects.
		_ = p.Add(r, Append)
	}
	return p
}

// choosing measures Choose with Commit.
func choosing(b *testing.B, v *View, peers []*Peer) {
	var requests []Request
	for _, p := range peers {
		requests = append(requests, Request{Dest: p.Nets[0].NIs[0], CPT: UnknownCPT})
	}
	b.ReportAllocs()
	k := 0
	for b.Loop() {
		d, err := v.Choose(&requests[k])
		if err != nil {
			b.Fatal(err)
		}
		d.Commit()
		if k++; k == len(requests) {
			k = 0
		}
	}
}

func BenchmarkChoose(b *testing.B) {
	b.Run("1x1x1", func(b *testing.B) {
		v, peers := grid(1, 1, 1, 1)
		choosing(b, v, peers)
	})
	b.Run("1x2x2", func(b *testing.B) {
		v, peers := grid(1, 2, 1, 2)
		choosing(b, v, peers)
	})
	b.Run("4x4x4", func(b *testing.B) {
		v, peers := grid(4, 4, 1, 4)
		choosing(b, v, peers)
	})
	b.Run("4x4x4, without Commit", func(b *testing.B) {
		v, peers := grid(4, 4, 1, 4)
		r := Request{Dest: peers[0].Nets[0].NIs[0], CPT: UnknownCPT}
		for b.Loop() {
			if _, err := v.Choose(&r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("4x4x4, 1000 rules", func(b *testing.B) {
		v, peers := grid(4, 4, 1, 4)
		c := manyRules(b, 1000).Compile(v.Local, nil)
		c.ApplyLocal(v.Local)
		c.ApplyPeer(peers[0])
		choosing(b, v, peers)
	})
	// First a peer that stays in the processor's cache, then thousands that do not.
	b.Run("4x4x1, 10000 peers, one in use", func(b *testing.B) {
		v, peers := grid(4, 4, 10000, 1)
		choosing(b, v, peers[9999:])
	})
	b.Run("4x4x1, 10000 peers, all in use", func(b *testing.B) {
		v, peers := grid(4, 4, 10000, 1)
		choosing(b, v, peers)
	})
}

func BenchmarkChooseRoute(b *testing.B) {
	v, peers := grid(1, 1, 9, 1)
	net := lnet.MakeNet(lnet.TypeO2IB, 0)
	for _, p := range peers[:8] {
		r := &Route{}
		r.Init(net, p.Nets[0].NIs[0], 0, 0)
		v.Routing = v.Routing.With(r, 0)
	}
	far := &PeerNI{}
	far.Init(lnet.NIDFromNumber(net, 7), nil)
	p := NewPeer(nil, Identity{Primary: far.NID, MultiRail: true}, []*PeerNI{far})
	p.Publish()
	// The gateways have not been discovered.
	for _, p := range peers {
		p.MultiRail = false
	}
	choosing(b, v, []*Peer{p})
}

func BenchmarkApply(b *testing.B) {
	v, peers := grid(4, 4, 10000, 1)
	p := manyRules(b, 1000)
	b.Run("compile 1000 rules", func(b *testing.B) {
		for b.Loop() {
			p.Compile(v.Local, nil)
		}
	})
	c := p.Compile(v.Local, nil)
	b.Run("1000 rules to a peer of 4 NIDs", func(b *testing.B) {
		b.ReportAllocs()
		k := 0
		for b.Loop() {
			c.ApplyPeer(peers[k%len(peers)])
			k++
		}
	})
}
