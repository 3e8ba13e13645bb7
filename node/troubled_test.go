package node_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Maximum numbers of lines that an operator gets in one minute and in ten minutes of
// trouble, whatever number of things fail.
const (
	linesPerMinute = 30
	troubleLasts   = 10 * time.Minute
)

// lineLog records the lines of a node and its driver, with their times.
type lineLog struct {
	mu    sync.Mutex
	out   bytes.Buffer
	times []time.Time
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times = append(l.times, time.Now())
	return l.out.Write(b)
}

// reset deletes the recorded lines.
func (l *lineLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times = nil
	l.out.Reset()
}

func (l *lineLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// most returns the highest number of lines within one minute.
func (l *lineLog) most() (most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, at := range l.times {
		end, _ := slices.BinarySearchFunc(l.times, at.Add(time.Minute), time.Time.Compare)
		most = max(most, end-k)
	}
	return most
}

func (l *lineLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// troubled is a node with some rails, whose log is recorded, and other nodes that have
// all or some of these rails.
type troubled struct {
	simulated
	log   *lineLog
	node  *node.Node
	host  *simlnd.Host
	peers []*simlnd.Host
}

func troubledNID(rail, k int) lnet.NID {
	return lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, uint16(rail)), netip.AddrFrom4([4]byte{10, byte(rail), byte(k / 200), byte(1 + k%200)}))
}

// newTroubled creates the node and peers that all answer.
func newTroubled(t *testing.T, rails, peers int) *troubled {
	t.Helper()
	w := &troubled{simulated: newSimulated(t), log: &lineLog{}}
	begin := func(k int, log *slog.Logger) (*node.Node, *simlnd.Host) {
		h := w.Host(fmt.Sprint("host", k), troubledNID(0, k).IP().String())
		for rail := 1; rail < rails; rail++ {
			h.AddDevice("", troubledNID(rail, k).IP().String())
		}
		bounded := boundedlog.New(log)
		c := driverConfig()
		c.Logger = bounded.Logger
		d, err := simlnd.NewDriver(h, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(bounded.End)
		closeAtEnd(t, d)
		n := newNode(t, node.Config{Parameters: new(node.DefaultParameters()), Logger: bounded.Logger})
		for rail := range rails {
			nid := troubledNID(rail, k)
			if _, err := n.AddNI(context.Background(), d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
				t.Fatal(err)
			}
		}
		return n, h
	}
	w.node, w.host = begin(0, w.log.logger())
	for k := range peers {
		n, h := begin(k+1, nil)
		sink(t, n, portals.OpPut)
		w.peers = append(w.peers, h)
	}
	return w
}

// load makes the node send a message to each peer in intervals of pause, and calls
// trouble in intervals of every, for ten minutes.
func (w *troubled) load(t *testing.T, pause, every time.Duration, to []lnet.NID, trouble func(k int)) {
	t.Helper()
	end := time.Now().Add(troubleLasts)
	var work sync.WaitGroup
	work.Go(func() {
		for k := 0; time.Now().Before(end); k++ {
			trouble(k)
			time.Sleep(every)
		}
	})
	e := &recorder{}
	for time.Now().Before(end) {
		for _, nid := range to {
			// Without a payload, because those of several connections would use the same memory.
			h := bind(t, w.node, portals.MD{Threshold: 1, Unlink: true, Handler: e})
			put(t, w.node, h, lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}, node.PutOptions{Portal: portalOpen})
		}
		time.Sleep(pause)
		e.take()
	}
	work.Wait()
}

// told checks and prints the recorded lines.
func (w *troubled) told(t *testing.T, least, most int) {
	t.Helper()
	log := w.log.String()
	lines := strings.Count(log, "\n")
	t.Logf("%d lines in %v, at most %d in a minute:\n%s", lines, troubleLasts, w.log.most(), log)
	if lines < least || lines > most {
		t.Errorf("%d lines, want %d to %d", lines, least, most)
	}
	if m := w.log.most(); m > linesPerMinute {
		t.Errorf("%d lines in a minute", m)
	}
}

// nids returns the NIDs of the peers on the first rail.
func (w *troubled) nids() []lnet.NID {
	list := make([]lnet.NID, len(w.peers))
	for k := range list {
		list[k] = troubledNID(0, k+1)
	}
	return list
}
