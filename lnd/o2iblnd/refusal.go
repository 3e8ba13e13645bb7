package o2iblnd

import (
	"errors"
	"log/slog"
	"net/netip"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

var errStrangers = &lnd.RefusedError{Reason: lnd.RefusedMany, Err: errors.New("too many that do not go on")}

// misunderstood returns the error for a caller that the protocol's rules reject.
func misunderstood(r *protocol.Reject, err error) error {
	var magic *lnet.MagicError
	var version *lnet.VersionError
	var field *lnet.FieldError
	reason := lnd.RefusedHello
	switch {
	case errors.As(err, &magic):
		reason = lnd.RefusedMagic
	case errors.As(err, &version):
		reason = lnd.RefusedVersion
	case r.Why == protocol.Stale:
		reason = lnd.RefusedStale
	case errors.As(err, &field) && field.Field == "source port":
		reason = lnd.RefusedPort
	case errors.As(err, &field) && field.Field == "dstnid":
		reason = lnd.RefusedNID
	}
	return &lnd.RefusedError{Reason: reason, Err: err}
}

// ordinary reports whether a reason also occurs with well-behaved peers, so that operators need not see
// it.
func ordinary(r lnd.Refusal) bool { return r == lnd.RefusedStale || r == lnd.RefusedClosing }

// refused counts and logs a caller that i refused. If i is nil, it only logs.
func (d *Driver) refused(i *Interface, from netip.Addr, err error) {
	reason := lnd.RefusedHello
	var refused *lnd.RefusedError
	if errors.As(err, &refused) {
		reason = refused.Reason
	}
	if i != nil {
		i.counters.refused.Add(reason)
	}
	l := boundedlog.Line{Level: slog.LevelInfo, Text: "caller refused", Of: boundedlog.AboutCaller(from)}
	if ordinary(reason) {
		l.Level = slog.LevelDebug
	}
	d.log.Tell(l, slog.String("reason", reason.String()), slog.Any("cause", err))
}
