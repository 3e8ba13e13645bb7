package socklnd

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// attackVariable is the environment variable that makes a test binary run an attack, which it holds
// as JSON.
const attackVariable = "SOCKLND_ATTACK"

// attack describes what an attacker process does.
type attack struct {
	Target netip.AddrPort
	NID    string
	// The attacker opens Connections connections from Sources addresses, 127.1.x.y. Each connection
	// has a different port, which is privileged if Privileged is set.
	Connections, Sources int
	Privileged           bool
	// Says is what the attacker sends on each connection: "nothing", "hello", or "garbage".
	Says string
}

// attackResult is what the attacker has observed.
type attackResult struct {
	Opened   int64 // connections
	Answered int64 // connections on which a HELLO came back
	Ended    int64 // connections that the victim has closed
	Failed   string
}

func (a *attack) source(k int) netip.Addr {
	k %= a.Sources
	return netip.AddrFrom4([4]byte{127, 1, byte(k >> 8), byte(1 + k&0x7f)})
}

// attackMain runs the attack, reports, and keeps its connections until its standard input ends.
func attackMain(description string) int {
	var a attack
	if err := json.Unmarshal([]byte(description), &a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	limit := unix.Rlimit{}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) // a.Connections stays well below the limit
		a.Connections = min(a.Connections, int(limit.Cur)-200)
	}
	var r attackResult
	var seen sync.WaitGroup
	var opening sync.WaitGroup
	var failed atomic.Pointer[string]
	next := atomic.Int64{}
	for range 64 {
		opening.Go(func() {
			for k := next.Add(1) - 1; k < int64(a.Connections); k = next.Add(1) - 1 {
				c, err := a.open(int(k))
				if err != nil {
					s := err.Error()
					failed.Store(&s)
					continue
				}
				atomic.AddInt64(&r.Opened, 1)
				seen.Add(1)
				go func() {
					defer seen.Done()
					a.listen(c, &r)
				}()
			}
		})
	}
	opening.Wait()
	report := func() {
		out := attackResult{Opened: atomic.LoadInt64(&r.Opened), Answered: atomic.LoadInt64(&r.Answered), Ended: atomic.LoadInt64(&r.Ended)}
		if s := failed.Load(); s != nil {
			out.Failed = *s
		}
		_ = json.NewEncoder(os.Stdout).Encode(out)
	}
	report()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		report()
	}
	return 0
}

// open opens connection k and sends what a.Says asks for.
func (a *attack) open(k int) (net.Conn, error) {
	from := net.TCPAddr{IP: a.source(k).AsSlice()}
	if a.Privileged {
		from.Port = 1023 - k/a.Sources%512
	}
	d := net.Dialer{LocalAddr: &from, Timeout: time.Minute, KeepAlive: -1, Control: func(_, _ string, raw syscall.RawConn) error {
		return control(raw, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	}}
	c, err := d.Dial("tcp", a.Target.String())
	if err != nil {
		return nil, err
	}
	var says []byte
	switch a.Says {
	case "garbage":
		says = []byte("GET /etc/passwd HTTP/1.0\r\n\r\n")
	case "hello":
		nid, err := lnet.ParseNID(a.NID)
		if err != nil {
			return nil, err
		}
		h := protocol.Hello{
			// Each connection claims a different NID.
			Version: protocol.V3, Src: lnet.NIDFromNumber(nid.Net(), uint32(10<<24+k)), Dst: nid,
			SrcPID: lnet.PIDLustre, SrcIncarnation: 1, Type: protocol.BulkOut,
		}
		says = lnet.AcceptorRequest{NID: nid}.Append(nil, binary.LittleEndian)
		if says, err = h.Append(says, binary.LittleEndian); err != nil {
			return nil, err
		}
	}
	_, _ = c.Write(says) // the victim may have closed the connection already
	return c, nil
}

// listen waits for the victim's answer, then for the end of the connection.
func (a *attack) listen(c net.Conn, r *attackResult) {
	b := make([]byte, 56)
	if n, _ := io.ReadFull(c, b); n == len(b) {
		atomic.AddInt64(&r.Answered, 1)
		_, _ = c.Read(b)
	}
	atomic.AddInt64(&r.Ended, 1)
	_ = c.Close()
}

// attacker is an attacker process that is running.
type attacker struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// begin starts an attacker process.
func (a attack) begin(t *testing.T) *attacker {
	t.Helper()
	description, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	x := &attacker{t: t, cmd: exec.Command(os.Args[0])}
	x.cmd.Env = append(os.Environ(), attackVariable+"="+string(description))
	x.cmd.Stderr = os.Stderr
	if x.in, err = x.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := x.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	x.out = bufio.NewScanner(out)
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.end)
	return x
}

// opened waits until the attacker has opened all connections that it can, and returns its report.
func (x *attacker) opened() attackResult {
	x.t.Helper()
	var r attackResult
	if !x.out.Scan() {
		x.t.Fatalf("the attacker is gone: %v", x.out.Err())
	}
	if err := json.Unmarshal(x.out.Bytes(), &r); err != nil {
		x.t.Fatal(err)
	}
	if r.Failed != "" {
		x.t.Logf("the attacker says: %s", r.Failed)
	}
	return r
}

// looks returns a new report of the attacker.
func (x *attacker) looks() attackResult {
	x.t.Helper()
	if _, err := io.WriteString(x.in, "\n"); err != nil {
		x.t.Fatal(err)
	}
	return x.opened()
}

// end ends the attacker process, which closes its connections.
func (x *attacker) end() {
	_ = x.in.Close()
	_ = x.cmd.Wait() // a second Wait only returns an error
}
