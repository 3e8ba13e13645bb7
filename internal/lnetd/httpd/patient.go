package httpd

import (
	"errors"
	"net"
	"slices"
	"syscall"
)

// passing are transient errors of accept(2): errors of a connection that broke before it was
// accepted, and errors of a host that is short of memory. net/http retries EMFILE and ENFILE with a
// backoff of up to a second, but would stop the server for these.
var passing = []error{
	syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM, syscall.EPROTO, syscall.ENETDOWN, syscall.ENOPROTOOPT,
	syscall.EHOSTDOWN, syscall.ENONET, syscall.EHOSTUNREACH, syscall.EOPNOTSUPP, syscall.ENETUNREACH,
}

// patient is a listener that marks transient errors as temporary.
type patient struct{ net.Listener }

func (p patient) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if slices.ContainsFunc(passing, func(one error) bool { return errors.Is(err, one) }) {
		return nil, passingError{err}
	}
	return conn, err
}

// passingError is a temporary net.Error.
type passingError struct{ error }

func (passingError) Temporary() bool { return true }
func (passingError) Timeout() bool   { return false }
