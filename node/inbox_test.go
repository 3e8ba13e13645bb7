package node_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

func openInbox(t testing.TB, n *node.Node, c node.InboxConfig) *node.Inbox {
	t.Helper()
	b, err := n.OpenInbox(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// next returns the next message, which must be there.
func next(t testing.TB, b *node.Inbox) node.Message {
	t.Helper()
	m, err := b.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// rest reads the remaining messages of a closed inbox.
func rest(t testing.TB, b *node.Inbox) (data []string) {
	t.Helper()
	for m, err := range b.Messages(t.Context()) {
		if err != nil {
			if !errors.Is(err, node.ErrClosed) {
				t.Error(err)
			}
			return data
		}
		data = append(data, string(m.Data))
	}
	t.Error("the end of the inbox is no error")
	return nil
}

// postbox sends to an inbox on portal 3 of a pair, and counts the ACKs.
type postbox struct {
	t    testing.TB
	pair *pair
	acks int
}

// put returns the total number of ACKs so far.
func (p *postbox) put(data string) int {
	p.t.Helper()
	h := bind(p.t, p.pair.a, portals.MD{Bytes: []byte(data), Threshold: 2, Unlink: true, Handler: p})
	put(p.t, p.pair.a, h, p.pair.idb, node.PutOptions{Portal: 3, MatchBits: uint64(len(data)), HdrData: 7, Ack: true})
	return p.acks
}

// HandleEvent implements portals.Handler.
func (p *postbox) HandleEvent(e *portals.Event) {
	if e.Type == portals.EventAck && e.Err == nil {
		p.acks++
	}
}

func TestInboxIsChecked(t *testing.T) {
	n := newNode(t, node.Config{})
	attach(t, n, portals.Entry{Portal: 5, Match: process(t, "10.0.0.1@tcp")}, portals.MD{Options: portals.OpPut})
	openInbox(t, n, node.InboxConfig{Portal: 6, Size: 1})
	for _, c := range []struct {
		name   string
		config node.InboxConfig
		want   error
	}{
		{"LNet's portal", node.InboxConfig{}, node.ErrInvalid},
		{"no portal", node.InboxConfig{Portal: lnet.Portals}, node.ErrInvalid},
		{"negative size", node.InboxConfig{Portal: 1, Size: -1}, node.ErrInvalid},
		{"more than the MTU", node.InboxConfig{Portal: 1, Size: lnet.MTU + 1}, node.ErrInvalid},
		{"negative number", node.InboxConfig{Portal: 1, Buffers: -1}, node.ErrInvalid},
		{"unique entries", node.InboxConfig{Portal: 5}, node.ErrPortalClass},
		{"again unique entries", node.InboxConfig{Portal: 5}, node.ErrPortalClass},
		{"taken", node.InboxConfig{Portal: 6}, node.ErrExists},
	} {
		if _, err := n.OpenInbox(c.config); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	openInbox(t, n, node.InboxConfig{Portal: 1}) // was refused above for other reasons
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.OpenInbox(node.InboxConfig{Portal: 2}); !errors.Is(err, node.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestInboxTellsOfMessages(t *testing.T) {
	p := newPair(t)
	b := openInbox(t, p.b, node.InboxConfig{Portal: 3, Size: 5})
	from := &postbox{t: t, pair: p}
	from.put("three")
	from.put("too long")
	from.put("")
	type told struct {
		Data      string
		Bits, Hdr uint64
		From, Src lnet.ProcessID
	}
	var got []told
	for range 2 {
		m := next(t, b)
		got = append(got, told{string(m.Data), m.MatchBits, m.HdrData, m.Initiator, m.Source})
		if cap(m.Data) != len(m.Data) {
			t.Errorf("%q can grow into what is not its own", m.Data)
		}
		m.Release()
	}
	if want := []told{{"three", 5, 7, p.ida, p.ida}, {"", 0, 7, p.ida, p.ida}}; !slices.Equal(want, got) {
		t.Errorf("told %v, want %v", got, want)
	}
	if drops := p.b.Admin().Drops(); drops[node.DropTooLong] != 1 || drops.Total() != 1 || from.acks != 2 {
		t.Errorf("%d ACKs, drops %v; want 2, and one too long", from.acks, drops)
	}
}

// A message waits for a buffer, and is acknowledged once it has one.
func TestInboxHoldsSendersUp(t *testing.T) {
	p := newPair(t)
	b := openInbox(t, p.b, node.InboxConfig{Portal: 3, Size: 8, Buffers: 2})
	from := &postbox{t: t, pair: p}
	for k, want := range []int{1, 2, 2, 2} {
		if got := from.put(fmt.Sprint(k)); got != want {
			t.Errorf("%d ACKs after %d messages, want %d", got, k+1, want)
		}
	}
	m, kept := next(t, b), next(t, b)
	if from.acks != 2 {
		t.Errorf("%d ACKs, though all buffers are lent", from.acks)
	}
	m.Release()
	if from.acks != 3 {
		t.Errorf("%d ACKs after a release, want 3", from.acks)
	}
	m.Release() // released already
	if from.acks != 3 {
		t.Errorf("%d ACKs after another release, want 3", from.acks)
	}
	m = next(t, b)
	m.Release()
	if from.acks != 4 || string(kept.Data) != "1" {
		t.Errorf("%d ACKs, want 4; %q is kept, want 1", from.acks, kept.Data)
	}
	if got := p.b.Admin().Drops(); got.Total() != 0 {
		t.Errorf("drops %v", got)
	}
}

func TestInboxDropsWhenFull(t *testing.T) {
	p := newPair(t)
	b := openInbox(t, p.b, node.InboxConfig{Portal: 3, Size: 8, Buffers: 1, DropWhenFull: true})
	from := &postbox{t: t, pair: p}
	from.put("a")
	from.put("b")
	m := next(t, b)
	from.put("c")
	m.Release()
	from.put("d")
	b.Close()
	if got := rest(t, b); !slices.Equal(got, []string{"d"}) || from.acks != 2 {
		t.Errorf("%q, %d ACKs; want d, 2", got, from.acks)
	}
	if drops := p.b.Admin().Drops(); drops[node.DropNoMatch] != 2 || drops.Total() != 2 {
		t.Errorf("drops %v, want 2 without a match", drops)
	}
}

func TestInboxCloses(t *testing.T) {
	p := newPair(t)
	b := openInbox(t, p.b, node.InboxConfig{Portal: 3, Size: 8, Buffers: 3})
	from := &postbox{t: t, pair: p}
	for _, text := range []string{"lent", "a", "b", "waits"} {
		from.put(text)
	}
	lent := next(t, b)
	b.Close()
	b.Close()
	from.put("late")
	if drops := p.b.Admin().Drops(); drops[node.DropNoMatch] != 2 || drops.Total() != 2 {
		t.Errorf("drops %v, want 2 without a match", drops)
	}
	if got := p.b.Admin().Counters().Committed; got != 0 {
		t.Errorf("%d messages are kept", got)
	}
	again := openInbox(t, p.b, node.InboxConfig{Portal: 3, Size: 8, Buffers: 1})
	lent.Release()
	from.put("anew")
	from.put("waits")
	if got := rest(t, b); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q, want a, b", got)
	}
	if m := next(t, again); string(m.Data) != "anew" || from.acks != 4 {
		t.Errorf("%q, %d ACKs; want anew, 4", m.Data, from.acks)
	}
}

// Waiting readers are woken by the end of the inbox, whatever causes it.
func TestInboxNextEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(n *node.Node, b *node.Inbox, cancel func())
		want error
	}{
		{"context", func(_ *node.Node, _ *node.Inbox, cancel func()) { cancel() }, context.Canceled},
		{"inbox", func(_ *node.Node, b *node.Inbox, _ func()) { b.Close() }, node.ErrClosed},
		{"node", func(n *node.Node, _ *node.Inbox, _ func()) {
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}, node.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, node.Config{})
				b := openInbox(t, n, node.InboxConfig{Portal: 3, Size: 8})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				ended := make(chan error, 2)
				for range 2 {
					go func() {
						_, err := b.Next(ctx)
						ended <- err
					}()
				}
				synctest.Wait()
				c.end(n, b, cancel)
				synctest.Wait()
				for range 2 {
					select {
					case err := <-ended:
						if !errors.Is(err, c.want) {
							t.Errorf("%v, want %v", err, c.want)
						}
					default:
						t.Error("it waits")
					}
				}
				if _, err := b.Next(ctx); !errors.Is(err, c.want) {
					t.Errorf("once more: %v, want %v", err, c.want)
				}
				cancel() // for those that are still waiting
			})
		})
	}
}

