package socklnd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Each way in which a call fails has its reason.
func TestCallFailures(t *testing.T) {
	wrong := func(err error) error { return fmt.Errorf("%w: %w", lnd.ErrProtocol, err) }
	for _, tt := range []struct {
		err  error
		want lnd.CallFailure
	}{
		{os.NewSyscallError("connect", syscall.ECONNREFUSED), lnd.CallRefused},
		{syscall.EHOSTUNREACH, lnd.CallUnreachable},
		{syscall.ENETUNREACH, lnd.CallUnreachable},
		{errPendingTime, lnd.CallTimeout},
		{os.ErrDeadlineExceeded, lnd.CallTimeout},
		{syscall.EADDRINUSE, lnd.CallNoPort},
		{syscall.EACCES, lnd.CallNoPort},
		{io.EOF, lnd.CallGone},
		{errEOF, lnd.CallGone},
		{syscall.ECONNRESET, lnd.CallGone},
		{wrong(&protocol.MagicError{}), lnd.CallMagic},
		{wrong(&lnet.MagicError{}), lnd.CallMagic},
		{wrong(&protocol.UnknownVersionError{}), lnd.CallVersion},
		{wrong(errors.New("src_nid")), lnd.CallHello},
		{fmt.Errorf("%w: stale", errTurnedAway), lnd.CallTurnedAway},
		{syscall.ENOMEM, lnd.CallOther},
	} {
		if got := callFailure(fmt.Errorf("connect: %w", tt.err)); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.err, got, tt.want)
		}
	}
}
