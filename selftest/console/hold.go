package console

import "context"

// Hold ties a session to its holder: when that has gone, whoever looks after it
// ends the session, and no later one of the same key. Its methods are safe for
// concurrent use.
type Hold struct {
	console *Console
	session *session
}

// Hold holds the session that a key is of. Errors: as all commands.
func (c *Console) Hold(key Key) (*Hold, error) {
	x, err := c.begin(context.Background(), key)
	if err != nil {
		return nil, err
	}
	defer x.end()
	return &Hold{console: c, session: x.session}, nil
}

// Over is closed when the session has ended, whyever.
func (h *Hold) Over() <-chan struct{} { return h.session.ended }

// End ends the session, if it has not ended yet, and waits for that. It goes on
// after ctx is canceled, whose cause is returned then.
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
