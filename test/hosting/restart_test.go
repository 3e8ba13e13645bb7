package hosting

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/process"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

// ending is what a waiter learns when its lnetd ends.
type ending struct {
	Event, State, Add, Start, Buffer, Again string
	IsPipe                                  bool
	Microseconds                            int64 // from "now" to StateFailed
	Next                                    string
}

// awaitRestart has a TM with a buffer that waits for a message. When lnetd ends, it reports what it has
// learned. The command "again" makes it open another domain.
func awaitRestart(ctx context.Context, o order, in *bufio.Scanner) error {
	core := remote.New(remote.Config{Path: o.Socket, Program: o.Role})
	for life := 1; ; life++ {
		d, err := transport.NewDomain(ctx, core)
		if err != nil {
			return err
		}
		heard := make(chan string, 4)
		failed := make(chan error, 4)
		tm, err := d.Open(ctx, o.At, func(e *transport.TMEvent) {
			if e.Next == transport.StateFailed {
				failed <- e.Err
			}
		})
		if err != nil {
			return err
		}
		b, err := d.Buffer(ctx, messageSize)
		if err != nil {
			return err
		}
		b.Queue, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, messageSize, 1
		b.Callbacks = &transport.Callbacks{transport.MsgRecv: func(e *transport.BufferEvent) { heard <- fmt.Sprint(e.Err) }}
		if err := tm.Add(b); err != nil {
			return err
		}
		fmt.Println("up", life)
		if !in.Scan() {
			return depart(ctx, tm, b)
		}
		began := time.Now() // about when lnetd is asked to end
		why := <-failed
		n := ending{Event: <-heard, State: fmt.Sprint(why), IsPipe: errors.Is(why, syscall.EPIPE), Microseconds: time.Since(began).Microseconds()}
		n.Add = fmt.Sprint(tm.Add(b))
		_, err = d.Buffer(ctx, 1<<20)
		n.Buffer = fmt.Sprint(err)
		_, err = d.Open(ctx, o.To, nil)
		n.Start = fmt.Sprint(err)
		_, err = transport.NewDomain(ctx, core)
		n.Again = fmt.Sprint(err)
		if err := depart(ctx, tm, b); err != nil {
			return fmt.Errorf("to leave a dead lnetd: %w", err)
		}
		process.Say("ending", n)
		if !in.Scan() {
			return nil
		}
	}
}

// lnetd ends, in good order or not. Its clients are notified at once, with a reason in words, and
// their queued operations end. A new domain works as soon as there is another lnetd, which has
// another incarnation.
//
// transport 3.5 ours (3), 9.10
func TestRestart(t *testing.T) {
	const clients = 4
	where := testenv.SocketDir(t)
	port := freePort(t, address(1))
	s := settings{host: 1, listen: port, where: where}
	d := launch(t, s)
	var all []*guest
	for i := range clients {
		all = append(all, enter(t, order{
			Role: "waiter", ID: i, Socket: d.socket, At: fmt.Sprintf("%s:12345:34:%d", d.nid, i+1), To: d.nid + ":12345:34:*",
		}))
	}
	incarnations := map[uint64]bool{incarnation(t, d): true}
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		for _, g := range all {
			if _, err := fmt.Fprintln(g.Stdin, "now"); err != nil {
				t.Fatal(err)
			}
		}
		d.end(how)
		for _, g := range all {
			var n ending
			if text := g.Expect("ending"); json.Unmarshal([]byte(text), &n) != nil {
				t.Fatalf("%q", text)
			}
			t.Logf("%v: %+v", how, n)
			words := "lnetd closed the connection"
			if how == syscall.SIGTERM {
				words = "lnetd is stopping"
			}
			if !n.IsPipe || !strings.Contains(n.State, words) {
				t.Errorf("%v: the TM says %q", how, n.State)
			}
			if !strings.Contains(n.Event, "canceled") || n.Add == "<nil>" || n.Start == "<nil>" || n.Buffer == "<nil>" {
				t.Errorf("%v: %+v", how, n)
			}
			// The kernel may accept connections for a process that is ending.
			if !strings.Contains(n.Again, "start it again") && !strings.Contains(n.Again, "start lnetd") && !strings.Contains(n.Again, "closed the connection at once") {
				t.Errorf("%v: to connect again: %s", how, n.Again)
			}
		}
		d = launch(t, s)
		if id := incarnation(t, d); incarnations[id] {
			t.Errorf("incarnation %d once more", id)
		} else {
			incarnations[id] = true
		}
		for _, g := range all {
			g.Ask("again", "up")
		}
	}
	for _, g := range all {
		g.Leave()
	}
	within(t, patience, "nobody is left", func() bool { return len(d.pids()) == 0 })
	d.wantHealthy()
}

func incarnation(t *testing.T, d *daemon) uint64 {
	t.Helper()
	p, err := rawJoin(d.socket, "incarnation")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	return p.hello.Incarnation
}
