package peering

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
)

// Each refused caller is counted under one reason and has one line, whose level depends on whether the
// reason also occurs with well-behaved peers.
func TestRefused(t *testing.T) {
	from := netip.MustParseAddrPort("10.0.0.2:1023")
	for _, tt := range []struct {
		err   error
		want  lnd.Refusal
		level string
	}{
		{lnd.Refuse(lnd.RefusedSlow, "too slow"), lnd.RefusedSlow, "INFO"},
		{fmt.Errorf("hello: %w", lnd.Refuse(lnd.RefusedClaims, "too many")), lnd.RefusedClaims, "INFO"},
		{lnd.Refuse(lnd.RefusedStale, "other incarnation"), lnd.RefusedStale, "DEBUG"},
		{lnd.ErrClosed, lnd.RefusedClosing, "DEBUG"},
		{&lnd.RefusedError{Reason: lnd.RefusedMany, Err: fmt.Errorf("accept: %w", lnd.ErrClosed)}, lnd.RefusedClosing, "DEBUG"},
		{io.EOF, lnd.RefusedGone, "INFO"},
	} {
		var out bytes.Buffer
		log := boundedlog.New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		var r Refusals
		r.Refused(log, from, tt.err)
		line := fmt.Sprintf("level=%s msg=\"caller refused\" caller=10.0.0.2 port=1023 reason=%s cause=", tt.level, tt.want)
		if got := r.Counts(); got[tt.want] != 1 || got.Total() != 1 || !strings.Contains(out.String(), line) {
			t.Errorf("%v: %v, and the line is %s", tt.err, got, out.String())
		}
		(*Refusals)(nil).Refused(log, from, tt.err)
	}
}

// An invalid handshake is refused for its magic, its version, or whatever else is wrong.
func TestMalformed(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want lnd.Refusal
	}{
		{&lnet.MagicError{}, lnd.RefusedMagic},
		{fmt.Errorf("request: %w", &lnet.VersionError{}), lnd.RefusedVersion},
		{lnet.ErrProtocolQuery, lnd.RefusedVersion},
		{&lnet.FieldError{}, lnd.RefusedHello},
	} {
		got := Malformed(tt.err)
		var refused *lnd.RefusedError
		if !errors.As(got, &refused) || refused.Reason != tt.want || !errors.Is(got, tt.err) {
			t.Errorf("%T: %v", tt.err, got)
		}
	}
}
