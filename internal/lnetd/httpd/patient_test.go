package httpd

import (
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
)

// failing is a listener whose first calls of Accept fail with errs.
type failing struct {
	*pipes
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", err)}
	}
	return f.pipes.Accept()
}

// TestAcceptFailsForAWhile: given a host without free descriptors or memory, or callers that leave
// at once, when Accept fails for a while, then the server continues and answers the next request. A
// permanent error ends it.
func TestAcceptFailsForAWhile(t *testing.T) {
	for _, errno := range slices.Concat([]error{syscall.EMFILE, syscall.ENFILE}, passing) {
		synctest.Test(t, func(t *testing.T) {
			f := &failing{newPipes(), []error{errno, errno, errno}}
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })}
			served := make(chan error, 1)
			go func() { served <- Serve(t.Context(), f, s, nil) }()
			if _, body, err := f.get("/"); err != nil || body != "here" {
				t.Errorf("%v: %q, %v", errno, body, err)
			}
			_ = f.Close()
			<-served
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := &failing{newPipes(), []error{syscall.EBADF}}
		if err := Serve(t.Context(), f, &http.Server{}, nil); err == nil {
			t.Error("it ends without an error")
		}
	})
}
