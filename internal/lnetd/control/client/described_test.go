package client

import (
	"net/http"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// A description is read whether or not it has a list of peers. If it breaks off, is late or is of another form, the
// caller gets what came before, and the same errors as from other requests.
func TestDescriptions(t *testing.T) {
	const peer = `{"primary_nid":"1.1.1.1@tcp","nis":[]}`
	for _, tt := range []struct {
		body  string
		then  string // "breaks": the connection breaks; "waits": lnetd sends nothing more, until the deadline
		peers int
		code  api.Code // empty: no error
	}{
		{body: `{}`},
		{body: `{"routes":[{"net":"tcp9","hops":7}]}`},
		{body: `{"peers":[]}`},
		{body: `{"details":{"route":1},"peers":[` + peer + `,` + peer + `]}`, peers: 2},
		{body: `{"routes":[]} {}`},
		{body: `{"peers":[` + peer + `],"routes":[]}`, peers: 1, code: api.CodeInternal},
		{body: `{"peers":null}`, code: api.CodeInternal},
		{body: `{"peers":[7]}`, code: api.CodeInternal},
		{body: `[]`, code: api.CodeInternal},
		{body: `{"routes":7}`, code: api.CodeInternal},
		{body: ``, then: "breaks", code: api.CodeDaemonUnreachable},
		{body: `{"peers"`, then: "breaks", code: api.CodeDaemonUnreachable},
		{body: `{"peers":[` + peer, then: "breaks", peers: 1, code: api.CodeDaemonUnreachable},
		{body: `{"routes":[`, then: "waits", code: api.CodeBusy},
		{body: `{"peers":[` + peer, then: "waits", peers: 1, code: api.CodeBusy},
	} {
		t.Run(tt.body+tt.then, func(t *testing.T) {
			ctx := &overContext{Context: t.Context(), over: make(chan struct{})}
			c, _ := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte(tt.body))
				if tt.then == "" {
					return
				}
				_ = http.NewResponseController(w).Flush()
				if tt.then == "breaks" {
					panic(http.ErrAbortHandler)
				}
				if tt.peers == 0 {
					close(ctx.over)
				}
				<-r.Context().Done()
			})
			_, peers, err := c.Described(ctx, api.Document{})
			n := 0
			if err == nil {
				for _, err = range peers {
					if err == nil {
						if n++; tt.then == "waits" {
							close(ctx.over)
						}
					}
				}
			}
			if tt.code != "" {
				wantFault(t, err, tt.code)
			} else if err != nil {
				t.Error(err)
			}
			if n > tt.peers || tt.then == "" && n != tt.peers {
				t.Errorf("%d peers, want %d", n, tt.peers)
			}
		})
	}
}
