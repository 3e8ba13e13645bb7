package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/process"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

const bulkSize = 1 << 16

// hosted is a program with one TM and one event queue.
type hosted struct {
	domain *transport.Domain
	tm     *transport.TransferMachine
	events chan event
}

type event struct {
	queue  transport.QueueType
	err    error
	length int
	from   string
}

func newHosted(ctx context.Context, socket, program, address string) (*hosted, error) {
	d, err := transport.NewDomain(ctx, remote.New(remote.Config{Path: socket, Program: program}))
	if err != nil {
		return nil, err
	}
	tm, err := d.Open(ctx, address, nil)
	return &hosted{d, tm, make(chan event, 16)}, err
}

// add adds a new buffer with the given contents.
func (h *hosted) add(ctx context.Context, q transport.QueueType, size int, data []byte, change func(b *transport.Buffer)) (*transport.Buffer, error) {
	b, err := h.domain.Buffer(ctx, size)
	if err != nil {
		return nil, err
	}
	b.CopyIn(0, data)
	var callbacks transport.Callbacks
	callbacks[q] = func(e *transport.BufferEvent) {
		v := event{queue: q, err: e.Err, length: e.Length}
		if e.EndPoint != nil {
			v.from = e.EndPoint.String()
		}
		h.events <- v
	}
	b.Queue, b.Callbacks = q, &callbacks
	if change != nil {
		change(b)
	}
	return b, h.tm.Add(b)
}

// TestGuest is not a test but the other program. It reports when it listens, fetches the bulk that
// a message announces, reports what it has received, and waits.
func TestGuest(t *testing.T) {
	socket := os.Getenv("TEST_GUEST_SOCKET")
	if socket == "" {
		return
	}
	ctx := t.Context()
	h, err := newHosted(ctx, socket, "guest", os.Getenv("TEST_GUEST_ADDRESS"))
	if err != nil {
		t.Fatal(err)
	}
	in, err := h.add(ctx, transport.MsgRecv, 4096, nil, func(b *transport.Buffer) { b.MinReceiveSize, b.MaxMessages = 100, 2 })
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("guest listens")
	e := <-h.events
	descriptor := transport.Descriptor(make([]byte, e.length))
	in.CopyOut(0, descriptor)
	bulk, err := h.add(ctx, transport.ActiveBulkRecv, bulkSize, nil, func(b *transport.Buffer) { b.Descriptor = descriptor })
	if err != nil {
		t.Fatal(err)
	}
	e = <-h.events
	all := make([]byte, bulkSize)
	bulk.CopyOut(0, all)
	fmt.Printf("guest got %d bytes, %d of them x: %v\n", e.length, strings.Count(string(all), "x"), e.err)
	_, _ = io.Copy(io.Discard, os.Stdin) // forever
}

// Two programs exchange a message and bulk through lnetd. When one is killed, all its resources are
// freed, including its address, and the other one continues.
func TestHosting(t *testing.T) {
	dir := t.TempDir()
	bin, socket := filepath.Join(dir, "lnetd"), filepath.Join(dir, "p.sock")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	port, err := daemontest.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "lnetd.yaml")
	if err := os.WriteFile(config, []byte("lnetd: {transport: {socket: "+socket+"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	control := filepath.Join(dir, "c.sock")
	start(t, []string{bin, "--net", "tcp(lo)", "--port", strconv.Itoa(port), "--control-socket", control, "--config", config}, nil, `"msg":"ready"`)
	const theirs, ours = "127.0.0.1@tcp:12345:34:7", "127.0.0.1@tcp:12345:34:8"
	guest := start(t, []string{os.Args[0], "-test.run", "^TestGuest$"},
		[]string{"TEST_GUEST_SOCKET=" + socket, "TEST_GUEST_ADDRESS=" + theirs}, "guest listens")

	ctx := t.Context()
	h, err := newHosted(ctx, socket, "host", ours)
	if err != nil {
		t.Fatal(err)
	}
	bulk, err := h.add(ctx, transport.PassiveBulkSend, bulkSize, []byte(strings.Repeat("x", bulkSize)), func(b *transport.Buffer) { b.Length = bulkSize })
	if err != nil {
		t.Fatal(err)
	}
	peer, err := h.tm.EndPoint(theirs)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.add(ctx, transport.MsgSend, 4096, bulk.Descriptor, func(b *transport.Buffer) { b.Length, b.EndPoint = len(bulk.Descriptor), peer })
	if err != nil {
		t.Fatal(err)
	}
	var queues []transport.QueueType
	for range 2 {
		e := <-h.events
		if e.err != nil {
			t.Errorf("%+v", e)
		}
		queues = append(queues, e.queue)
	}
	slices.Sort(queues)
	if !slices.Equal(queues, []transport.QueueType{transport.MsgSend, transport.PassiveBulkSend}) {
		t.Errorf("events of %v", queues)
	}
	guest.ExpectText(fmt.Sprintf("guest got %d bytes, %d of them x: <nil>", bulkSize, bulkSize))

	c := client.New(control)
	defer c.Close()
	if got := programs(t, c); !slices.Equal(got, []string{"guest 1", "host 1"}) {
		t.Errorf("clients %q", got)
	}
	if err := guest.Kill(); err != nil {
		t.Fatal(err)
	}
	daemontest.Within(t, time.Minute, "the killed program is gone", func() error {
		if got := programs(t, c); !slices.Equal(got, []string{"host 1"}) {
			return fmt.Errorf("clients %q", got)
		}
		return nil
	})
	if _, err := h.domain.Open(ctx, theirs, nil); err != nil {
		t.Errorf("the address of the killed program: %v", err)
	}
}

// programs returns lnetd's clients by name, with the number of their TMs.
func programs(t *testing.T, c *client.Client) (list []string) {
	t.Helper()
	var all api.Clients
	all, err := c.Clients(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all.Clients {
		list = append(list, fmt.Sprintf("%s %d", i.Program, len(i.TMs)))
	}
	slices.Sort(list)
	return list
}

// start runs a program until the end of the test, and waits for its first output. The files are its
// descriptors from 3 on.
func start(t *testing.T, command, env []string, ready string, files ...*os.File) *process.Process {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), env...), files
	p := process.Start(t, command[0], cmd)
	p.ExpectText(ready)
	return p
}
