package daemon

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/config"
)

// lnetd has, and requests from systemd, 45 s in addition to the farewell of clients.
func TestStopPatience(t *testing.T) {
	c := config.Default()
	if got := stopTimeout(&c); got >= time.Minute {
		t.Errorf("by default %v: more than tests and systemd wait", got)
	}
	c.Transport.Farewell = config.TransportFarewellMax
	if got := stopTimeout(&c); got != config.TransportFarewellMax+45*time.Second {
		t.Errorf("with the longest farewell %v", got)
	}
}
