package peering

import (
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
)

// Refusals counts the callers that an interface has refused, by reason. The zero value is ready to use.
// It is safe for concurrent use.
type Refusals [lnd.Refusals]atomic.Uint64

// Counts returns the current counts.
func (t *Refusals) Counts() (c lnd.RefusalCounts) {
	for r := range t {
		c[r] = t[r].Load()
	}
	return c
}

// Add counts a refused caller without logging it.
func (t *Refusals) Add(r lnd.Refusal) { t[r].Add(1) }

// Refused counts and logs a caller that was refused because of err. If t is nil, because no interface can be
// found that the caller meant, it only logs.
func (t *Refusals) Refused(log *boundedlog.Log, from netip.AddrPort, err error) {
	reason := refusalFor(err)
	if t != nil {
		t.Add(reason)
	}
	l := boundedlog.Line{Level: slog.LevelInfo, Text: "caller refused", Of: boundedlog.AboutCaller(from.Addr())}
	if ordinary(reason) {
		l.Level = slog.LevelDebug
	}
	log.Report(l, slog.Uint64("port", uint64(from.Port())), slog.String("reason", reason.String()), slog.Any("cause", err))
}

// refusalFor returns the reason under which err is counted.
func refusalFor(err error) lnd.Refusal {
	var refused *lnd.RefusedError
	switch {
	case errors.Is(err, lnd.ErrClosed): // the interface is closing, whatever else err says
		return lnd.RefusedClosing
	case errors.As(err, &refused):
		return refused.Reason
	}
	return lnd.RefusedGone
}

// ordinary reports whether well-behaved peers are also refused for a reason. Operators need not see such
// refusals, so they are logged at the debug level.
func ordinary(r lnd.Refusal) bool {
	switch r {
	case lnd.RefusedDuplicate, lnd.RefusedRace, lnd.RefusedStale, lnd.RefusedClosing:
		return true
	}
	return false
}

// Malformed returns the error for a peer whose message in the handshake is invalid, whichever side connected.
// It is a *lnd.RefusedError that wraps err. Its reason is RefusedMagic or RefusedVersion if err shows this,
// and otherwise RefusedHello.
func Malformed(err error) error {
	var magic *lnet.MagicError
	var version *lnet.VersionError
	r := lnd.RefusedHello
	switch {
	case errors.As(err, &magic):
		r = lnd.RefusedMagic
	case errors.As(err, &version), errors.Is(err, lnet.ErrProtocolQuery):
		r = lnd.RefusedVersion
	}
	return &lnd.RefusedError{Reason: r, Err: err}
}
