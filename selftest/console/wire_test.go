package console

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/rpc"
)

// actor is a node whose answers the test chooses. It records the requests.
type actor struct {
	*player
	answer func(q message.Request) []byte // nil: no answer

	mu    sync.Mutex
	heard []message.Request
}

// act adds an actor to the stage.
func (s *stage) act(address string, answer func(q message.Request) []byte) *actor {
	s.t.Helper()
	a := &actor{player: s.player("actor "+address, address, false), answer: answer}
	inbox := make(chan *portals.Event, 64)
	for range 64 {
		_, err := a.node.Attach(portals.Entry{
			Portal: message.FrameworkPortal, IgnoreBits: ^uint64(0), Position: portals.After,
		}, portals.MD{
			Bytes: make([]byte, message.Size), Threshold: 1, Unlink: true, Options: portals.OpPut,
			Handler: listener(inbox),
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(func() {
		cancel()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			select {
			case e := <-inbox:
				a.play(ctx, e)
			case <-ctx.Done():
				return
			}
		}
	}()
	return a
}

type listener chan *portals.Event

func (l listener) HandleEvent(e *portals.Event) {
	if e.Type == portals.EventPut {
		v := *e
		l <- &v
	}
}

// play answers one request. For a client test, it first fetches the destinations.
func (a *actor) play(ctx context.Context, e *portals.Event) {
	b := e.Bytes[:e.Length]
	q := map[message.Service]interface {
		message.Request
		Decode(b []byte) error
	}{
		message.ServiceMakeSession:   &message.MakeSessionRequest{},
		message.ServiceRemoveSession: &message.RemoveSessionRequest{},
		message.ServiceDebug:         &message.DebugRequest{},
		message.ServiceBatch:         &message.BatchRequest{},
		message.ServiceTest:          &message.TestRequest{},
		message.ServiceStat:          &message.StatRequest{},
	}[message.Service(e.MatchBits)]
	if err := q.Decode(b); err != nil {
		a.t.Error(err)
		return
	}
	a.mu.Lock()
	a.heard = append(a.heard, q)
	a.mu.Unlock()
	to := lnet.ProcessID{NID: e.Source.NID, PID: e.Source.PID}
	if test, ok := q.(*message.TestRequest); ok && test.Client {
		list := make([]byte, message.DestinationSize*test.Destinations)
		n, err := a.node.GetWait(ctx, list, to, node.GetOptions{Portal: message.ReplyPortal, MatchBits: test.BulkID})
		if err != nil || n != len(list) {
			a.t.Errorf("%d bytes of destinations, %v", n, err)
		}
	}
	if r := a.answer(q); r != nil {
		if _, err := a.node.PutWait(ctx, r, to, node.PutOptions{Portal: message.ReplyPortal, MatchBits: message.ReplyID(b)}); err != nil {
			a.t.Error(err)
		}
	}
}

// take returns the requests since the last call, without IDs.
func (a *actor) take() []message.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.heard
	a.heard = nil
	for _, q := range list {
		switch q := q.(type) {
		case *message.MakeSessionRequest:
			q.ReplyID = 0
		case *message.RemoveSessionRequest:
			q.ReplyID = 0
		case *message.DebugRequest:
			q.ReplyID = 0
		case *message.BatchRequest:
			q.ReplyID = 0
		case *message.StatRequest:
			q.ReplyID = 0
		case *message.TestRequest:
			if q.Client == (q.BulkID == 0) {
				a.t.Errorf("bulk ID %#x", q.BulkID)
			}
			q.ReplyID, q.BulkID = 0, 0
		}
	}
	return list
}

// obedient answers like a node with the given features. It is in the session of the first MAKE SESSION.
func obedient(features message.Features) func(q message.Request) []byte {
	var id message.SessionID
	h := message.NewHeader(features)
	return func(q message.Request) []byte {
		switch q := q.(type) {
		case *message.MakeSessionRequest:
			id = q.Session
			return (&message.MakeSessionReply{Header: h, Session: id, Timeout: 100}).Append(nil)
		case *message.RemoveSessionRequest:
			return (&message.RemoveSessionReply{Header: h, Session: message.NoSession}).Append(nil)
		case *message.DebugRequest:
			return (&message.DebugReply{Header: h, Session: id, Timeout: 100}).Append(nil)
		case *message.BatchRequest:
			return (&message.BatchReply{Header: h, Session: id}).Append(nil)
		case *message.TestRequest:
			return (&message.TestReply{Header: h, Session: id}).Append(nil)
		default:
			return (&message.StatReply{Header: h, Session: id}).Append(nil)
		}
	}
}

// Given a client and a server, when the commands of the recorded sessions are given, then the requests
// equal the recorded ones: a ping test with loop 5 and concurrency 2, and a bulk read.
//
// selftest 7.5 (2)
func TestRequestsAreTheRecorded(t *testing.T) {
	onStage(t, 0, func(t *testing.T, s *stage) {
		client, server := s.act("10.0.0.11", obedient(1)), s.act("10.0.0.12", obedient(1))
		s.session([2]string{"c", "11"}, [2]string{"s", "12"})
		if err := s.AddBatch(key, "b"); err != nil {
			t.Fatal(err)
		}
		q := pingTest()
		q.Batch, q.Loop, q.Concurrency = "b", 5, 2
		s.add(q)
		q.Kind, q.Loop, q.Concurrency, q.BRW = BulkTest, 3, 1, BRW{Size: 4096, Check: "full"}
		s.add(q)
		s.run("b")
		s.idle("b")
		if r, err := s.Stop(s.ctx, key, "b", false); err != nil || !r.OK() {
			t.Errorf("%+v, %v", r, err)
		}
		s.stat("c", "s")
		if err := s.EndSession(s.ctx, key); err != nil {
			t.Error(err)
		}

		h := message.NewHeader(1)
		id := client.heard[0].(*message.MakeSessionRequest).Session
		if id.NID.NID() != s.master.nid || id.Stamp <= 0 {
			t.Errorf("session %v", id)
		}
		begin := &message.MakeSessionRequest{Header: h, Session: id, Name: message.NameOf("test")}
		ping := message.TestRequest{
			Header: h, Session: id, Batch: 2, Tests: message.ServicePing, Loop: 2, Concurrency: 2, StopOnError: true,
		}
		bulk := ping
		bulk.Tests, bulk.Loop, bulk.Concurrency = message.ServiceBRW, 1, 1
		bulk.BRW = message.BRWParameters{Op: message.BRWRead, Flags: uint32(message.CheckFull), Length: 4096}
		stat := &message.StatRequest{Header: h, Session: id}
		end := &message.RemoveSessionRequest{Header: h, Session: id}
		if diff := cmp.Diff([]message.Request{begin, &ping, &bulk, stat, end}, server.take()); diff != "" {
			t.Errorf("server: %s", diff)
		}
		asClient := func(q message.TestRequest, loop uint32) *message.TestRequest {
			q.Client, q.Loop, q.Destinations = true, loop, 1
			return &q
		}
		batch := func(op message.BatchOp) *message.BatchRequest {
			return &message.BatchRequest{Header: h, Session: id, Batch: 2, Op: op}
		}
		if diff := cmp.Diff([]message.Request{
			begin, asClient(ping, 5), asClient(bulk, 3),
			batch(message.BatchRun), batch(message.BatchQuery), batch(message.BatchStop), stat, end,
		}, client.take()); diff != "" {
			t.Errorf("client: %s", diff)
		}
	})
}

// Given nodes without features, when the first one joins, then the session has no features, and a node
// that insists on features is refused. Bulk sizes must then be whole pages.
//
// selftest 2.4, 7.4 (2)
func TestFeatures(t *testing.T) {
	onStage(t, 1, func(t *testing.T, s *stage) {
		old := s.act("10.0.0.11", obedient(0))
		s.session()
		a, err := s.AddGroup(s.ctx, key, "old", []string{ids("11")})
		if err != nil || !a.Compatible || !a.Lists[0].Added {
			t.Fatalf("%+v, %v", a, err)
		}
		if i, _ := s.ShowSession(); i.Features != 0 {
			t.Errorf("%+v", i)
		}
		s.group("new", "1") // it accepts the requested features
		for size, errno := range map[int]syscall.Errno{4096: 0, 1 << 20: 0, 8: syscall.EINVAL, 4104: syscall.EINVAL} {
			q := pingTest()
			q.From, q.To, q.Kind, q.BRW = "new", "old", BulkTest, BRW{Size: size, Write: true}
			r, err := s.AddTest(s.ctx, key, q)
			if errno != 0 {
				want(t, "size", err, errno, "test")
			} else if err != nil || !r.OK() {
				t.Errorf("size %d: %+v, %v", size, r, err)
			}
		}
		pages := map[uint32]bool{}
		for _, q := range old.take() {
			if v, ok := q.(*message.TestRequest); ok {
				pages[v.BRW.Pages] = v.BRW.Op == message.BRWWrite && v.Features == 0
			}
		}
		if diff := cmp.Diff(map[uint32]bool{1: true, 256: true}, pages); diff != "" {
			t.Error(diff)
		}
	})
	onStage(t, 1, func(t *testing.T, s *stage) {
		old := s.act("10.0.0.11", obedient(0))
		s.session([2]string{"new", "1"})
		a, err := s.AddGroup(s.ctx, key, "both", []string{ids("1,11")})
		want(t, "another kind", err, syscall.EPROTO, "nodes")
		r := a.Lists[0].Result
		if !a.Lists[0].Added || a.Compatible || r.Errno != syscall.EPROTO || r.Nodes[0].State != Unknown {
			t.Errorf("%+v", a)
		}
		heard := old.take()
		if len(heard) != 2 || heard[1].(*message.RemoveSessionRequest).Features != 0 {
			t.Errorf("%+v", heard)
		}
		features := uint32(0)
		if _, err := s.NewSession(s.ctx, SessionOptions{Key: key, Name: "n", Force: true, Features: &features}); err != nil {
			t.Fatal(err)
		}
		s.group("both", "1,11")
	})
}

// Given nodes that refuse a test, when it is added, then clients are not asked if servers fail. The test
// still has an index and uses its groups.
//
// selftest 7.5 (2)-(3)
func TestRefusedTest(t *testing.T) {
	onStage(t, 2, func(t *testing.T, s *stage) {
		s.slow()
		sick := obedient(1)
		s.act("10.0.0.11", func(q message.Request) []byte {
			b := sick(q)
			if v, ok := q.(*message.TestRequest); ok {
				return (&message.TestReply{Header: v.Header, Session: v.Session, Status: message.ENOMEM}).Append(nil)
			}
			return b
		})
		s.session([2]string{"good", "1-2"}, [2]string{"sick", "2,11"})
		q := pingTest()
		q.From, q.To = "good", "sick"
		a, err := s.AddTest(s.ctx, key, q)
		if err != nil || a.OK() || a.Index != 1 || a.Servers.Refused != 1 || a.Servers.Errno != syscall.ENOMEM || len(a.Clients.Nodes) != 0 {
			t.Errorf("%+v, %v", a, err)
		}
		q.From, q.To = "sick", "good"
		a, err = s.AddTest(s.ctx, key, q)
		if err != nil || a.OK() || a.Index != 2 || !a.Servers.OK() || a.Clients.Refused != 1 {
			t.Errorf("%+v, %v", a, err)
		}
		// Node 2 has the second test as its third, because it is a server of both earlier tests.
		s.run("batch")
		time.Sleep(time.Second)
		r, err := s.Query(s.ctx, key, "batch", QueryOptions{Test: 2})
		if err != nil || r.Running != 1 || r.Nodes[0].Active != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		_, err = s.DeleteGroup(s.ctx, key, "sick")
		want(t, "delete", err, syscall.EBUSY, "group")
	})
}

// Given a console, when processes ask to join, then each row of selftest 7.9 has the specified answer.
//
// selftest 7.9
func TestJoin(t *testing.T) {
	onStage(t, 2, func(t *testing.T, s *stage) {
		client := s.nodes[0].agent.Client()
		master := lnet.ProcessID{NID: s.master.nid, PID: lnet.PIDLustre}
		id := message.NoSession
		ask := func(session message.SessionID, features message.Features, group string) message.JoinReply {
			t.Helper()
			ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
			defer cancel()
			var r message.JoinReply
			if err := client.Call(ctx, master, &message.JoinRequest{
				Header: message.NewHeader(features), Session: session, Group: message.NameOf(group),
			}, &r, rpc.Bulk{}); err != nil {
				t.Fatal(err)
			}
			return r
		}
		if r := ask(id, 1, "g"); r.Status != message.ESRCH || r.Session != message.NoSession {
			t.Errorf("no session: %+v", r)
		}
		s.session([2]string{"c", "2"})
		s.add(Test{Batch: "batch", From: "c", To: "c", Kind: PingTest, Loop: 1, Concurrency: 1, Distribute: 1, Span: 1})
		if r := ask(id, 0, "g"); r.Status != message.EPROTO {
			t.Errorf("features: %+v", r)
		}
		if r := ask(message.SessionID{NID: 5, Stamp: 5}, 1, "g"); r.Status != message.EBUSY {
			t.Errorf("another session: %+v", r)
		}
		if r := ask(id, 1, "c"); r.Status != message.EBUSY {
			t.Errorf("group in use: %+v", r)
		}
		if r := ask(id, 1, ""); r.Status != message.EINVAL {
			t.Errorf("no group: %+v", r)
		}
		r := ask(id, 1, "g")
		if r.Status != message.OK || r.Timeout != 300 || r.Name.String() != "test" || r.Session.NID.NID() != s.master.nid {
			t.Errorf("join: %+v", r)
		}
		if again := ask(r.Session, 1, "g"); again.Status != message.EEXIST {
			t.Errorf("again: %+v", again)
		}
		if other := ask(r.Session, 1, "h"); other.Status != message.OK {
			t.Errorf("another group: %+v", other)
		}
		if diff := cmp.Diff([]State{Active}, s.states("g")); diff != "" {
			t.Error(diff)
		}
		if i, _ := s.ShowSession(); i.Nodes != 2 {
			t.Errorf("%+v", i)
		}
	})
}
