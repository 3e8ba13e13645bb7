package clients

import (
	"errors"
	"math"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// The reply to HELLO has the version and the limits. A HELLO with only later versions, or with an unknown
// feature, is answered with an error, and the connection ends. It also ends if anything comes before
// HELLO, or if a second HELLO comes.
//
// transport-tests P (116)
// transport 9.1, 9.2, 9.11
func TestHello(t *testing.T) {
	w := newWorld(t, nil)
	p := w.join()
	want := protocol.Limits{BufferSize: 1 << 20, SegmentSize: 4096, Segments: 256, DescriptorSize: 48}
	if p.hello.Version != 1 || p.hello.Features != protocol.FeatOverflow || p.hello.Limits != want || p.hello.Quotas.TMs != 64 {
		t.Errorf("%+v", p.hello)
	}
	infos := w.server.Clients()
	if len(infos) != 1 || infos[0].Program != "test" || int(infos[0].PID) != os.Getpid() || int(infos[0].UID) != os.Geteuid() ||
		infos[0].ID != p.hello.Connection || infos[0].Rule != "default" {
		t.Errorf("%+v", infos)
	}
	p.must(&protocol.Nop{Data: []byte("x")}, &protocol.Nop{})
	if err := p.ask(&protocol.Hello{Lowest: 1, Highest: 1}, &p.hello); err == nil {
		t.Error("a second HELLO was answered")
	}
	for _, c := range []struct {
		hello protocol.Hello
		errno syscall.Errno
	}{
		{protocol.Hello{Lowest: 2, Highest: 9}, syscall.EPROTO},
		{protocol.Hello{Lowest: 1, Highest: 1, Required: protocol.FeatZeroCopy}, syscall.EOPNOTSUPP},
	} {
		p := w.dial()
		p.refused(&c.hello, c.errno)
		p.cut(c.errno, "")
	}
	p = w.dial()
	if err := p.ask(&protocol.Nop{}, &protocol.Nop{}); err == nil {
		t.Error("a NOP was answered before HELLO")
	}
	if len(p.notices) != 1 || p.notices[0].Errno() != syscall.EPROTO {
		t.Errorf("%+v", p.notices)
	}
}

// Malformed records end the connection.
//
// transport 9.1
func TestBadRecords(t *testing.T) {
	w := newWorld(t, nil)
	good, err := protocol.AppendRequest(nil, 1, &protocol.Nop{})
	if err != nil {
		t.Fatal(err)
	}
	magic := append([]byte{'x'}, good[1:]...)
	for name, record := range map[string][]byte{"magic": magic, "short": good[:20], "long": make([]byte, protocol.MaxRecord+1)} {
		p := w.join()
		if err := p.write(record); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(*testing.T) { p.cut(syscall.EPROTO, "") })
	}
}

// pipe returns a descriptor that is not memory.
func pipe(t *testing.T) int {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(fds[:]) })
	return fds[0]
}

// memfd returns a memfd with the given seals.
func memfd(t *testing.T, size int64, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Ftruncate(fd, size); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return fd
}

// AREA_ADD refuses memory that could shrink, that is not memory, or that has another size. A record with
// too many or too few descriptors ends the connection. An area stays while a buffer uses it.
//
// transport-tests P (117)
// transport 9.3, 9.8
func TestAreas(t *testing.T) {
	w := newWorld(t, nil)
	page := int64(os.Getpagesize())
	good := func() int { return memfd(t, page, unix.F_SEAL_SHRINK) }
	p := w.join()
	for _, c := range []struct {
		fd    int
		size  int64
		errno syscall.Errno
	}{
		{memfd(t, page, 0), page, syscall.EPERM}, {good(), 2 * page, syscall.EINVAL}, {good(), math.MinInt64, syscall.EDQUOT},
		{pipe(t), page, syscall.EINVAL}, {memfd(t, page+1, unix.F_SEAL_SHRINK), page + 1, syscall.EINVAL},
	} {
		if _, err := p.request(&protocol.AreaAdd{Size: uint64(c.size)}, &protocol.Empty{}, c.fd); !errors.Is(err, c.errno) {
			t.Errorf("%d bytes: %v, want %v", c.size, err, c.errno)
		}
	}
	w.charged(p, amounts{})
	var reply protocol.AreaAddReply
	if _, err := p.request(&protocol.AreaAdd{Size: uint64(page)}, &reply, good()); err != nil {
		t.Fatal(err)
	}
	b := p.register(protocol.Range{Area: reply.Area, Length: 1})
	p.refused(&protocol.AreaDel{Area: reply.Area}, syscall.EBUSY)
	p.refused(&protocol.AreaDel{Area: reply.Area + 1}, syscall.EBADR)
	p.must(&protocol.BufDeregister{Index: b.Index, Generation: b.Generation}, &protocol.Empty{})
	p.must(&protocol.AreaDel{Area: reply.Area}, &protocol.Empty{})
	p.refused(&protocol.AreaDel{Area: reply.Area}, syscall.EBADR)

	for name, fds := range map[string][]int{"None": nil, "Two": {good(), good()}, "Many": {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}} {
		p := w.join()
		if _, err := p.request(&protocol.AreaAdd{Size: uint64(page)}, &reply, fds...); err == nil {
			t.Errorf("%s: an area of %d descriptors", name, len(fds))
		}
		p.cut(syscall.EPROTO, "descriptors")
	}
	p = w.join()
	if _, err := p.request(&protocol.Nop{}, &protocol.Nop{}, good()); err == nil {
		t.Error("a NOP with a descriptor")
	}
	p.cut(syscall.EPROTO, "NOP has 1 file descriptors instead of 0")
}

