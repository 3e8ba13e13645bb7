package console

import "context"

// Hold ties a session to a holder, such as a connection. When the holder ends, it calls End, which ends this
// session, but not a later session with the same key. The methods are safe for concurrent use.
type Hold struct {
	console *Console
	session *session
}

// Hold returns a Hold on the session with the given key. It returns an error if there is no such session.
func (c *Console) Hold(key Key) (*Hold, error) {
	x, err := c.begin(context.Background(), key)
	if err != nil {
		return nil, err
	}
	defer x.end()
	return &Hold{console: c, session: x.session}, nil
}

// Over returns a channel that is closed when the session has ended for any reason.
func (h *Hold) Over() <-chan struct{} { return h.session.ended }

// End ends the session, unless it has ended already, and waits until it has ended. If ctx is done before
// that, End returns its cause, and the session ends in the background.
func (h *Hold) End(ctx context.Context) error {
	h.console.mu.Lock()
	h.console.endLocked(h.session)
	h.console.mu.Unlock()
	select {
	case <-h.session.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
