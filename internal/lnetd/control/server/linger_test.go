package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// TestRefusedBeforeTheBodyWasRead: given a request that is answered before its body has been read,
// when the client sends the whole body, then it succeeds and receives the answer.
func TestRefusedBeforeTheBodyWasRead(t *testing.T) {
	const long = 1 << 20 // more than net/http discards
	for _, tt := range []struct {
		name, request string
		length        int // of the body, in bytes
		budget        int64
		sends         bool // whether the client can send the whole body
		status        int
	}{
		{"no room", "POST /v1/configuration", long, 1, true, http.StatusServiceUnavailable},
		{"too long a document", "POST /v1/configuration", documentBodyMax + long, documentsBudget, true, http.StatusBadRequest},
		{"too long a request", "POST /v1/nets", long, 1, true, http.StatusBadRequest},
		{"no such request", "POST /v1/nothing", long, 1, true, http.StatusBadRequest},
		{"a question", "GET /v1/nets", long, 1, true, http.StatusOK},
		{"no JSON", "POST /v1/configuration", long, documentsBudget, true, http.StatusBadRequest},
		{"without end", "POST /v1/nothing", 2 * lingerMax, 1, false, http.StatusBadRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				status, sent := exchange(t, tt.budget, tt.request, tt.length)
				if (sent == nil) != tt.sends || status != tt.status {
					t.Errorf("status %d, want %d; sending: %v", status, tt.status, sent)
				}
			})
		})
	}
}

// TestLingerEnds checks that a client that stops sending does not keep the connection open for
// long.
func TestLingerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, end := serveOne(t, documentsBudget)
		defer end()
		begun := time.Now()
		_, err := fmt.Fprintf(ours, "POST /v1/nothing HTTP/1.1\r\nHost: lnetd\r\nContent-Length: %d\r\n\r\n", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(ours)
		if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 400 ") {
			t.Errorf("%s, %v", all, err)
		}
		if took := time.Since(begun); took > bodyTimeout+time.Second {
			t.Errorf("the connection ended after %v", took)
		}
	})
}

// TestNoLingerForAClientThatAsksFirst checks that a client that sends Expect: 100-continue is
// answered at once, and that the connection ends.
func TestNoLingerForAClientThatAsksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, end := serveOne(t, documentsBudget)
		defer end()
		begun := time.Now()
		_, err := io.WriteString(ours, "POST /v1/nothing HTTP/1.1\r\nHost: lnetd\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(ours)
		if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 400 ") || time.Since(begun) > time.Second {
			t.Errorf("%s, %v after %v", all, err, time.Since(begun))
		}
	})
}

// exchange sends a request with a body of the given length. It returns the status of the answer,
// and the error of sending the body.
func exchange(t *testing.T, budget int64, request string, length int) (status int, sent error) {
	t.Helper()
	ours, end := serveOne(t, budget)
	defer end()
	done := make(chan error, 1)
	go func() {
		_, err := fmt.Fprintf(ours, "%s HTTP/1.1\r\nHost: lnetd\r\nContent-Length: %d\r\n\r\n", request, length)
		block := []byte(strings.Repeat("[", 64<<10))
		for left := length; err == nil && left > 0; left -= len(block) {
			block = block[:min(len(block), left)]
			_, err = ours.Write(block)
		}
		done <- err
	}()
	resp, err := http.ReadResponse(bufio.NewReader(ours), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var refusal api.Refusal
	if err := json.NewDecoder(resp.Body).Decode(&refusal); err != nil || (refusal.Error == nil) != (resp.StatusCode == http.StatusOK) {
		t.Errorf("status %s: %+v, %v", resp.Status, refusal, err)
	}
	return resp.StatusCode, <-done
}

// serveOne serves one in-memory connection, with a memory budget for documents, until end is
// called.
func serveOne(t *testing.T, budget int64) (ours net.Conn, end func()) {
	t.Helper()
	dial, stop := servePipes(t, &Server{Backend: &fakeBackend{}, documents: budget})
	ours = dial()
	return ours, func() { _ = ours.Close(); stop() }
}
