package c

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/internal/testing/tmpeer"
	"github.com/lnetd/lnetd/transport/mem"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// The session of a program that sends one message is equal to the one on the protocol's page, except for
// the features: the library requires those that make credits unnecessary.
//
// transport 9.1, 9.2, 9.4
func TestSession(t *testing.T) {
	pattern := tmpeer.PageSession(t, "../../docs/transport-protocol.md")
	for _, change := range []struct{ page, library string }{
		{"20000000 00000000 00000000 00000000  ", "e4000000 00000000 64000000 00000000  "},
		{"20000000 00000000 00001000 00000000  ", "e4000000 00000000 00001000 00000000  "},
		{"4c544e44 01000700 2c000000 05000000", "4c544e44 01000700 38000000 05000000"},
		{"02000000 08000000 02000000  ", "02000000 08000000 02000000 00000000\n   ........ ........  "},
	} {
		if strings.Count(pattern, change.page) != 1 {
			t.Fatalf("the page does not contain %q once", change.page)
		}
		pattern = strings.Replace(pattern, change.page, change.library, 1)
	}
	_, path := tmpeer.Serve(t, mem.New(mem.Config{}).Host(home))
	p := tmpeer.New(t, mem.New(mem.Config{}).Host(home), home)
	r := startRelay(t, path, 0)
	v := &variants[0]
	program := v.begin(t, conversation, "-1", r.path, p.Address)
	if err := program.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &program.complaints)
	}
	p.Stop()
	<-r.over
	tmpeer.CompareSession(t, pattern, r.session.String())
}

// A program works with an lnetd without the feature FUTEX, and then does not sleep on a word in shared memory.
//
// transport 9.6 (1), 9.11
func TestWithoutFutex(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		_, path := tmpeer.Serve(t, mem.New(mem.Config{}).Host(home))
		r := startRelay(t, path, uint64(protocol.FeatFutex))
		v.run(t, "testdata/edges.c", "old", r.path)
		<-r.over
	})
}

// relay passes one connection on to lnetd, and writes the session down as the protocol's page has it.
type relay struct {
	t       testing.TB
	path    string
	without uint64        // features that the client does not get
	over    chan struct{} // closed when the connection has ended

	mu      sync.Mutex // guards the fields below
	session strings.Builder
	ring    []byte // the ring file; nil before TM_START
}

func startRelay(t testing.TB, lnetd string, without uint64) *relay {
	t.Helper()
	r := &relay{t: t, path: filepath.Join(testenv.SocketDir(t), "r"), without: without, over: make(chan struct{})}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: r.path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Close()
		<-r.over
	})
	go func() {
		defer close(r.over)
		client, err := l.AcceptUnix()
		if err != nil {
			return // the test has ended before
		}
		server, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: lnetd, Net: "unixpacket"})
		if err != nil {
			t.Error(err)
			return
		}
		var copies sync.WaitGroup
		copies.Go(func() { r.pass("client", client, server) })
		copies.Go(func() { r.pass("lnetd", server, client) })
		copies.Wait()
		if r.ring != nil {
			_ = unix.Munmap(r.ring)
		}
	}()
	return r
}

// names are the names of records by opcode.
var names = []string{"", "HELLO", "NIDS_GET", "AREA_ADD", "AREA_DEL", "BUF_REGISTER", "BUF_DEREGISTER", "TM_START", "TM_STOP"}

// Opcodes.
const (
	hello   = 1
	tmStart = 7
	tmStop  = 8
)

// pass copies records until the connection ends, and then ends the other side.
func (r *relay) pass(who string, from, to *net.UnixConn) {
	defer func() { _ = to.Close() }()
	record, control := make([]byte, 1<<14), make([]byte, 128)
	for {
		n, m, _, _, err := from.ReadMsgUnix(record, control)
		if err != nil || n == 0 {
			return
		}
		if features := record[32:]; record[6] == hello { // those that the client wants, and those that it gets
			binary.LittleEndian.PutUint64(features, binary.LittleEndian.Uint64(features)&^r.without)
		}
		fds := received(r.t, control[:m])
		r.note(who, record[:n], fds)
		// control has the numbers of the descriptors in this process.
		if _, _, err := to.WriteMsgUnix(record[:n], control[:m], nil); err != nil && !errors.Is(err, unix.EPIPE) {
			r.t.Error(err)
		}
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}
}

// received returns the descriptors in a control message.
func received(t testing.TB, control []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		t.Error(err)
	}
	for i := range messages {
		more, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			t.Error(err)
		}
		fds = append(fds, more...)
	}
	return fds
}

// note writes down a record. With the reply to TM_START it maps the ring file, whose entries it writes down
// before TM_STOP.
func (r *relay) note(who string, record []byte, fds []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	opcode := binary.LittleEndian.Uint16(record[6:])
	if who == "client" && opcode == tmStop {
		word := func(at int) int { return int(binary.LittleEndian.Uint32(r.ring[at:])) }
		r.dump("client", "submission", r.ring[word(8)+(word(64)-1)%word(12)*128:][:128])
		r.dump("lnetd", "completion", r.ring[word(16)+(word(192)-1)%word(20)*64:][:64])
	}
	r.dump(who, names[opcode], record)
	if who == "lnetd" && opcode == tmStart && len(fds) == 3 {
		var st unix.Stat_t
		err := unix.Fstat(fds[0], &st)
		if err == nil {
			r.ring, err = unix.Mmap(fds[0], 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED)
		}
		if err != nil {
			r.t.Error(err)
			return
		}
		r.dump("lnetd", "ring file", r.ring[:28])
	}
}

// dump writes bytes in hex, and * for more than one line of zeros at the end.
func (r *relay) dump(who, what string, b []byte) {
	fmt.Fprintf(&r.session, "%s: %s\n", who, what)
	shown := (len(bytes.TrimRight(b, "\x00")) + 15) / 16 * 16
	if len(b) <= shown+16 {
		shown = len(b)
	}
	for i := 0; i < shown; i += 4 {
		switch {
		case i%16 == 0 && i > 0:
			r.session.WriteString("\n   ")
		case i == 0:
			r.session.WriteString("   ")
		default:
			r.session.WriteByte(' ')
		}
		r.session.WriteString(hex.EncodeToString(b[i:min(i+4, shown)]))
	}
	r.session.WriteByte('\n')
	if shown < len(b) {
		r.session.WriteString("   *\n")
	}
}
