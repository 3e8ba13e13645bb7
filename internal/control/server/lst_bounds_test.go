package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/control/controltest"
	"github.com/lnetd/lnetd/internal/control/server"
)

// Commands that wait for others get more time than the rest when their body has
// been read, and not before: a client that never sends it holds no place for long.
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

// eventOf notes that something has been written.
type eventOf struct {
	name   string
	events *[]string
}

func (e eventOf) Write(b []byte) (int, error) {
	*e.events = append(*e.events, e.name)
	return len(b), nil
}

// deadlines notes when a request may take longer.
type deadlines struct {
	http.ResponseWriter
	events *[]string
}

func (d deadlines) SetReadDeadline(time.Time) error {
	*d.events = append(*d.events, "deadline")
	return nil
}

func (d deadlines) SetWriteDeadline(time.Time) error { return nil }
