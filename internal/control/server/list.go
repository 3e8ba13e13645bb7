package server

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"syscall"

	"github.com/lnetd/lnetd/internal/control/api"
)

// list is an answer of any length: a JSON object with one long member, an array.
type list[T any] struct {
	key string
	// streams says that items are made while the answer is written. It then takes the same
	// little memory however many there are, and however slowly it is read.
	streams bool
	items   iter.Seq2[T, error] // an error is the last thing that comes
	// encode appends an item; nil: as encoding/json does.
	encode func(b []byte, item *T) ([]byte, error)
	// after, unless it is nil, has the list end when it is about partSize long. A
	// member "next" then says where the next part begins: it is what after makes
	// of the last item.
	after func(last *T) string
	// rest are further members, each with a comma before it.
	rest string
}

// partSize is how long a part of a list is.
const partSize = 1 << 20

// listOf is the list of what show makes of items, those that it wants shown.
func listOf[Item, T any](key string, items []Item, show func(place int, item *Item) (_ T, ok bool)) list[T] {
	return list[T]{key: key, items: func(yield func(T, error) bool) {
		for place := range items {
			if shown, ok := show(place, &items[place]); ok && !yield(shown, nil) {
				return
			}
		}
	}}
}

// made is an answer that is made in pages, while it is written if lazy returns true.
type made interface {
	lazy() bool
	writeTo(ctx context.Context, p *pages) error
}

func (l list[T]) lazy() bool { return l.streams }

func (l list[T]) writeTo(ctx context.Context, p *pages) error {
	p.buf = append(p.buf, `{"`+l.key+`":[`...)
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

func (l list[T]) append(p *pages, item *T) (err error) {
	if l.encode != nil {
		p.buf, err = l.encode(p.buf, item)
		return err
	}
	b, err := json.Marshal(item)
	p.buf = append(p.buf, b...)
	return err
}

// encoded is an answer that is ready to be written.
type encoded []byte

// encode returns an answer as it is written, unless it is made while it is written.
func encode(ctx context.Context, body any) (any, *api.Fault) {
	var p pages
	var err error
	switch m := body.(type) {
	case nil, encoded:
		return body, nil
	case made:
		if m.lazy() {
			return m, nil
		}
		err = m.writeTo(ctx, &p)
	default:
		p.buf, err = json.Marshal(sparse(m))
		p.buf = append(p.buf, '\n')
	}
	if err != nil {
		return nil, unanswered(err)
	}
	return encoded(p.buf), nil
}

func unanswered(err error) *api.Fault {
	return api.Fault{Code: api.CodeStopping, Errno: -int(syscall.ESHUTDOWN), Text: "the answer could not be made"}.Because(err)
}

// answer writes what a request is answered with.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, body any) {
	body, fault := encode(r.Context(), body)
	if fault != nil {
		s.refuse(w, r, fault)
		return
	}
	m, lazy := body.(made)
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
		// The client must not take it for the whole answer.
		s.logger().Debug("an answer was cut short", "written", p.sent, "err", err)
		panic(http.ErrAbortHandler)
	}
}
