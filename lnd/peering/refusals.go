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

// Add counts a caller without logging it.
func (t *Refusals) Add(r lnd.Refusal) { t[r].Add(1) }

// Refused counts and logs a caller that was refused because of err. A nil t, for a caller that no
// interface can count, only logs.
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

// refusalFor returns the reason for which an error is counted.
func refusalFor(err error) lnd.Refusal {
	var refused *lnd.RefusedError
	switch {
	case errors.Is(err, lnd.ErrClosed): // whatever failed because of it
		return lnd.RefusedClosing
	case errors.As(err, &refused):
		return refused.Reason
	}
	return lnd.RefusedGone
}

// ordinary reports whether a reason also occurs with well-behaved peers, so that operators need not see
// it.
func ordinary(r lnd.Refusal) bool {
	switch r {
	case lnd.RefusedDuplicate, lnd.RefusedRace, lnd.RefusedStale, lnd.RefusedClosing:
		return true
	}
	return false
}

// Malformed returns the error for a peer whose part of the handshake is invalid. It is a
// *lnd.RefusedError with err inside. If err does not show the reason, the reason is RefusedHello.
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
