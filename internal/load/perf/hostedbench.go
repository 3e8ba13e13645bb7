package perf

import (
	"context"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory/shared"
)

// hostedKey identifies a sender of RunHosted: whether it uses the node in this process instead of lnetd,
// whether its peer is a client of the other lnetd, and how its events are delivered.
type hostedKey struct {
	inside, far bool
	delivery    tmhost.Delivery
}

// hostedBench is the state of the process that measures exchanges between clients of lnetd (RunHosted).
type hostedBench struct {
	config    HostConfig
	guest     *guest
	localNode *lnetNode // a node for transfer machines that do not use lnetd
	senders   map[hostedKey]*sender
	tcp       *floorClient
	plain     *plain
	meter     *meter
	from      [tmBulks]*shared.Memory // shared memory, as clients of lnetd use it
	to        [tmBulks]*shared.Memory
}

// startHosted starts the senders of the measuring process, and the plain exchanges. It calls start with the
// files of the plain exchange between two processes. The caller must close the result.
func startHosted(ctx context.Context, c HostConfig, start func(PlainFiles) error) (h *hostedBench, err error) {
	h = &hostedBench{config: c, senders: make(map[hostedKey]*sender)}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	if h.meter, err = newMeter(); err != nil {
		return h, err
	}
	var files PlainFiles
	if h.plain, files, err = newPlain(); err != nil {
		return h, err
	}
	if err := start(files); err != nil {
		return h, err
	}
	if err := h.makeMemory(); err != nil {
		return h, err
	}
	if h.tcp, err = dialFloor(ctx, netip.AddrPortFrom(c.Server, uint16(c.Port+1)).String()); err != nil {
		return h, err
	}
	if h.localNode, err = startNode(ctx, &c.Config, c.Own, highCredits); err != nil {
		return h, err
	}
	h.guest = newGuest(&c, false)
	if err := h.localNode.startEchoes(ctx, tmEchoes, deliveries...); err != nil {
		return h, err
	}
	return h, h.makeSenders(ctx)
}

// close closes what startHosted has started.
func (h *hostedBench) close() (err error) {
	if h.guest != nil {
		err = h.guest.close()
	}
	if h.localNode != nil {
		err = errors.Join(err, h.localNode.close())
	}
	if h.tcp != nil {
		err = errors.Join(err, h.tcp.conn.Close())
	}
	err = errors.Join(err, h.freeMemory())
	if h.plain != nil {
		err = errors.Join(err, h.plain.close())
	}
	if h.meter != nil {
		err = errors.Join(err, h.meter.close())
	}
	return err
}

// makeMemory creates the memory that floorCopying copies.
func (h *hostedBench) makeMemory() error {
	for _, all := range []*[tmBulks]*shared.Memory{&h.from, &h.to} {
		for k := range all {
			m, fd, err := shared.Create("copied", offeredSize)
			if err != nil {
				return err
			}
			all[k] = m
			if err := unix.Close(fd); err != nil {
				return err
			}
			writePages(m.Bytes())
		}
	}
	return nil
}

func (h *hostedBench) freeMemory() (err error) {
	for k := range h.from {
		for _, m := range []*shared.Memory{h.from[k], h.to[k]} {
			if m != nil {
				err = errors.Join(err, m.Close())
			}
		}
	}
	return err
}

// makeSenders starts a sender for each hostedKey.
func (h *hostedBench) makeSenders(ctx context.Context) error {
	net := h.config.net()
	near, far := lnet.NIDFromIP(net, h.config.Client), lnet.NIDFromIP(net, h.config.Server)
	for _, d := range deliveries {
		for _, way := range []struct {
			inside, far bool
			from        *tmSite
			to          lnet.NID
			first       int
		}{
			{false, false, h.guest.siteFor(d), near, guestEchoes},
			{false, true, h.guest.siteFor(d), far, guestEchoes},
			{true, false, &h.localNode.tmSite, h.localNode.nid, tmEchoes},
			{true, true, &h.localNode.tmSite, far, tmEchoes},
		} {
			s, err := way.from.newSender(ctx, d, way.to, way.first)
			if err != nil {
				return err
			}
			h.senders[hostedKey{way.inside, way.far, d}] = s
		}
	}
	return nil
}
