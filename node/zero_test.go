package node_test

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// arguments returns the receiver, a context and a byte of memory where a method requires
// them, and zero values for the rest.
func arguments(receiver any, m reflect.Method) []reflect.Value {
	args := []reflect.Value{reflect.ValueOf(receiver)}
	for k := 1; k < m.Type.NumIn(); k++ {
		a := reflect.New(m.Type.In(k)).Elem()
		switch a.Type() {
		case reflect.TypeFor[context.Context]():
			a.Set(reflect.ValueOf(context.Background()))
		case reflect.TypeFor[[]byte]():
			a.SetBytes([]byte{1})
		}
		args = append(args, a)
	}
	return args
}

// outcomeOf calls a method. It returns its results, or fails and the error if the last
// one is an error.
func outcomeOf(receiver any, m reflect.Method) (results []reflect.Value, fails bool, err error) {
	out := m.Func.Call(arguments(receiver, m))
	if len(out) == 0 {
		return nil, false, nil
	}
	last := out[len(out)-1]
	if peers, ok := last.Interface().(iter.Seq2[node.PeerInfo, error]); ok {
		for _, err = range peers {
			break
		}
		return nil, true, err
	}
	if last.Type() != reflect.TypeFor[error]() {
		return out, false, nil
	}
	err, _ = last.Interface().(error)
	return nil, true, err
}

// methods returns the methods of a Node or an Admin that programs can call.
func methods(receiver any) iter.Seq[reflect.Method] {
	return func(yield func(reflect.Method) bool) {
		typ := reflect.TypeOf(receiver)
		for k := range typ.NumMethod() {
			m := typ.Method(k)
			f := runtime.FuncForPC(m.Func.Pointer())
			if file, _ := f.FileLine(f.Entry()); strings.HasSuffix(file, "_test.go") {
				continue
			}
			if !yield(m) {
				return
			}
		}
	}
}

// Given a Node that is nil or the zero value, or the Admin of one, when any method is
// called, then it returns ErrNotMade or, if it has no error result, zero values.
func TestANodeThatWasNotMadeSaysSo(t *testing.T) {
	none := (*node.Node)(nil)
	for what, receiver := range map[string]any{
		"nil Node": none, "zero Node": new(node.Node),
		"Admin of nil": none.Admin(), "Admin of zero": new(node.Node).Admin(), "zero Admin": new(node.Admin),
	} {
		count := 0
		for m := range methods(receiver) {
			count++
			results, fails, err := outcomeOf(receiver, m)
			if fails {
				if !errors.Is(err, node.ErrNotMade) {
					t.Errorf("%s: %s: %v", what, m.Name, err)
				}
				continue
			}
			for _, r := range results {
				switch m.Name {
				case "Admin": // an Admin whose methods are tested here
				case "AtClose":
					r.Call(nil)
				case "Explain":
					if err := r.Interface().(selection.Explanation).Err; !errors.Is(err, node.ErrNotMade) {
						t.Errorf("%s: %s: %v", what, m.Name, err)
					}
				default:
					if !r.IsZero() && (r.Kind() != reflect.Slice || r.Len() > 0) {
						t.Errorf("%s: %s returned %v", what, m.Name, r)
					}
				}
			}
		}
		if count < 25 {
			t.Errorf("%s: %d methods were called", what, count)
		}
	}
}

// Given a closed node, when any method is called, then it returns: with ErrClosed if it
// would start something.
func TestAClosedNodeSaysSo(t *testing.T) {
	// Methods that still work on a closed node, or that return another error first.
	other := map[string]error{
		"Close": nil, "SetLazy": nil, "ClearLazy": nil, "AddFault": errAny, "FailNID": errAny, "SetParameters": errAny,
		"Unlink": node.ErrNotFound, "SetNIHealth": node.ErrNotFound, "SetPeerHealth": node.ErrNotFound, "Distance": node.ErrUnreachable,
		"Attach":     node.ErrInvalid, // portal 0
		"PeersAfter": node.ErrClosed, "PeersOf": node.ErrClosed,
	}
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, node.Config{})
		if err := n.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, receiver := range []any{n, n.Admin()} {
			for m := range methods(receiver) {
				_, fails, err := outcomeOf(receiver, m)
				want, ok := other[m.Name]
				if !ok && fails {
					want = node.ErrClosed
				}
				if want != errAny && !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", m.Name, err, want)
				}
			}
		}
		if _, err := n.Attach(portals.Entry{Portal: 1}, portals.MD{Options: portals.OpPut}); !errors.Is(err, node.ErrClosed) {
			t.Errorf("Attach: %v, want ErrClosed", err)
		}
	})
}

var errAny = errors.New("any")

// Given a zero EventQueue, then it works as a queue for all events.
func TestTheZeroEventQueueKeepsAll(t *testing.T) {
	var q node.EventQueue
	var e portals.Event
	if q.TryNext(&e) {
		t.Error("an event in an empty queue")
	}
	n := newNode(t, node.Config{})
	sink(t, n, portals.OpPut)
	h := bind(t, n, portals.MD{Threshold: portals.Unlimited, Handler: &q})
	const puts = 9 // more than the initial capacity
	for range puts {
		put(t, n, h, loID, node.PutOptions{Portal: 1, Ack: true})
	}
	count := map[portals.EventType]int{}
	for range 2 * puts {
		if err := q.Next(t.Context(), &e); err != nil {
			t.Fatal(err)
		}
		count[e.Type]++
	}
	if count[portals.EventSend] != puts || count[portals.EventAck] != puts || q.TryNext(&e) {
		t.Errorf("%v, and another %v; want %d of each", count, e.Type, puts)
	}
}

// Given a zero EventQueue, when a goroutine waits before an event arrives, then it is
// woken.
func TestTheZeroEventQueueWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q node.EventQueue
		next := outcome(func() error {
			var e portals.Event
			return q.Next(context.Background(), &e)
		})
		awaits(t, "nothing has come", next)
		q.HandleEvent(&portals.Event{Type: portals.EventPut})
		if err := <-next; err != nil {
			t.Error(err)
		}
	})
}

// Given a zero table, then it accepts nothing.
func TestATableThatWasNotMadeTakesNothing(t *testing.T) {
	var table portals.Table
	if _, err := table.Bind(portals.MD{Threshold: 1}); !errors.Is(err, portals.ErrInvalid) {
		t.Errorf("Bind: %v, want ErrInvalid", err)
	}
	if _, _, _, err := table.Attach(portals.Entry{Portal: 1}, portals.MD{Threshold: 1, Options: portals.OpPut}); !errors.Is(err, portals.ErrInvalid) {
		t.Errorf("Attach: %v, want ErrInvalid", err)
	}
	if err := table.Unlink(lnet.Handle{}); !errors.Is(err, portals.ErrNotFound) {
		t.Errorf("Unlink: %v, want ErrNotFound", err)
	}
}
