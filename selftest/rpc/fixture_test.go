package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
)

var tcp = lnet.MakeNet(lnet.TypeTCP, 0)

// scene is a client and a server whose behaviour the test defines.
type scene struct {
	*simlnd.Fabric
	t      *testing.T
	client *Client
	node   *node.Node // the client's
	server *node.Node
	to     lnet.ProcessID
	counts Counters

	mu       sync.Mutex
	requests []request
	script   func(r request)
}

// request is a request that the server has received.
type request struct {
	*scene
	from  lnet.ProcessID
	b     []byte
	reply uint64
	bulk  uint64
}

// inScene runs a test in a bubble.
func inScene(t *testing.T, f func(t *testing.T, s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, Fabric: simlnd.New(simlnd.Config{Seed: 1, Link: simlnd.Link{Latency: time.Millisecond}})}
		t.Cleanup(s.Close)
		s.node, _ = s.start("client", "10.0.0.1")
		s.server, s.to = s.start("server", "10.0.0.2")
		s.client = New(s.node, Config{Counters: &s.counts})
		t.Cleanup(s.closeClient)
		s.serve()
		f(t, s)
	})
}

func (s *scene) closeClient() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.client.Close(ctx); err != nil {
		s.t.Errorf("close: %v", err)
	}
	if n := s.client.active.Len(); n != 0 {
		s.t.Errorf("%d calls left", n)
	}
}

func (s *scene) start(name, address string) (*node.Node, lnet.ProcessID) {
	c := socklnd.DefaultConfig()
	c.ConnsPerPeer = 1
	c.Logger = slog.New(slog.DiscardHandler)
	d, err := simlnd.NewDriver(s.Host(name, address), c)
	if err != nil {
		s.t.Fatal(err)
	}
	n, err := node.New(node.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(n.Close(ctx), d.Close()); err != nil {
			s.t.Error(err)
		}
	})
	nid := lnet.NIDFromIP(tcp, netip.MustParseAddr(address))
	if _, err := n.AddNI(context.Background(), d, lnd.Config{Net: tcp, NID: nid}); err != nil {
		s.t.Fatal(err)
	}
	return n, lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}
}

// serve passes requests to the script.
func (s *scene) serve() {
	const buffers = 256
	for _, portal := range []uint32{message.TestPortal, message.FrameworkPortal} {
		for range buffers {
			b := make([]byte, message.Size)
			_, err := s.server.Attach(portals.Entry{Portal: portal, IgnoreBits: ^uint64(0)}, portals.MD{
				Bytes: b, Threshold: 1, Unlink: true, Options: portals.OpPut,
				Handler: portals.HandlerFunc(func(e *portals.Event) {
					if e.Type != portals.EventPut || e.Err != nil {
						return
					}
					r := request{scene: s, from: e.Source, b: b, reply: message.ReplyID(b)}
					var q message.BRWRequest
					if q.Decode(b) == nil {
						r.bulk = q.BulkID
					}
					s.mu.Lock()
					s.requests = append(s.requests, r)
					f := s.script
					s.mu.Unlock()
					if f != nil {
						f(r)
					}
				}),
			})
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// play sets the function that handles requests. It runs in an event handler.
func (s *scene) play(f func(r request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = f
}

// answer sends bytes as the reply.
func (r request) answer(b []byte) { r.put(r.reply, b) }

// status sends a BRW reply.
func (r request) status(s message.Status) {
	m := message.BRWReply{Header: message.NewHeader(1), Status: s}
	r.answer(m.Append(nil))
}

func (r request) put(bits uint64, b []byte) {
	h, err := r.server.Bind(portals.MD{Bytes: b, Threshold: 1, Unlink: true})
	if err == nil {
		err = r.server.Put(h, r.from, node.PutOptions{Portal: message.ReplyPortal, MatchBits: bits})
	}
	if err != nil {
		r.t.Error(err)
	}
}

// get fetches the client's bulk, and then calls then.
func (r request) get(b []byte, then func()) {
	h, err := r.server.Bind(portals.MD{Bytes: b, Threshold: 2, Unlink: true, Options: portals.Truncate,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			if e.Type == portals.EventReply && e.Err == nil {
				then()
			}
		})})
	if err == nil {
		err = r.server.Get(h, r.from, node.GetOptions{Portal: message.ReplyPortal, MatchBits: r.bulk})
	}
	if err != nil {
		r.t.Error(err)
	}
}

// call makes a BRW RPC with a timeout of 64 s.
func (s *scene) call(bulk Bulk) (message.BRWReply, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 64*time.Second)
	defer cancel()
	var r message.BRWReply
	err := s.client.Call(ctx, s.to, &message.BRWRequest{Header: message.NewHeader(1), Op: 1, Length: 8, Check: 1}, &r, bulk)
	return r, err
}

// first returns the first request received.
func (s *scene) first() request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[0]
}
