package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/controltest"
)

// raw sends a request that lnetd's own client would not send.
func raw(t *testing.T, path, method, target, body string) (int, string) {
	t.Helper()
	h := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}}
	defer h.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://lnetd"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := h.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestMalformedRequests checks that malformed requests are refused as such, and change nothing.
func TestMalformedRequests(t *testing.T) {
	d := &controltest.Daemon{NetList: localNets(), PeerList: []api.Peer{aPeer("10.0.0.2@tcp")}}
	_, path := serve(t, d)
	long := strings.Repeat("x", 70<<10)
	many := `"` + strings.Repeat(`10.0.0.9@tcp","`, api.PeerNIDsMax) + `10.0.0.9@tcp"`
	tests := []struct{ method, target, body string }{
		{"GET", "/v1/peers?frob=1", ""},
		{"GET", "/v1/peers?nid=10.0.0.1@tcp&nid=10.0.0.2@tcp", ""},
		{"GET", "/v1/peers?nid=%zz", ""},
		{"GET", "/v1/peers?page=frob", ""},
		{"GET", "/v1/peers?page=0&detail=all", ""},
		{"GET", "/v1/peers?detail=1", ""},
		{"GET", "/v1/peers?page=0&nid=10.0.0.2@tcp", ""},
		{"GET", "/v1/routes?hops=many", ""},
		{"GET", "/v1/routes?priority=-1", ""},
		{"GET", "/v1/routes?gateway=x@", ""},
		{"GET", "/v1/udsp?idx=-1", ""},
		{"GET", "/v1/selection?id=x", ""},
		{"GET", "/v1/explain", ""},
		{"GET", "/v1/explain?nid=10.0.0.1@tcp&portal=4294967296", ""},
		{"GET", "/v1/faults", ""},
		{"GET", "/v1/discover", ""},
		{"PUT", "/v1/peers", "{}"},
		{"DELETE", "/v1/globals", "{}"},
		{"POST", "/v1/peers", ""},
		{"POST", "/v1/peers", "{"},
		{"POST", "/v1/peers", "[]"},
		{"POST", "/v1/peers", "null"},
		{"POST", "/v1/peers", `{}`},
		{"POST", "/v1/peers", `{"primary_nid":"x@"}`},
		{"POST", "/v1/peers", `{"primary_nid":"10.0.0.1@tcp","frob":1}`},
		{"POST", "/v1/peers", `{"primary_nid":"10.0.0.1@tcp","nids":[""]}`},
		{"POST", "/v1/peers", `{"primary_nid":"10.0.0.1@tcp","nids":[` + many + `]}`},
		{"POST", "/v1/peers", `{"primary_nid":"10.0.0.1@tcp"} {"primary_nid":"10.0.0.2@tcp"}`},
		{"POST", "/v1/peers", `{"primary_nid":"` + long + `"}`},
		{"DELETE", "/v1/peers", `{}`},
		{"DELETE", "/v1/peers", ""},
		{"POST", "/v1/peers/health", `{"value":1}`},
		{"POST", "/v1/peers/health", `{"all":true,"value":"x"}`},
		{"POST", "/v1/nets/health", `{"all":true,"value":1e30}`},
		{"POST", "/v1/discover", `{}`},
		{"POST", "/v1/discover", `{"nids":["x@"]}`},
		{"POST", "/v1/discover", `{"nids":["7-10.0.0.1@tcp"]}`},
		{"POST", "/v1/routes", `{"net":"foo","gateways":["10.0.0.5@tcp"]}`},
		{"POST", "/v1/routes", `{"net":"tcp9","gateways":["10.0.0.5@tcp"],"hops":-1}`},
		{"POST", "/v1/routes", `{"net":"tcp9","net":"tcp9","gateways":["10.0.0.5@tcp"]}`},
		{"POST", "/v1/configuration", `{"name":"x","text":"net: []","text":"global: {}","mode":"add"}`},
		{"POST", "/v1/configuration", `{"name":"x","text":null,"mode":"add"}`},
		{"POST", "/v1/configuration/errands", `{"name":"x","text":"a","Text":"b"}`},
		{"POST", "/v1/configuration/show", `{"name":null,"text":"a"}`},
		{"POST", "/v1/routing", `{}`},
		{"POST", "/v1/routing", `{"tiny":99999999999}`},
		{"POST", "/v1/globals", `{"lnd_timeout":5}`},
		{"POST", "/v1/globals", `{"discovery":null}`},
		{"POST", "/v1/globals", `{"discovery":1.5}`},
		{"POST", "/v1/udsp", `{"src":"foo"}`},
		{"POST", "/v1/udsp", `{"src":"tcp","priority":-1}`},
		{"DELETE", "/v1/udsp", `{}`},
		{"DELETE", "/v1/udsp", `{"idx":-1}`},
		{"POST", "/v1/selection", `{}`},
		{"POST", "/v1/selection", `{"type":"net","net":"tcp","id":-1}`},
		{"DELETE", "/v1/selection", `{"type":"net"}`},
		{"POST", "/v1/faults", `{}`},
		{"POST", "/v1/faults/reset", `[]`},
		{"POST", "/v1/stats/reset", `{"frob":1}`},
	}
	for _, tt := range tests {
		body := tt.body
		t.Run(tt.method+" "+tt.target+" "+body[:min(len(body), 60)], func(t *testing.T) {
			status, answer := raw(t, path, tt.method, tt.target, body)
			var refusal struct{ Error *api.Fault }
			if err := json.Unmarshal([]byte(answer), &refusal); err != nil || refusal.Error == nil {
				t.Fatalf("status %d: %s", status, answer)
			}
			if status < 400 || status >= 500 || refusal.Error.Code == api.CodeInternal || refusal.Error.Errno >= 0 {
				t.Errorf("status %d: %+v", status, refusal.Error)
			}
		})
	}
	wantDone(t, d)
}

// TestEmptyLists checks that empty lists are encoded as [], not null.
func TestEmptyLists(t *testing.T) {
	_, path := serve(t, &controltest.Daemon{})
	for target, want := range map[string]string{
		"/v1/nets":               `{"nets":[]}`,
		"/v1/peers":              `{"peers":[]}`,
		"/v1/peers?page=0":       `{"peers":[]}`,
		"/v1/routes":             `{"routes":[]}`,
		"/v1/routing":            `{"state":0,"ever":false,"cpts":[]}`,
		"/v1/udsp":               `{"rules":[]}`,
		"/v1/selection":          `{"rules":[]}`,
		"/v1/faults?kind=drop":   `{"rules":[]}`,
		"/v1/explain?nid=0@lo":   `{"nid":"0@lo","case":"","steps":[],"error":"unreachable"}`,
		"/v1/routes?hops=3":      `{"routes":[]}`,
		"/v1/selection?type=net": `{"rules":[]}`,
	} {
		if status, got := raw(t, path, "GET", target, ""); status != http.StatusOK || strings.TrimSpace(got) != want {
			t.Errorf("%s: status %d: %s\nwant %s", target, status, got, want)
		}
	}
}
