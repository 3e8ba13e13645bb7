package server_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
)

// The header of a reply has the net type that lnetd names while it reads the document of the request, because the
// reply has NIDs with this name.
func TestReplyNamesNetTypesOfTheDocument(t *testing.T) {
	h := (&server.Server{Backend: &controltest.Daemon{
		ChangeFunc: func(api.ConfigurationChange) (api.ConfigurationChanged, error) {
			return api.ConfigurationChanged{}, lnet.NameType(lnet.NamedType{Type: 231, Name: "planned", IP: true})
		},
	}}).Handler()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/configuration", strings.NewReader(`{"mode":"replace","dry":true}`)))
	list := w.Result().Header.Values("Lnetd-Net-Types")
	if w.Code != http.StatusOK || !slices.Contains(list, "planned=231 ip") {
		t.Errorf("status %d, net types %q", w.Code, list)
	}
	if all := slices.Compact(slices.Sorted(slices.Values(list))); len(all) != len(list) {
		t.Errorf("a net type occurs twice: %q", list)
	}
}
