package verbstest

import (
	"errors"
	"net/netip"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// Service is what Serve does with a connection request.
type Service int

// Services.
const (
	Accept Service = iota // accept the request, with receives posted
	Ignore                // do not answer the request
)

// Serve listens at addr and processes connection requests until its process is killed or the channel is closed.
// It calls ready when it listens.
func Serve(p verbs.Provider, addr netip.AddrPort, s Service, ready func()) error {
	ch, err := p.OpenChannel()
	if err != nil {
		return err
	}
	l, err := ch.Listen(addr, 128)
	if err != nil {
		return err
	}
	d, _, err := l.Device()
	if err != nil {
		return err
	}
	mem, err := d.Alloc(recvs*buffer, false, verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	q, err := d.NewCQ(entries, 0)
	if err != nil {
		return err
	}
	ready()
	var ev [8]verbs.Event
	for {
		n, err := ch.Events(ev[:])
		if errors.Is(err, verbs.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		for k := range ev[:n] {
			if ev[k].Kind != verbs.EventConnectRequest || s == Ignore {
				continue
			}
			if err := accept(ev[k].ID, mem, q); err != nil && !errors.Is(err, verbs.ErrClosed) {
				return err
			}
		}
	}
}

// accept accepts a connection request with receives posted.
func accept(i verbs.ID, mem verbs.Memory, q verbs.CQ) error {
	if err := i.CreateQP(&verbs.QP{CQ: q, Sends: sends, Recvs: recvs, SendPieces: 1}); err != nil {
		return err
	}
	list := make([]verbs.Recv, recvs)
	for k := range list {
		list[k] = verbs.Recv{WRID: uint64(k), Addr: mem.Addr() + uint64(k)*buffer, Len: buffer, LKey: mem.LKey()}
	}
	if _, _, err := i.Post(list, nil, nil); err != nil {
		return err
	}
	return i.Accept(param)
}
