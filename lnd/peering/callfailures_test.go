package peering

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
)

// Each way in which a call fails is counted under one reason, and has a line.
func TestFailedCalls(t *testing.T) {
	wrong := func(err error) error { return fmt.Errorf("%w: %w", lnd.ErrProtocol, err) }
	peer := lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), netip.MustParseAddr("10.0.0.1"))
	for _, tt := range []struct {
		err  error
		want lnd.CallFailure
	}{
		{os.NewSyscallError("connect", syscall.ECONNREFUSED), lnd.CallRefused},
		{syscall.EHOSTUNREACH, lnd.CallUnreachable},
		{syscall.ENETUNREACH, lnd.CallUnreachable},
		{syscall.ETIMEDOUT, lnd.CallTimeout},
		{lnd.ErrTimeout, lnd.CallTimeout},
		{os.ErrDeadlineExceeded, lnd.CallTimeout},
		{syscall.EADDRINUSE, lnd.CallNoPort},
		{syscall.EACCES, lnd.CallNoPort},
		{io.EOF, lnd.CallGone},
		{lnd.ErrDisconnected, lnd.CallGone},
		{syscall.ECONNRESET, lnd.CallGone},
		{wrong(Malformed(&lnet.MagicError{})), lnd.CallMagic},
		{wrong(Malformed(&lnet.VersionError{})), lnd.CallVersion},
		{wrong(Malformed(errors.New("src_nid"))), lnd.CallHello},
		{wrong(errors.New("src_nid")), lnd.CallHello},
		{&lnd.CallError{Reason: lnd.CallTurnedAway, Err: syscall.ECONNREFUSED}, lnd.CallTurnedAway},
		{syscall.ENOMEM, lnd.CallOther},
	} {
		var out bytes.Buffer
		var f CallFailures
		f.Failed(boundedlog.New(slog.New(slog.NewTextHandler(&out, nil))), peer, fmt.Errorf("connect: %w", tt.err))
		if got := f.Counts(); got[tt.want] != 1 || got.Total() != 1 {
			t.Errorf("%v: %v, want %s", tt.err, got, tt.want)
		}
		if want := `level=WARN msg="connect failed" peer=10.0.0.1@tcp cause=`; !strings.Contains(out.String(), want) {
			t.Errorf("%v: the line is %s", tt.err, out.String())
		}
	}
}
