package clients

import (
	"errors"
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// unreleased counts the resources that a client has not released.
type unreleased struct{ TMs, Buffers, Areas, Operations int }

// unreleased counts the resources that the client still has.
func (c *client) unreleased() (l unreleased) {
	l.Buffers = c.buffers.count()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tms {
		if t != nil {
			l.TMs++
			t.mu.Lock()
			l.Operations += t.underWay
			t.mu.Unlock()
		}
	}
	for _, a := range c.areas {
		if a != nil {
			l.Areas++
		}
	}
	return l
}

// releaseAll releases all resources of a client whose connection has ended, and closes the connection. The
// order is that of transport 8.5: it ends operations, then stops TMs and deregisters buffers, and then
// unmaps memory. If operations do not end within Config.Grace, it first releases what they do not use, and
// waits for them. Because the connection is closed late, a client that has read the end of file has
// received the reason for a disconnect before, and finds all completions so far in the rings.
func (c *client) releaseAll() {
	c.mu.Lock()
	c.ending = true
	reason := c.reason
	c.mu.Unlock()
	had := c.unreleased()
	if c.domain != nil {
		c.endOperations()
	}
	c.closeConnection()
	if after := c.unreleased(); after != (unreleased{}) {
		c.log(slog.LevelError, "cannot free all resources of a disconnected client; the rest is freed when lnetd restarts", slog.Any("remaining", after))
	} else if c.domain != nil {
		if err := c.domain.Close(); err != nil {
			c.log(slog.LevelError, "cannot close the transport domain of a disconnected client; it is freed when lnetd restarts", slog.Any("err", err))
		}
	}
	c.report(reason, had)
	c.server.removeClient(c)
}

// report logs one line if the client did not release all of its resources itself, or if lnetd has
// disconnected it.
func (c *client) report(reason error, had unreleased) {
	level, text := slog.LevelInfo, "client disconnected without closing its transfer machines"
	switch {
	case errors.Is(reason, errServerClosed):
		level, text = slog.LevelInfo, "client disconnected because lnetd is stopping"
	case reason != nil:
		level, text = slog.LevelWarn, "client disconnected by lnetd"
	case had == (unreleased{}):
		if c.domain != nil {
			c.note("client disconnected")
		}
		return
	}
	c.log(level, text, slog.Any("reason", reason), slog.Int("tms", had.TMs), slog.Int("buffers", had.Buffers),
		slog.Int("areas", had.Areas), slog.Int("operations", had.Operations))
}

// endOperations cancels all operations, waits for their end, and releases the client's TMs, buffers and
// areas. After Config.Grace it releases what the remaining operations do not use, closes the connection,
// and continues to wait.
func (c *client) endOperations() {
	tms := c.startedTMs()
	for _, t := range tms {
		t.stopRun()
	}
	c.buffers.all(func(b *buffer) {
		if t := b.owner.Load(); t != nil {
			// This cannot fail as long as the TM exists. If the operation has ended, it has no effect.
			_, _ = t.core.Submit([]transport.Op{{Cancel: true, Buffer: b.core, Sequence: b.operation.Load()}})
		}
	})
	grace := time.NewTimer(c.server.config.Grace)
	defer grace.Stop()
	late := false
	for _, t := range tms {
		if !late {
			select {
			case <-t.idle:
			case <-grace.C:
				late = true
			}
		}
	}
	c.releaseUnused()
	if !late {
		return
	}
	c.closeConnection()
	if l := c.unreleased(); l.Operations > 0 {
		c.log(slog.LevelWarn, "operations of a disconnected client are still pending; their memory is kept until they end", slog.Any("pending", l))
	}
	for _, t := range tms {
		<-t.idle
	}
	c.releaseUnused()
}

// startedTMs returns the client's TMs, without those that have been stopped.
func (c *client) startedTMs() (tms []*tm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tms {
		if t != nil {
			tms = append(tms, t)
		}
	}
	return tms
}

// releaseUnused releases the TMs, buffers and areas that no operation uses. It logs a failure and leaves
// the resource as it is.
func (c *client) releaseUnused() {
	failed := func(what string, err error) {
		c.log(slog.LevelError, "cannot free a resource of a disconnected client; it is freed when lnetd restarts", slog.String("resource", what), slog.Any("err", err))
	}
	for _, t := range c.startedTMs() {
		t.closeRing()
		select {
		case <-t.idle:
			if err := t.core.Stop(); err != nil {
				failed("TM", err)
				continue
			}
			c.forgetTM(t)
		default:
		}
	}
	c.buffers.all(func(b *buffer) {
		if b.owner.CompareAndSwap(nil, deregisteringTM) {
			if err := b.core.Deregister(); err != nil {
				b.owner.Store(nil)
				failed("buffer", err)
				return
			}
			c.removeBuffer(b)
		}
	})
	for id, a := range c.unusedAreas() {
		if err := a.unmap(c.domain); err != nil {
			failed("area", err)
			continue
		}
		c.mu.Lock()
		c.areas[id] = nil
		c.mu.Unlock()
		c.uncharge(amounts{ofAreas: 1, ofBytes: int64(len(a.bytes))})
	}
}

// unusedAreas returns the areas in which no buffer is registered, by ID.
func (c *client) unusedAreas() map[int]*area {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[int]*area)
	for id, a := range c.areas {
		if a != nil && a.users == 0 {
			all[id] = a
		}
	}
	return all
}