// Buffers must lie within areas. The number of ranges and of bytes is limited.
//
// transport-tests P (118)
// transport 9.3, 9.9 (3)
func TestRegister(t *testing.T) {
	w := newWorld(t, nil)
	p := w.join()
	a := p.share(2 << 20)
	size := uint64(2 << 20)
	parts := func(n int, r protocol.Range) (all []protocol.Range) {
		for range n {
			all = append(all, r)
		}
		return all
	}
	for name, c := range map[string]struct {
		parts []protocol.Range
		errno syscall.Errno
	}{
		"beyond":      {parts(1, protocol.Range{Area: a.id, Length: 4096, Offset: size - 4095}), syscall.EINVAL},
		"far beyond":  {parts(1, protocol.Range{Area: a.id, Length: 1, Offset: math.MaxUint64 - 1}), syscall.EINVAL},
		"long":        {parts(1, protocol.Range{Area: a.id, Length: 4097}), syscall.EINVAL},
		"many":        {parts(257, protocol.Range{Area: a.id, Length: 1}), syscall.EFBIG},
		"no area":     {parts(1, protocol.Range{Area: 1, Length: 1}), syscall.EBADR},
		"no area yet": {parts(1, protocol.Range{Area: math.MaxUint32, Length: 1}), syscall.EBADR},
	} {
		if err := p.ask(&protocol.BufRegister{Ranges: c.parts}, &protocol.BufRegisterReply{}); !errors.Is(err, c.errno) {
			t.Errorf("%s: %v, want %v", name, err, c.errno)
		}
	}
	// Values that the codec would not encode: no bytes, and an end beyond 2^64.
	for _, change := range []struct {
		at int
		to byte
	}{{protocol.HeaderSize + 8 + 4, 0}, {protocol.HeaderSize + 8 + 15, 0xff}} {
		p.sequence++
		record, err := protocol.AppendRequest(nil, p.sequence, &protocol.BufRegister{Ranges: parts(1, protocol.Range{Area: a.id, Length: 1, Offset: 1<<56 - 1})})
		if err != nil {
			t.Fatal(err)
		}
		record[change.at] = change.to
		if err := p.write(record); err != nil {
			t.Fatal(err)
		}
		if h, _, _, err := p.read(); err != nil || h.Status != syscall.EINVAL {
			t.Errorf("%+v, %v", h, err)
		}
	}
	b := p.register(parts(256, protocol.Range{Area: a.id, Length: 4096, Offset: size - 4096})...)
	p.refused(&protocol.BufDeregister{Index: b.Index, Generation: b.Generation + 1}, syscall.EBADR)
	p.refused(&protocol.BufDeregister{Index: b.Index + 1, Generation: b.Generation}, syscall.EBADR)
	p.must(&protocol.BufDeregister{Index: b.Index, Generation: b.Generation}, &protocol.Empty{})
	again := p.register(parts(1, protocol.Range{Area: a.id, Length: 1})...)
	if again.Index != b.Index || again.Generation == b.Generation {
		t.Errorf("%+v, and then %+v", b, again)
	}
	p.refused(&protocol.BufDeregister{Index: b.Index, Generation: b.Generation}, syscall.EBADR)
}

// Invalid addresses, and addresses in use, are refused as on the node. Unknown handles return EBADR.
//
// transport 9.2
func TestStart(t *testing.T) {
	w := newWorld(t, nil)
	p := w.join()
	first := p.start(34, 5, 2)
	before := held(t)
	for _, c := range []struct {
		start protocol.TMStart
		errno syscall.Errno
	}{
		{protocol.TMStart{NID: home, PID: lnet.PIDLustre, Portal: 34, TMID: 5, Completions: 1}, syscall.EADDRINUSE},
		{protocol.TMStart{NID: home, PID: 1, Portal: 34, TMID: 6, Completions: 1}, syscall.ENOENT},
	} {
		for range 20 {
			p.refused(&c.start, c.errno)
		}
	}
	noMore(t, before)
	w.charged(p, amounts{ofTMs: 1, ofEntries: 2})
	p.refused(&protocol.TMStop{Handle: first.handle + 1}, syscall.EBADR)
	p.refused(&protocol.StatsGet{Handle: first.handle + 1}, syscall.EBADR)
	p.must(&protocol.TMStop{Handle: first.handle}, &protocol.Counters{})
	p.refused(&protocol.TMStop{Handle: first.handle}, syscall.EBADR)
	p.start(34, 5, 2)
}
