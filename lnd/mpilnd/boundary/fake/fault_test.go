package fake_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/fake"
)

// open creates a job of two ranks and opens their communicators.
func open(t *testing.T, o fake.Options) (job *fake.Job, a, b boundary.Comm) {
	t.Helper()
	job = fake.New(2, o)
	t.Cleanup(job.Close)
	comms := make([]boundary.Comm, 2)
	var ranks sync.WaitGroup
	for k := range comms {
		ranks.Go(func() {
			var err error
			if comms[k], err = job.Rank(k).World(); err != nil {
				t.Error(err)
			}
		})
	}
	ranks.Wait()
	return job, comms[0], comms[1]
}

// poll calls Poll of a rank once, and returns the completions by ID.
func poll(t *testing.T, m boundary.MPI) map[uint64]boundary.Done {
	t.Helper()
	var batch [16]boundary.Done
	n, err := m.Poll(batch[:], time.Second)
	if err != nil {
		t.Fatal(err)
	}
	done := make(map[uint64]boundary.Done)
	for _, d := range batch[:n] {
		done[d.ID] = d
	}
	return done
}

// must fails the test if one of the errors is not nil.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// story runs f in a bubble, with a job of two ranks.
func story(t *testing.T, o fake.Options, f func(t *testing.T, job *fake.Job, a, b boundary.Comm)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		job, a, b := open(t, o)
		f(t, job, a, b)
	})
}

func TestRequestsOfKilledRank(t *testing.T) {
	for name, fate := range map[string]fake.Fate{"Hang": fake.Hang, "Fail": fake.Fail} {
		t.Run(name, func(t *testing.T) {
			story(t, fake.Options{}, func(t *testing.T, job *fake.Job, a, _ boundary.Comm) {
				must(t, a.Send(1, 1, []byte("x"), 1), a.Receive(1, 1, make([]byte, 1), 2), a.Receive(boundary.Any, 2, make([]byte, 1), 3))
				job.Kill(1, fate)
				must(t, a.Send(1, 1, []byte("x"), 4), a.Receive(1, 1, make([]byte, 1), 5))
				done := poll(t, job.Rank(0))
				want := 0
				if fate == fake.Fail {
					want = 4
				}
				for _, d := range done {
					if !errors.Is(d.Err, fake.ErrKilled) || d.ID == 3 {
						t.Errorf("%+v", d)
					}
				}
				if len(done) != want {
					t.Errorf("%d completions, want %d", len(done), want)
				}
				must(t, a.Cancel(3))
				if d := poll(t, job.Rank(0))[3]; !d.Cancelled {
					t.Errorf("%+v", d)
				}
				if n := job.Requests(0); n != 4-want {
					t.Errorf("%d requests are left, want %d", n, 4-want)
				}
				if _, err := job.Rank(1).Poll(make([]boundary.Done, 1), 0); !errors.Is(err, fake.ErrKilled) {
					t.Error("the killed rank polls:", err)
				}
			})
		})
	}
}

func TestCollectiveCallsWithKilledRank(t *testing.T) {
	for fate, want := range map[fake.Fate]error{fake.Hang: fake.ErrClosed, fake.Fail: fake.ErrKilled} {
		story(t, fake.Options{}, func(t *testing.T, job *fake.Job, a, _ boundary.Comm) {
			result := make(chan error, 1)
			go func() { result <- a.Barrier() }()
			synctest.Wait()
			job.Kill(1, fate)
			synctest.Wait()
			if blocked := len(result) == 0; blocked != (fate == fake.Hang) {
				t.Errorf("fate %d: blocked: %t", fate, blocked)
			}
			job.Close()
			if err := <-result; !errors.Is(err, want) {
				t.Errorf("fate %d: %v, want %v", fate, err, want)
			}
		})
	}
}

func TestFailNext(t *testing.T) {
	story(t, fake.Options{Eager: 10, Unexpected: 10}, func(t *testing.T, job *fake.Job, a, _ boundary.Comm) {
		job.FailNext(0, 2)
		must(t, a.Send(1, 1, nil, 1), a.Receive(1, 1, nil, 2), a.Send(1, 1, nil, 3))
		done := poll(t, job.Rank(0))
		if len(done) != 3 || !errors.Is(done[1].Err, fake.ErrFailed) || !errors.Is(done[2].Err, fake.ErrFailed) || done[3].Err != nil {
			t.Errorf("%+v", done)
		}
	})
}

func TestUnexpectedMessagesAreLimited(t *testing.T) {
	story(t, fake.Options{Eager: 10, Unexpected: 2}, func(t *testing.T, job *fake.Job, a, b boundary.Comm) {
		for id := range uint64(4) {
			must(t, a.Send(1, 1, []byte{byte(id)}, id))
		}
		must(t, a.Send(1, 2, make([]byte, 11), 4))
		if done := poll(t, job.Rank(0)); len(done) != 2 {
			t.Errorf("%d sends without a receive are complete, want 2: %+v", len(done), done)
		}
		got := make([]byte, 4)
		for id := range uint64(4) {
			must(t, b.Receive(0, 1, got[id:][:1], id))
		}
		if done := poll(t, job.Rank(1)); len(done) != 4 || string(got) != "\x00\x01\x02\x03" {
			t.Errorf("%+v, bytes %q", done, got)
		}
		if done := poll(t, job.Rank(0)); len(done) != 2 {
			t.Errorf("%d more sends are complete, want 2: %+v", len(done), done)
		}
	})
}

func TestStalledRank(t *testing.T) {
	story(t, fake.Options{}, func(t *testing.T, job *fake.Job, a, b boundary.Comm) {
		must(t, b.Receive(0, 1, make([]byte, 1), 1))
		job.Stall(1, true)
		must(t, a.Send(1, 1, []byte("x"), 1))
		if done := poll(t, job.Rank(1)); len(done) > 0 {
			t.Errorf("the stalled rank reports %+v", done)
		}
		if done := poll(t, job.Rank(0)); len(done) > 0 {
			t.Errorf("a send to the stalled rank is complete: %+v", done)
		}
		job.Stall(1, false)
		if len(poll(t, job.Rank(1))) != 1 || len(poll(t, job.Rank(0))) != 1 {
			t.Error("no progress after the stall")
		}
	})
}

func TestAbort(t *testing.T) {
	story(t, fake.Options{}, func(t *testing.T, job *fake.Job, _, b boundary.Comm) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.Abort(7)
			t.Error("Abort returned")
		}()
		<-ended
		if _, err := job.Rank(0).Poll(make([]boundary.Done, 1), time.Hour); !errors.Is(err, fake.ErrAborted) || job.Aborted() != 7 {
			t.Errorf("%v, status %d", err, job.Aborted())
		}
	})
}

func TestCloseWithRequests(t *testing.T) {
	story(t, fake.Options{}, func(t *testing.T, job *fake.Job, a, _ boundary.Comm) {
		must(t, a.Receive(boundary.Any, 1, nil, 1))
		if err := job.Rank(0).Close(); err == nil {
			t.Error("closed with an incomplete receive")
		}
		must(t, a.Cancel(1))
		poll(t, job.Rank(0))
		job.Kill(1, fake.Hang) // otherwise Close waits for it
		must(t, job.Rank(0).Close())
	})
}
