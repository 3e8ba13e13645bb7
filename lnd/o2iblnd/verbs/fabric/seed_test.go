package fabric_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// TestSeedDecides: runs with one seed have the same times. A run with another seed does not.
func TestSeedDecides(t *testing.T) {
	run := func(seed uint64) (trace []string) {
		c := fabric.Config{Seed: seed, Link: fabric.Link{Latency: time.Microsecond, Jitter: time.Millisecond, Loss: 0.05, CMLoss: 0.2}}
		bubble(t, c, func(t *testing.T, f *fabric.Fabric) {
			begin := time.Now()
			a, b := pairOf(t, f)
			i, j := connect(a, b)
			trace = append(trace, fmt.Sprint("connected ", time.Since(begin)))
			for k := range uint64(100) {
				b.receives(j, k)
				a.send(i, k)
				b.completed(k, verbs.Success)
				a.completed(k, verbs.Success)
				trace = append(trace, fmt.Sprint(k, " ", time.Since(begin)))
			}
		})
		return trace
	}
	first := run(3)
	if diff := cmp.Diff(first, run(3)); diff != "" {
		t.Errorf("one seed, two runs (-first +second):\n%s", diff)
	}
	if cmp.Equal(first, run(4)) {
		t.Error("another seed makes no difference")
	}
}

// TestSeeds: whatever faults occur, messages of a connection arrive in order and without gaps, and a
// sender gets an error in the end if the peer is gone.
func TestSeeds(t *testing.T) {
	const all = 20 // has every fault
	seeds := uint64(testenv.Fewer(all))
	var mu sync.Mutex
	var sum fabric.Faults
	t.Run("Runs", func(t *testing.T) {
		for seed := range seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				faults := chaos(t, seed)
				mu.Lock()
				defer mu.Unlock()
				sum = added(sum, faults)
			})
		}
	})
	t.Logf("faults of %d seeds: %+v", seeds, sum)
	if seeds >= all && (sum.Losses == 0 || sum.CMLosses == 0 || sum.Breaks == 0 || sum.Stale == 0 || sum.RetryExceeded == 0 || sum.RNR == 0 || sum.Kills == 0 || sum.Crashes == 0 || sum.Down == 0 || sum.Removals == 0 || sum.Partitions == 0) {
		t.Error("some faults never happened")
	}
}

func added(a, b fabric.Faults) fabric.Faults {
	a.Losses += b.Losses
	a.CMLosses += b.CMLosses
	a.Breaks += b.Breaks
	a.Stale += b.Stale
	a.RetryExceeded += b.RetryExceeded
	a.RNR += b.RNR
	a.Kills += b.Kills
	a.Crashes += b.Crashes
	a.Down += b.Down
	a.Removals += b.Removals
	a.Partitions += b.Partitions
	a.EarlyMessages += b.EarlyMessages
	return a
}

// talker is a small driver. It keeps connections to other hosts, and sends its number on each every
// second. Its goroutine ends when its process has ended.
type talker struct {
	*node
	others        []string
	random        *rand.Rand
	links         map[verbs.ID]*link
	pairs         map[uint32]*link // by queue pair
	stop, stopped chan struct{}
}

type link struct {
	i              verbs.ID
	up             bool
	sent, received uint64
	heard          time.Time
}

const slots = 8 // receives of a connection; at most half as many messages in progress

func newTalker(t *testing.T, h *fabric.Host, addr string, others []string, seed uint64) *talker {
	t.Helper()
	x := &talker{
		node: start(t, h, addr), others: others, random: rand.New(rand.NewPCG(seed, 2)),
		links: make(map[verbs.ID]*link), pairs: make(map[uint32]*link), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go x.run()
	return x
}

func (x *talker) run() {
	defer close(x.stopped)
	ended := make(chan struct{})
	go func() { x.waiters.Wait(); close(ended) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case e := <-x.events:
			x.handle(e)
		case c := <-x.completions:
			x.complete(c)
		case <-x.asyncs:
		case <-tick.C:
			x.talk()
		case <-ended:
			return
		case <-x.stop:
			return
		}
	}
}

// check ends the connection of a failed call. A call may fail only if its process or device has ended, or
// the dialling side has given up.
func (x *talker) check(i verbs.ID, err error) bool {
	if err != nil {
		if !errors.Is(err, verbs.ErrClosed) && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EINVAL) && !verbs.Full(err) {
			x.t.Error(err)
		}
		x.end(i)
	}
	return err == nil
}

func (x *talker) end(i verbs.ID) {
	if k := x.links[i]; k != nil {
		delete(x.links, i)
		delete(x.pairs, i.QPN())
	}
	i.Destroy()
}

// begin creates the queue pair and receives of a connection.
func (x *talker) begin(i verbs.ID) bool {
	k := &link{i: i, heard: time.Now()}
	x.links[i] = k
	if !x.check(i, i.CreateQP(&verbs.QP{CQ: x.cq, Sends: 2 * slots, Recvs: slots, SendPieces: 1})) {
		return false
	}
	x.pairs[i.QPN()] = k
	for slot := range uint64(slots) {
		if !x.repost(i, slot) {
			return false
		}
	}
	return true
}

