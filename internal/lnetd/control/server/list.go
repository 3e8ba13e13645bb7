package server

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"reflect"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// list is a reply that is generated from a sequence of items. Its JSON form is that of Reply, whose first
// field is the array of items.
type list[Reply, T any] struct {
	// streams is set if the list is generated while it is sent. It then needs little memory, however
	// long it is and however slowly the client reads.
	streams bool
	items   iter.Seq2[T, error] // an error ends the sequence
	// encode appends the JSON form of an item to b. If it is nil, encoding/json encodes the items.
	encode func(b []byte, item *T) ([]byte, error)
	// after, if not nil, splits the list into parts: the list ends after about partSize bytes and has
	// the member "next", with which the client requests the next part. The value of the member is the
	// result of after for the last item.
	after func(last *T) string
	// head is the JSON text of members before the array, each followed by a comma, and rest that of
	// members after the array, each preceded by a comma.
	head, rest string
	// held is the memory in bytes that a list needs until it has been sent. It counts towards the limit of
	// waiting replies.
	held int
}

// partSize is the approximate size in bytes of a part of a list.
const partSize = 1 << 20

// listOf returns a list with the results of show for the given items and their positions. It omits items
// for which show returns false.
func listOf[Reply, Item, T any](items []Item, show func(place int, item *Item) (_ T, ok bool)) list[Reply, T] {
	return list[Reply, T]{items: func(yield func(T, error) bool) {
		for place := range items {
			if shown, ok := show(place, &items[place]); ok && !yield(shown, nil) {
				return
			}
		}
	}}
}

// literal is a reply that generates its own JSON in pages. If lazy returns true, it is generated while it
// is sent, and otherwise before.
type literal interface {
	lazy() bool
	writeTo(ctx context.Context, p *pages) error
}

func (l list[Reply, T]) lazy() bool { return l.streams }

func (l list[Reply, T]) writeTo(ctx context.Context, p *pages) error {
	p.conn.hold(l.held)
	defer p.conn.hold(0)
	name, _, _ := strings.Cut(reflect.TypeFor[Reply]().Field(0).Tag.Get("json"), ",")
	p.buf = append(p.buf, `{`+l.head+`"`+name+`":[`...)
	var last T
	first, end := true, `]`+l.rest+"}\n"
	for item, err := range l.items {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if l.after != nil && p.size() >= partSize {
			next, _ := json.Marshal(l.after(&last))
			end = `]` + l.rest + `,"next":` + string(next) + "}\n"
			break
		}
		if !first {
			p.buf = append(p.buf, ',')
		}
		if err := l.append(p, &item); err != nil {
			return err
		}
		if err := p.turn(); err != nil {
			return err
		}
		first, last = false, item
	}
	p.buf = append(p.buf, end...)
	return p.flush()
}

func (l list[Reply, T]) append(p *pages, item *T) (err error) {
	if l.encode != nil {
		p.buf, err = l.encode(p.buf, item)
		return err
	}
	b, err := json.Marshal(item)
	p.buf = append(p.buf, b...)
	return err
}

// encoded is the complete JSON text of a reply.
type encoded []byte

// encode returns the JSON text of a reply as an encoded. It returns a reply that is generated while it is
// sent unchanged, and nil for nil.
func encode(ctx context.Context, body any) (any, *api.Fault) {
	var p pages
	var err error
	switch m := body.(type) {
	case nil, encoded:
		return body, nil
	case literal:
		if m.lazy() {
			return m, nil
		}
		err = m.writeTo(ctx, &p)
	default:
		p.buf, err = json.Marshal(m)
		p.buf = append(p.buf, '\n')
	}
	if err != nil {
		return nil, unanswered(err)
	}
	return encoded(p.buf), nil
}

func unanswered(err error) *api.Fault {
	return api.Fault{Code: api.CodeStopping, Errno: -int(syscall.ESHUTDOWN), Text: "cannot create the reply"}.Because(err)
}

// answer sends the reply to a request: an encoded, a literal or any value that JSON can represent.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, body any) {
	body, fault := encode(r.Context(), body)
	if fault != nil {
		s.refuse(w, r, fault)
		return
	}
	m, lazy := body.(literal)
	if !lazy {
		s.send(w, r, http.StatusOK, body.(encoded))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	p := pages{w: w, conn: connectionOf(r), buf: make([]byte, 0, pageSize+pageSize/4)}
	err := m.writeTo(r.Context(), &p)
	switch {
	case err == nil:
	case p.sent == 0:
		s.refuse(w, r, unanswered(err))
	default:
		// Closing the connection shows the client that the reply is not complete.
		s.logger().Debug("a control reply ended early; its client finds it incomplete", "bytes_sent", p.sent, "err", err)
		panic(http.ErrAbortHandler)
	}
}
