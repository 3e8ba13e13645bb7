package o2iblnd

import (
	"testing"

	"github.com/lnetd/lnetd/lnd"
)

// TestResendable checks that a message that the peer may have seen fails with a status that
// prevents LNet from sending it again.
//
// o2iblnd 13.3
func TestResendable(t *testing.T) {
	again := map[lnd.Status]bool{
		lnd.StatusLocalInterrupt: true, lnd.StatusLocalDropped: true, lnd.StatusLocalAborted: true, lnd.StatusLocalNoRoute: true,
		lnd.StatusLocalTimeout: true, lnd.StatusRemoteDropped: true,
	}
	// Completions of a connection (protocol.Conn).
	for _, s := range []lnd.Status{
		lnd.StatusOK, lnd.StatusLocalAborted, lnd.StatusLocalError, lnd.StatusLocalTimeout, lnd.StatusRemoteError, lnd.StatusRemoteDropped,
		lnd.StatusRemoteTimeout, lnd.StatusNetworkTimeout,
	} {
		for _, ending := range []bool{false, true} {
			if got := resendable(s, true, ending); again[got] {
				t.Errorf("%v of a message that was posted becomes %v, which is resent", s, got)
			}
			want := s
			if ending && s == lnd.StatusLocalError {
				want = lnd.StatusLocalDropped
			}
			if got := resendable(s, false, ending); got != want {
				t.Errorf("%v of a message that was not posted becomes %v, want %v", s, got, want)
			}
		}
	}
}
