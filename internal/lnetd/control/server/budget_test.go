package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// TestBudget checks that requests are served in the order in which they asked, and that one which
// gives up lets the next one proceed.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		got := make(chan string, 4)
		ask := func(name string, size int64, patience time.Duration) {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := b.acquire(ctx, size); err != nil {
					name += " gives up"
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				}
				got <- name
			}()
			synctest.Wait()
		}
		ask("first", 6, time.Hour)
		ask("large", 9, time.Minute)
		ask("small", 4, time.Hour)
		ask("last", 7, time.Hour)
		time.Sleep(2 * time.Minute)
		b.release(6)
		synctest.Wait()
		b.release(4)
		synctest.Wait()
		if diff := cmp.Diff([]string{"first", "large gives up", "small", "last"}, []string{<-got, <-got, <-got, <-got}); diff != "" {
			t.Error(diff)
		}
		if b.release(7); b.free != 10 || len(b.waiting) != 0 {
			t.Errorf("%d are free, %d wait", b.free, len(b.waiting))
		}
	})
}

// TestNoRoomForADocument checks that a document is refused if there is no memory for it, with the
// time after which to retry.
func TestNoRoomForADocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Backend: &fakeBackend{}}
		h := handlers{Server: s, documents: newBudget(1)}
		did := false
		serve := s.serve(&slotPool{}, documentBodyMax, h.budgeted(func(http.ResponseWriter, *http.Request) (any, *api.Fault) {
			did = true
			return nil, nil
		}))
		w := httptest.NewRecorder()
		began := time.Now()
		serve(w, httptest.NewRequest(http.MethodPost, "/v1/configuration", strings.NewReader("{}")))
		var refusal api.Refusal
		if err := json.Unmarshal(w.Body.Bytes(), &refusal); err != nil || refusal.Error.Code != api.CodeBusy {
			t.Errorf("%s, %v", w.Body, err)
		}
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" || did || time.Since(began) != budgetTimeout {
			t.Errorf("status %d, %v, done: %v, after %v", w.Code, w.Header(), did, time.Since(began))
		}
	})
}

func TestSteadyBody(t *testing.T) {
	extended := 0
	b := &progressBody{
		ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", 3*bodyProgress+10))),
		extend:     func() error { extended++; return nil },
	}
	for _, step := range []struct{ read, want int }{{bodyProgress - 1, 0}, {1, 1}, {bodyProgress, 2}, {bodyProgress, 3}, {10, 3}} {
		if _, err := io.ReadFull(b, make([]byte, step.read)); err != nil {
			t.Fatal(err)
		}
		if extended != step.want {
			t.Errorf("after %d bytes more: extended %d times, want %d", step.read, extended, step.want)
		}
	}
}
