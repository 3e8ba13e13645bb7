package fuzz

import (
	"context"
	"slices"
	"time"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// startNode starts our node in the place of the kernel's, with its clocks and
// its first NIs.
func (p *replay) startNode() {
	p.t.Helper()
	c := socklnd.DefaultConfig()
	c.Network = p.stage
	c.SourcePorts = socklnd.SourcePrivileged
	c.Wall = func() time.Time { return time.Unix(0, int64(p.incarnation.Load())) }
	var err error
	if p.driver, err = socklnd.New(c); err != nil {
		p.t.Fatal(err)
	}
	parameters := node.DefaultParameters()
	if p.role.parameters != nil {
		p.role.parameters(&parameters)
	}
	p.node, err = node.New(node.Config{
		Parameters: &parameters,
		Wall:       func() time.Time { return time.Unix(0, int64(p.cookie())) },
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.node.Close(ctx); err != nil {
			p.t.Error(err)
		}
		if err := p.driver.Close(); err != nil {
			p.t.Error(err)
		}
	})
	for _, i := range p.role.nis {
		p.addNI(i)
	}
}

// addNI adds an NI to our node, with the incarnation that the kernel's had.
func (p *replay) addNI(i ni) {
	p.t.Helper()
	nid, err := lnet.ParseNID(i.nid)
	if err != nil {
		p.t.Fatal(err)
	}
	p.incarnation.Store(1)
	for _, s := range p.steps {
		if s.ours && !s.done && s.Kind == recording.KindHello && s.Hello.Src == nid {
			p.incarnation.Store(s.Hello.SrcIncarnation)
			break
		}
	}
	if _, err := p.node.AddNI(p.t.Context(), p.driver, lnd.Config{Net: nid.Net(), NID: nid, Device: i.device}); err != nil {
		p.t.Fatal(err)
	}
}

// cookie is the interface cookie of the node in whose place ours is: that of the
// handles that it made; any will do for one that made none.
func (p *replay) cookie() uint64 {
	for _, s := range p.steps {
		if s.ours && s.Kind == recording.KindMessage && slices.Contains(p.us, s.Header.Src) && !s.Header.Handle.IsNone() &&
			(s.Header.Type == lnet.MsgGet || s.Header.Type == lnet.MsgPut) {
			return s.Header.Handle.Interface
		}
	}
	return 1
}
