//go:build o2ib

package rdmacore

// #include "o2.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// batch is the largest number of connection events that one crossing returns.
const batch = 16

// channel implements verbs.Channel.
type channel struct {
	handle[*C.o2_chan]
	w      waiter
	events [batch]C.o2_event // only the running call of Events uses it

	known sync.Mutex     // guards ids
	ids   map[uint64]*id // by token; nil after Close
}

func (p *provider) OpenChannel() (verbs.Channel, error) {
	c := &channel{handle: handle[*C.o2_chan]{p: p}}
	var err error
	if c.w, err = newWaiter(C.o2_chan_open(&c.c), "rdma_cm"); err != nil {
		return nil, verbs.Wrap(err, "event channel")
	}
	c.ids = make(map[uint64]*id)
	p.channels.Add(1)
	return c, nil
}

// open creates an ID by calling start with a new token, which identifies the ID in events. No event is
// delivered before the ID is in c.ids.
func (c *channel) open(start func(ch *C.o2_chan, token C.uint64_t, out **C.o2_id) C.int) (verbs.ID, error) {
	i := &id{ch: c, handle: handle[*C.o2_id]{p: c.p}, token: c.p.tokens.Add(1)}
	c.known.Lock()
	defer c.known.Unlock()
	if c.ids == nil {
		return nil, verbs.ErrClosed
	}
	var made *C.o2_id
	_, err := do(&c.handle, func(ch *C.o2_chan) C.int { return start(ch, C.uint64_t(i.token), &made) })
	if errors.Is(err, syscall.ENODEV) {
		err = verbs.ErrNoDevice
	}
	if err != nil {
		return nil, err
	}
	i.c, c.ids[i.token] = made, i
	return i, nil
}

func (c *channel) Listen(addr netip.AddrPort, backlog int) (verbs.ID, error) {
	a := toAddr(addr)
	i, err := c.open(func(ch *C.o2_chan, token C.uint64_t, out **C.o2_id) C.int {
		rc := C.o2_listen(ch, &a, C.int(backlog), token, out)
		if rc == 0 {
			noteUse(*out, nil)
		}
		return rc
	})
	return i, verbs.Wrap(err, "listen at %s", addr)
}

func (c *channel) Dial(d verbs.Dial) (verbs.ID, error) {
	from, to := toAddr(netip.AddrPortFrom(d.From, 0)), toAddr(d.To)
	i, err := c.open(func(ch *C.o2_chan, token C.uint64_t, out **C.o2_id) C.int {
		return C.o2_dial(ch, &from, &to, C.int(d.Timeout.Milliseconds()), C.bool(d.Privileged), C.int(d.TOS-1), token, out)
	})
	return i, verbs.Wrap(err, "dial %s from %s", d.To, d.From)
}

func (c *channel) Events(ev []verbs.Event) (n int, err error) {
	var failed error
	most := min(len(ev), batch)
	err = c.w.wait(func(uintptr) bool {
		for got := most; n == 0 && got == most && failed == nil; { // otherwise no event is left, and the netpoller reports later ones
			c.p.events.Add(1)
			tokens := c.p.tokens.Add(batch) - batch + 1
			got, failed = hold(&c.handle, func(ch *C.o2_chan) C.int {
				return C.o2_chan_drain(ch, &c.events[0], C.int(most), C.uint64_t(tokens))
			})
			for k := range c.events[:got] {
				if c.deliver(&c.events[k], &ev[n]) {
					n++
				}
			}
		}
		return n > 0 || failed != nil
	})
	return n, verbs.Wrap(errors.Join(err, failed), "connection events")
}

// deliver converts the event e of the C library and stores it in to. It returns false if the ID of the event,
// or the listener of a request, was destroyed.
func (c *channel) deliver(e *C.o2_event, to *verbs.Event) bool {
	c.known.Lock()
	defer c.known.Unlock()
	*to = verbs.Event{Kind: verbs.EventKind(e.kind), Status: int32(e.status), PrivateLen: int(e.priv_len), Retries: uint8(e.retries), RNRRetries: uint8(e.rnr_retries)}
	copy(to.Private[:], unsafe.Slice((*byte)(&e.priv[0]), to.PrivateLen))
	if e.fresh != nil {
		listener := c.ids[uint64(e.listener)]
		if listener == nil {
			C.o2_id_destroy(e.fresh) // the dialling side is notified
			return false
		}
		fresh := &id{ch: c, handle: handle[*C.o2_id]{p: c.p, c: e.fresh}, token: uint64(e.token)}
		c.ids[fresh.token] = fresh
		to.Listener, to.Local, to.Remote = listener, fresh.Local(), fresh.Remote()
	}
	i := c.ids[uint64(e.token)]
	if i != nil && to.Kind == verbs.EventDeviceRemoval {
		_, _ = hold(&i.handle, func(c *C.o2_id) C.int { endContext(uintptr(C.o2_id_context(c, new(C.int)))); return 0 })
	}
	to.ID = i
	return i != nil
}