// A Release while the inbox closes leaves nothing attached to the portal.
func TestInboxClosesDuringRelease(t *testing.T) {
	p := newPair(t)
	from := &postbox{t: t, pair: p}
	for k := range 500 {
		b := openInbox(t, p.b, node.InboxConfig{Portal: 3, Size: 8, Buffers: 1})
		from.put("a")
		m := next(t, b)
		var release sync.WaitGroup
		release.Go(m.Release)
		for range k % 10 { // at different times
			runtime.Gosched()
		}
		b.Close()
		if got := rest(t, b); len(got) > 0 {
			t.Fatalf("%q came", got)
		}
		release.Wait()
	}
}

// A context that has ended takes precedence over messages in the queue, so that a loop
// over many messages ends.
func TestInboxContextComesFirst(t *testing.T) {
	p := newPair(t)
	b := openInbox(t, p.b, node.InboxConfig{Portal: 3, Size: 8})
	(&postbox{t: t, pair: p}).put("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
	if m := next(t, b); string(m.Data) != "a" {
		t.Errorf("%q", m.Data)
	}
}

// One of two waiting readers gets the message, even if the other's context ends at that
// moment.
func TestInboxWakesTheOtherReader(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t)
			b := openInbox(t, p.b, node.InboxConfig{Portal: 3, Size: 5})
			ctx, cancel := context.WithCancel(t.Context())
			var read atomic.Int32
			var readers sync.WaitGroup
			for _, c := range []context.Context{ctx, t.Context()} {
				readers.Go(func() {
					if _, err := b.Next(c); err == nil {
						read.Add(1)
					}
				})
				synctest.Wait()
			}
			(&postbox{t: t, pair: p}).put("a")
			cancel()
			synctest.Wait()
			got := read.Load()
			b.Close()
			readers.Wait()
			if got != 1 {
				t.Fatalf("%d readers have the message", got)
			}
		})
	}
}

