//go:build o2ib

package rdmacore

// #include "o2.h"
import "C"

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// harvest is how many events are fetched in one crossing.
const harvest = 16

// channel implements verbs.Channel.
type channel struct {
	p      *provider
	c      *C.o2_chan
	w      waiter
	events [harvest]C.o2_event // of the one caller of Events

	mu  sync.Mutex
	ids map[uint64]*id // by token; nil once closed
}

func (p *provider) OpenChannel() (verbs.Channel, error) {
	p.others.Add(1)
	c := &channel{p: p, ids: make(map[uint64]*id)}
	var fd C.int
	err := errno(C.o2_chan_open(&c.c, &fd))
	if err == nil {
		c.w, err = newWaiter(fd, "rdma_cm")
	}
	if err != nil {
		return nil, verbs.Wrap(err, "event channel")
	}
	p.channels.Add(1)
	return c, nil
}

// open makes an ID by way of make, which has the ID's number; its events find it from then on.
func (c *channel) open(make func(token C.uint64_t, out **C.o2_id) C.int) (*id, error) {
	c.p.others.Add(1)
	i := &id{c: c, token: c.p.tokens.Add(1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil {
		return nil, verbs.ErrClosed
	}
	if err := errno(make(C.uint64_t(i.token), &i.c2)); err != nil {
		return nil, err
	}
	i.readAddrs()
	c.ids[i.token] = i
	return i, nil
}

func (c *channel) Listen(addr netip.AddrPort, backlog int) (verbs.ID, error) {
	a := toAddr(addr)
	i, err := c.open(func(token C.uint64_t, out **C.o2_id) C.int { return C.o2_listen(c.c, &a, C.int(backlog), token, out) })
	if err != nil {
		return nil, verbs.Wrap(explain(err), "listen at %s", addr)
	}
	return i, nil
}

func (c *channel) Dial(d verbs.Dial) (verbs.ID, error) {
	from, to, privileged := toAddr(netip.AddrPortFrom(d.From, 0)), toAddr(d.To), C.int(0)
	if d.Privileged {
		privileged = 1
	}
	i, err := c.open(func(token C.uint64_t, out **C.o2_id) C.int {
		return C.o2_dial(c.c, &from, &to, C.int(d.Timeout.Milliseconds()), privileged, C.int(d.TOS-1), token, out)
	})
	if err != nil {
		return nil, verbs.Wrap(explain(err), "dial %s from %s", d.To, d.From)
	}
	return i, nil
}

func explain(err error) error {
	if err == syscall.ENODEV { //nolint:errorlint // it is the shim's own
		return verbs.ErrNoDevice
	}
	return err
}

func (c *channel) Events(ev []verbs.Event) (n int, err error) {
	var failed error
	err = c.w.wait(func(uintptr) bool {
		c.p.events.Add(1)
		most := min(len(ev), harvest)
		tokens := c.p.tokens.Add(harvest) - harvest + 1
		got := C.o2_chan_drain(c.c, &c.events[0], C.int(most), C.uint64_t(tokens))
		failed = errno(got)
		for k := range max(int(got), 0) {
			if c.deliver(&c.events[k], &ev[n]) {
				n++
			}
		}
		return n > 0 || failed != nil
	})
	if err == nil {
		err = failed
	}
	return n, verbs.Wrap(err, "connection events")
}

// deliver translates an event, unless its ID has been destroyed.
func (c *channel) deliver(e *C.o2_event, to *verbs.Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	*to = verbs.Event{Kind: verbs.EventKind(e.kind), Status: int32(e.status), PrivateLen: int(e.priv_len), Retries: uint8(e.retries), RNRRetries: uint8(e.rnr_retries)}
	copy(to.Private[:to.PrivateLen], unsafe.Slice((*byte)(&e.priv[0]), to.PrivateLen))
	if e.fresh != nil {
		listener := c.ids[uint64(e.listener)]
		if listener == nil {
			C.o2_id_destroy(e.fresh) // the caller is told
			return false
		}
		i := &id{c: c, c2: e.fresh, token: uint64(e.token)}
		i.readAddrs()
		c.ids[i.token] = i
		to.Listener, to.Local, to.Remote = listener, fromAddr(&e.local), fromAddr(&e.remote)
	}
	i := c.ids[uint64(e.token)]
	to.ID = i
	return i != nil
}

func (c *channel) Close() error {
	c.mu.Lock()
	if n := len(c.ids); n > 0 {
		c.mu.Unlock()
		return verbs.Wrap(syscall.EBUSY, "close the event channel: %d IDs left", n)
	}
	closed := c.ids == nil
	c.ids = nil
	c.mu.Unlock()
	if closed {
		return verbs.ErrClosed
	}
	c.w.file.Close() // waits for Events
	C.o2_chan_close(c.c)
	c.p.channels.Add(-1)
	return nil
}

// id implements verbs.ID.
type id struct {
	c     *channel
	token uint64
	owner atomic.Value // of owned

	mu            sync.RWMutex // held for writing to destroy
	c2            *C.o2_id     // nil: destroyed
	dev           *device
	cq            *cq
	qpn           atomic.Uint32
	local, remote atomic.Pointer[netip.AddrPort]
}

type owned struct{ v any }

func (i *id) SetOwner(v any) { i.owner.Store(owned{v}) }

func (i *id) Owner() any {
	o, _ := i.owner.Load().(owned)
	return o.v
}

func (i *id) QPN() uint32 { return i.qpn.Load() }

func (i *id) readAddrs() {
	var l, r C.o2_addr
	C.o2_id_addrs(i.c2, &l, &r)
	local, remote := fromAddr(&l), fromAddr(&r)
	i.local.Store(&local)
	i.remote.Store(&remote)
}

func (i *id) Local() netip.AddrPort  { return *i.local.Load() }
func (i *id) Remote() netip.AddrPort { return *i.remote.Load() }

// do calls f while the ID is kept from being destroyed.
func (i *id) do(what string, f func() C.int) error {
	i.c.p.others.Add(1)
	i.mu.RLock()
	defer i.mu.RUnlock()
	err := verbs.ErrClosed
	if i.c2 != nil {
		err = errno(f())
	}
	if err != nil {
		return verbs.Wrap(err, "%s %s - %s", what, i.Local(), i.Remote())
	}
	return nil
}

func (i *id) ResolveRoute(timeout time.Duration) error {
	return i.do("resolve route", func() C.int { return C.o2_resolve_route(i.c2, C.int(timeout.Milliseconds())) })
}

func (i *id) connect(what string, p verbs.ConnParam, most int, accept C.int) error {
	return i.do(what, func() C.int {
		if len(p.Private) > most || i.qpn.Load() == 0 {
			return -C.int(syscall.EINVAL)
		}
		return C.o2_connect(i.c2, unsafe.Pointer(unsafe.SliceData(p.Private)), C.int(len(p.Private)), C.int(p.Retries), C.int(p.RNRRetries), accept)
	})
}

func (i *id) Connect(p verbs.ConnParam) error {
	return i.connect("connect", p, verbs.MaxConnectPrivate, 0)
}
func (i *id) Accept(p verbs.ConnParam) error {
	return i.connect("accept", p, verbs.MaxAcceptPrivate, 1)
}

func (i *id) Reject(b []byte) error {
	return i.do("reject", func() C.int {
		if len(b) > verbs.MaxRejectPrivate {
			return -C.int(syscall.EINVAL)
		}
		return C.o2_reject(i.c2, unsafe.Pointer(unsafe.SliceData(b)), C.int(len(b)))
	})
}

func (i *id) Established() error {
	return i.do("notify", func() C.int { return C.o2_established(i.c2) })
}
func (i *id) Disconnect() error {
	return i.do("disconnect", func() C.int { return C.o2_disconnect(i.c2) })
}
func (i *id) Fail() error { return i.do("fail", func() C.int { return C.o2_qp_fail(i.c2) }) }

func (i *id) Destroy() {
	i.c.p.others.Add(1)
	i.c.mu.Lock()
	delete(i.c.ids, i.token)
	i.c.mu.Unlock()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.c2 == nil {
		return
	}
	C.o2_id_destroy(i.c2)
	i.c2 = nil
	if i.cq != nil {
		i.cq.users.Add(-1)
		i.dev.users.Add(-1)
	}
}

func toAddr(a netip.AddrPort) (c C.o2_addr) {
	ip := a.Addr().Unmap()
	for k, b := range ip.AsSlice() {
		c.ip[k] = C.uint8_t(b)
	}
	c.port = C.uint16_t(a.Port())
	if ip.Is6() {
		c.v6 = 1
	}
	return c
}

func fromAddr(c *C.o2_addr) netip.AddrPort {
	ip := *(*[16]byte)(unsafe.Pointer(&c.ip))
	if c.v6 == 0 {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[:4])), uint16(c.port))
	}
	return netip.AddrPortFrom(netip.AddrFrom16(ip), uint16(c.port))
}
