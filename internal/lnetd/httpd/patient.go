package httpd

import (
	"errors"
	"net"
	"slices"
	"syscall"
)

// passing holds errors of accept(2) after which the server should continue: those of a connection that broke
// before it was accepted, and those of a host that is short of memory. Without this list, net/http would stop
// the server. It retries only after EMFILE and ENFILE, with a back-off of up to a second.
var passing = []error{
	syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM, syscall.EPROTO, syscall.ENETDOWN, syscall.ENOPROTOOPT,
	syscall.EHOSTDOWN, syscall.ENONET, syscall.EHOSTUNREACH, syscall.EOPNOTSUPP, syscall.ENETUNREACH,
}

// patient is a listener that marks the errors in passing as temporary, so that net/http retries.
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
