package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/controltest"
)

// TestLstBodiesComeWithinTheUsualTime checks that commands that wait for other nodes get more time
// only after their body has been read, so that a client that never sends it soon frees its place.
func TestLstBodiesComeWithinTheUsualTime(t *testing.T) {
	for command, body := range lstCommands {
		for sent, want := range map[string][]string{body: {"body", "deadline"}, body[:len(body)-1]: {"body"}} {
			var events []string
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/lst/"+command, io.TeeReader(strings.NewReader(sent), eventOf{"body", &events}))
			(&server.Server{Backend: &controltest.Daemon{}}).Handler().ServeHTTP(deadlines{httptest.NewRecorder(), &events}, r)
			if !slices.Equal(events, want) {
				t.Errorf("%s %s: %v, want %v", command, sent, events, want)
			}
		}
	}
}

// eventOf records an event for each write.
type eventOf struct {
	name   string
	events *[]string
}

func (e eventOf) Write(b []byte) (int, error) {
	*e.events = append(*e.events, e.name)
	return len(b), nil
}

// deadlines records extensions of the read deadline.
type deadlines struct {
	http.ResponseWriter
	events *[]string
}

func (d deadlines) SetReadDeadline(time.Time) error {
	*d.events = append(*d.events, "deadline")
	return nil
}

func (d deadlines) SetWriteDeadline(time.Time) error { return nil }
