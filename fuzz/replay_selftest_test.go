package fuzz

import (
	"bytes"
	"context"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// isSelftest reports whether a message is a request of selftest. Answers to requests do not count: our
// node sends them by itself.
func (p *replay) isSelftest(s *step) bool {
	return s.Kind == recording.KindMessage && s.Header.Portal != lnet.ReservedPortal &&
		(s.Header.Type == lnet.MsgPut || s.Header.Type == lnet.MsgGet) &&
		(!s.ours || p.isLocal(s.Header.Src))
}

func (p *replay) isLocal(nid lnet.NID) bool {
	for _, i := range p.node.NIs() {
		if i.NID == nid {
			return true
		}
	}
	return false
}

// receiveBuffer is our node's buffer for a kernel's PUT.
type receiveBuffer struct {
	step  *step
	bytes []byte
}

// startSelftest attaches buffers for what kernels will put to selftest's portals, and data for what they
// will get there.
func startSelftest(p *replay) {
	p.t.Helper()
	p.delivered = node.NewEventQueue(node.EventsOf(portals.EventPut))
	for _, s := range p.steps {
		if s.ours || !p.isSelftest(s) || !p.isLocal(s.Header.Dest) {
			continue
		}
		md := portals.MD{Bytes: make([]byte, len(s.Payload)), Threshold: 1, Unlink: true,
			Options: portals.OpPut, Handler: p.delivered}
		if s.Header.Type == lnet.MsgGet {
			md.Bytes, md.Options, md.Handler = p.answer(s).Payload, portals.OpGet, nil
		} else {
			p.rooms = append(p.rooms, receiveBuffer{s, md.Bytes})
		}
		md.Options |= portals.ManageRemote
		_, err := p.node.Attach(portals.Entry{
			Portal: s.Header.Portal, MatchBits: s.Header.MatchBits, Position: portals.After}, md)
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

// awaitDelivered waits until everything that was sent to selftest's portals has arrived there.
func (p *replay) awaitDelivered() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var e portals.Event
	for ; p.expected > 0; p.expected-- {
		if err := p.delivered.Next(ctx, &e); err != nil || e.Err != nil {
			p.t.Fatalf("%d messages have not come: %v, %v", p.expected, err, e.Err)
		}
	}
}

// compareDelivered compares what arrived at selftest's portals with what kernels sent.
func (p *replay) compareDelivered() {
	p.t.Helper()
	p.awaitDelivered()
	for _, r := range p.rooms {
		if !bytes.Equal(r.bytes, r.step.Payload) {
			p.t.Errorf("%s at %v: its payload did not come as it was sent", r.step.Name(), r.step.at)
		}
	}
}

// answer returns the REPLY to a GET.
func (p *replay) answer(get *step) *step {
	for _, s := range p.steps {
		if s.Kind == recording.KindMessage && s.Header.Type == lnet.MsgReply && s.Header.Handle == get.Header.Handle {
			return s
		}
	}
	p.t.Fatalf("GET at %v has no answer", get.at)
	return nil
}

// send sends the recorded message of selftest from our node. A client lets LNet choose the path. A server
// answers from the NID that was asked.
func (p *replay) send(s *step) {
	p.t.Helper()
	p.awaitDelivered() // it answers something of that
	s.said = true
	h := &s.Header
	var source lnet.NID
	to := lnet.ProcessID{NID: h.Dest, PID: h.DestPID}
	if p.role.server == "" {
		source = h.Src
	} else {
		nid, err := lnet.ParseNID(p.role.server)
		if err != nil {
			p.t.Fatal(err)
		}
		to.NID = nid
	}
	if h.Type == lnet.MsgGet {
		p.ask(func() error {
			_, err := p.node.GetWait(context.Background(), make([]byte, h.Length), to, node.GetOptions{
				Source: source, Portal: h.Portal, MatchBits: h.MatchBits, Offset: h.Offset})
			return err
		})
		return
	}
	md, err := p.node.Bind(portals.MD{Bytes: s.Payload, Threshold: 1, Unlink: true})
	if err != nil {
		p.t.Fatal(err)
	}
	err = p.node.Put(md, to, node.PutOptions{
		Source: source, Portal: h.Portal, MatchBits: h.MatchBits, Offset: h.Offset, HdrData: h.HdrData})
	if err != nil {
		p.t.Fatal(err)
	}
}
