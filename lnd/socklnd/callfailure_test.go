package socklnd

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// TestCallFailures checks that each error of a call is counted under the right reason.
func TestCallFailures(t *testing.T) {
	answer := func(err error) error { return fmt.Errorf("%w: %w", lnd.ErrProtocol, misunderstood(err)) }
	for _, tt := range []struct {
		err  error
		want lnd.CallFailure
	}{
		{peering.ErrWaited, lnd.CallTimeout},
		{io.EOF, lnd.CallGone},
		{errEOF, lnd.CallGone},
		{answer(&protocol.MagicError{}), lnd.CallMagic},
		{answer(&lnet.MagicError{}), lnd.CallMagic},
		{answer(&protocol.UnknownVersionError{}), lnd.CallVersion},
		{answer(errors.New("src_nid")), lnd.CallHello},
		{fmt.Errorf("%w: stale", errTurnedAway), lnd.CallTurnedAway},
	} {
		var f peering.CallFailures
		f.Failed(boundedlog.New(slog.New(slog.DiscardHandler)), lnet.NID{}, timeoutErrno(fmt.Errorf("connect: %w", tt.err)))
		if got := f.Counts(); got[tt.want] != 1 || got.Total() != 1 {
			t.Errorf("%v: %v, want %s", tt.err, got, tt.want)
		}
	}
}
