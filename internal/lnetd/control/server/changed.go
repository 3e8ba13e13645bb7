package server

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd/boundedlog"
)

// changeLoggedMax is the maximum number of bytes of a request's body that are logged.
const changeLoggedMax = 200

// loggingChanges returns operations that also log the requests which succeed. They leave out those with a document, which
// the backend describes better, and those that change nothing.
func (h *handlers) loggingChanges(list []operation) []operation {
	for k := range list {
		if o := list[k]; o.Method != http.MethodGet && !o.Document {
			list[k].do = h.loggingChange(o)
		}
	}
	return list
}

func (h *handlers) loggingChange(o operation) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		begin := limitedBuffer{most: changeLoggedMax}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &begin), r.Body}
		body, fault := o.do(w, r)
		if fault == nil {
			h.changed.Report(boundedlog.Line{
				Level: slog.LevelInfo, Text: "changed by a control request", Of: boundedlog.About("request", o.Pattern()),
			}, slog.String("body", strings.Join(strings.Fields(begin.String()), " ")), slog.Int("uid", connectionOf(r).owner()))
		}
		return body, fault
	}
}

// limitedBuffer keeps the first bytes that are written to it, at most most.
type limitedBuffer struct {
	bytes.Buffer
	most int
}

// Write implements io.Writer. It never returns an error.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), b.most-b.Len())])
	return len(p), nil
}
