package transport

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

// reached brings the TM of a new fixture to a state.
var reached = map[State]func(w *fixture){
	StateInitialized: func(*fixture) {},
	StateStarting: func(w *fixture) {
		w.core.start = func(ctx context.Context, _ Address) error {
			<-ctx.Done()
			return ctx.Err()
		}
		w.ok(w.tm.Start(address))
	},
	StateStarted: func(w *fixture) { w.start() },
	StateFailed:  func(w *fixture) { w.is(w.tm.Start("nobody"), syscall.EINVAL) },
	StateStopped: func(w *fixture) {
		w.start()
		w.ok(w.tm.Stop())
	},
	StateUndefined: func(w *fixture) { w.ok(w.tm.Close()) },
	StateStopping: func(w *fixture) {
		w.start()
		w.added(MsgRecv)
		w.ok(w.tm.Stop())
	},
}

// inState runs a test in a bubble, with a TM in a state, and shuts down what is left.
func inState(t *testing.T, s State, test func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		reached[s](w)
		synctest.Wait()
		if got := w.tm.State(); got != s {
			t.Fatalf("state is %v", got)
		}
		test(w)
		synctest.Wait()
		if w.tm.State() == StateStarting {
			w.ok(w.tm.Stop())
			synctest.Wait()
		}
		if n := len(w.core.tms); n > 0 {
			w.fake = w.core.tms[n-1]
		}
		w.close()
	})
}

// A call that the state does not allow returns EINVAL, and changes nothing.
//
// transport 3.5 table
func TestCallsInEachState(t *testing.T) {
	const (
		before  = 1 << StateInitialized
		until   = before | 1<<StateStarting | 1<<StateStarted
		started = 1 << StateStarted
	)
	for name, c := range map[string]struct {
		allowed int // a bit for each state
		call    func(w *fixture) error
	}{
		"Start":                {before, func(w *fixture) error { return w.tm.Start(address) }},
		"Stop":                 {until, func(w *fixture) error { return w.tm.Stop() }},
		"Close":                {before | 1<<StateStopped | 1<<StateFailed, func(w *fixture) error { return w.tm.Close() }},
		"Confine":              {before, func(w *fixture) error { return w.tm.Confine(0) }},
		"SetColour":            {until, func(w *fixture) error { return w.tm.SetColour(1) }},
		"SetQueueLength":       {until, func(w *fixture) error { return w.tm.SetQueueLength(3) }},
		"DeliverSynchronously": {before, func(w *fixture) error { return w.tm.DeliverSynchronously() }},
		"Add":                  {started, func(w *fixture) error { return w.tm.Add(w.buffer(MsgRecv)) }},
		"EndPointAt": {started, func(w *fixture) error {
			e, err := w.tm.EndPointAt(peer)
			if err == nil {
				e.Put()
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for state := range reached {
				inState(t, state, func(w *fixture) {
					told := len(w.tmEvents)
					err := c.call(w)
					if c.allowed&(1<<state) != 0 {
						w.ok(err)
						return
					}
					w.is(err, syscall.EINVAL)
					synctest.Wait()
					if s := w.tm.State(); s != state || len(w.tmEvents) != told {
						t.Errorf("%v: the state is %v then, told %v", state, s, w.tmEvents)
					}
				})
			}
		})
	}
}

// Add to a TM that is not started fails and changes nothing. The error names the state.
//
// transport-tests C (28)
func TestAddInOtherStates(t *testing.T) {
	for state := range reached {
		if state == StateStarted {
			continue
		}
		t.Run(state.String(), func(t *testing.T) {
			inState(t, state, func(w *fixture) {
				b := w.buffer(MsgRecv)
				before := w.tm.AllStats()
				err := w.tm.Add(b)
				w.is(err, syscall.EINVAL)
				if told := err.Error(); !strings.Contains(told, "the TM is "+state.String()+", but only accepts buffers while") {
					t.Errorf("it says: %s", told)
				}
				if b.Flags() != FlagRegistered || w.tm.AllStats() != before {
					t.Errorf("flags are %#x, stats %+v", b.Flags(), w.tm.AllStats())
				}
			})
		})
	}
}

// A TM of NewTM or of Open works without a callback, even if there are errors to report.
//
// transport 3.5 event
func TestATMWithoutACallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.ok(w.tm.Close())
		made, err := w.domain.NewTM(nil)
		w.ok(err)
		w.ok(made.Start(address))
		opened, err := w.domain.Open(t.Context(), address, nil)
		w.ok(err)
		synctest.Wait()
		for _, fake := range w.core.tms {
			fake.push(Completion{Err: syscall.ENOBUFS})
		}
		synctest.Wait()
		for _, tm := range []*TransferMachine{made, opened} {
			if s := tm.State(); s != StateStarted {
				t.Errorf("state is %v", s)
			}
			w.ok(tm.Shutdown(t.Context()))
		}
		w.ok(w.domain.Close())
	})
}