func (x *talker) repost(i verbs.ID, slot uint64) bool {
	_, _, err := i.Post([]verbs.Recv{{WRID: slot, Addr: x.mem.Addr() + slot*64, Len: 64, LKey: x.mem.LKey()}}, nil, nil)
	return x.check(i, err)
}

func (x *talker) handle(e verbs.Event) {
	switch e.Kind {
	case verbs.EventAddrResolved:
		x.check(e.ID, e.ID.ResolveRoute(time.Second))
	case verbs.EventRouteResolved:
		if x.begin(e.ID) {
			x.check(e.ID, e.ID.Connect(param))
		}
	case verbs.EventConnectRequest:
		if x.begin(e.ID) {
			x.check(e.ID, e.ID.Accept(param))
		}
	case verbs.EventEstablished:
		if k := x.links[e.ID]; k != nil {
			k.up, k.heard = true, time.Now()
		}
	default: // it has ended, in whatever way
		x.end(e.ID)
	}
}

// talk sends a message on each connection, and opens another one if there are few.
func (x *talker) talk() {
	for i, k := range x.links {
		if !k.up {
			continue
		}
		n := 1 + x.random.IntN(3*slots) // sometimes more than there are slots
		for range n {
			out := x.mem.Addr() + 4096 // the length carries the number, not the contents
			_, posted, err := i.Post(nil, []verbs.Request{{WRID: k.sent, Count: 1, Flags: verbs.FlagSignalled}}, []verbs.Piece{{Addr: out, Len: uint32(k.sent % 61), LKey: x.mem.LKey()}})
			if k.sent += uint64(posted); err != nil {
				if !verbs.Full(err) {
					x.check(i, err)
				}
				break
			}
		}
	}
	if len(x.links) < 4 {
		to := netip.AddrPortFrom(netip.MustParseAddr(x.others[x.random.IntN(len(x.others))]), port)
		_, err := x.ch.Dial(verbs.Dial{From: x.addr.Addr(), To: to, Timeout: time.Second})
		if err != nil && !errors.Is(err, verbs.ErrClosed) && !errors.Is(err, verbs.ErrNoDevice) {
			x.t.Error(err)
		}
	}
}

func (x *talker) complete(c verbs.Completion) {
	k := x.pairs[c.QPN]
	switch {
	case k == nil: // of one that was destroyed
	case c.Status != verbs.Success:
		x.end(k.i)
	case c.Op == verbs.CompletedRecv:
		if uint64(c.Bytes) != k.received%61 {
			x.t.Errorf("message of %d bytes comes as the %d-th", c.Bytes, k.received)
		}
		k.received++
		k.heard = time.Now()
		x.repost(k.i, c.WRID)
	}
}

func chaos(t *testing.T, seed uint64) (faults fabric.Faults) {
	t.Helper()
	c := fabric.Config{Seed: seed, Link: fabric.Link{Latency: 5 * time.Microsecond, Jitter: 200 * time.Microsecond, Loss: 0.002, CMLoss: 0.05, Break: 0.0005, Stale: 0.05}}
	bubble(t, c, func(t *testing.T, f *fabric.Fabric) {
		random := rand.New(rand.NewPCG(seed, 1))
		addrs := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
		hosts := make([]*fabric.Host, len(addrs))
		talkers := make([]*talker, len(addrs))
		begin := func(k int) {
			talkers[k] = newTalker(t, hosts[k], addrs[k], addrs, random.Uint64())
		}
		for k, a := range addrs {
			hosts[k] = f.Host(fmt.Sprint("h", k), a)
			begin(k)
		}
		pause := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
		devices := make([]int, len(addrs))
		for range 40 {
			pause(5 * time.Second)
			k := random.IntN(len(talkers))
			h, other := hosts[k], hosts[(k+1)%len(hosts)]
			switch random.IntN(6) {
			case 0:
				talkers[k].p.Kill()
				<-talkers[k].stopped
				begin(k)
			case 1:
				h.Crash()
				<-talkers[k].stopped
				pause(20 * time.Second)
				begin(k)
			case 2:
				p := h.Device(devices[k]).Port(1)
				p.SetUp(false)
				pause(20 * time.Second)
				p.SetUp(true)
			case 3:
				h.Device(devices[k]).Remove()
				pause(time.Second)
				talkers[k].p.Kill()
				<-talkers[k].stopped
				h.AddDevice(addrs[k])
				devices[k]++
				begin(k)
			case 4:
				f.Partition(h, other, fabric.Both)
				pause(20 * time.Second)
				f.Heal(h, other, fabric.Both)
			case 5:
				f.Break(h, other)
			}
		}
		faults = f.Faults()
		for _, h := range hosts { // no more faults from here on
			for _, o := range hosts {
				f.SetLink(h, o, fabric.Both, fabric.Link{Latency: 5 * time.Microsecond})
			}
		}
		time.Sleep(5 * time.Minute)
		for k, x := range talkers {
			close(x.stop)
			<-x.stopped
			up := 0
			for _, k := range x.links {
				if silence := time.Since(k.heard); k.up && silence > 10*time.Second {
					t.Errorf("a connection is up and silent for %s", silence)
				} else if k.up {
					up++
				}
			}
			if up == 0 {
				t.Errorf("process %d has no connection that is up, of %d", k, len(x.links))
			}
		}
	})
	return faults
}