// A loop that panics releases its message.
func TestInboxLoopThatPanics(t *testing.T) {
	p := newPair(t)
	b := openInbox(t, p.b, node.InboxConfig{Portal: 3, Size: 8, Buffers: 1})
	from := &postbox{t: t, pair: p}
	from.put("a")
	from.put("b")
	func() {
		defer func() { _ = recover() }()
		for _, err := range b.Messages(t.Context()) {
			panic(err)
		}
	}()
	if m := next(t, b); string(m.Data) != "b" {
		t.Errorf("%q, want the second message", m.Data)
	}
}

// An inbox manages the laziness of its portal itself.
func TestInboxKeepsItsPortalLazy(t *testing.T) {
	p := newPair(t)
	b := openInbox(t, p.b, node.InboxConfig{Portal: 3})
	if err := p.b.ClearLazy(3); !errors.Is(err, node.ErrExists) {
		t.Errorf("ClearLazy: %v", err)
	}
	if err := p.b.SetLazy(3); !errors.Is(err, node.ErrExists) {
		t.Errorf("SetLazy: %v", err)
	}
	b.Close()
	if err := p.b.ClearLazy(3); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// The loop releases each message, including the last one.
func TestInboxLoopReleases(t *testing.T) {
	p := newPair(t)
	b := openInbox(t, p.b, node.InboxConfig{Portal: 3, Size: 8, Buffers: 1})
	from := &postbox{t: t, pair: p}
	for k := range 5 {
		from.put(fmt.Sprint(k))
	}
	count := 0
	for m, err := range b.Messages(t.Context()) {
		if err != nil || string(m.Data) != fmt.Sprint(count) {
			t.Fatalf("%q, %v; want %d", m.Data, err, count)
		}
		if count++; count == 4 {
			break
		}
	}
	if from.acks != 5 {
		t.Errorf("%d ACKs, want 5", from.acks)
	}
}

// The zero Message can be released, which does nothing.
func TestInboxZeroMessage(*testing.T) { new(node.Message).Release() }
