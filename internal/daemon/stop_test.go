package daemon

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/config"
)

// lnetd gives itself, and asks systemd for, the time that clients have for their farewell, and
// 45 s.
func TestStopPatience(t *testing.T) {
	c := config.Default()
	if got := stopPatience(&c); got >= time.Minute {
		t.Errorf("by default %v: more than tests and systemd wait", got)
	}
	c.Transport.Farewell = config.TransportFarewellMax
	if got := stopPatience(&c); got != config.TransportFarewellMax+45*time.Second {
		t.Errorf("with the longest farewell %v", got)
	}
}