// destroy destroys the channel in C.
func (c *channel) destroy() error {
	return end(&c.handle, func(ch *C.o2_chan) C.int { return C.o2_chan_close(ch) })
}

// id implements verbs.ID.
type id struct {
	verbs.Owned
	handle[*C.o2_id]
	ch    *channel
	token uint64
	qpn   atomic.Uint32
}

func (i *id) addrs() [2]netip.AddrPort {
	var l, r C.o2_addr
	_, _ = hold(&i.handle, func(c *C.o2_id) C.int { C.o2_id_addrs(c, &l, &r); return 0 })
	return [2]netip.AddrPort{fromAddr(&l), fromAddr(&r)}
}

// call calls f as do does, and adds to the error which operation was attempted.
func (i *id) call(what string, f func(c *C.o2_id) C.int) error {
	if _, err := do(&i.handle, f); err != nil {
		return verbs.Wrap(err, "%s, %s - %s", what, i.Local(), i.Remote())
	}
	return nil
}

func (i *id) op(name string, what C.int, timeout time.Duration) error {
	return i.call(name, func(c *C.o2_id) C.int { return C.o2_id_do(c, what, C.int(timeout.Milliseconds())) })
}

func (i *id) ResolveRoute(timeout time.Duration) error {
	return i.op("resolve route", C.O2_RESOLVE_ROUTE, timeout)
}
func (i *id) Established() error { return i.op("notify", C.O2_ESTABLISHED, 0) }
func (i *id) Disconnect() error  { return i.op("disconnect", C.O2_DISCONNECT, 0) }
func (i *id) Fail() error        { return i.op("fail", C.O2_FAIL, 0) }

func (i *id) connect(what string, p verbs.ConnParam, most int, accept C.int) error {
	return i.call(what, func(c *C.o2_id) C.int {
		if len(p.Private) > most || i.QPN() == 0 {
			return -C.int(syscall.EINVAL)
		}
		return C.o2_connect(c, unsafe.Pointer(unsafe.SliceData(p.Private)), C.int(len(p.Private)), C.int(p.Retries), C.int(p.RNRRetries), accept)
	})
}

func (i *id) Reject(b []byte) error {
	return i.call("reject", func(c *C.o2_id) C.int {
		if len(b) > verbs.MaxRejectPrivate {
			return -C.int(syscall.EINVAL)
		}
		return C.o2_reject(c, unsafe.Pointer(unsafe.SliceData(b)), C.int(len(b)))
	})
}

func (i *id) Destroy() {
	i.ch.known.Lock()
	delete(i.ch.ids, i.token)
	i.ch.known.Unlock()
	_ = end(&i.handle, func(c *C.o2_id) C.int { C.o2_id_destroy(c); return 0 })
}

// toAddr returns a as a sockaddr_in or a sockaddr_in6 (ip(7), ipv6(7)).
func toAddr(a netip.AddrPort) (c C.o2_addr) {
	ip := a.Addr().Unmap()
	family, at := syscall.AF_INET, 4
	if ip.Is6() {
		family, at = syscall.AF_INET6, 8
	}
	b := (*[len(c.b)]byte)(unsafe.Pointer(&c.b))
	binary.NativeEndian.PutUint16(b[:], uint16(family))
	binary.BigEndian.PutUint16(b[2:], a.Port())
	copy(b[at:], ip.AsSlice())
	return c
}

func fromAddr(c *C.o2_addr) netip.AddrPort {
	b := (*[len(c.b)]byte)(unsafe.Pointer(&c.b))
	ip := netip.AddrFrom4([4]byte(b[4:]))
	if binary.NativeEndian.Uint16(b[:]) == syscall.AF_INET6 {
		ip = netip.AddrFrom16([16]byte(b[8:]))
	}
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[2:]))
}
