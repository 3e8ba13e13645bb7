package server_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
)

// TestEveryEndpointHasAHandler checks that a server handles all endpoints. A handler without an
// endpoint does not compile.
func TestEveryEndpointHasAHandler(t *testing.T) {
	mux := (&server.Server{}).Handler().(*http.ServeMux)
	for _, e := range endpoint.All() {
		if _, got := mux.Handler(httptest.NewRequest(e.Method, e.Path, http.NoBody)); got != e.Pattern() {
			t.Errorf("%s is handled by %s", e.Pattern(), got)
		}
	}
}
