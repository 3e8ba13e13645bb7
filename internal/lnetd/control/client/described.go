package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// describedAhead is the number of bytes of a description that are read ahead of the caller.
const describedAhead = 1 << 20

// Described returns the current state of the entries in a document. The peers are not in found, but are read
// from lnetd while the caller ranges over the sequence, which it must do once. An error ends the sequence. The
// caller may pause for as long as it likes.
func (c *Client) Described(ctx context.Context, d api.Document) (found api.Described, peers iter.Seq2[api.Peer, error], _ error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := func() { cancel(context.DeadlineExceeded) }
	timeout := time.AfterFunc(endpoint.Described.Patience, late)
	end := func() { timeout.Stop(); cancel(nil) }
	resp, err := send(ctx, c, endpoint.Described, d)
	switch {
	case err != nil:
		end()
		return found, nil, err
	case resp.StatusCode != http.StatusOK:
		defer end()
		defer func() { _ = resp.Body.Close() }()
		return found, nil, c.read(resp, nil)
	}
	body := newReadAhead(resp.Body, describedAhead, func() { timeout.Reset(api.ReplyPatience) })
	r := describedReader{Decoder: json.NewDecoder(body)}
	if err := r.head(&found); err != nil {
		end()
		_ = body.Close()
		return found, nil, c.broken(err)
	}
	return found, func(yield func(api.Peer, error) bool) {
		defer func() { _ = body.Close() }()
		defer end()
		for p, err := range r.peers {
			if err != nil {
				err = c.broken(err)
			}
			if !yield(p, err) {
				return
			}
		}
	}, nil
}

// broken returns the fault for a reply that ends early, or is not the JSON that is expected.
func (c *Client) broken(err error) error {
	syntax, typed := (*json.SyntaxError)(nil), (*json.UnmarshalTypeError)(nil)
	switch {
	case errors.As(err, &syntax) || errors.As(err, &typed) || errors.Is(err, errUnexpected):
		return c.garbled(err)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return c.unreachable(err)
	}
	return c.interrupted(err)
}

// describedReader reads an api.Described. The list of peers must be its last member, if it has one: versions of
// lnetd that send all at once leave out an empty list.
type describedReader struct {
	*json.Decoder
	listed bool // the object has a list of peers
}

// errUnexpected is the error about JSON that is not an api.Described.
var errUnexpected = errors.New("unexpected JSON")

func (r *describedReader) delimiter(want json.Delim) error {
	t, err := r.Token()
	if err == nil && t != want {
		err = fmt.Errorf("%w: %v instead of %v", errUnexpected, t, want)
	}
	return err
}

// head reads all members before the peers into found.
func (r *describedReader) head(found *api.Described) error {
	if err := r.delimiter('{'); err != nil {
		return err
	}
	members := map[string]json.RawMessage{}
	for r.More() {
		t, err := r.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		if r.listed = name == "peers"; r.listed {
			break
		}
		var value json.RawMessage
		if err := r.Decode(&value); err != nil {
			return err
		}
		members[name] = value
	}
	b, err := json.Marshal(members)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, found)
}

// peers yields the peers. The list must be followed by the end of the object.
func (r *describedReader) peers(yield func(api.Peer, error) bool) {
	ends := []json.Delim{'}'}
	var err error
	if r.listed {
		ends = []json.Delim{']', '}'}
		err = r.delimiter('[')
	}
	for r.listed && err == nil && r.More() {
		var p api.Peer
		if err = r.Decode(&p); err != nil {
			break
		}
		if p.NIs == nil { // lnetd leaves out empty lists
			p.NIs = []api.PeerNI{}
		}
		if !yield(p, nil) {
			return
		}
	}
	for _, end := range ends {
		if err == nil {
			err = r.delimiter(end)
		}
	}
	if err != nil {
		yield(api.Peer{}, err)
	}
}
