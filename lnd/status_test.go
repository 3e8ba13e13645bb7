package lnd

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

func TestStatusOf(t *testing.T) {
	timeout := &Error{Driver: "socklnd", Op: "send", Status: StatusNetworkTimeout, Err: ErrTimeout}
	for _, test := range []struct {
		name string
		err  error
		want Status
	}{
		{"nil", nil, StatusOK},
		{"an error of a driver", timeout, StatusNetworkTimeout},
		{"wrapped", fmt.Errorf("put: %w", timeout), StatusNetworkTimeout},
		{"joined", errors.Join(errors.New("x"), timeout), StatusNetworkTimeout},
		{"the outer of two", &Error{Status: StatusRemoteError, Err: timeout}, StatusRemoteError},
		{"an error of somebody else", syscall.EIO, StatusLocalError},
		{"a bare cause", ErrTimeout, StatusLocalError},
	} {
		if got := StatusOf(test.err); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestErrorSaysWhatWasAttemptedWithWhom(t *testing.T) {
	peer, err := lnet.ParseNID("192.168.1.20@tcp")
	if err != nil {
		t.Fatal(err)
	}
	e := &Error{Driver: "socklnd", Op: "connect", Peer: peer, Status: StatusRemoteDropped,
		Err: fmt.Errorf("%w: %w", ErrUnreachable, syscall.EHOSTUNREACH)}
	if got, want := e.Error(), "socklnd: connect 192.168.1.20@tcp: no connection with the peer: no route to host"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(e, ErrUnreachable) || !errors.Is(e, syscall.EHOSTUNREACH) {
		t.Error("the causes are not in the chain")
	}
	e.Peer, e.Err = lnet.NID{}, ErrClosed
	if got, want := e.Error(), "socklnd: connect: interface closed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestStatusNames(t *testing.T) {
	seen := map[string]Status{}
	for s := StatusOK; s <= StatusNetworkTimeout; s++ {
		name := s.String()
		if other, twice := seen[name]; twice || name == "" {
			t.Errorf("status %d is called %q like %d", s, name, other)
		}
		seen[name] = s
	}
	if got, want := Status(200).String(), "status 200"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if LinkUp.String() != "up" || LinkDown.String() != "down" {
		t.Errorf("link states %q and %q", LinkUp, LinkDown)
	}
}
