package daemon

import (
	"fmt"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// namedMost is the maximum number of NIs that one list in a status line names.
const namedMost = 4

// status returns the status line of lnetd that systemd shows: which NIs are up, what lnetd waits for,
// and why the last reload failed, if it did.
func (d *Daemon) status() string {
	d.mu.Lock()
	t := d.node
	d.mu.Unlock()
	line := "starting"
	if t != nil {
		select {
		case <-t.ready:
			line = t.status()
		default:
		}
	}
	if why := d.record.failure(); why != "" {
		line += "; the last reload failed: " + why
	}
	return line
}

// status describes which NIs are up and what the node waits for. The task must be ready.
func (t *nodeTask) status() string {
	if t.unconfigured.Load() {
		return "LNet is not configured"
	}
	var up int
	var down, waits []string
	for _, i := range t.NIs() {
		switch {
		case i.NID.IsLoopback():
		case i.Status == lnet.StatusUp:
			up++
		default:
			down = append(down, i.NID.String())
		}
	}
	for _, w := range t.engines.waiting() {
		waits = append(waits, w.String()+" ("+w.cause+")")
	}
	parts := []string{count(up, "NI is up", "NIs are up")}
	if len(down) > 0 {
		parts = append(parts, "down: "+listNames(down))
	}
	if len(waits) > 0 {
		parts = append(parts, "waiting for: "+listNames(waits))
	}
	if t.unsettled.Load() {
		parts = append(parts, "waiting for an interface that matches an ip2nets rule")
	}
	if n := len(t.postponed.all()); n > 0 {
		parts = append(parts, count(n, "route waits", "routes wait")+" for an NI on the net of the gateway")
	}
	return strings.Join(parts, "; ")
}

func count(n int, one, more string) string {
	switch n {
	case 0:
		return "no " + one
	case 1:
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// listNames returns the first namedMost names as text, and how many more there are.
func listNames(names []string) string {
	if len(names) <= namedMost {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:namedMost], ", "), len(names)-namedMost)
}
