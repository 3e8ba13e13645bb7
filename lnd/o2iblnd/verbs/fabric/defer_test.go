package fabric_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// TestDefer checks when the completion of a request wakes Wait: at once or, if completions are deferred,
// verbs.MaxDefer after Wait went to sleep. From then on they wake Wait at once, until it has found one.
func TestDefer(t *testing.T) {
	const latency = 10 * time.Microsecond
	bubble(t, fabric.Config{Link: fabric.Link{Latency: latency}}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		i, j := connect(a, b)
		for k, c := range []struct {
			deferred   bool
			idle, want time.Duration // time since the last completion; time until that of the next request
		}{
			{false, 0, 2 * latency},
			{true, 0, 2 * latency}, // Wait was already sleeping
			{true, 0, verbs.MaxDefer},
			{true, 4 * time.Millisecond, verbs.MaxDefer - 4*time.Millisecond},
			{true, time.Second, 2 * latency},
			{false, time.Millisecond, 2 * latency},
		} {
			b.receives(j, uint64(k))
			a.cq.Defer(c.deferred)
			time.Sleep(c.idle)
			begin := time.Now()
			a.send(i, uint64(k))
			a.completed(uint64(k), verbs.Success)
			if got := time.Since(begin); got != c.want {
				t.Errorf("case %d: %v, want %v", k, got, c.want)
			}
			synctest.Wait()
		}
	})
}
