package daemontest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/load/ports"
)

const scriptTimeout = 3 * time.Minute

// Setup prepares the environment of a script. It sets PORT to a TCP port that is free on 127.0.0.2 to
// 127.0.0.5.
func Setup(env *testscript.Env) error {
	port, err := FreePort("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
	if err != nil {
		return err
	}
	env.Setenv("PORT", strconv.Itoa(port))
	env.Setenv("LNETDCTL_HINTS", "never") // scripts compare standard error, which must have no hints
	env.Values[notifiesKey{}] = map[string]*Notify{}
	return nil
}

// Commands returns additional commands for scripts.
//
//	listen NAME             receive the notifications to systemd of the next process, as NAME
//	await NAME STATE        wait until NAME has received STATE
//	terminate SOCKET        send SIGTERM to the lnetd with this control socket
//	hold SOCKET             begin a request to a control socket, and do not complete it
//	exits STATUS PROG ARGS  run a program, which must end with this exit status
//	junk COUNT ADDRESS      connect COUNT times, and each time send data that is not LNet until lnetd closes
//	fetch URL FILE          write the page at URL to FILE
func Commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"listen": listen, "await": await, "terminate": terminate, "hold": hold, "exits": exits, "junk": junk,
		"fetch": fetch,
	}
}

type notifiesKey struct{}

func notifies(ts *testscript.TestScript) map[string]*Notify {
	return ts.Value(notifiesKey{}).(map[string]*Notify)
}

func wantArgs(ts *testscript.TestScript, neg bool, args []string, least int, usage string) {
	if neg || len(args) < least {
		ts.Fatalf("usage: %s", usage)
	}
}

func listen(ts *testscript.TestScript, neg bool, args []string) {
	wantArgs(ts, neg, args, 1, "listen NAME")
	n, err := NewNotify(ts.MkAbs(args[0] + ".notify"))
	ts.Check(err)
	ts.Defer(func() { _ = n.Close() })
	notifies(ts)[args[0]] = n
	ts.Setenv("NOTIFY_SOCKET", n.path)
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	wantArgs(ts, neg, args, 2, "await NAME STATE")
	n := notifies(ts)[args[0]]
	if n == nil {
		ts.Fatalf("await %s: listen to it first", args[0])
	}
	ts.Check(n.Await(args[1], scriptTimeout))
}

func terminate(ts *testscript.TestScript, neg bool, args []string) {
	wantArgs(ts, neg, args, 1, "terminate SOCKET")
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	c := client.New(ts.MkAbs(args[0]))
	defer c.Close()
	v, err := c.Version(ctx)
	ts.Check(err)
	ts.Check(syscall.Kill(v.PID, syscall.SIGTERM))
}

func hold(ts *testscript.TestScript, neg bool, args []string) {
	wantArgs(ts, neg, args, 1, "hold SOCKET")
	conn, err := net.Dial("unix", ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(func() { _ = conn.Close() })
	ts.Check(conn.SetDeadline(time.Now().Add(scriptTimeout)))
	// The server sends status 100 when it reads the body, which never comes.
	_, err = io.WriteString(conn, "POST /v1/ping HTTP/1.1\r\nHost: lnetd\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
	ts.Check(err)
	reply, err := bufio.NewReader(conn).ReadString('\n')
	ts.Check(err)
	if !strings.HasPrefix(reply, "HTTP/1.1 100 ") {
		ts.Fatalf("hold %s: %s", args[0], reply)
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	wantArgs(ts, neg, args, 2, "exits STATUS PROGRAM [ARGS...]")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func junk(ts *testscript.TestScript, neg bool, args []string) {
	wantArgs(ts, neg, args, 2, "junk COUNT ADDRESS")
	count, err := strconv.Atoi(args[0])
	ts.Check(err)
	for range count {
		c, err := net.Dial("tcp", args[1])
		ts.Check(err)
		ts.Check(c.SetDeadline(time.Now().Add(scriptTimeout)))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\n\r\n") // fails if the connection was closed already
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			ts.Fatalf("junk: still welcome")
		}
		_ = c.Close()
	}
}

func fetch(ts *testscript.TestScript, neg bool, args []string) {
	wantArgs(ts, neg, args, 2, "fetch URL FILE")
	client := &http.Client{Timeout: scriptTimeout}
	defer client.CloseIdleConnections()
	r, err := client.Get(args[0])
	ts.Check(err)
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o600))
}

// FreePort returns a TCP port that is free at all given addresses. Calls in this process return different ports, and
// so do those of other processes at about the same time.
func FreePort(addrs ...string) (int, error) { return ports.Free(1, addrs...) }
