package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// streamFarewell is the time in which a client can read the rest of a stream after lnetd has begun to stop.
const streamFarewell = time.Second

// Stream provides the data of a reply that lasts until the client disconnects, the daemon stops, or the stream ends. It
// has bounded memory. If its reader is too slow, it discards data, and later data say how much.
type Stream interface {
	// Next waits for data and returns them; they are valid until the next call. It returns io.EOF at the end of the
	// stream, and an error if ctx is done and no data are left.
	Next(ctx context.Context) ([]byte, error)
}

// streamed returns the operation for an endpoint whose replies are streams. The function open returns a stream for
// which ctx is valid until it ends.
func streamed(
	h *handlers, e endpoint.Endpoint[endpoint.Query, endpoint.Stream],
	open func(ctx context.Context, user int, q query) (Stream, *api.Fault),
) operation {
	return operation{Info: e.Info, do: func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		q, fault := read(e, r)
		if fault != nil {
			return nil, fault
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		s, fault := open(ctx, connectionOf(r).owner(), query(*q))
		if fault != nil {
			return nil, fault
		}
		h.allow(w, time.Time{})
		w.Header().Set("Content-Type", e.Media)
		w.Header().Set("Trailer", api.StreamEndHeader)
		end, err := h.copyStream(ctx, w, connectionOf(r), s)
		w.Header().Set(api.StreamEndHeader, end)
		if err != nil {
			h.logger().Debug("a stream of the control interface has ended", "path", e.Path, "end", end, "err", err)
		}
		return nil, nil
	}}
}

// copyStream sends the data of s until the stream ends, the client has disconnected or ctx is done. It returns why the
// stream ends. A client may be slow for any time: a connection whose client does not read is only closed in favour of
// others, or when the daemon stops.
func (s *Server) copyStream(ctx context.Context, w http.ResponseWriter, conn *connection, from Stream) (end string, _ error) {
	rc := http.NewResponseController(w)
	defer context.AfterFunc(ctx, func() { _ = rc.SetWriteDeadline(time.Now().Add(streamFarewell)) })()
	for {
		conn.waiting()
		if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return api.StreamFailed, err
		}
		conn.serving()
		data, err := from.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return api.StreamComplete, nil
		case err != nil && ctx.Err() != nil:
			return api.StreamStopping, context.Cause(ctx)
		case err != nil:
			return api.StreamFailed, err
		}
		conn.waiting()
		if _, err := w.Write(data); err != nil {
			return api.StreamFailed, err
		}
	}
}
