package statuspage

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// reasonsMost is the maximum number of NIs that a reason names.
const reasonsMost = 8

// Health returns a handler for /healthz and /readyz. Both respond with the status 200 and "ok", or with 503 and the
// reason. /healthz fails if the node is stuck, so that only a restart helps. /readyz also fails while all NIs except 0@lo
// are down. A restart does not help then, because lnetd already waits for an interface.
func Health(n Node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, stuck(n)) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, unready(n)) })
	return restricted(mux)
}

// answer responds with a problem, or with "ok" if the problem is empty.
func answer(w http.ResponseWriter, problem string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	if problem != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, cmp.Or(problem, "ok")+"\n") // an error means that the client has left
}

// stuck returns the reason why only a restart helps, or "".
func stuck(n Node) string {
	if parts := n.Stuck(); parts != "" {
		return "the node is stuck: " + parts
	}
	return ""
}

// unready returns the reason why the node cannot reach other nodes. It returns "" if an NI is up and the node is not
// stuck.
func unready(n Node) string {
	if reason := stuck(n); reason != "" {
		return reason
	}
	if n.LNetDown() {
		return "LNet is not configured"
	}
	var reasons []string
	for _, net := range n.Nets() {
		for k := range net.NIs {
			ni := &net.NIs[k]
			switch {
			case ni.NID.IsLoopback():
			case ni.Status == "up":
				return ""
			default:
				reasons = append(reasons, fmt.Sprintf("%s: %s", ni.NID, cmp.Or(ni.Reason, "down")))
			}
		}
	}
	for _, w := range n.Waiting() {
		reasons = append(reasons, fmt.Sprintf("%s waits: %s", nameOf(&w), w.Cause))
	}
	if len(reasons) == 0 {
		return "no NI is up, because none is configured"
	}
	if more := len(reasons) - reasonsMost; more > 0 {
		reasons = append(reasons[:reasonsMost], fmt.Sprintf("and %d others", more))
	}
	return "no NI is up: " + strings.Join(reasons, "; ")
}

// nameOf returns the name of an NI that waits: NET(INTERFACE), or the NID.
func nameOf(w *api.WaitingNI) string {
	if w.Interface == "" && !w.NID.IsZero() {
		return w.NID.String()
	}
	return fmt.Sprintf("%s(%s)", w.Net, w.Interface)
}
